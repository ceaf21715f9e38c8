"""The byte protocol between host and device: frames, acknowledged and repeated, and the messages in them.

The gateware takes its constants from here (hwgen/gateware/serial); docs/host.md has the format.
"""

from __future__ import annotations

import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .errors import HostError
from .transport import Transport

__all__ = [
    "ANSWER_HEADER", "END", "ESCAPE", "ESCAPED", "FLAG_RESTART", "FLAG_REWIND", "FLAG_SYNC", "HEADER",
    "LONGEST_ANSWER", "MESSAGE_IMAGE", "MESSAGE_LABEL", "MESSAGE_READ", "MESSAGE_WRITE", "REPLY", "RESULT", "RING",
    "SPARE", "Answer", "Link", "Splitter", "escape",
]  # fmt: skip

END, ESCAPE, ESCAPED = 0xC0, 0xDB, 0x20
"""END begins and ends a frame; a byte of it that is END or ESCAPE goes as ESCAPE, byte ^ ESCAPED."""

FLAG_SYNC = 1
"""A new session: both directions begin at offset 0, what was under way is dropped."""
FLAG_REWIND = 2
"""The device is to send again from the acknowledged offset on."""
FLAG_RESTART = 4
"""With FLAG_SYNC: the core is reset, too."""

HEADER = 6
"""Bytes of a host's frame before the payload: flags, session, offset of the payload, offset expected of the device."""
ANSWER_HEADER = 8
"""Of a device's: damaged frames so far, session, offset expected, offset taken out of the ring, offset of the
payload."""
RING = 2048
"""Bytes that the device holds in each direction."""
LONGEST_ANSWER = 255
"""Most payload of an answer."""
LONGEST_FRAME = 240
"""Most payload of a host's frame."""
SPARE = 4
"""A frame's CRC takes room in the ring, too."""

MESSAGE_READ, MESSAGE_WRITE, MESSAGE_IMAGE, MESSAGE_LABEL = 1, 2, 3, 4
REPLY, RESULT = 1, 2
RESEND_SECONDS = 0.25
_WRAP = 1 << 16


def escape(frame: bytes) -> bytes:
    """A frame with its CRC, as it goes over the wire."""
    body = frame + struct.pack("<I", zlib.crc32(frame))
    body = body.replace(bytes([ESCAPE]), bytes([ESCAPE, ESCAPE ^ ESCAPED]))
    return bytes([END]) + body.replace(bytes([END]), bytes([ESCAPE, END ^ ESCAPED])) + bytes([END])


