"""Which frames are the next ones, and which never came."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .frames import ACKNOWLEDGE, HEADER, SEQUENCE_BITS, Kind

__all__ = ["Order"]


class Order(wiring.Component):
    """Accepts data frames in the order of their sequence numbers, and tells lost and repeated frames by the tick.

    A good frame that stands after the expected one shows a gap: one negative acknowledge asks for a replay,
    and another one only if a replay has begun (frames step back) and misses the expected frame again.

    Members: ``done``, ``good``, ``header``: a frame, as the Receiver tells it; ``admitted``: data and control
    frames of this peer count; ``renewed``: the frame starts a session, its tick is the first. In the same
    cycle: ``accept``: a data frame's words are to be taken; ``current``: good, admitted and no repetition, so that
    its acknowledge and credit count. ``acknowledge`` (the next sequence number expected) with ``news``: it is not
    told yet; ``told``: it is being told. Pulses a cycle later: ``bad``, ``repeated``, ``discarded``; ``lost`` frames.
    """

    def __init__(self):
        super().__init__(
            {
                "done": In(1),
                "good": In(1),
                "header": In(HEADER),
                "admitted": In(1),
                "renewed": In(1),
                "accept": Out(1),
                "current": Out(1),
                "acknowledge": Out(ACKNOWLEDGE),
                "news": Out(1),
                "told": In(1),
                "bad": Out(1),
                "repeated": Out(1),
                "discarded": Out(1),
                "lost": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        header = self.header
        fresh = self._ticks(m)
        expected = self.acknowledge.sequence
        ahead = Signal(SEQUENCE_BITS)
        is_data, in_order, after = Signal(), Signal(), Signal()
        m.d.comb += [
            self.current.eq(fresh & self.admitted & (header.kind != Kind.HELLO)),
            is_data.eq(self.current & (header.kind == Kind.DATA)),
            ahead.eq(header.sequence - expected),
            in_order.eq(ahead == 0),
            after.eq(~in_order & ~ahead[-1]),
            self.accept.eq(is_data & in_order),
        ]
        with m.If(self.told):
            m.d.sync += [self.news.eq(0), self.acknowledge.nack.eq(0)]
        m.d.sync += self.discarded.eq(is_data & ~in_order)
        with m.If(self.accept):
            m.d.sync += expected.eq(expected + 1)
        with m.If(is_data):
            m.d.sync += self.news.eq(1)
        self._gaps(m, is_data, in_order, after)
        return m

    def _ticks(self, m):
        """Counts by the tick. Returns: a good frame that is no repetition."""
        known = Signal()
        last, missing = Signal(8, reset_less=True), Signal(8)
        damaged = Signal(8)
        fresh, repeated = Signal(), Signal()
        m.d.comb += [
            missing.eq(self.header.tick - last - 1),
            repeated.eq(self.done & self.good & known & ~self.renewed & (missing == 0xFF)),
            fresh.eq(self.done & self.good & ~repeated),
        ]
        m.d.sync += [self.bad.eq(self.done & ~self.good), self.repeated.eq(repeated), self.lost.eq(0)]
        with m.If(fresh):
            m.d.sync += [known.eq(1), last.eq(self.header.tick), damaged.eq(0)]
            with m.If(known & ~self.renewed & (missing > damaged)):
                m.d.sync += self.lost.eq(missing - damaged)
        with m.Elif(self.done & ~self.good & (damaged != 0xFF)):
            m.d.sync += damaged.eq(damaged + 1)
        return fresh

    def _gaps(self, m, is_data, in_order, after):
        asked = Signal()
        position = Signal(SEQUENCE_BITS, reset_less=True)
        step = Signal(SEQUENCE_BITS)
        m.d.comb += step.eq(self.header.sequence - position)
        with m.If(self.current):
            m.d.sync += position.eq(self.header.sequence + is_data)
            with m.If(after & (~asked | step[-1])):
                m.d.sync += [asked.eq(1), self.acknowledge.nack.eq(1), self.news.eq(1)]
            with m.Elif(step[-1] | (is_data & in_order)):
                m.d.sync += asked.eq(0)
