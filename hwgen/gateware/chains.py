"""What stands behind and before a stage's array: rounding, order, ReLU and pool; and their adjoints."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Geometry
from ..plan.plan import StagePlan
from .col2im import Col2im
from .pool import MaxPool, MaxPoolAdjoint
from .relu import ReLU, ReLUAdjoint
from .replay import Reorder, Replay
from .round import Requantise
from .stream import Fifo, lanes

__all__ = ["BackwardChain", "ForwardChain", "pool_geometry"]


def pool_geometry(plan: StagePlan) -> Geometry:
    """A stage's pool as address generators see it: every word of Pn lanes is a group of its own."""
    fold = plan.fold
    return Geometry(window=plan.stage.pool, u=1, pc=fold.pn, groups=fold.y_words, cgs=1, fn=1, b=1)


class ForwardChain(wiring.Component):
    """Sums → requantise → raster order → ReLU → max-pool → y. Model: hwgen.ref.executor, forward.

    Members: ``i`` sums lanes(Pn, acc_bits) in order block, g, nf, m; ``y``; in training ``mask`` (Pn bits a
    word, raster order) and ``argmax`` where they exist, behind their FIFOs' inputs; ``saturated`` lanes so
    far; ``pool_high``.
    """

    def __init__(self, plan: StagePlan):
        self.plan = plan
        stage, fold = plan.stage, plan.fold
        members: dict[str, object] = {
            "train": In(1),
            "i": In(stream.Signature(lanes(fold.pn, stage.acc_bits))),
            "y": Out(stream.Signature(lanes(fold.pn, stage.y.width))),
            "saturated": Out(32),
            "pool_high": Out(16),
        }
        if stage.relu:
            members["mask"] = Out(stream.Signature(fold.pn))
        if stage.pool is not None:
            self.pool = MaxPool(pool_geometry(plan), stage.y.width, plan.depths.pool_rows)
            members["argmax"] = Out(stream.Signature(self.pool.argmax.payload.shape()))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        stage, fold, depths = self.plan.stage, self.plan.fold, self.plan.depths
        m.submodules.round = rounder = Requantise(stage.acc_bits, stage.acc_frac, stage.y, fold.pn)
        m.d.comb += self.saturated.eq(rounder.saturated)
        wiring.connect(m, wiring.flipped(self.i), rounder.i)
        o = rounder.o
        if fold.b > 1 and fold.y_words > 1:
            m.submodules.reorder = reorder = Reorder(fold.geometry, stage.y.width, fold.pn, depths.y_blocks)
            wiring.connect(m, o, reorder.i)
            o = reorder.o
        if stage.relu:
            m.submodules.relu = relu = ReLU(fold.pn, stage.y.width)
            m.d.comb += relu.train.eq(self.train)
            wiring.connect(m, o, relu.i)
            wiring.connect(m, relu.mask, wiring.flipped(self.mask))
            o = relu.o
        if stage.pool is not None:
            m.submodules.pool = self.pool
            m.d.comb += [self.pool.train.eq(self.train), self.pool_high.eq(self.pool.high)]
            wiring.connect(m, o, self.pool.i)
            wiring.connect(m, self.pool.argmax, wiring.flipped(self.argmax))
            o = self.pool.o
        m.submodules.out = out = Fifo(lanes(fold.pn, stage.y.width), 2)
        wiring.connect(m, o, out.i)
        wiring.connect(m, out.o, wiring.flipped(self.y))
        return m


