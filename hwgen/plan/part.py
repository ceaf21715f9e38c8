"""A board's share of one stage: which channels it computes, and the stage that it is by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.stage import Stage
from .rows import Rows, rows_of

__all__ = ["CUTS", "WHOLE", "Part", "like_part", "part_stage"]

CUTS = ("output_channels", "input_channels", "groups", "rows")
"""Where a stage can be cut; docs/chain.md tells what then crosses."""


@dataclass(frozen=True)
class Part:
    """Part ``index`` of ``count``: channels ``low``..``high`` of the cut axis (whole groups for "groups").

    Of the output channels of a layer with groups a part has some of one group, or all of one or more.
    ``cut`` is one of CUTS, or "whole". For "rows" ``deal`` are turns, in rows of the stage's y in raster order: turn k
    belongs to part k mod ``count``, and ``high`` are this part's rows in all, ``low`` is 0. The others have no deal.
    """

    cut: str = "whole"
    index: int = 0
    count: int = 1
    low: int = 0
    high: int = 0
    deal: tuple[int, ...] = ()

    @property
    def first(self) -> bool:
        """Nothing of the stage lies before it."""
        return self.index == 0

    @property
    def last(self) -> bool:
        """Nothing of the stage lies behind it."""
        return self.index == self.count - 1

    @property
    def sends_sums(self) -> bool:
        """It hands forward sums on instead of rounding them."""
        return self.cut == "input_channels" and not self.last

    @property
    def takes_sums(self) -> bool:
        """It adds the forward sums of the parts before it."""
        return self.cut == "input_channels" and not self.first

    @property
    def shares_weights(self) -> bool:
        """All parts hold all weights, add up their gradients and make the same update."""
        return self.cut == "rows"

    def rows(self, stage: Stage) -> Rows:
        """Whose the rows of the whole stage are, for a cut by rows."""
        return rows_of(stage, self.deal, self.count)

    def pools_in(self, stage: Stage) -> bool:
        """Rows before the pool come from the part before, and sums of their errors go back."""
        return self.cut == "rows" and len(self.rows(stage).shared(self.index)) > 0

    def pools_out(self, stage: Stage) -> bool:
        """Rows before the pool go to the part behind it, and sums of their errors come back."""
        return self.cut == "rows" and not self.last and len(self.rows(stage).shared(self.index + 1)) > 0

    def back_in(self, stage: Stage) -> bool:
        """Backward sums come from the part behind it."""
        if self.cut == "rows":
            return not self.last and len(self.rows(stage).back(self.index + 1)) > 0
        return self.cut == "output_channels" and self.high % stage.N > 0

    def back_out(self, stage: Stage) -> bool:
        """Backward sums go to the part before it, which rounds them or hands them on."""
        if self.cut == "rows":
            return len(self.rows(stage).back(self.index)) > 0
        return self.cut == "output_channels" and self.low % stage.N > 0

    def rounds_dx(self, stage: Stage) -> bool:
        """It completes and rounds some of dx itself."""
        return (
            len(self.rows(stage).rounded(self.index)) > 0 if self.cut == "rows" else not self.back_out(stage)
        )

    def inputs(self, stage: Stage) -> slice:
        """Channels of the whole stage's x that this part multiplies."""
        if self.cut == "input_channels":
            return slice(self.low, self.high)
        if self.cut == "groups":
            return slice(self.low * stage.cin, self.high * stage.cin)
        if self.cut == "output_channels":
            return slice(self.low // stage.N * stage.cin, -(-self.high // stage.N) * stage.cin)
        return slice(0, stage.in_channels)

    def outputs(self, stage: Stage) -> slice:
        """Channels of the whole stage's y whose sums this part makes (for a cut by inputs, a share of each)."""
        if self.cut == "output_channels":
            return slice(self.low, self.high)
        if self.cut == "groups":
            return slice(self.low * stage.N, self.high * stage.N)
        return slice(0, stage.out_channels)

    def weights(self, stage: Stage) -> tuple[slice, slice]:
        """This part's place in the two channel axes of the whole weights [kh, kw, Cin/groups, Cout]."""
        inputs = self.inputs(stage) if self.cut == "input_channels" else slice(0, stage.cin)
        return inputs, self.outputs(stage)

    def offset(self, stage: Stage) -> int:
        """Logical index c·Cout + n of its first weight in the whole stage's weights."""
        inputs, outputs = self.weights(stage)
        return int(inputs.start) * stage.out_channels + int(outputs.start)


WHOLE = Part()


def like_part(part: Part, stage: Stage) -> Part:
    """The same for parts of ``stage`` whose engines are alike: a cut by channels tells them how many channels, not
    which, and whether others lie before and behind, not how many."""
    if part.cut == "whole" or part.shares_weights:
        return part
    index, low, size = 0 if part.first else 1, 0, part.high - part.low
    if part.back_out(stage):
        low = 1 if part.back_in(stage) else stage.N - size
    return replace(part, index=index, count=index + 1 + (not part.last), low=low, high=low + size)


def part_stage(stage: Stage, part: Part, board: int) -> Stage:
    """The stage that ``part`` of ``stage`` is on ``board``: same name with the board behind, own channels only.

    A part that hands its sums on has neither bias nor activation. A part of the rows has its own rows before the pool,
    and of x those that they read.
    """
    if part.cut == "whole":
        return stage
    if part.cut == "rows":
        return _row_stage(stage, part, board)
    inputs, outputs = part.inputs(stage), part.outputs(stage)
    own = replace(
        stage,
        name=f"{stage.name}@{board}",
        in_channels=inputs.stop - inputs.start,
        out_channels=outputs.stop - outputs.start,
        groups=1 if part.cut == "input_channels" else (inputs.stop - inputs.start) // stage.cin,
    )
    return replace(own, bias=None, activation=None, pool=None) if part.sends_sums else own


def _row_stage(stage: Stage, part: Part, board: int) -> Stage:
    rows, window = part.rows(stage), stage.window
    own = replace(
        window,
        height=len(rows.x(part.index)),
        pads=(0, window.pads[1], 0, window.pads[3]),
        starts=rows.starts(part.index),
    )
    pool = rows.pool(part.index)
    return replace(stage, name=f"{stage.name}@{board}", window=own, pool=pool, summed=stage.M)
