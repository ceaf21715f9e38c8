"""What stands behind and before a stage's array: rounding, order, ReLU and pool; and their adjoints."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Stage
from ..plan.geometry import Geometry
from ..plan.plan import StagePlan
from .channels import AddSums
from .col2im import Col2im
from .pool import MaxPool, MaxPoolAdjoint
from .pool_rows import add_conv_rows, share_conv_rows
from .relu import ReLU, ReLUAdjoint
from .replay import Reorder, Replay
from .round import Requantise
from .rows import AddRows
from .stream import Fifo, Fork, lanes

__all__ = [
    "BackwardChain",
    "ForwardChain",
    "backward_streams",
    "forward_bits",
    "forward_streams",
    "pool_geometry",
]


def pool_geometry(plan: StagePlan) -> Geometry:
    """A stage's pool as address generators see it: every word of Pn lanes is a group of its own."""
    fold = plan.fold
    return Geometry(window=plan.stage.pool, u=1, pc=fold.pn, groups=fold.y_words, cgs=1, fn=1, b=1)


def forward_bits(plan: StagePlan, whole: Stage) -> int:
    """Width of the forward sums that a stage's own array makes, bias included where it adds one."""
    return whole.acc_bits if plan.part.takes_sums and plan.part.last else plan.stage.acc_bits


def forward_streams(plan: StagePlan, whole: Stage) -> dict[str, object]:
    """Ports of a stage on its way forward: ``y``, or the sums that parts hand on, lanes(Pn, psum_bits of the whole)."""
    sums = stream.Signature(lanes(plan.fold.pn, whole.psum_bits))
    found: dict[str, object] = {"sums_in": In(sums)} if plan.part.takes_sums else {}
    if plan.part.sends_sums:
        return found | {"sums_out": Out(sums)}
    word = stream.Signature(lanes(plan.fold.pn, plan.stage.y.width))
    found["y"] = Out(word)
    found |= {"conv_in": In(word)} if plan.part.pools_in(whole) else {}
    return found | ({"conv_out": Out(word)} if plan.part.pools_out(whole) else {})


def backward_streams(plan: StagePlan, whole: Stage) -> dict[str, object]:
    """Ports of a stage on its way back: ``dx``, or the sums that parts hand on, lanes(pc, col_bits of the whole); and
    the masked errors that the last part sends to the others."""
    stage, fold, part = plan.stage, plan.fold, plan.part
    found: dict[str, object] = {}
    if stage.dx is not None:
        sums = stream.Signature(lanes(fold.folding.pc, whole.col_bits))
        if part.back_in(whole):
            found["back_in"] = In(sums)
        if part.back_out(whole):
            found["back_out"] = Out(sums)
        if part.rounds_dx(whole):
            found["dx"] = Out(stream.Signature(lanes(fold.folding.pc, stage.dx.width)))
    if part.takes_sums and part.last:
        found["masked_out"] = Out(stream.Signature(lanes(fold.pn, stage.dy.width)))
    sums = stream.Signature(lanes(fold.pn, whole.pool_back_bits))
    found |= {"unpooled_in": In(sums)} if part.pools_out(whole) else {}
    return found | ({"unpooled_out": Out(sums)} if part.pools_in(whole) else {})


def _widened(m, port, P, width, name):
    """The stream with its lanes sign-extended to ``width``."""
    if port.payload.shape() == lanes(P, width):
        return port
    wide = stream.Signature(lanes(P, width)).create(path=(name,))
    m.d.comb += [wide.valid.eq(port.valid), port.ready.eq(wide.ready)]
    m.d.comb += [wide.payload[k].eq(port.payload[k]) for k in range(P)]
    return wide


