"""Sums of gradients along the parts of a stage that all hold the same weights: one total, the same on every board."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Stage
from ..plan.columns import load_pace
from ..plan.plan import StagePlan
from .channels import AddSums
from .reader import SumReader
from .stream import Fifo, Fork, lanes
from .walk import WeightWalk, in_turn

__all__ = ["GradientSums", "sum_streams"]


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

    An element in ``pace`` cycles (hwgen.plan.columns.load_pace); a part needs ``count`` times as many and the way to
    the last part and back. A total is put in its place only when the part's own sum of that element is gone, and in a
    cycle in which its column's memory answers no peek.

    Parameters: ``grad`` bits of a sum; ``latency`` cycles from ``peek`` to ``sum``, of biases BIAS_LATENCY.

    Members: ``start`` pulse → ``running`` until all totals are in place. ``peek`` of the weight at ``peek_pe``,
    ``peek_address``, answered by ``sum``, and of the bias at ``bias_lane``, ``bias_word``, answered by ``bias_sum``;
    ``load`` of ``load_sum`` at ``load_pe``, ``load_address`` (``load_bias``: lane and word); ``grads_in``,
    ``grads_out``, ``totals_in``, ``totals_out`` as sum_streams has them.
    """

    def __init__(self, plan: StagePlan, whole: Stage, grad: int, latency: int):
        self.plan, self.grad = plan, grad
        biases = plan.stage.bias is not None
        self.pace = load_pace(plan)
        self.reader = SumReader(plan.fold, biases, grad, latency, self.pace)
        self.behind = WeightWalk(plan.fold, biases, tn=plan.tile[1])
        self.count = self.reader.count
        places = self.behind.signature.members
        fields = {name: places[name].shape for name in ("pe", "address", "bias", "odd")}
        self.place = data.StructLayout({**fields, "sum": signed(grad), "valid": 1})
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
        m.submodules.reader = reader = self.reader
        totals = self._totals(m, reader.o)
        m.d.comb += [reader.start.eq(self.start), reader.sum.eq(self.sum), reader.bias_sum.eq(self.bias_sum)]
        for name in ("peek", "peek_pe", "peek_address", "bias_peek", "bias_lane", "bias_word"):
            m.d.comb += getattr(self, name).eq(getattr(reader, name))
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
            load.eq(totals.valid & totals.ready),
            totals.ready.eq((out != 0) & reader.slot),
            behind.step.eq(load),
            done.eq(load & behind.last),
        ]
        m.d.sync += out.eq(out + reader.read - load)
        self._load(m, load, totals.payload[0])
        return m

    def _load(self, m, load, total):
        """Loads a total, through registers: the way to the memories is long."""
        place, behind = Signal(self.place), self.behind
        m.d.comb += [place.valid.eq(load), place.sum.eq(total)]
        names = ("pe", "address", "bias")
        m.d.comb += [getattr(place, name).eq(getattr(behind, name)) for name in (*names, "odd")]
        if self.pace == 1:
            late = Signal(self.place)
            m.d.sync += late.eq(place)
        else:
            late = in_turn(m, place)
        m.d.comb += [self.load.eq(late.valid), self.load_sum.eq(late.sum)]
        m.d.comb += [getattr(self, f"load_{name}").eq(getattr(late, name)) for name in names]

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
