"""The first look at images from the host: every one must have the right number of beats."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import Fifo

__all__ = ["FrameCheck"]


class FrameCheck(wiring.Component):
    """Passes images of exactly ``beats`` beats; stops for good at a ``last`` in the wrong place.

    ``o`` carries the data alone; ``first`` pulses with an image's first beat. ``bad`` is sticky.
    """

    def __init__(self, shape, beats: int):
        self.beats = beats
        super().__init__(
            {
                "i": In(stream.Signature(data.StructLayout({"data": shape, "last": 1}))),
                "o": Out(stream.Signature(shape)),
                "first": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = Fifo(self.o.payload.shape(), 2)
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        beat = Signal(range(max(2, self.beats)))
        end = beat == self.beats - 1
        take = self.i.valid & self.i.ready
        right = self.i.payload.last == end
        m.d.comb += [
            self.i.ready.eq(fifo.i.ready & ~self.bad),
            fifo.i.payload.eq(self.i.payload.data),
            fifo.i.valid.eq(self.i.valid & ~self.bad & right),
            self.first.eq(take & (beat == 0)),
        ]
        with m.If(take):
            m.d.sync += beat.eq(Mux(end, 0, beat + 1))
            with m.If(~right):
                m.d.sync += self.bad.eq(1)
        return m
