"""Frames of bytes in both directions: hwgen/host/protocol.py is the other end, docs/host.md the format."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...host.protocol import (
    ANSWER_HEADER,
    END,
    ESCAPE,
    ESCAPED,
    FLAG_RESTART,
    FLAG_REWIND,
    FLAG_SYNC,
    HEADER,
    LONGEST_ANSWER,
    RING,
)
from .crc import CYCLES, SerialCrc

__all__ = ["BYTE", "FrameReceiver", "FrameSender"]

BYTE = data.StructLayout({"data": 8, "last": 1})
"""A byte towards the host; ``last`` ends an answer."""
POINTER = RING.bit_length() - 1


def _ring(m, name):
    memory = Memory(shape=8, depth=RING, init=[])
    m.submodules[name] = memory
    return memory.write_port(), memory.read_port()


class FrameReceiver(wiring.Component):
    """Takes frames from the host; gives the bytes of those that are whole, in order, each once.

    Payload goes into a ring at once and counts when the frame's CRC is right. One byte every 12 cycles. A frame that is
    damaged, of another session or not the next one changes nothing there.

    Members: ``i`` bytes; ``o`` payload bytes; ``next`` offset of the next byte expected, ``taken`` offset of the next
    one to be given; ``answer`` pulse: a frame of this session came, with ``ack`` and ``rewind``; ``sync`` pulse: a new
    session began, number ``session``; ``restart`` with it: the core is to begin anew; ``damaged`` frames with a
    wrong CRC, modulo 256.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "next": Out(16),
                "taken": Out(16),
                "answer": Out(1),
                "ack": Out(16),
                "rewind": Out(1),
                "sync": Out(1),
                "session": Out(8),
                "restart": Out(1),
                "damaged": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = SerialCrc()
        writer, reader = _ring(m, "ring")
        byte, escaped = Signal(8), Signal()
        header, count = Signal(8 * HEADER), Signal(range(HEADER + 5))
        flags, session, offset, ack = header[:8], header[8:16], header[16:32], header[32:48]
        end, full, overflow = Signal(16), Signal(), Signal()
        same, follows, enough, wait = Signal(), Signal(), Signal(), Signal(range(CYCLES + 1))
        distance = Signal(POINTER + 1)
        m.d.sync += [
            distance.eq(end - self.taken),
            full.eq(distance[POINTER]),
            same.eq(session == self.session),
            follows.eq(offset == self.next),
            enough.eq(count == HEADER + 4),
            self.answer.eq(0),
            self.sync.eq(0),
        ]
        m.d.comb += [
            self.ack.eq(ack),
            self.rewind.eq((flags & FLAG_REWIND).any()),
            self.restart.eq((flags & FLAG_RESTART).any()),
            crc.data.eq(byte),
            writer.data.eq(byte),
            writer.addr.eq(end[:POINTER]),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += byte.eq(Mux(escaped, self.i.payload ^ ESCAPED, self.i.payload))
                    m.d.sync += escaped.eq(self.i.payload == ESCAPE)
                    with m.If(self.i.payload == END):
                        m.next = "CHECK"
                    with m.Elif(self.i.payload != ESCAPE):
                        m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += crc.valid.eq(1)
                m.d.sync += wait.eq(0)
                with m.If(~enough):
                    m.d.sync += count.eq(count + 1)
                with m.If(count < HEADER):
                    m.d.sync += header.eq(Cat(header[8:], byte))
                with m.Else():
                    m.d.comb += writer.en.eq(~full)
                    m.d.sync += [end.eq(end + 1), overflow.eq(overflow | full)]
                m.next = "PAUSE"
            with m.State("PAUSE"):
                m.d.sync += wait.eq(wait + 1)
                with m.If(wait == CYCLES):
                    m.next = "TAKE"
            with m.State("CHECK"):
                m.d.sync += [count.eq(0), overflow.eq(0)]
                m.d.comb += crc.start.eq(1)
                m.next = "CLEAR"
                with m.If(~(enough & crc.right)), m.If(count != 0):
                    m.d.sync += self.damaged.eq(self.damaged + 1)
                with m.Elif((flags & FLAG_SYNC).any()):
                    m.d.sync += [self.sync.eq(1), self.session.eq(session), self.next.eq(0)]
                with m.Elif(same):
                    m.d.sync += self.answer.eq(1)
                    with m.If(follows & ~overflow):
                        m.d.sync += self.next.eq(end - 4)
            with m.State("CLEAR"):
                m.d.sync += end.eq(self.next)
                m.next = "SETTLE"
            with m.State("SETTLE"):
                m.next = "TAKE"
        self._give(m, reader)
        return m

    def _give(self, m, reader):
        there = Signal()
        m.d.comb += [
            reader.addr.eq(self.taken[:POINTER]),
            reader.en.eq(~self.o.valid),
            self.o.payload.eq(reader.data),
        ]
        # A byte every third cycle: what is taken is compared a cycle later.
        m.d.sync += there.eq((self.taken != self.next) & ~self.o.valid & ~there)
        with m.If(there):
            m.d.sync += [self.o.valid.eq(1), self.taken.eq(self.taken + 1)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.sync):
            m.d.sync += [self.o.valid.eq(0), self.taken.eq(0), there.eq(0)]


class FrameSender(wiring.Component):
    """Answers frames of the host: the state of both directions, and payload bytes that it has not acknowledged yet.

    Bytes stay in a ring until they are acknowledged. Frames that come while an answer is sent share the next one.

    Members: ``i`` payload bytes; ``o`` bytes of answers; ``answer``, ``ack``, ``rewind`` (send again from ``ack`` on),
    ``sync``, ``next``, ``taken``, ``session``, ``damaged`` of the receiver.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(BYTE)),
                "answer": In(1),
                "ack": In(16),
                "rewind": In(1),
                "sync": In(1),
                "next": In(16),
                "taken": In(16),
                "session": In(8),
                "damaged": In(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = SerialCrc()
        writer, reader = _ring(m, "ring")
        filled, sent, acked = Signal(16), Signal(16), Signal(16)
        pending, again = Signal(), Signal()
        distance, room, more = Signal(POINTER + 1), Signal(), Signal()
        m.d.sync += [
            distance.eq(filled - acked),
            room.eq(distance < RING - 2),
            more.eq(sent != filled),
        ]
        m.d.comb += [
            self.i.ready.eq(room),
            writer.en.eq(self.i.valid & self.i.ready),
            writer.data.eq(self.i.payload),
            writer.addr.eq(filled[:POINTER]),
            reader.addr.eq(sent[:POINTER]),
        ]
        with m.If(writer.en):
            m.d.sync += filled.eq(filled + 1)

        shift = Signal(8 * ANSWER_HEADER)
        left = Signal(range(LONGEST_ANSWER + 1))
        emit = Signal(8)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += crc.start.eq(1)
                with m.If(again):
                    m.d.sync += [again.eq(0), sent.eq(acked)]
                with m.Elif(pending):
                    m.d.sync += [
                        pending.eq(0),
                        shift.eq(Cat(self.damaged, self.session, self.next, self.taken, sent)),
                        left.eq(ANSWER_HEADER),
                        emit.eq(END),
                    ]
                    m.next = "START"
            with m.State("START"):
                self._put(m, END)
                with m.If(self.o.ready):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += [emit.eq(shift[:8]), shift.eq(shift >> 8), left.eq(left - 1)]
                with m.If(left == 0):
                    m.d.sync += left.eq(LONGEST_ANSWER)
                    m.next = "FETCH"
                with m.Else():
                    m.d.comb += [crc.valid.eq(1), crc.data.eq(shift[:8])]
                    m.next = "HEADER_OUT"
            with m.State("FETCH"):
                m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.sync += [emit.eq(reader.data), left.eq(left - 1)]
                with m.If((left == 0) | ~more):
                    m.d.sync += [left.eq(4), shift.eq(crc.crc)]
                    m.next = "CRC"
                with m.Else():
                    m.d.comb += [crc.valid.eq(1), crc.data.eq(reader.data)]
                    m.d.sync += sent.eq(sent + 1)
                    m.next = "PAYLOAD_OUT"
            with m.State("CRC"):
                m.d.sync += [emit.eq(shift[:8]), shift.eq(shift >> 8), left.eq(left - 1)]
                m.next = "CRC_OUT"
                with m.If(left == 0):
                    m.next = "END"
            with m.State("END"):
                self._put(m, END, last=1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
            for name, back in (("HEADER", "HEADER"), ("PAYLOAD", "FETCH"), ("CRC", "CRC")):
                special = (emit == END) | (emit == ESCAPE)
                with m.State(f"{name}_OUT"):
                    self._put(m, Mux(special, ESCAPE, emit))
                    with m.If(self.o.ready):
                        m.next = f"{name}_WAIT"
                        with m.If(special):
                            m.next = f"{name}_ESCAPED"
                with m.State(f"{name}_ESCAPED"):
                    self._put(m, emit ^ ESCAPED)
                    with m.If(self.o.ready):
                        m.next = f"{name}_WAIT"
                with m.State(f"{name}_WAIT"), m.If(~crc.busy):
                    m.next = back
        with m.If(self.answer):
            m.d.sync += [pending.eq(1), acked.eq(self.ack)]
            with m.If(self.rewind):
                m.d.sync += again.eq(1)
        with m.If(self.sync):
            m.d.sync += [filled.eq(0), acked.eq(0), again.eq(1), pending.eq(1)]
        return m

    def _put(self, m, value, last=0):
        m.d.comb += [self.o.valid.eq(1), self.o.payload.data.eq(value), self.o.payload.last.eq(last)]
