"""One layer in hardware: forward chain, backward chain, the array between them, its update and its
counters."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Network, Stage
from ..plan.columns import shares_columns, update_rows
from ..plan.plan import StagePlan
from ..plan.registers import STAGE_COUNTERS
from .access import host_access, masters_elsewhere, shared_sums
from .array import Array, settle_cycles
from .bias import Bias
from .chains import BackwardChain, ForwardChain, backward_streams, forward_bits, forward_streams
from .counters import Counters
from .masters import master_streams
from .passes import BackwardPass, ForwardPass
from .stream import Fork, lanes
from .sums import sum_streams
from .tile import ArrayShape, control_layout
from .update import Updater
from .window import Window

__all__ = ["HOST_LAYOUT", "StageEngine", "array_offsets", "array_shape"]

HOST_LAYOUT = data.StructLayout(
    {"load": 1, "peek": 1, "space": 3, "pe": 16, "address": 16, "value": signed(32)},
)
"""The host's access to a stage's memories: load or peek one element; for a bias, pe is the lane and address
the word."""


def array_shape(network: Network, plan: StagePlan) -> ArrayShape:
    """Widths and passes of a stage's PEs."""
    stage, update = plan.stage, network.update
    in_place = plan.storage.master == "here"
    return ArrayShape(
        depth=plan.fold.depth,
        x=stage.x.width,
        w=stage.w.width,
        dy=stage.dy.width,
        master=stage.master.width if in_place else stage.w.width,
        grad=stage.grad_bits(update.batch),
        psum=stage.psum_bits,
        back=stage.back_bits,
        rate=update.lr.width,
        shift=stage.update_shift(update.lr),
        backward=stage.dx is not None,
        gradient=not stage.frozen,
        stochastic=update.rounding == "stochastic" and not stage.frozen,
        shared=plan.part.shares_weights and not stage.frozen,
        in_place=in_place,
        columns=shares_columns(plan.storage, plan.fold.depth),
        copy=plan.storage.copy,
        period=plan.period,
        style=plan.storage.weights,
        rows=update_rows(plan, update.batch),
        stack=plan.storage.stack,
    )


