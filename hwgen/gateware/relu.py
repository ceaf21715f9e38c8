"""ReLU and its adjoint, joined by one mask bit a lane."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import lanes

__all__ = ["ReLU", "ReLUAdjoint"]


class ReLU(wiring.Component):
    """Replaces negative lanes by 0 and, in training, tells which lanes were positive.

    o = max(i, 0); mask bit k = (lane k > 0). Latency ``latency``, one word a cycle. A word enters when the
    registers of ``o`` and (in training) ``mask`` can both take it; each then waits for its own consumer
    alone. ``i.ready`` depends on ``o.ready`` and ``mask.ready``, ``valid`` on registers only.

    Parameters: P lanes a word, their width.

    Members: ``train`` (change only while no word is under way); ``i``, ``o`` lanes(P, width); ``mask`` P
    bits, lane 0 lowest.
    """

    latency = 1

    def __init__(self, P: int, width: int):
        self.lanes = P
        super().__init__(
            {
                "train": In(1),
                "i": In(stream.Signature(lanes(P, width))),
                "o": Out(stream.Signature(lanes(P, width))),
                "mask": Out(stream.Signature(unsigned(P))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        free = Signal()
        mask_free = Signal()
        take = Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            mask_free.eq(~self.mask.valid | self.mask.ready),
            self.i.ready.eq(free & mask_free),
            take.eq(self.i.valid & self.i.ready),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(take)
        with m.If(mask_free):
            m.d.sync += self.mask.valid.eq(take & self.train)
        with m.If(take):
            for k in range(self.lanes):
                value = self.i.payload[k]
                m.d.sync += [
                    self.o.payload[k].eq(Mux(value > 0, value, 0)),
                    self.mask.payload[k].eq(value > 0),
                ]
        return m


class ReLUAdjoint(wiring.Component):
    """Passes the lanes whose mask bit is 1 and replaces the others by 0.

    o = i · mask. Latency ``latency``, one word a cycle. Takes a word of ``i`` and one of ``mask`` in the same
    cycle: the ``ready`` of each depends on the ``valid`` of the other and on ``o.ready``; ``o.valid`` is a
    register.

    Parameters: P lanes a word, their width.

    Members: ``i``, ``o`` lanes(P, width); ``mask`` P bits, lane 0 lowest.
    """

    latency = 1

    def __init__(self, P: int, width: int):
        self.lanes = P
        super().__init__(
            {
                "i": In(stream.Signature(lanes(P, width))),
                "mask": In(stream.Signature(unsigned(P))),
                "o": Out(stream.Signature(lanes(P, width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        free = Signal()
        take = Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            take.eq(self.i.valid & self.mask.valid & free),
            self.i.ready.eq(self.mask.valid & free),
            self.mask.ready.eq(self.i.valid & free),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(take)
        with m.If(take):
            for k in range(self.lanes):
                m.d.sync += self.o.payload[k].eq(Mux(self.mask.payload[k], self.i.payload[k], 0))
        return m