class ForwardChain(wiring.Component):
    """Sums → requantise → raster order → ReLU → max-pool → y. Model: hwgen.ref.executor, forward.

    A part of a stage cut by input channels puts its sums into raster order, adds those of the parts before it, and
    hands them on; only the last part rounds them.

    Members: ``i`` sums lanes(Pn, forward_bits) in order block, g, nf, m; ``y``; in training ``mask`` (Pn bits a
    word, raster order) and ``argmax`` where they exist, behind their FIFOs' inputs; ``saturated`` lanes so
    far; ``pool_high``. Instead of y ``sums_out``, and with them ``sums_in``: lanes(Pn, psum_bits of the whole).
    """

    def __init__(self, plan: StagePlan, whole: Stage):
        self.plan, self.whole = plan, whole
        stage, fold = plan.stage, plan.fold
        members: dict[str, object] = {
            "train": In(1),
            "i": In(stream.Signature(lanes(fold.pn, forward_bits(plan, whole)))),
            "saturated": Out(32),
            "pool_high": Out(16),
        }
        members |= forward_streams(plan, whole)
        if stage.activation is not None:
            members["mask"] = Out(stream.Signature(fold.pn))
        if stage.pool is not None:
            self.pool = MaxPool(pool_geometry(plan), stage.y.width, plan.depths.pool_rows)
            members["argmax"] = Out(stream.Signature(self.pool.argmax.payload.shape()))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        stage, fold, part = self.plan.stage, self.plan.fold, self.plan.part
        o, width = wiring.flipped(self.i), forward_bits(self.plan, self.whole)
        if part.cut == "input_channels":
            o, width = self._shared(m, self._sorted(m, o, width), width)
        if part.sends_sums:
            m.submodules.out = out = Fifo(self.sums_out.payload.shape(), 2)
            wiring.connect(m, _widened(m, o, fold.pn, self.whole.psum_bits, "wide"), out.i)
            wiring.connect(m, out.o, wiring.flipped(self.sums_out))
            return m
        m.submodules.round = rounder = Requantise(width, stage.acc_frac, stage.y, fold.pn)
        m.d.comb += self.saturated.eq(rounder.saturated)
        wiring.connect(m, o, rounder.i)
        o = rounder.o
        if part.cut != "input_channels":
            o = self._sorted(m, o, stage.y.width)
        if stage.activation is not None:
            m.submodules.relu = relu = ReLU(fold.pn, stage.y.width, stage.activation, stage.y)
            m.d.comb += relu.train.eq(self.train)
            wiring.connect(m, o, relu.i)
            wiring.connect(m, relu.mask, wiring.flipped(self.mask))
            o = relu.o
        if stage.pool is not None:
            m.submodules.pool = self.pool
            if part.pools_in(self.whole) or part.pools_out(self.whole):
                o = share_conv_rows(m, self.plan, self.whole, self, o)
            m.d.comb += [self.pool.train.eq(self.train), self.pool_high.eq(self.pool.high)]
            wiring.connect(m, o, self.pool.i)
            wiring.connect(m, self.pool.argmax, wiring.flipped(self.argmax))
            o = self.pool.o
        m.submodules.out = out = Fifo(lanes(fold.pn, stage.y.width), 2)
        wiring.connect(m, o, out.i)
        wiring.connect(m, out.o, wiring.flipped(self.y))
        return m

    def _sorted(self, m, o, width):
        """Words in raster order."""
        fold = self.plan.fold
        if fold.b == 1 or fold.y_words == 1:
            return o
        m.submodules.reorder = reorder = Reorder(fold.geometry, width, fold.pn, self.plan.depths.y_blocks)
        wiring.connect(m, o, reorder.i)
        return reorder.o

    def _shared(self, m, o, width):
        """Own sums and those of the parts before; the stream and its width."""
        part, whole = self.plan.part, self.whole
        if not part.takes_sums:
            return o, width
        total = whole.acc_bits if part.last else whole.psum_bits
        m.submodules.add = add = AddSums(self.plan.fold.pn, width, whole.psum_bits, total)
        wiring.connect(m, o, add.a)
        wiring.connect(m, wiring.flipped(self.sums_in), add.b)
        return add.o, total


