"""ReLU, its relatives with other bounds or a slope below 0, and their adjoint, joined by one mask bit a lane."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.activation import Activation
from ..numeric import Q
from .arithmetic import round_shift
from .stream import lanes

__all__ = ["ReLU", "ReLUAdjoint"]

RELU = Activation()


def _sloped(m, name, value, slope):
    """value · s / 2**shift, rounded half to even, from shifted values: as many as s has digits -1 and 1 at least."""
    s, shift = slope
    scaled, place = Const(0), 0
    while s:
        digit = 2 - s % 4 if s % 2 else 0
        if digit:
            scaled = scaled + (value << place) if digit > 0 else scaled - (value << place)
        s, place = (s - digit) // 2, place + 1
    product = Signal(signed(len(value) + place), name=f"{name}_product")
    m.d.comb += product.eq(scaled)
    return round_shift(product, shift)


class ReLU(wiring.Component):
    """Passes every lane through an activation and, in training, tells where its slope is 1.

    o = max(i, 0); mask bit k = (lane k > 0); or as ``activation`` has it (hwgen.ref.kernels.activate). Latency
    ``latency``, one word a cycle. A word enters when the registers of ``o`` and (in training) ``mask`` can both take
    it; each then waits for its own consumer alone. ``i.ready`` depends on ``o.ready`` and ``mask.ready``, ``valid`` on
    registers only.

    Parameters: P lanes a word, their width; the activation, and the format of which it has bounds.

    Members: ``train`` (change only while no word is under way); ``i``, ``o`` lanes(P, width); ``mask`` P
    bits, lane 0 lowest.
    """

    latency = 1

    def __init__(self, P: int, width: int, activation: Activation = RELU, form: Q | None = None):
        self.lanes, self.slope = P, activation.slope
        self.low, self.high = activation.bounds(form or Q(width, 0))
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
                value, mask = self._activated(m, k, self.i.payload[k])
                m.d.sync += [self.o.payload[k].eq(value), self.mask.payload[k].eq(mask)]
        return m

    def _activated(self, m, k, value):
        """A lane behind the activation, and its mask bit."""
        if self.slope is not None:
            return Mux(value > 0, value, _sloped(m, f"sloped_{k}", value, self.slope)), value > 0
        mask = Const(1)
        result = value
        if self.low is not None:
            mask, result = value > self.low, Mux(value > self.low, value, self.low)
        if self.high is not None:
            mask, result = mask & (value < self.high), Mux(value < self.high, result, self.high)
        return result, mask


class ReLUAdjoint(wiring.Component):
    """Passes the lanes whose mask bit is 1 and replaces the others by 0, or weakens them by the activation's slope.

    o = i · mask (hwgen.ref.kernels.activation_adjoint). Latency ``latency``, one word a cycle. Takes a word of ``i``
    and one of ``mask`` in the same cycle: ``ready`` of each depends on ``valid`` of the other and on ``o.ready``;
    ``o.valid`` is a register.

    Parameters: P lanes a word, their width; the activation.

    Members: ``i``, ``o`` lanes(P, width); ``mask`` P bits, lane 0 lowest.
    """

    latency = 1

    def __init__(self, P: int, width: int, activation: Activation = RELU):
        self.lanes, self.slope = P, activation.slope
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
                value = self.i.payload[k]
                weak = Const(0) if self.slope is None else _sloped(m, f"sloped_{k}", value, self.slope)
                m.d.sync += self.o.payload[k].eq(Mux(self.mask.payload[k], value, weak))
        return m
