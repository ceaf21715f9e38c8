"""Sums of gradients along the parts of a stage that all hold the same weights: one total, the same on every board."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Stage
from ..plan.plan import StagePlan
from .channels import AddSums
from .stream import Fifo, Fork, lanes
from .walk import WeightWalk

__all__ = ["BIAS_LATENCY", "GradientSums", "sum_streams"]

BIAS_LATENCY = 2
"""Cycles from Bias.peek to its answer."""


def sum_streams(plan: StagePlan, whole: Stage, grad: int) -> dict[str, object]:
    """Ports of a part that shares its weights with others: sums away from the host and totals back, one element of
    ``grad`` bits a word, in the order of WeightWalk."""
    part = plan.part
    if not part.shares_weights or whole.frozen:
        return {}
    word = stream.Signature(lanes(1, grad))
    found: dict[str, object] = {}
    if not part.first:
        found |= {"grads_in": In(word), "totals_out": Out(word)}
    if not part.last:
        found |= {"grads_out": Out(word), "totals_in": In(word)}
    return found


class GradientSums(wiring.Component):
    """Once a batch: own dW and db, added to those of the parts before, go on to the next part; the last one has the
    totals and sends them back; every part puts them where its own sums were.

    An element a cycle; a part needs ``count`` cycles and the way to the last part and back. A total is put in its place
    only when the part's own sum of that element is gone.

    Parameters: ``grad`` bits of a sum; ``latency`` cycles from ``peek`` to ``sum``, of biases BIAS_LATENCY.

    Members: ``start`` pulse → ``running`` until all totals are in place. ``peek`` of the weight at ``peek_pe``,
    ``peek_address``, answered by ``sum``, and of the bias at ``bias_lane``, ``bias_word``, answered by ``bias_sum``;
    ``load`` of ``load_sum`` at ``load_pe``, ``load_address`` (``load_bias``: lane and word); ``grads_in``,
    ``grads_out``, ``totals_in``, ``totals_out`` as sum_streams has them.
    """

    def __init__(self, plan: StagePlan, whole: Stage, grad: int, latency: int):
        if latency < BIAS_LATENCY:
            raise ValueError(f"GradientSums: latency {latency}; at least {BIAS_LATENCY}, that of a bias")
        self.plan, self.grad, self.latency = plan, grad, latency
        self.depth = latency + 4
        biases = plan.stage.bias is not None
        self.ahead, self.behind = (WeightWalk(plan.fold, biases) for _ in range(2))
        self.count = self.ahead.count
        places = self.ahead.signature.members
        members: dict[str, object] = {"start": In(1), "running": Out(1)}
        members |= {"sum": In(signed(grad)), "bias_sum": In(signed(grad))}
        members |= {"peek": Out(1), "bias_peek": Out(1), "load": Out(1), "load_sum": Out(signed(grad))}
        for pe, address in (
            ("peek_pe", "peek_address"),
            ("load_pe", "load_address"),
            ("bias_lane", "bias_word"),
        ):
            members |= {pe: Out(places["pe"].shape), address: Out(places["address"].shape)}
        members["load_bias"] = Out(1)
        super().__init__(members | sum_streams(plan, whole, grad))

    def elaborate(self, platform):
        m = Module()
        own = self._own(m)
        totals = self._totals(m, own)
        busy, done = Signal(), Signal()
        m.d.comb += self.running.eq(busy | self.start)
        with m.If(self.start):
            m.d.sync += busy.eq(1)
        with m.Elif(done):
            m.d.sync += busy.eq(0)

        # Elements whose own sum has been read, and whose total has not come yet.
        out = Signal(range(self.count + 1))
        m.submodules.behind = behind = self.behind
        load = Signal()
        m.d.comb += [
            load.eq(totals.valid & (out != 0)),
            totals.ready.eq(out != 0),
            behind.step.eq(load),
            done.eq(load & behind.last),
        ]
        m.d.sync += out.eq(out + self._read - load)
        # Through registers: the way to the memories is long.
        m.d.sync += [self.load.eq(load), self.load_sum.eq(totals.payload[0])]
        for name in ("pe", "address", "bias"):
            m.d.sync += getattr(self, f"load_{name}").eq(getattr(behind, name))
        return m

    def _own(self, m):
        """Own sums as a stream: peeks as long as there is room for their answers."""
        m.submodules.ahead = ahead = self.ahead
        m.submodules.fifo = fifo = Fifo(lanes(1, self.grad), self.depth)
        under_way, reading = Signal(range(self.depth + 1)), Signal()
        issue = Signal()
        m.d.comb += [issue.eq(reading & (under_way != self.depth)), ahead.step.eq(issue)]
        with m.If(self.start):
            m.d.sync += reading.eq(1)
        with m.Elif(issue & ahead.last):
            m.d.sync += reading.eq(0)
        m.d.sync += under_way.eq(under_way + issue - (fifo.o.valid & fifo.o.ready))
        place = data.StructLayout(
            {name: self.ahead.signature.members[name].shape for name in ("pe", "address", "bias")}
            | {"asked": 1}
        )
        asked = Signal(place, name="asked")
        m.d.sync += [asked.asked.eq(issue), asked.pe.eq(ahead.pe), asked.address.eq(ahead.address)]
        m.d.sync += asked.bias.eq(ahead.bias)
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
                later = Signal(place, name=f"asked_{k}")
                m.d.sync += later.eq(asked)
                asked = later
        self._read = asked.asked
        m.d.comb += [
            fifo.i.valid.eq(asked.asked),
            fifo.i.payload[0].eq(Mux(asked.bias, self.bias_sum, self.sum)),
        ]
        return fifo.o

    def _totals(self, m, own):
        """Sends sums and totals on; the totals as they come here."""
        part, word = self.plan.part, lanes(1, self.grad)
        if not part.first:
            m.submodules.add = add = AddSums(1, self.grad, self.grad, self.grad)
            wiring.connect(m, own, add.a)
            wiring.connect(m, wiring.flipped(self.grads_in), add.b)
            own = add.o
        if part.last:
            totals = own
        else:
            wiring.connect(m, own, wiring.flipped(self.grads_out))
            totals = wiring.flipped(self.totals_in)
        if part.first:
            return totals
        m.submodules.fork = fork = Fork(word, 2)
        m.submodules.sent = sent = Fifo(word, 2)
        wiring.connect(m, totals, fork.i)
        wiring.connect(m, fork.o[1], sent.i)
        wiring.connect(m, sent.o, wiring.flipped(self.totals_out))
        return fork.o[0]
