"""The update of weights whose masters lie elsewhere: they come one by one, are changed and go back."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Network
from ..plan.columns import load_pace
from ..plan.plan import StagePlan
from .arithmetic import mix32, round_shift, saturate
from .reader import SumReader
from .stream import Fifo, lanes
from .tile import CHUNK, ArrayShape
from .walk import WeightWalk, in_turn

__all__ = ["MasterUpdate", "master_streams"]

STAGES = 4
"""Cycles from a master and its sum to the new master."""


def master_streams(plan: StagePlan) -> dict[str, object]:
    """Ports of a part whose masters lie elsewhere, an element a word in the order of WeightWalk: ``masters`` before and
    ``updates`` behind the update. Ahead of those of a batch one word of 0 asks for the masters."""
    if plan.storage.master == "here":
        return {}
    word = stream.Signature(lanes(1, plan.stage.master.width))
    return {"masters": In(word), "updates": Out(word)}


class MasterUpdate(wiring.Component):
    """Once a batch for every weight: master ← saturate(master - round(rate·dW / 2**shift)); the array gets its top
    bits.

    A weight in ``pace`` cycles (hwgen.plan.columns.load_pace). Model: hwgen.ref.update.step_values.

    Parameters: ``latency`` cycles from ``peek`` to ``sum``.

    Members: ``ask`` pulse: a batch has begun, fetch masters; ``start`` pulse → ``running`` until all weights are loaded
    and all masters sent. ``peek`` of dW at ``peek_pe``, ``peek_address``, answered by ``sum``; ``load`` of
    ``load_weight`` at ``load_pe``, ``load_address``; ``masters``, ``updates`` as master_streams has them; ``rate``;
    ``key`` of the counter hash; ``saturated``, ``zero``: the master clipped, or a dW that is not 0 gave no step.
    """

    def __init__(self, network: Network, plan: StagePlan, shape: ArrayShape, latency: int):
        self.network, self.plan, self.shape = network, plan, shape
        self.pace = load_pace(plan)
        self.reader = SumReader(plan.fold, False, shape.grad, latency, self.pace)
        self.walk = WeightWalk(plan.fold, False, network.stages[plan.stage.index], plan.part, plan.tile[1])
        fields = {"pe": self.walk.pe.shape(), "address": self.walk.address.shape()}
        self.place = data.StructLayout({**fields, "odd": 1, "last": 1, "valid": 1})
        members: dict[str, object] = {
            "ask": In(1),
            "start": In(1),
            "running": Out(1),
            "rate": In(signed(shape.rate)),
            "key": In(32),
            "peek": Out(1),
            "sum": In(signed(shape.grad)),
            "load": Out(1),
            "load_weight": Out(signed(shape.w)),
            "saturated": Out(1),
            "zero": Out(1),
        }
        for way in ("peek", "load"):
            members |= {
                f"{way}_pe": Out(self.walk.pe.shape()),
                f"{way}_address": Out(self.walk.address.shape()),
            }
        super().__init__(members | master_streams(plan))

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = self.reader
        m.submodules.walk = walk = self.walk
        m.submodules.out = out = Fifo(self.updates.payload.shape(), 2 * STAGES)
        wiring.connect(m, out.o, wiring.flipped(self.updates))
        m.d.comb += [
            reader.start.eq(self.start),
            reader.sum.eq(self.sum),
            self.peek.eq(reader.peek),
            self.peek_pe.eq(reader.peek_pe),
            self.peek_address.eq(reader.peek_address),
        ]
        # Every taken weight has room in the FIFO behind; the request of a batch keeps one for itself.
        waiting, under_way, busy = Signal(), Signal(range(2 * STAGES + 1)), Signal()
        take, result = Signal(), Signal(self.place)
        request = Signal()
        m.d.comb += [
            request.eq(waiting & (under_way != 2 * STAGES) & ~result.valid),
            take.eq(reader.o.valid & self.masters.valid & reader.slot & (under_way != 2 * STAGES) & ~request),
            reader.o.ready.eq(take),
            self.masters.ready.eq(take),
            walk.step.eq(take),
            self.running.eq(busy | self.start),
        ]
        m.d.sync += under_way.eq(under_way + (take | request) - (out.o.valid & out.o.ready))
        with m.If(self.ask):
            m.d.sync += waiting.eq(1)
        with m.Elif(request):
            m.d.sync += waiting.eq(0)
        with m.If(self.start):
            m.d.sync += busy.eq(1)
        with m.Elif(result.valid & result.last):
            m.d.sync += busy.eq(0)

        new = self._steps(m, take, result)
        m.d.comb += [
            out.i.valid.eq(result.valid | request),
            out.i.payload[0].eq(Mux(result.valid, new, 0)),
        ]
        self._load(m, new >> (self.plan.stage.master.width - self.shape.w), result)
        return m

    def _load(self, m, weight, result):
        load = Signal(data.StructLayout({**self.place.members, "weight": signed(self.shape.w)}))
        m.d.comb += load.eq(Cat(result, weight[: self.shape.w]))
        if self.pace == 2:
            load = in_turn(m, load)
        m.d.comb += [
            self.load.eq(load.valid),
            self.load_weight.eq(load.weight),
            self.load_pe.eq(load.pe),
            self.load_address.eq(load.address),
        ]

    def _steps(self, m, take, result):
        """The pipeline; the new master, with its place in ``result``."""
        shape, master = self.shape, self.plan.stage.master.width
        place = Signal(self.place, name="place_0")
        m.d.comb += [
            place.valid.eq(take),
            place.pe.eq(self.walk.pe),
            place.address.eq(self.walk.address),
            place.odd.eq(self.walk.odd),
            place.last.eq(self.walk.last),
        ]
        old, some = self.masters.payload[0], self.reader.o.payload[0].any()
        for k in range(1, STAGES + 1):
            later = Signal(self.place, name=f"place_{k}")
            m.d.sync += later.eq(place)
            place = later
            if k < STAGES:
                before, flag = Signal(signed(master), name=f"old_{k}"), Signal(name=f"some_{k}")
                m.d.sync += [before.eq(old), flag.eq(some)]
                old, some = before, flag
        m.d.comb += result.eq(place)
        step = Signal(signed(max(shape.grad + shape.rate - shape.shift, 1) + 1))
        random = self._random(m) if shape.stochastic else None
        m.d.sync += step.eq(round_shift(self._scaled(m), shape.shift, random))
        new, kept = Signal(signed(master)), Signal(2)
        stepped, clipped = saturate(m, old - step, master, "stepped")
        m.d.sync += [new.eq(stepped), kept.eq(Cat(clipped, some & (step == 0)))]
        m.d.comb += Cat(self.saturated, self.zero).eq(Mux(result.valid, kept, 0))
        return new

    def _scaled(self, m):
        """rate·dW after two cycles, from products of pieces that fit a multiplier."""
        dw, products = self.reader.o.payload[0], []
        for c in range(self.shape.chunks):
            top = c == self.shape.chunks - 1
            piece = dw >> (CHUNK * c) if top else dw[CHUNK * c : CHUNK * (c + 1)]
            product = Signal(signed(self.shape.rate + CHUNK + 1), name=f"product_{c}")
            m.d.sync += product.eq(self.rate * piece)
            products.append(product << (CHUNK * c))
        scaled = Signal(signed(self.shape.grad + self.shape.rate))
        m.d.sync += scaled.eq(sum(products))
        return scaled

    def _random(self, m):
        """``shift`` random bits beside ``_scaled``. Model: hwgen.numeric.hash_words."""
        mixed, bits = Signal(32), Signal(32)
        m.d.sync += [
            mixed.eq(mix32(m, self.key + self.walk.index, "hash_index")),
            bits.eq(mix32(m, mixed, "random")),
        ]
        shift = self.shape.shift
        if shift <= 0:
            return Const(0, 1)
        return (bits >> (32 - shift)) if shift <= 32 else (bits << (shift - 32))
