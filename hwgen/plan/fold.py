"""Foldings: how one layer's matrix product is laid over its array and over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import ModelError
from ..ir.stage import Stage
from .geometry import Geometry

__all__ = ["Fold", "Folding", "legal_pc", "legal_u", "resolve_array"]


@dataclass(frozen=True, order=True)
class Folding:
    """(u, pc, Pn, b): kernel positions and channels of one chunk, columns, and pixels in a block."""

    u: int
    pc: int
    pn: int
    b: int = 1


@dataclass(frozen=True)
class Fold:
    """A stage under a folding: array size, folds, and the beats of its streams.

    Chunk kf = (position group pg, channel group cg), pg outer; lane p·pc + c of a chunk is kernel position
    pg·u + p and channel cg·pc + c (zero past the end). Column j of fold nf is output nf·Pn + j of the group.
    Weight address: (g·Fn + nf)·Fk + kf.
    """

    stage: Stage
    folding: Folding

    @property
    def pk(self) -> int:
        """Rows of the array, u·pc."""
        return self.folding.u * self.folding.pc

    @property
    def pn(self) -> int:
        """Columns of the array."""
        return self.folding.pn

    @property
    def b(self) -> int:
        """Pixels in a block (the last one of a sample may be short)."""
        return self.folding.b

    @property
    def numbers(self) -> dict[str, int]:
        """What places weights and biases in memories (hwgen.host.placement)."""
        own = {name: int(getattr(self, name)) for name in ("pk", "pn", "depth", "fk", "fn", "cgs", "y_words")}
        stage = self.stage
        return own | {
            "u": self.folding.u, "pc": self.folding.pc, "cin": stage.cin, "outputs": stage.out_channels, "n": stage.N,
        }  # fmt: skip

    @property
    def pgs(self) -> int:
        """Position groups kh·kw/u."""
        return self.stage.window.positions // self.folding.u

    @property
    def cgs(self) -> int:
        """Channel groups ceil((Cin/groups)/pc) of one group."""
        return math.ceil(self.stage.cin / self.folding.pc)

    @property
    def fk(self) -> int:
        """Folds over k."""
        return self.pgs * self.cgs

    @property
    def fn(self) -> int:
        """Folds over n."""
        return math.ceil(self.stage.N / self.folding.pn)

    @property
    def depth(self) -> int:
        """Weights in one PE: groups·Fk·Fn."""
        return self.stage.groups * self.fk * self.fn

    @property
    def x_words(self) -> int:
        """Words of pc lanes in one input pixel: groups·cgs."""
        return self.stage.groups * self.cgs

    @property
    def y_words(self) -> int:
        """Words of Pn lanes in one output pixel: groups·Fn."""
        return self.stage.groups * self.fn

    @property
    def cycles(self) -> int:
        """Cycles of one pass over one sample, M·groups·Fk·Fn."""
        return self.stage.M * self.depth

    @property
    def dx_in_order(self) -> bool:
        """Backward chunks are the words of dX themselves, in order: no col2im is needed."""
        window = self.stage.window
        one_by_one = window.positions == 1 and window.stride == (1, 1) and window.pads == (0, 0, 0, 0)
        one_by_one = one_by_one and window.starts in (None, tuple(range(window.height)))
        return one_by_one and min(self.b, self.stage.M) == 1

    @property
    def geometry(self) -> Geometry:
        """What the address generators of the stage need to know."""
        return Geometry(
            self.stage.window, self.folding.u, self.folding.pc, self.stage.groups, self.cgs, self.fn, self.b
        )

    @property
    def multipliers(self) -> int:
        """Multipliers of the array: one a PE and pass that exists."""
        passes = 1 + (self.stage.dx is not None) + (not self.stage.frozen)
        return passes * self.pk * self.pn


def legal_u(stage: Stage) -> list[int]:
    """Kernel positions that a chunk may hold: 1, kw, kh·kw."""
    return sorted({1, stage.window.kernel[1], stage.window.positions})


def legal_pc(stage: Stage) -> range:
    """Channels that a chunk may hold: 1..Cin/groups."""
    return range(1, stage.cin + 1)


def resolve_array(stage: Stage, array: tuple[int, int], b: int = 1) -> Folding:
    """The folding with Pk = array[0], Pn = array[1] and the fewest folds.

    Raises ModelError listing the legal values if there is none.
    """
    pk, pn = array
    pairs = [(u, pk // u) for u in legal_u(stage) if pk % u == 0 and pk // u in legal_pc(stage)]
    if not pairs:
        legal = sorted({u * pc for u in legal_u(stage) for pc in legal_pc(stage)})
        raise ModelError(f"{stage.name}: array=({pk}, {pn}): Pk = {pk} is not u·pc; legal Pk: {legal}")
    if not 1 <= pn <= stage.N:
        raise ModelError(f"{stage.name}: array=({pk}, {pn}): Pn = {pn} is outside 1..{stage.N}")
    foldings = [Folding(u, pc, pn, b) for u, pc in pairs]
    return min(foldings, key=lambda folding: (Fold(stage, folding).fk, folding))
