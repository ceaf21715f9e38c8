"""All weights of a stage one after the other, in the order of their logical index, and where each lies in the array."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..ir.stage import Stage
from ..plan.fold import Fold
from ..plan.part import WHOLE, Part

__all__ = ["WeightWalk", "in_turn"]


class WeightWalk(wiring.Component):
    """Goes on by one weight with every ``step``, [ky, kx, c, n] with n fastest, then over the biases, and starts again.

    So all parts of a stage walk alike, however each is folded. Model: hwgen.plan.weights.weight_index.

    Parameters: ``fold`` of part ``part`` of ``whole``; ``biases``: they follow the weights; ``tn`` columns of a tile.

    Members: ``step``; ``pe`` (i·Pn + j) and ``address`` of the weight, or of a bias (``bias`` = 1) its lane and word;
    ``odd``: the column (or lane) has an odd number in its tile; ``index``: logical index of the weight in ``whole``,
    for stochastic rounding; ``last`` of all.
    """

    def __init__(
        self, fold: Fold, biases: bool = False, whole: Stage | None = None, part: Part = WHOLE, tn: int = 1
    ):
        self.fold, self.biases, self.tn = fold, biases, tn
        self.whole, self.part = whole or fold.stage, part
        stage = fold.stage
        self.weights = stage.window.positions * stage.cin * stage.out_channels
        self.count = self.weights + (stage.out_channels if biases else 0)
        super().__init__(
            {
                "step": In(1),
                "pe": Out(range(max(2, fold.pk * fold.pn))),
                "address": Out(range(max(2, fold.depth))),
                "bias": Out(1),
                "odd": Out(1),
                "index": Out(32),
                "last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        fold, stage = self.fold, self.fold.stage
        pc, pn = fold.folding.pc, fold.pn
        # (n of a group, group) and the word; then, a step each time all outputs are through: channel, position.
        column, _, group_end = self._digit(m, "output", self.step, stage.N, pn, 1, 0)
        group = Signal(range(max(2, stage.groups)))
        outputs_end = group_end & (group == stage.groups - 1)
        with m.If(self.step & group_end):
            m.d.sync += group.eq(Mux(outputs_end, 0, group + 1))
        word = Signal(range(max(2, fold.y_words)))
        with m.If(self.step & (group_end | (column == pn - 1))):
            m.d.sync += word.eq(Mux(outputs_end, 0, word + 1))
        inner = self.step & outputs_end & ~self.bias
        row, channels, channels_end = self._digit(m, "channel", inner, stage.cin, pc, pn, 1)
        first, positions, positions_end = self._digit(
            m, "position", inner & channels_end, stage.window.positions, fold.folding.u, pc * pn, fold.cgs
        )
        weights_end = outputs_end & channels_end & positions_end
        if self.biases:
            with m.If(self.step & outputs_end):
                m.d.sync += self.bias.eq(~self.bias & weights_end)
        odd = Const(sum((j % self.tn & 1) << j for j in range(pn)), pn)
        m.d.comb += [
            self.odd.eq(odd.bit_select(column, 1)),
            self.pe.eq(Mux(self.bias, column, column + row + first)),
            self.address.eq(Mux(self.bias, word, word * fold.fk + channels + positions)),
            self.last.eq(outputs_end & self.bias if self.biases else weights_end),
        ]
        self._index(m, inner, channels_end, weights_end)
        return m

    def _digit(self, m, name, step, count, lanes, low_stride, high_stride):
        """A number 0..count-1 as (its place among ``lanes``)·low_stride and (number // lanes)·high_stride; and whether
        it is the last one."""
        number = Signal(range(max(2, count)), name=name)
        place = Signal(range(max(2, lanes)), name=f"{name}_place")
        low = Signal(range(max(2, (lanes - 1) * low_stride + 1)), name=f"{name}_low")
        high = Signal(range(max(2, (count - 1) // lanes * high_stride + 1)), name=f"{name}_high")
        end = number == count - 1
        with m.If(step):
            m.d.sync += [number.eq(number + 1), place.eq(place + 1), low.eq(low + low_stride)]
            with m.If(place == lanes - 1):
                m.d.sync += [place.eq(0), low.eq(0), high.eq(high + high_stride)]
            with m.If(end):
                m.d.sync += [number.eq(0), place.eq(0), low.eq(0), high.eq(0)]
        return low, high, end

    def _index(self, m, inner, channels_end, weights_end):
        """Steps over the outputs and channels of ``whole`` that other parts have."""
        stage, whole, offset = self.fold.stage, self.whole, self.part.offset(self.whole)
        over = whole.out_channels - stage.out_channels + 1
        further = over + (whole.cin - stage.cin) * whole.out_channels
        passed = Signal(32, init=offset)
        m.d.comb += self.index.eq(passed)
        with m.If(self.step & ~self.bias):
            m.d.sync += passed.eq(passed + Mux(inner, Mux(channels_end, further, over), 1))
            with m.If(weights_end):
                m.d.sync += passed.eq(offset)


def in_turn(m, load, name="turn"):
    """A load that was taken in a slot of a SumReader of pace 2, in a cycle in which no peek reads what it reads.

    A cycle late, in odd columns two: peeks of slots reach column j of a tile j cycles later. ``load`` has ``valid`` and
    ``odd``.
    """
    late = [Signal.like(load, name=f"{name}_{k}") for k in range(2)]
    m.d.sync += [late[0].eq(load), late[1].eq(late[0])]
    second = late[1].valid & late[1].odd
    chosen = Signal.like(load, name=f"{name}_chosen")
    m.d.comb += [
        chosen.eq(Mux(second, late[1], late[0])),
        chosen.valid.eq(second | (late[0].valid & ~late[0].odd)),
    ]
    return chosen
