"""Sums of gradients of a stage as a stream, in the order of their logical index."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.fold import Fold
from .stream import Fifo, lanes
from .walk import WeightWalk

__all__ = ["BIAS_LATENCY", "SumReader"]

BIAS_LATENCY = 2
"""Cycles from Bias.peek to its answer."""


class SumReader(wiring.Component):
    """Peeks every dW of a stage, then every db if ``biases``; an element in ``pace`` cycles as long as ``o`` is taken.

    Parameters: ``grad`` bits of a sum; ``latency`` cycles from ``peek`` to ``sum``, of biases BIAS_LATENCY; ``pace`` 1
    or 2.

    Members: ``start`` pulse; ``slot``: every ``pace``-th cycle, peeks come one cycle behind; ``peek`` of the weight at
    ``peek_pe``, ``peek_address``, answered by ``sum``, and ``bias_peek`` of the bias at ``bias_lane``, ``bias_word``,
    answered by ``bias_sum``; ``o`` the sums, lanes(1, grad); ``read`` pulse: an element has been read.
    """

    def __init__(self, fold: Fold, biases: bool, grad: int, latency: int, pace: int = 1):
        if latency < BIAS_LATENCY:
            raise ValueError(f"SumReader: latency {latency}; at least {BIAS_LATENCY}, that of a bias")
        self.grad, self.latency, self.depth, self.pace = grad, latency, latency + 4, pace
        self.walk = WeightWalk(fold, biases)
        self.count = self.walk.count
        pe, address = self.walk.pe.shape(), self.walk.address.shape()
        self.place = data.StructLayout({"pe": pe, "address": address, "bias": 1, "asked": 1})
        super().__init__(
            {
                "start": In(1),
                "slot": Out(1),
                "peek": Out(1),
                "peek_pe": Out(pe),
                "peek_address": Out(address),
                "sum": In(signed(grad)),
                "bias_peek": Out(1),
                "bias_lane": Out(pe),
                "bias_word": Out(address),
                "bias_sum": In(signed(grad)),
                "o": Out(stream.Signature(lanes(1, grad))),
                "read": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = self.walk
        m.submodules.fifo = fifo = Fifo(lanes(1, self.grad), self.depth)
        under_way, reading, issue = Signal(range(self.depth + 1)), Signal(), Signal()
        slot: Value = Const(1)
        if self.pace == 2:
            slot = Signal(init=1, name="is_slot")
            m.d.sync += slot.eq(~slot | self.start)
        m.d.comb += self.slot.eq(slot)
        m.d.comb += [issue.eq(reading & slot & (under_way != self.depth)), walk.step.eq(issue)]
        with m.If(self.start):
            m.d.sync += reading.eq(1)
        with m.Elif(issue & walk.last):
            m.d.sync += reading.eq(0)
        m.d.sync += under_way.eq(under_way + issue - (fifo.o.valid & fifo.o.ready))
        asked = Signal(self.place, name="asked")
        m.d.sync += [asked.asked.eq(issue), asked.pe.eq(walk.pe), asked.address.eq(walk.address)]
        m.d.sync += asked.bias.eq(walk.bias)
        m.d.comb += [
            self.peek.eq(asked.asked & ~asked.bias),
            self.peek_pe.eq(asked.pe),
            self.peek_address.eq(asked.address),
        ]
        for k in range(self.latency + 1):
            if k == self.latency - BIAS_LATENCY:
                m.d.comb += [
                    self.bias_peek.eq(asked.asked & asked.bias),
                    self.bias_lane.eq(asked.pe),
                    self.bias_word.eq(asked.address),
                ]
            if k < self.latency:
                later = Signal(self.place, name=f"asked_{k}")
                m.d.sync += later.eq(asked)
                asked = later
        m.d.comb += [
            self.read.eq(asked.asked),
            fifo.i.valid.eq(asked.asked),
            fifo.i.payload[0].eq(Mux(asked.bias, self.bias_sum, self.sum)),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        return m
