"""Rounding and saturation of a stream of sums, and a count of what saturated."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..numeric import Q
from .arithmetic import round_shift, saturate
from .stream import lanes

__all__ = ["Requantise"]


class Requantise(wiring.Component):
    """Rounds sums with ``in_frac`` fractional bits into format ``to``, half to even, and clips them.

    o = saturate(round(i / 2**(in_frac - to.frac))), exact for shifts of either sign and any size. Model:
    hwgen.numeric.requantise. Latency ``latency``, one word a cycle: rounded words wait in a register before they are
    clipped into another. ``i.ready`` depends on ``o.ready`` (a full register passes its word on in the cycle that takes
    the next), ``valid`` on registers only.

    Parameters: width and fractional bits of the sums, the format of the results, P lanes a word.

    Members: ``i`` lanes(P, in_width); ``o`` lanes(P, to.width); ``saturated`` lanes clipped since reset,
    modulo 2**32; it counts a word one cycle after the word appears at ``o``.
    """

    latency = 2

    def __init__(self, in_width: int, in_frac: int, to: Q, P: int):
        self.to, self.lanes = to, P
        self.shift = in_frac - to.frac
        super().__init__(
            {
                "i": In(stream.Signature(lanes(P, in_width))),
                "o": Out(stream.Signature(lanes(P, to.width))),
                "saturated": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        clips = Signal(range(self.lanes + 1))
        flags = []
        rounded, full, free = [], Signal(name="rounded_valid"), Signal()
        m.d.comb += [free.eq(~self.o.valid | self.o.ready), self.i.ready.eq(~full | free)]
        m.d.sync += [clips.eq(0), self.saturated.eq(self.saturated + clips)]
        with m.If(self.i.ready):
            m.d.sync += full.eq(self.i.valid)
            for k in range(self.lanes):
                value = round_shift(self.i.payload[k], self.shift)
                rounded.append(Signal(value.shape(), name=f"rounded_{k}", reset_less=True))
                m.d.sync += rounded[k].eq(value)
        with m.If(free):
            m.d.sync += self.o.valid.eq(full)
        with m.If(free & full):
            for k in range(self.lanes):
                value, clipped = saturate(m, rounded[k], self.to.width, f"lane_{k}")
                m.d.sync += self.o.payload[k].eq(value)
                flags.append(clipped)
            m.d.sync += clips.eq(sum(flags))
        return m