class Splitter:
    """Finds whole frames in what comes; ``damaged`` counts the others."""

    def __init__(self, longest: int = 1024):
        self.longest, self.damaged = longest, 0
        self._body, self._escaped = bytearray(), False

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The frames that end in ``received``, without their CRC."""
        for byte in received:
            if byte == END:
                body, self._body, self._escaped = bytes(self._body), bytearray(), False
                if len(body) > 4 and zlib.crc32(body[:-4]) == int.from_bytes(body[-4:], "little"):
                    yield body[:-4]
                elif body:
                    self.damaged += 1
            elif byte == ESCAPE:
                self._escaped = True
            elif len(self._body) < self.longest:
                self._body.append(byte ^ ESCAPED if self._escaped else byte)
                self._escaped = False


@dataclass(frozen=True)
class Answer:
    """A frame of the device."""

    damaged: int
    session: int
    next: int
    taken: int
    offset: int
    payload: bytes

    @classmethod
    def parse(cls, frame: bytes) -> Answer | None:
        """The answer in a frame, None if it is too short for one."""
        if len(frame) < ANSWER_HEADER:
            return None
        damaged, session, next_, taken, offset = struct.unpack_from("<BBHHH", frame)
        return cls(damaged, session, next_, taken, offset, frame[ANSWER_HEADER:])


class Link:
    """A stream of bytes each way over a transport that may damage and lose bytes: nothing is lost, doubled or swapped.

    Frames are repeated when nothing has moved for ``resend`` seconds. HostError after ``patience`` seconds without any
    answer, or when the device takes nothing and gives nothing for ``stall`` seconds though there is something to do.
    """

    def __init__(
        self, transport: Transport, *, resend: float = RESEND_SECONDS, patience: float = 5.0, stall: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ):  # fmt: skip
        self.transport, self.clock = transport, clock
        self.resend, self.patience, self.stall = resend, patience, stall
        self.repeats = self.device_damaged = 0
        self._session = self._first = self._sent = self._peak = self._room = self._expected = 0
        self._unsent, self._received = bytearray(), bytearray()
        self._splitter = Splitter()
        self._gap = self._open = False
        self._asked: float | None = None
        self._heard = self._moved = 0.0

    @property
    def damaged(self) -> int:
        """Frames with a wrong CRC, found at either end."""
        return self._splitter.damaged + self.device_damaged

    @property
    def unsent(self) -> int:
        """Bytes that the device has not accepted yet."""
        return len(self._unsent)

    def open(self, restart: bool = False) -> None:
        """Begins a session; what was under way in an earlier one is dropped. ``restart`` resets the core."""
        noise = 0
        while self.transport.read(4096, 0.0) and noise < 1 << 10:
            noise += 1
        self._session = 1 + (self._session + secrets.randbelow(254)) % 255
        self._first = self._sent = self._peak = self._expected = 0
        self._room = RING - SPARE
        self._unsent.clear()
        self._received.clear()
        self._gap, self._open, seen = False, False, 0
        flags = FLAG_SYNC | (FLAG_RESTART if restart else 0)
        deadline = self.clock() + self.patience
        while self.clock() < deadline:
            self._write(struct.pack("<BBHH", flags, self._session, 0, 0))
            until = min(deadline, self.clock() + self.resend)
            while (now := self.clock()) < until:
                received = self.transport.read(4096, until - now)
                seen += len(received)
                for frame in self._splitter.feed(received):
                    answer = Answer.parse(frame)
                    if answer is not None and answer.session == self._session and answer.next == 0:
                        self._open, self._asked = True, None
                        self._begin()
                        return
        name = self.transport.name
        if seen:
            raise HostError(
                f"{name}: {seen} bytes came, but no answer within {self.patience:g} s; check that baud rate "
                "and bitstream are those of this build"
            )
        raise HostError(
            f"{name}: no answer within {self.patience:g} s; check power, cable, port and that the bitstream is loaded"
        )

    def send(self, message: bytes) -> None:
        """Queues bytes; waits while more than the device's ring is queued."""
        self._unsent += message
        self._begin()
        while len(self._unsent) > RING:
            self.step()

    def flush(self) -> None:
        """Waits until the device has accepted everything."""
        self._begin()
        while self._unsent:
            self.step()

    def receive(self, count: int) -> bytes:
        """The next ``count`` bytes of the device."""
        self._begin()
        while len(self._received) < count:
            self.step(ask=True)
        out = bytes(self._received[:count])
        del self._received[:count]
        return out

    def _begin(self) -> None:
        """Time limits are those of one call; a user may let any time pass between two."""
        self._heard = self._moved = self.clock()

    def step(self, ask: bool = False) -> None:
        """Sends what there is room for, and takes what has come; ``ask``: bytes of the device are wanted."""
        if not self._open:
            raise HostError(f"{self.transport.name}: no session; open the device first")
        self._send_frames()
        now = self.clock()
        if self._asked is None and (ask or self._unsent or self._gap):
            self._frame(b"")
        if self._asked is not None:
            self._take(self.transport.read(4096, max(0.0, self._asked + self.resend - now)))
        self._check(self.clock())

    def _send_frames(self) -> None:
        while True:
            room = (self._room - self._first - self._sent) % _WRAP
            room = 0 if room > RING else room
            part = bytes(self._unsent[self._sent : self._sent + min(room, LONGEST_FRAME)])
            if not part:
                return
            self._frame(part)
            self._sent += len(part)
            self._peak = max(self._peak, self._sent)

    def _frame(self, payload: bytes) -> None:
        flags = FLAG_REWIND if self._gap else 0
        self._gap = False
        offset = (self._first + self._sent) % _WRAP
        self._write(struct.pack("<BBHH", flags, self._session, offset, self._expected) + payload)
        self._asked = self.clock()

    def _write(self, frame: bytes) -> None:
        self.transport.write(escape(frame))

    def _take(self, received: bytes) -> None:
        for frame in self._splitter.feed(received):
            answer = Answer.parse(frame)
            if answer is None or answer.session != self._session:
                continue
            self._heard = self.clock()
            self.device_damaged = answer.damaged
            accepted = (answer.next - self._first) % _WRAP
            if accepted > self._peak:
                continue  # late: what it says is known
            if accepted or answer.taken != (self._room - RING + SPARE) % _WRAP:
                self._moved = self.clock()
            del self._unsent[:accepted]
            self._first, self._sent, self._peak = (
                answer.next,
                max(0, self._sent - accepted),
                self._peak - accepted,
            )
            self._room = (answer.taken + RING - SPARE) % _WRAP
            if self._sent == 0:
                self._asked = None
            elif accepted:
                self._asked = self.clock()
            self._payload(answer)

    def _payload(self, answer: Answer) -> None:
        known = (self._expected - answer.offset) % _WRAP
        if known > _WRAP // 2:
            self._gap = True  # an answer before this one was lost
        elif known < len(answer.payload):
            self._received += answer.payload[known:]
            self._expected = (answer.offset + len(answer.payload)) % _WRAP
            self._moved = self.clock()

    def _check(self, now: float) -> None:
        if self._asked is not None and now - self._asked >= self.resend:
            self.repeats += 1
            self._sent, self._gap, self._asked = 0, True, None
        if now - self._heard > self.patience:
            self._open = False
            raise HostError(
                f"{self.transport.name}: no answer for {self.patience:g} s; the device stopped, lost power or was "
                "unplugged. Check it, and resume from the last checkpoint"
            )
        if now - self._moved > self.stall:
            self._open = False
            raise HostError(
                f"{self.transport.name}: the device answers, but took and gave nothing for {self.stall:g} s"
            )