def array_offsets(plan: StagePlan, whole: Stage) -> tuple[tuple[int, ...], ...]:
    """Logical weight index of PE (i, j) relative to PE (0, 0), at any address, in the weights of ``whole``."""
    fold = plan.fold
    pc = fold.folding.pc
    rows = [((i // pc) * whole.cin + i % pc) * whole.out_channels for i in range(fold.pk)]
    return tuple(tuple(row + j for j in range(fold.pn)) for row in rows)


class StageEngine(wiring.Component):
    """A :class:`hwgen.ir.stage.Stage`, or a board's part of one, under a plan.

    Model: hwgen.ref.executor. Forward and backward each take ``plan.cycles`` a sample; see docs/gateware.md
    for the blocks. ``x`` and ``dy`` wait for room only; ``x`` also for the version rule.

    Members: streams ``x``, ``y``, ``dy``, ``dx`` (words of the layouts in docs/gateware.md; dy where anything
    goes back, dx where backward data exists); of a part also ``sums_in``, ``sums_out``, ``back_in``, ``back_out``,
    ``masked_out`` (see chains); settings ``train``, ``hold``, ``batch``, ``rate``, ``seed``;
    ``host`` and ``peeked`` (64 bits, ``peek_delay`` cycles after ``host.peek``); ``held``, ``quiet``;
    ``snapshot``, ``counter_select``, ``counter``; ``probe_dy``: the masked errors on their way into the
    array; ``channel_valid``, ``channel_ready``: one bit for every name in ``channels``.
    """

    def __init__(self, network: Network, plan: StagePlan, tile_name: str | None = None):
        self.network, self.plan = network, plan
        self.whole = network.stages[plan.stage.index]
        stage, fold = plan.stage, plan.fold
        self.shape = array_shape(network, plan)
        self.tile_name = tile_name
        self.backs = self.shape.backward or self.shape.gradient
        self.peek_delay = settle_cycles(plan.tile[1], self.shape.stack) + 4
        ahead, behind = (
            forward_streams(plan, self.whole),
            backward_streams(plan, self.whole) if self.backs else {},
        )
        channels = ["x", "window", "sums", *ahead]
        channels += ["dy", "errors"] if self.backs else []
        channels += ["store"] if self.shape.gradient else []
        channels += ["back"] if self.shape.backward else []
        channels += behind
        sums = sum_streams(plan, self.whole, self.shape.grad) | master_streams(plan)
        channels += sums
        self.channels = tuple(f"{stage.name}.{name}" for name in channels)
        members: dict[str, object] = {
            "x": In(stream.Signature(lanes(fold.folding.pc, stage.x.width))),
            "train": In(1),
            "hold": In(1),
            "batch": In(range(network.update.batch + 1)),
            "rate": In(signed(network.update.lr.width)),
            "seed": In(32),
            "host": In(HOST_LAYOUT),
            "peeked": Out(signed(64)),
            "held": Out(1, init=1),
            "quiet": Out(1, init=1),
            "snapshot": In(1),
            "counter_select": In(range(len(STAGE_COUNTERS))),
            "counter": Out(32),
            "channel_valid": Out(len(channels)),
            "channel_ready": Out(len(channels)),
        }
        if self.backs:
            members["dy"] = In(stream.Signature(lanes(fold.pn, stage.dy.width)))
            probe = {"valid": Out(1), "ready": Out(1), "payload": Out(lanes(fold.pn, stage.dy.width))}
            members["probe_dy"] = Out(wiring.Signature(probe))
        super().__init__(members | ahead | behind | sums)

    def elaborate(self, platform):
        m = Module()
        stage, fold, depths = self.plan.stage, self.plan.fold, self.plan.depths
        array = Array(
            self.shape, fold.pk, fold.pn, self.plan.tile, array_offsets(self.plan, self.whole), self.tile_name
        )
        m.submodules.array = array
        m.submodules.counters = counters = Counters(STAGE_COUNTERS)
        m.d.comb += [
            counters.snapshot.eq(self.snapshot),
            counters.select.eq(self.counter_select),
            self.counter.eq(counters.value),
        ]

        window = Window(fold.geometry, stage.x.width, depths.window_rows, "forward")
        m.submodules.window = window
        forward = ForwardPass(window.op_layout, array, forward_bits(self.plan, self.whole), fold.b)
        m.submodules.forward = forward
        m.submodules.after = after = ForwardChain(self.plan, self.whole)
        wiring.connect(m, window.o, forward.i)
        wiring.connect(m, forward.o, after.i)
        watched = {"x": self.x, "window": window.o, "sums": forward.o} | self._expose(
            m, after, forward_streams
        )
        for name in ("f_load", "f_address", "f_x"):
            m.d.comb += getattr(array, name).eq(getattr(forward, name))
        # Masks and maxima are for errors; where none come back nobody would take them.
        trains = self.train if self.backs else 0
        m.d.comb += [forward.f_sum.eq(array.f_sum), after.train.eq(trains), window.allow.eq(1)]
        counters.add("forward_ops", forward.busy)
        counters.add("forward_blocked", forward.blocked)
        counters.add("forward_starved", forward.starved)
        counters.follow("y_saturated", after.saturated)
        counters.follow("window_high", window.high)
        counters.follow("pool_high", after.pool_high)

        x_sources = [window.i]
        bias = self._bias(m, forward)
        host_access(m, self, array, bias)
        if self.backs:
            watched |= self._backward(m, array, counters, window, forward, after, bias, x_sources)
        else:
            m.d.comb += [
                array.b_control.peek.eq(self.host.peek),
                array.b_control.address.eq(self.host.address),
            ]
        self._fork_x(m, x_sources)
        for bit, name in enumerate(self.channels):
            port = watched[name.rsplit(".", 1)[1]]
            m.d.comb += [self.channel_valid[bit].eq(port.valid), self.channel_ready[bit].eq(port.ready)]
        return m

    def _bias(self, m, forward):
        stage, fold, update = self.plan.stage, self.plan.fold, self.network.update
        if stage.bias is None:
            m.d.comb += forward.bias.eq(0)
            return None
        bias = Bias(
            count=fold.pn,
            words=fold.y_words,
            width=stage.bias.width,
            align=stage.acc_frac - stage.bias.frac,
            out_width=forward_bits(self.plan, self.whole),
            dy=stage.dy.width,
            grad=stage.bias_grad_bits(update.batch),
            rate=update.lr.width,
            shift=stage.bias_update_shift(update.lr),
            gradient=self.shape.gradient,
            word_shape=forward.word.shape(),
            shared=self.shape.shared,
        )
        m.submodules.bias = bias
        m.d.comb += [
            bias.word.eq(forward.word),
            bias.word_enable.eq(forward.word_enable),
            forward.bias.eq(bias.bias),
        ]
        return bias

    def _backward(self, m, array, counters, window, forward, after, bias, x_sources):
        stage, fold, depths, shape = self.plan.stage, self.plan.fold, self.plan.depths, self.shape
        m.submodules.before = before = BackwardChain(self.plan, self.whole)
        m.d.comb += before.train.eq(self.train)
        wiring.connect(m, wiring.flipped(self.dy), before.dy)
        if stage.activation is not None:
            wiring.connect(m, after.mask, before.mask)
        if stage.pool is not None:
            wiring.connect(m, after.argmax, before.argmax)
        store = None
        if shape.gradient:
            store = Window(
                fold.geometry, stage.x.width, depths.store_rows, "backward", self.plan.storage.samples
            )
            m.submodules.store = store
            m.d.comb += store.allow.eq(1)
            x_sources.append(store.i)
        backward = BackwardPass(
            before.errors.payload.shape(), store.op_layout if store else None, array, fold.b
        )
        m.submodules.backward = backward
        wiring.connect(m, before.errors, backward.dy)
        if store is not None:
            wiring.connect(m, store.o, backward.x)
            m.d.comb += array.b_x.eq(backward.b_x)
            counters.follow("store_high", store.high)
        m.d.comb += [array.b_control.eq(backward.b_control), array.b_dy.eq(backward.b_dy)]
        watched = {"dy": self.dy, "errors": before.errors} | self._expose(m, before, backward_streams)
        if store is not None:
            watched["store"] = store.o
        if shape.backward:
            wiring.connect(m, backward.o, before.back)
            m.d.comb += backward.b_sum.eq(array.b_sum)
            counters.follow("dx_saturated", before.dx_saturated)
            counters.add("backward_ops", backward.busy)
            counters.follow("col_high", before.col_high)
            watched["back"] = backward.o
        m.d.comb += [
            self.probe_dy.valid.eq(before.masked.valid),
            self.probe_dy.ready.eq(before.masked.ready),
            self.probe_dy.payload.eq(before.masked.payload),
        ]
        counters.add("backward_blocked", backward.blocked)
        counters.add("backward_starved", backward.starved)
        counters.follow("dy_saturated", before.dy_saturated)
        counters.follow("pool_col_high", before.pool_col_high)
        counters.follow("mask_high", before.mask_high)
        counters.follow("argmax_high", before.argmax_high)

        peek = Signal(control_layout(shape))
        m.d.comb += [peek.peek.eq(self.host.peek), peek.address.eq(self.host.address)]
        if not shape.gradient:
            m.d.comb += backward.inject.eq(peek)
            return watched
        counters.add("gradient_ops", backward.busy)
        if shape.shared:
            self.sums, peek = shared_sums(m, self, array, bias, peek)
            watched |= {name: getattr(self, name) for name in sum_streams(self.plan, self.whole, shape.grad)}
        if not shape.in_place:
            self.masters_update, peek = masters_elsewhere(m, self, array, peek)
            watched |= {name: getattr(self, name) for name in master_streams(self.plan)}
        self._update(m, array, counters, window, backward, bias, peek)
        return watched

    def _update(self, m, array, counters, window, backward, bias, peek):
        shape = self.shape
        updater = Updater(
            self.plan.fold, shape, array.settle + 4, self.network.update.batch, self.whole, self.plan.part
        )
        m.submodules.updater = updater
        m.d.comb += [
            updater.batch.eq(self.batch),
            updater.train.eq(self.train),
            updater.hold.eq(self.hold),
            updater.seed.eq(self.seed),
            updater.started.eq(window.started),
            updater.sample_done.eq(backward.done),
            window.allow.eq(updater.allow),
            backward.pause.eq(updater.pause),
            backward.inject.eq(Mux(updater.updating, updater.control, peek) if shape.in_place else peek),
            self.held.eq(updater.held),
            self.quiet.eq(updater.quiet),
            array.key.eq(updater.key),
        ]
        if shape.shared:
            m.d.comb += [self.sums.start.eq(updater.sums_start), updater.sums_running.eq(self.sums.running)]
        saturated, zeros = array.saturated, array.zeros
        if not shape.in_place:
            update = self.masters_update
            m.d.comb += [
                update.ask.eq(updater.ask),
                update.start.eq(updater.masters_start),
                update.key.eq(updater.key),
                updater.masters_running.eq(update.running),
            ]
            saturated, zeros = update.saturated, update.zero
        bias_saturated: Value = Const(0)
        bias_zeros: Value = Const(0)
        if bias is not None:
            flags = backward.dy.payload.flags
            m.d.comb += [
                bias.take.eq(backward.taken),
                bias.kf_first.eq(flags.kf_first),
                bias.visit_first.eq(flags.visit_first),
                bias.visit_last.eq(flags.visit_last),
                bias.op_word.eq(flags.word),
                bias.dy.eq(backward.dy.payload.dy),
                bias.rate.eq(self.rate),
                bias.start.eq(updater.bias_start),
                updater.bias_running.eq(bias.running),
            ]
            bias_saturated, bias_zeros = bias.saturated, bias.zeros
        counters.add("update_cycles", updater.updating)
        counters.add("master_saturated", saturated)
        counters.add("bias_saturated", bias_saturated)
        counters.add("zero_updates", zeros + bias_zeros)
        counters.follow("updates", updater.count)

    def _expose(self, m, chain, streams):
        """Makes a chain's streams the stage's own; them by name."""
        ports = streams(self.plan, self.whole)
        for name in ports:
            wiring.connect(m, getattr(chain, name), wiring.flipped(getattr(self, name)))
        return {name: getattr(self, name) for name in ports}

    def _fork_x(self, m, targets):
        """x goes to the window, and in training to the store."""
        if len(targets) == 1:
            wiring.connect(m, wiring.flipped(self.x), targets[0])
            return
        m.submodules.fork = fork = Fork(self.x.payload.shape(), 2)
        wiring.connect(m, wiring.flipped(self.x), fork.i)
        wiring.connect(m, fork.o[0], targets[0])
        m.d.comb += [
            targets[1].payload.eq(fork.o[1].payload),
            targets[1].valid.eq(fork.o[1].valid & self.train),
            fork.o[1].ready.eq(targets[1].ready | ~self.train),
        ]