class BackwardChain(wiring.Component):
    """dy → pool adjoint → ReLU adjoint → replayed errors; array's chunks → col2im → requantise → dx.

    Model: hwgen.ref.executor, backward. Members: ``dy``; ``mask`` and ``argmax`` from the forward chain, kept
    here in FIFOs of the planned depth; ``errors`` ops for the backward pass; ``masked`` shows the stream into
    Replay; ``back`` chunks and ``dx``; lanes saturated so far; high-water marks.
    """

    def __init__(self, plan: StagePlan):
        self.plan = plan
        stage, fold = plan.stage, plan.fold
        self.replay = Replay(fold.geometry, stage.dy.width, fold.pn, plan.depths.dy_blocks)
        word = lanes(fold.pn, stage.dy.width)
        members: dict[str, object] = {
            "train": In(1),
            "dy": In(stream.Signature(word)),
            "errors": Out(stream.Signature(self.replay.o.payload.shape())),
            "masked": Out(wiring.Signature({"valid": Out(1), "ready": Out(1), "payload": Out(word)})),
            "dy_saturated": Out(32),
            "dx_saturated": Out(32),
            "pool_col_high": Out(16),
            "mask_high": Out(32),
            "argmax_high": Out(32),
            "col_high": Out(16),
        }
        if stage.relu:
            members["mask"] = In(stream.Signature(fold.pn))
        if stage.pool is not None:
            self.pool = MaxPoolAdjoint(pool_geometry(plan), stage.dy.width, plan.depths.pool_col_rows)
            members["argmax"] = In(stream.Signature(self.pool.argmax.payload.shape()))
        if stage.dx is not None:
            members["back"] = In(stream.Signature(lanes(fold.pk, stage.back_bits)))
            members["dx"] = Out(stream.Signature(lanes(fold.folding.pc, stage.dx.width)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        stage, fold, depths = self.plan.stage, self.plan.fold, self.plan.depths
        o = wiring.flipped(self.dy)
        if stage.pool is not None:
            m.submodules.pool = pool = self.pool
            m.submodules.argmax_fifo = kept = Fifo(self.argmax.payload.shape(), depths.argmax_words)
            wiring.connect(m, wiring.flipped(self.argmax), kept.i)
            wiring.connect(m, kept.o, pool.argmax)
            wiring.connect(m, o, pool.i)
            m.d.comb += [
                self.dy_saturated.eq(pool.saturated),
                self.pool_col_high.eq(pool.high),
                self.argmax_high.eq(kept.high),
            ]
            o = pool.o
        if stage.relu:
            m.submodules.relu = relu = ReLUAdjoint(fold.pn, stage.dy.width)
            m.submodules.mask_fifo = masks = Fifo(unsigned(fold.pn), depths.mask_words)
            wiring.connect(m, wiring.flipped(self.mask), masks.i)
            wiring.connect(m, masks.o, relu.mask)
            wiring.connect(m, o, relu.i)
            m.d.comb += self.mask_high.eq(masks.high)
            o = relu.o
        m.submodules.replay = self.replay
        wiring.connect(m, o, self.replay.i)
        m.d.comb += [
            self.replay.allow.eq(1),
            self.masked.valid.eq(self.replay.i.valid),
            self.masked.ready.eq(self.replay.i.ready),
            self.masked.payload.eq(self.replay.i.payload),
        ]
        wiring.connect(m, self.replay.o, wiring.flipped(self.errors))
        if stage.dx is not None:
            self._data(m)
        return m

    def _data(self, m):
        stage, fold, depths = self.plan.stage, self.plan.fold, self.plan.depths
        o = wiring.flipped(self.back)
        if depths.col_rows:
            m.submodules.col2im = col = Col2im(
                fold.geometry, stage.back_bits, stage.col_bits, depths.col_rows
            )
            wiring.connect(m, o, col.i)
            m.d.comb += self.col_high.eq(col.high)
            o = col.o
        m.submodules.round = rounder = Requantise(stage.col_bits, stage.back_frac, stage.dx, fold.folding.pc)
        m.d.comb += self.dx_saturated.eq(rounder.saturated)
        wiring.connect(m, o, rounder.i)
        m.submodules.out = out = Fifo(lanes(fold.folding.pc, stage.dx.width), 2)
        wiring.connect(m, rounder.o, out.i)
        wiring.connect(m, out.o, wiring.flipped(self.dx))
