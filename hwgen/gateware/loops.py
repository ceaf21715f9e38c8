"""The loop nests of docs/gateware.md as counters: which op comes next, and everything its flags say."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Geometry

__all__ = ["ORDERS", "Nest", "bits", "flags_layout"]

ORDERS = {
    "forward": ("cg", "kx", "ky", "nf", "g"),
    "backward": ("nf", "cg", "kx", "ky", "g"),
    "chunks": ("cg", "kx", "ky", "g"),
    "sums": ("nf", "g"),
}
"""Loops of a block around its pixels, innermost first; "chunks" is what comes out of the backward pass,
"sums" of the forward."""


def bits(count: int) -> Shape:
    """Shape of a number below ``count``, at least one bit."""
    return Shape.cast(range(max(2, count)))


def flags_layout(geometry: Geometry) -> data.StructLayout:
    """What every op carries beside its data."""
    return data.StructLayout(
        {
            "waddr": bits(geometry.out_words * geometry.fk),
            "word": bits(geometry.out_words),
            "m": bits(geometry.b),
            **dict.fromkeys(
                (
                    "first",
                    "last",
                    "visit_first",
                    "visit_last",
                    "kf_first",
                    "block_last",
                    "sample_first",
                    "sample_last",
                ),
                1,
            ),
        }
    )


class Nest(wiring.Component):
    """Walks the ops of sample after sample: blocks, the loops of ``order``, the pixels of a block.

    All outputs describe the current op; ``step`` goes to the next one. Latency 0, one op a cycle.

    Members: ``step``; ``oy``, ``ox`` output pixel, ``ky``, ``kx`` first kernel position and ``x_word`` word
    of the chunk, ``out_word`` g·fn + nf, ``m`` pixel in the block, ``flags``; ``fresh``: first pass over a
    block; ``x_last``: ox is the last of its row; ``visit_last``, ``block_last``, ``sample_last``.
    """

    def __init__(self, geometry: Geometry, order: str):
        self.geometry, self.order = geometry, order
        kh, kw = geometry.window.kernel
        counts = {
            "cg": geometry.cgs,
            "kx": kw if geometry.u == 1 else 1,
            "ky": 1 if geometry.u == kh * kw else kh,
            "nf": geometry.fn,
            "g": geometry.groups,
        }
        self.counts = {name: counts[name] for name in ORDERS[order]}
        super().__init__(
            {
                "step": In(1),
                "oy": Out(bits(geometry.vertical.outputs)),
                "ox": Out(bits(geometry.horizontal.outputs)),
                "ky": Out(bits(counts["ky"])),
                "kx": Out(bits(counts["kx"])),
                "x_word": Out(bits(geometry.words)),
                "out_word": Out(bits(geometry.out_words)),
                "m": Out(bits(geometry.b)),
                "flags": Out(flags_layout(geometry)),
                "fresh": Out(1),
                "x_last": Out(1),
                "visit_last": Out(1),
                "block_last": Out(1),
                "sample_last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._pixels(m)
        ends = self._loops(m)
        if self.order in ("forward", "backward"):
            kf_first, kf_last = (self._all(ends, names, edge) for edge, names in ((0, _K), (1, _K)))
            nf_first, nf_last = (ends["nf"][edge] for edge in (0, 1))
            forward = self.order == "forward"
            sample_start = Signal(init=1)
            with m.If(self.step):
                m.d.sync += sample_start.eq(self.sample_last)
            m.d.comb += [
                self.flags.waddr.eq(self._address(m, ends)),
                self.flags.word.eq(self.out_word),
                self.flags.m.eq(self.m),
                self.flags.first.eq(kf_first if forward else nf_first),
                self.flags.last.eq(kf_last if forward else nf_last),
                self.flags.visit_first.eq(self.m == 0),
                self.flags.visit_last.eq(self.visit_last),
                self.flags.kf_first.eq(kf_first),
                self.flags.block_last.eq(self.block_last),
                self.flags.sample_first.eq(sample_start),
                self.flags.sample_last.eq(self.sample_last),
            ]
        return m

    def _pixels(self, m):
        """The pixels of a block, walked again in every pass."""
        geometry = self.geometry
        rows, columns = geometry.vertical.outputs, geometry.horizontal.outputs
        last = Signal(name="pixel_last")
        next_y, next_x = Signal.like(self.oy, name="next_y"), Signal.like(self.ox, name="next_x")
        m.d.comb += [
            self.x_last.eq(self.ox == columns - 1),
            last.eq(self.x_last & (self.oy == rows - 1)),
            next_x.eq(Mux(self.x_last, 0, self.ox + 1)),
            next_y.eq(Mux(last, 0, self.oy + self.x_last)),
            self.visit_last.eq(last | (self.m == geometry.b - 1)),
            self.sample_last.eq(self.block_last & last),
        ]
        if geometry.b == 1:
            with m.If(self.step & self.block_last):
                m.d.sync += [self.oy.eq(next_y), self.ox.eq(next_x)]
            return
        start_y, start_x = Signal.like(self.oy, name="start_y"), Signal.like(self.ox, name="start_x")
        with m.If(self.step):
            with m.If(~self.visit_last):
                m.d.sync += [self.m.eq(self.m + 1), self.oy.eq(next_y), self.ox.eq(next_x)]
            with m.Else():
                m.d.sync += self.m.eq(0)
                with m.If(self.block_last):
                    m.d.sync += [
                        self.oy.eq(next_y),
                        self.ox.eq(next_x),
                        start_y.eq(next_y),
                        start_x.eq(next_x),
                    ]
                with m.Else():
                    m.d.sync += [self.oy.eq(start_y), self.ox.eq(start_x)]

    def _loops(self, m):
        """Counters of all loops; (first, last) of each by name."""
        ends = {}
        turn = Signal(name="turn")
        m.d.comb += turn.eq(self.step & self.visit_last)
        carry: Value = turn
        for name, count in self.counts.items():
            if count == 1:
                ends[name] = (Const(1), Const(1))
                continue
            value = Signal(range(count), name=name)
            last = Signal(name=f"{name}_last")
            m.d.comb += last.eq(value == count - 1)
            with m.If(carry):
                m.d.sync += value.eq(Mux(last, 0, value + 1))
            carry = carry & last
            ends[name] = (value == 0, last)
            if name in ("kx", "ky"):
                m.d.comb += getattr(self, name).eq(value)
        m.d.comb += self.fresh.eq(self._all(ends, self.counts, 0))
        m.d.comb += self.block_last.eq(self.visit_last & self._all(ends, self.counts, 1))
        self._linear(m, "x_word", {"cg": 1, "g": self.geometry.cgs}, turn, ends)
        self._linear(m, "out_word", {"nf": 1, "g": self.geometry.fn}, turn, ends)
        return ends

    def _linear(self, m, name, strides, turn, ends):
        """Drive output ``name`` with Σ stride·counter, by an offset register a loop."""
        total: Value = Const(0)
        carry: Value = turn
        for loop, count in self.counts.items():
            if loop in strides and count > 1:
                offset = Signal(range((count - 1) * strides[loop] + 1), name=f"{name}_{loop}")
                with m.If(carry):
                    m.d.sync += offset.eq(Mux(ends[loop][1], 0, offset + strides[loop]))
                total = total + offset
            carry = carry & ends[loop][1]
        m.d.comb += getattr(self, name).eq(total)

    def _address(self, m, ends):
        """(g·fn + nf)·fk + kf."""
        geometry = self.geometry
        address = Signal(bits(geometry.out_words * geometry.fk), name="address")
        turn = self.step & self.visit_last
        if self.order == "forward":
            with m.If(turn):
                m.d.sync += address.eq(Mux(self.block_last, 0, address + 1))
            return address
        # nf inside kf: a row of fn words fk apart, then the next kf.
        row = Signal.like(address, name="address_row")
        with m.If(turn):
            with m.If(~ends["nf"][1]):
                m.d.sync += address.eq(address + geometry.fk)
            with m.Elif(self.block_last):
                m.d.sync += [address.eq(0), row.eq(0)]
            with m.Elif(self._all(ends, _K, 1)):  # the next group follows the last word of this one
                m.d.sync += [address.eq(address + 1), row.eq(address + 1)]
            with m.Else():
                m.d.sync += [address.eq(row + 1), row.eq(row + 1)]
        return address

    @staticmethod
    def _all(ends, names, edge):
        return Cat(ends[name][edge] for name in names).all()


_K = ("cg", "kx", "ky")