class BackwardChain(wiring.Component):
    """dy → pool adjoint → ReLU adjoint → replayed errors; array's chunks → col2im → requantise → dx.

    Model: hwgen.ref.executor, backward. Members: ``dy``; ``mask`` and ``argmax`` from the forward chain, kept
    here in FIFOs of the planned depth; ``errors`` ops for the backward pass; ``masked`` shows the stream into
    Replay; ``back`` chunks and ``dx``; lanes saturated so far; high-water marks. A part of a stage cut by input
    channels gets masked errors; the last one sends them on as ``masked_out``. A part of a stage cut by output channels
    adds the sums ``back_in`` of the part behind it and sends ``back_out``: lanes(pc, col_bits of the whole); only the
    first one has dx. A part of the rows does so with rows that others add to, and has dx of those that it completes.
    """

    def __init__(self, plan: StagePlan, whole: Stage):
        self.plan, self.whole = plan, whole
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
        if stage.activation is not None:
            members["mask"] = In(stream.Signature(fold.pn))
        if stage.pool is not None:
            shares = plan.part.pools_in(whole) or plan.part.pools_out(whole)
            self.pool = MaxPoolAdjoint(
                pool_geometry(plan), stage.dy.width, plan.depths.pool_col_rows, exact=shares
            )
            members["argmax"] = In(stream.Signature(self.pool.argmax.payload.shape()))
        if stage.dx is not None:
            members["back"] = In(stream.Signature(lanes(fold.pk, stage.back_bits)))
        members |= backward_streams(plan, whole)
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
                self.pool_col_high.eq(pool.high),
                self.argmax_high.eq(kept.high),
            ]
            o, saturated = pool.o, pool.saturated
            if pool.exact:
                o, saturated = add_conv_rows(m, self.plan, self.whole, self, o)
            m.d.comb += self.dy_saturated.eq(saturated)
        if stage.activation is not None:
            m.submodules.relu = relu = ReLUAdjoint(fold.pn, stage.dy.width, stage.activation)
            m.submodules.mask_fifo = masks = Fifo(unsigned(fold.pn), depths.mask_words)
            wiring.connect(m, wiring.flipped(self.mask), masks.i)
            wiring.connect(m, masks.o, relu.mask)
            wiring.connect(m, o, relu.i)
            m.d.comb += self.mask_high.eq(masks.high)
            o = relu.o
        m.submodules.replay = self.replay
        if "masked_out" in self.signature.members:
            m.submodules.share = share = Fork(o.payload.shape(), 2)
            m.submodules.masked_fifo = shared = Fifo(o.payload.shape(), 2)
            wiring.connect(m, o, share.i)
            wiring.connect(m, share.o[1], shared.i)
            wiring.connect(m, shared.o, wiring.flipped(self.masked_out))
            o = share.o[0]
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
        part, pc, width = self.plan.part, fold.folding.pc, self.whole.col_bits
        if part.cut == "rows":
            o = self._add_rows(m, o)
            if o is None:
                return
        elif part.back_in(self.whole):
            m.submodules.add = add = AddSums(pc, stage.col_bits, width, width)
            wiring.connect(m, o, add.a)
            wiring.connect(m, wiring.flipped(self.back_in), add.b)
            o = add.o
        if part.cut != "rows" and part.back_out(self.whole):
            m.submodules.out = out = Fifo(self.back_out.payload.shape(), 2)
            wiring.connect(m, _widened(m, o, pc, width, "wide"), out.i)
            wiring.connect(m, out.o, wiring.flipped(self.back_out))
            return
        m.submodules.round = rounder = Requantise(len(o.payload[0]), stage.back_frac, stage.dx, pc)
        m.d.comb += self.dx_saturated.eq(rounder.saturated)
        wiring.connect(m, o, rounder.i)
        m.submodules.out = out = Fifo(lanes(fold.folding.pc, stage.dx.width), 2)
        wiring.connect(m, rounder.o, out.i)
        wiring.connect(m, out.o, wiring.flipped(self.dx))

    def _add_rows(self, m, o):
        """Own sums and those of the parts behind; the complete ones, None if there are none."""
        part, whole, fold = self.plan.part, self.whole, self.plan.fold
        rows, p = part.rows(whole), part.index
        summed, own, back = (values.tolist() for values in (rows.summed(p), rows.x(p), rows.back(p + 1)))
        complete = {*rows.rounded(p).tolist()}
        if own == summed and not back and len(complete) == len(own):
            return o
        if self.plan.depths.turn_sums:
            depth = self.plan.depths.turn_sums * fold.x_words
            m.submodules.sums_turn = turn = Fifo(o.payload.shape(), depth)
            wiring.connect(m, o, turn.i)
            o = turn.o
        m.submodules.add_rows = add = AddRows(
            fold.folding.pc, whole.col_bits, whole.window.width * fold.x_words,
            [row in {*own} for row in summed], [row in {*back} for row in summed],
            [row not in complete for row in summed],
        )  # fmt: skip
        wiring.connect(m, o, add.own)
        if back:
            wiring.connect(m, wiring.flipped(self.back_in), add.back)
        if len(complete) < len(summed):
            wiring.connect(m, add.rest, wiring.flipped(self.back_out))
        return add.done if complete else None
