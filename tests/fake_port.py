"""A device's end of the byte protocol, as a transport: for tests of the driver without any simulator.

It has registers, gives a result for every image, and changes, loses and cuts bytes on both ways at random.
"""

import random
import struct

from hwgen.host import protocol
from hwgen.host.transport import Transport

__all__ = ["FakePort"]


class FakePort(Transport):
    """``faults``: chances that a byte is changed, lost, or it and the 20 behind it. ``power`` False: silent."""

    name = "fake"

    def __init__(
        self, registers=None, image_bytes=4, faults=(0.0, 0.0, 0.0), seed=0, result=lambda image: (0, 0)
    ):
        self.rng, self.faults = random.Random(seed), faults
        self.registers, self.image_bytes, self.result = dict(registers or {}), image_bytes, result
        self.splitter = protocol.Splitter()
        self.session = self.next = self.taken = self.filled = self.acked = self.sent = 0
        self.ring, self.output, self.message = bytearray(), bytearray(), bytearray()
        self.power, self.restarts, self.writes, self.gone, self.taking = True, 0, [], 0, True

    def _faulty(self, data):
        out = bytearray()
        for byte in data:
            if self.gone:
                self.gone -= 1
                continue
            draw = self.rng.random()
            if draw < self.faults[0]:
                out.append(byte ^ 1 << self.rng.randrange(8))
            elif draw < self.faults[0] + self.faults[1]:
                continue
            else:
                self.gone = 20 if draw < sum(self.faults) else 0
                out.append(byte)
        return bytes(out)

    def write(self, data):
        if self.power:
            for frame in self.splitter.feed(self._faulty(data)):
                self._frame(frame)

    def read(self, most, timeout):
        found = bytes(self.output[:most])
        del self.output[:most]
        return found

    def close(self):
        self.power = False

    def _frame(self, frame):
        flags, session, offset, ack = struct.unpack_from("<BBHH", frame)
        if flags & protocol.FLAG_SYNC:
            self.session, self.restarts = session, self.restarts + bool(flags & protocol.FLAG_RESTART)
            self.next = self.taken = self.filled = self.acked = self.sent = 0
            self.ring, self.message = bytearray(), bytearray()
        elif session != self.session:
            return
        else:
            payload = frame[protocol.HEADER :]
            room = (self.taken + protocol.RING - protocol.SPARE - self.next) % 65536
            if offset == self.next:
                assert len(payload) <= room, "the driver sent more than there is room for"
                self.next = (self.next + len(payload)) % 65536
                self.message += payload
            moved = (ack - self.acked) % 65536
            assert moved <= len(self.ring)
            del self.ring[:moved]
            self.acked = ack
            if flags & protocol.FLAG_REWIND or (self.sent - self.acked) % 65536 > len(self.ring):
                self.sent = self.acked
            if self.taking:
                self._obey()
        start = (self.sent - self.acked) % 65536
        part = bytes(self.ring[start : start + protocol.LONGEST_ANSWER])
        header = (self.splitter.damaged % 256, self.session, self.next, self.taken, self.sent)
        self.sent = (self.sent + len(part)) % 65536
        self.output += self._faulty(protocol.escape(struct.pack("<BBHHH", *header) + part))

    def _obey(self):
        while self.message and len(self.ring) < protocol.RING - 8:
            kind, size = self.message[0], 1
            if kind in (protocol.MESSAGE_READ, protocol.MESSAGE_WRITE):
                if len(self.message) < 6:
                    return
                board, address, count = struct.unpack_from("<BHH", self.message, 1)
                size = 6 + (4 * count if kind == protocol.MESSAGE_WRITE else 0)
                if len(self.message) < size or (size == 6 and len(self.ring) + 5 * count > protocol.RING):
                    return
                if kind == protocol.MESSAGE_WRITE:
                    self.writes += [
                        (board, address, v) for v in struct.unpack_from(f"<{count}I", self.message, 6)
                    ]
                    self.registers |= {(b, a): v for b, a, v in self.writes}
                else:
                    for _ in range(count):
                        self._give(
                            struct.pack("<BI", protocol.REPLY, self.registers.get((board, address), 0))
                        )
            elif kind == protocol.MESSAGE_IMAGE:
                size += self.image_bytes
                if len(self.message) < size:
                    return
                self._give(struct.pack("<BHI", protocol.RESULT, *self.result(bytes(self.message[1:size]))))
            else:
                size += 2
                if len(self.message) < size:
                    return
            del self.message[:size]
            self.taken = (self.taken + size) % 65536

    def _give(self, data):
        self.ring += data
        self.filled = (self.filled + len(data)) % 65536
