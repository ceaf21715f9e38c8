"""Max-pool over raster streams, and its adjoint."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..numeric import Q, bits_for_sum
from ..plan.geometry import Geometry
from .col2im import Col2im
from .round import Requantise
from .stream import Buffer, lanes
from .window import Window

__all__ = ["MaxPool", "MaxPoolAdjoint", "argmax_layout"]


def argmax_layout(geometry: Geometry) -> data.ArrayLayout:
    """Kernel position ky·kw + kx of the maximum, for every lane."""
    return data.ArrayLayout(unsigned(max(1, (geometry.window.positions - 1).bit_length())), geometry.pc)


class MaxPool(wiring.Component):
    """The greatest value of every window, and where it was: the first in raster order among equals.

    Positions outside the image are left out. Model: hwgen.ref.kernels.max_pool. kh·kw cycles a word of the
    output. What the window's memories give waits in a register before it is compared.

    Members: ``i``, ``o`` words lanes(P, width); ``argmax`` words of :func:`argmax_layout`, only while
    ``train``; ``high`` row slots in use.
    """

    def __init__(self, geometry: Geometry, width: int, rows: int):
        self.geometry, self.width = geometry, width
        self.window = Window(geometry, width, rows, "forward")
        word = lanes(geometry.pc, width)
        super().__init__(
            {
                "train": In(1),
                "i": In(stream.Signature(word)),
                "o": Out(stream.Signature(word)),
                "argmax": Out(stream.Signature(argmax_layout(geometry))),
                "high": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.window
        m.submodules.ops = ops = Buffer(window.op_layout)
        wiring.connect(m, wiring.flipped(self.i), window.i)
        wiring.connect(m, window.o, ops.i)
        op = ops.o.payload
        positions = self.geometry.window.positions
        position = Signal(range(max(2, positions)))
        best = Signal(lanes(self.geometry.pc, self.width), reset_less=True)
        where = Signal(argmax_layout(self.geometry), reset_less=True)
        found = Signal(name="found")
        take, finish = Signal(), Signal()
        # The result may be written when both streams are free of the one before.
        room = (~self.o.valid | self.o.ready) & (~self.argmax.valid | self.argmax.ready)
        m.d.comb += [
            window.allow.eq(1),
            self.high.eq(window.high),
            ops.o.ready.eq(~op.flags.last | room),
            take.eq(ops.o.valid & ops.o.ready),
            finish.eq(take & op.flags.last),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.argmax.ready):
            m.d.sync += self.argmax.valid.eq(0)
        with m.If(take):
            m.d.sync += [
                position.eq(Mux(op.flags.last, 0, position + 1)),
                found.eq(~op.flags.last & (found | op.inside[0])),
            ]
        with m.If(finish):
            m.d.sync += [self.o.valid.eq(1), self.argmax.valid.eq(self.train)]
        for k in range(self.geometry.pc):
            greater = Signal(name=f"greater_{k}")
            value, at = Signal(signed(self.width), name=f"value_{k}"), Signal.like(where[k], name=f"at_{k}")
            m.d.comb += [
                greater.eq(op.inside[0] & (~found | (op.x[k] > best[k]))),
                value.eq(Mux(greater, op.x[k], best[k])),
                at.eq(Mux(greater, position, where[k])),
            ]
            with m.If(take):
                m.d.sync += [best[k].eq(value), where[k].eq(at)]
            with m.If(finish):
                m.d.sync += [self.o.payload[k].eq(value), self.argmax.payload[k].eq(at)]
        return m


class MaxPoolAdjoint(wiring.Component):
    """Sends each error to the position of its maximum, adds what meets there, and saturates (``exact``: hands out the
    sums).

    Model: hwgen.ref.kernels.max_pool_adjoint. kh·kw cycles a word of ``i``; ``i.ready`` is a register.

    Members: ``i`` words lanes(P, width) of the pooled errors, ``argmax`` of the same word; ``o`` words of the
    unpooled errors; ``saturated`` lanes so far; ``high`` row slots in use.
    """

    def __init__(self, geometry: Geometry, width: int, rows: int, exact: bool = False):
        self.geometry, self.width, self.exact = geometry, width, exact
        self.sum_width = bits_for_sum(width, geometry.window.positions)
        self.col = Col2im(geometry, width, self.sum_width, rows)
        word = lanes(geometry.pc, width)
        super().__init__(
            {
                "i": In(stream.Signature(word)),
                "argmax": In(stream.Signature(argmax_layout(geometry))),
                "o": Out(stream.Signature(lanes(geometry.pc, self.sum_width) if exact else word)),
                "saturated": Out(32),
                "high": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.col2im = col = self.col
        m.submodules.errors = errors = Buffer(self.i.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), errors.i)
        positions = self.geometry.window.positions
        position = Signal(range(max(2, positions)))
        last = position == positions - 1
        have = errors.o.valid & self.argmax.valid
        m.d.comb += [
            col.i.valid.eq(have),
            errors.o.ready.eq(col.i.ready & last & self.argmax.valid),
            self.argmax.ready.eq(col.i.ready & last & errors.o.valid),
            self.high.eq(col.high),
            *(
                col.i.payload[k].eq(Mux(self.argmax.payload[k] == position, errors.o.payload[k], 0))
                for k in range(self.geometry.pc)
            ),
        ]
        with m.If(have & col.i.ready):
            m.d.sync += position.eq(Mux(last, 0, position + 1))
        if self.exact:
            wiring.connect(m, col.o, wiring.flipped(self.o))
            return m
        m.submodules.round = rounder = Requantise(self.sum_width, 0, Q(self.width, 0), self.geometry.pc)
        m.d.comb += self.saturated.eq(rounder.saturated)
        wiring.connect(m, col.o, rounder.i)
        wiring.connect(m, rounder.o, wiring.flipped(self.o))
        return m
