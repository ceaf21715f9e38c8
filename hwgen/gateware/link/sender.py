"""Writes frames: header, payload, CRC."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .crc import Crc32
from .frames import ACKNOWLEDGE, CREDIT, HEADER, HELLO, SEQUENCE_BITS, Kind
from .phy import phy_word
from .ring import NEXT

__all__ = ["NEWS_DELAY", "Sender"]

NEWS_DELAY = 8
"""Cycles that an acknowledge or a credit waits for a data frame to carry it, before a control frame goes."""


class _Part(enum.Enum):
    BETWEEN = 0
    PAYLOAD = 1
    TRAILER = 2


class Sender(wiring.Component):
    """Sends a hello when one is due, else the next data frame, else a control frame if there is something to say.

    L payload words take L + 2 cycles of ``o.ready``, and the next frame follows at once. ``o.valid`` and
    ``o.payload`` are registers. A frame begins only while ``running`` (and, but for hellos, ``greeted``).

    Parameters: ``width`` bits of a word; ``heartbeat``: cycles after a frame in which at least a control frame
    goes.

    Members: ``next``, ``next_valid``, ``start``, ``read``, ``payload``, ``between``, ``position``: of
    ReplayRing. ``acknowledge`` with ``news`` (it is not yet told) and its ``nack`` (to be told at once); ``told``: a
    header takes it, and ``credit``, along; ``credit_news``: ``credit`` is a new one. ``hello_due``, ``hello_sent``;
    ``identity`` and ``hello``: payload of a hello; ``epoch``: low bit of the peer's session. ``control_sent``: a
    pulse.
    """

    def __init__(self, width: int, heartbeat: int):
        if heartbeat < NEWS_DELAY:
            raise ValueError(f"Sender: heartbeat {heartbeat}; at least {NEWS_DELAY}")
        self.width, self.heartbeat = width, heartbeat
        super().__init__(
            {
                "o": Out(stream.Signature(phy_word(width))),
                "running": In(1),
                "greeted": In(1),
                "next": In(NEXT),
                "next_valid": In(1),
                "start": Out(1),
                "read": Out(1),
                "payload": In(width),
                "between": Out(1),
                "position": In(SEQUENCE_BITS),
                "acknowledge": In(ACKNOWLEDGE),
                "news": In(1),
                "credit": In(CREDIT),
                "credit_news": In(1),
                "told": Out(1),
                "hello_due": In(1),
                "hello_sent": Out(1),
                "identity": In(64),
                "hello": In(HELLO),
                "epoch": In(1),
                "control_sent": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        crc = m.submodules.crc = Crc32(self.width)
        step, put = Signal(), Signal()
        word = Signal(phy_word(self.width))
        part = Signal(_Part)
        hello = Signal(reset_less=True)
        remaining = Signal(8, reset_less=True)
        m.d.comb += [
            step.eq(~self.o.valid | self.o.ready),
            crc.data.eq(word.data),
            crc.valid.eq(step & put),
        ]
        with m.If(step):
            m.d.sync += [self.o.valid.eq(put), self.o.payload.eq(word)]

        control_due = self._due(m)
        header = Signal(HEADER)
        self._header(m, header)
        with m.Switch(part):
            with m.Case(_Part.BETWEEN):
                m.d.comb += [
                    self.between.eq(1),
                    crc.start.eq(step),
                    put.eq(header.kind.as_value() != 0),
                    word.data.eq(header.as_value()),
                ]
                with m.If(self.running & ~self.greeted & self.hello_due):
                    m.d.comb += [header.kind.eq(Kind.HELLO), header.length.eq(2), self.hello_sent.eq(step)]
                with m.Elif(self.running & self.greeted & self.next_valid):
                    m.d.comb += [header.kind.eq(Kind.DATA), self.start.eq(step), self.told.eq(step)]
                    m.d.comb += [header.channel.eq(self.next.frame.channel)]
                    m.d.comb += [header.length.eq(self.next.frame.length), self.read.eq(step)]
                with m.Elif(self.running & self.greeted & control_due):
                    m.d.comb += [header.kind.eq(Kind.CONTROL), self.control_sent.eq(step), self.told.eq(step)]
                with m.If(step):
                    m.d.sync += [remaining.eq(header.length - 1), hello.eq(header.kind == Kind.HELLO)]
                    with m.If(put):
                        m.d.sync += part.eq(Mux(header.length == 0, _Part.TRAILER, _Part.PAYLOAD))
            with m.Case(_Part.PAYLOAD):
                m.d.comb += [put.eq(1), word.data.eq(self.payload)]
                with m.If(hello):
                    m.d.comb += word.data.eq(Mux(remaining == 0, self.hello.as_value(), self.identity))
                with m.If(step):
                    m.d.sync += remaining.eq(remaining - 1)
                    with m.If(remaining == 0):
                        m.d.sync += part.eq(_Part.TRAILER)
                    with m.Elif(~hello):
                        m.d.comb += self.read.eq(1)
            with m.Case(_Part.TRAILER):
                m.d.comb += [put.eq(1), word.data.eq(crc.crc), word.last.eq(1)]
                with m.If(step):
                    m.d.sync += part.eq(_Part.BETWEEN)
        return m

    def _header(self, m, header):
        """All fields but those that depend on the kind."""
        tick = Signal(8)
        with m.If(self.told | self.hello_sent):
            m.d.sync += tick.eq(tick + 1)
        m.d.comb += [
            header.credit_channel.eq(self.credit.channel),
            header.credit.eq(self.credit.limit),
            header.sequence.eq(self.position),
            header.acknowledge.eq(self.acknowledge.sequence),
            header.nack.eq(self.acknowledge.nack),
            header.tick.eq(tick),
            header.epoch.eq(self.epoch),
        ]

    def _due(self, m):
        """A control frame has something to say, or none was sent for long."""
        idle = Signal(range(self.heartbeat))
        waited = Signal(range(NEWS_DELAY))
        due = Signal()
        m.d.sync += due.eq(
            ~self.told & (self.acknowledge.nack | (waited == NEWS_DELAY - 1) | (idle == self.heartbeat - 1))
        )
        with m.If(self.told):
            m.d.sync += [idle.eq(0), waited.eq(0)]
        with m.Else():
            with m.If(idle != self.heartbeat - 1):
                m.d.sync += idle.eq(idle + 1)
            with m.If((self.news | self.credit_news) & (waited != NEWS_DELAY - 1)):
                m.d.sync += waited.eq(waited + 1)
        return due
