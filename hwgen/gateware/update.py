"""When a stage updates: counts samples against the batch, waits for the sums, walks all weight words."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Stage
from ..plan.fold import Fold
from ..plan.part import WHOLE, Part
from .arithmetic import mix32
from .tile import ArrayShape, control_layout

__all__ = ["Updater"]


class Updater(wiring.Component):
    """The version rule "sync" of one stage: forward and backward of sample s use version floor(s / batch).

    ``allow`` keeps the forward pass from starting a sample of a version that does not exist yet. After the
    last gradient of a batch (``sample_done``), ``settle`` cycles, and the addition of the sums of all parts if they are
    shared, it waits while ``hold``, then injects ``chunks`` pieces for every weight word (for every row
    of it, where a column's unit updates its rows one after the other), starts the bias update, and waits until both
    have landed. ``cycles`` from the last gradient to the next ``allow``, unless held or waiting for biases or sums.

    Members: ``batch``, ``train``, ``hold``, ``seed`` settings; ``started`` (a forward pass took a sample's
    first op), ``sample_done``; ``control`` to the array; ``pause`` (no backward op may enter), ``held``,
    ``sums_start`` → ``sums_running`` of sums that are shared; ``ask`` (a batch has begun) and ``masters_start`` →
    ``masters_running`` where masters are elsewhere; ``updating``, ``count`` (versions), ``key`` of the counter hash for
    this version; ``quiet``: no sample of this stage is under way.
    """

    def __init__(
        self,
        fold: Fold,
        shape: ArrayShape,
        settle: int,
        max_batch: int,
        whole: Stage | None = None,
        part: Part = WHOLE,
    ):
        self.whole = whole or fold.stage
        self.offset = part.offset(self.whole)
        self.fold, self.shape, self.settle, self.max_batch = fold, shape, settle, max_batch
        self.cycles = 2 * settle + shape.row_cycles * shape.rows * fold.depth + 5
        super().__init__(
            {
                "batch": In(range(max_batch + 1)),
                "train": In(1),
                "hold": In(1),
                "seed": In(32),
                "started": In(1),
                "sample_done": In(1),
                "bias_running": In(1),
                "bias_start": Out(1),
                "sums_running": In(1),
                "sums_start": Out(1),
                "masters_running": In(1),
                "masters_start": Out(1),
                "ask": Out(1),
                "allow": Out(1),
                "pause": Out(1),
                "held": Out(1),
                "updating": Out(1),
                "quiet": Out(1),
                "count": Out(32),
                "key": Out(32),
                "control": Out(control_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        started = Signal(range(self.max_batch + 1))
        done = Signal(range(self.max_batch + 1))
        finish = Signal()
        with m.If(self.train):
            m.d.sync += [started.eq(started + self.started), done.eq(done + self.sample_done)]
            with m.If(finish):
                m.d.sync += [started.eq(0), done.eq(0), self.count.eq(self.count + 1)]
        m.d.comb += [
            self.allow.eq(~self.train | (started < self.batch)),
            self.quiet.eq((started == done) & ~self.pause),
            self.ask.eq(self.train & self.started & (started == 0)),
        ]

        wait = Signal(range(self.settle + 2))
        chunks, rows, begin = self.shape.chunks, self.shape.rows, self.shape.row_cycles - 1
        piece, row = Signal(range(max(2, begin + 1))), Signal(range(max(2, rows)))
        word = Signal(range(max(2, self.fold.depth)))
        last_piece, last_row, last_word = piece == 0, row == rows - 1, word == self.fold.depth - 1
        # One assignment drives the whole port: Yosys writes constant bits of a partly assigned one as an `always @*`
        # that no simulator ever runs.
        control = {name: Signal(field.shape, name=f"control_{name}") for name, field in self.control.shape()}
        m.d.comb += self.control.as_value().eq(Cat(control.values()))
        with m.FSM() as fsm:
            with m.State("COUNT"):
                m.d.sync += wait.eq(0)
                with m.If(self.train & (done == self.batch)):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += [wait.eq(wait + 1), word.eq(0), row.eq(0), piece.eq(begin)]
                with m.If(wait == self.settle):
                    m.d.comb += self.sums_start.eq(1)
                    m.next = "SHARE" if self.shape.shared else "HOLD"
            if self.shape.shared:
                with m.State("SHARE"), m.If(~self.sums_running):
                    m.next = "HOLD"
            with m.State("HOLD"):
                m.d.comb += self.held.eq(1)
                m.d.sync += wait.eq(0)
                with m.If(~self.hold):
                    m.d.comb += [self.bias_start.eq(1), self.masters_start.eq(1)]
                    m.next = "WALK" if self.shape.in_place else "ELSEWHERE"
            with m.State("ELSEWHERE"):
                m.d.comb += self.updating.eq(1)
                with m.If(~self.masters_running):
                    m.next = "LAND"
            with m.State("WALK"):
                m.d.comb += [
                    self.updating.eq(1),
                    control["update"].eq(piece < chunks),
                    control["address"].eq(word),
                    control["chunk"].eq(piece),
                    control["first"].eq(piece == chunks - 1),
                    control["last"].eq(last_piece),
                ]
                if rows > 1:
                    m.d.comb += control["row"].eq(row)
                m.d.sync += piece.eq(piece - 1)
                with m.If(last_piece):
                    m.d.sync += [piece.eq(begin), row.eq(row + 1)]
                    with m.If(last_row):
                        m.d.sync += [row.eq(0), word.eq(word + 1)]
                        with m.If(last_word):
                            m.next = "LAND"
            with m.State("LAND"):
                m.d.comb += self.updating.eq(1)
                with m.If(wait != self.settle):
                    m.d.sync += wait.eq(wait + 1)
                with m.Elif(~self.bias_running):
                    m.d.comb += finish.eq(1)
                    m.next = "COUNT"
        m.d.comb += self.pause.eq(~fsm.ongoing("COUNT") | (self.train & (done == self.batch)))

        if self.shape.stochastic:
            self._key(m)
            if self.shape.in_place:
                self._base(m, fsm.ongoing("WALK") & last_piece & last_row, control["base"])
        return m

    def _key(self, m):
        """The hash key of (seed, stage, version)."""
        stage = self.whole
        seeded, named = Signal(32), Signal(32)
        m.d.sync += [
            seeded.eq(mix32(m, self.seed, "hash_seed")),
            named.eq(mix32(m, seeded + stage.index, "hash_stage")),
            self.key.eq(mix32(m, named + self.count, "hash_count")),
        ]

    def _base(self, m, advance, base):
        """The walk of logical indices beside the addresses."""
        fold, stage = self.fold, self.whole
        outputs = stage.out_channels
        loops = (
            ("channel_group", fold.cgs, fold.folding.pc * outputs),
            ("position_group", fold.pgs, fold.folding.u * stage.cin * outputs),
            ("fold_n", fold.fn, fold.pn),
            ("group", fold.stage.groups, stage.N),
        )
        total: Value = Const(self.offset, 32)
        carry = advance
        for name, count, step in loops:
            counter = Signal(range(max(2, count)), name=name)
            offset = Signal(32, name=f"{name}_offset")
            total = (total + offset)[:32]
            wrap = counter == count - 1
            with m.If(carry):
                m.d.sync += [counter.eq(Mux(wrap, 0, counter + 1)), offset.eq(Mux(wrap, 0, offset + step))]
            carry = carry & wrap
        m.d.comb += base.eq(total)
