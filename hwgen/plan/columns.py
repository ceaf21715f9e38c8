"""What the PEs of a tile's column share under a plan: their memories, and so the pace at which words are loaded; and
the unit that updates them."""

from __future__ import annotations

from .layout import Storage
from .plan import StagePlan

__all__ = ["SHALLOW", "load_pace", "shares_columns", "update_rows", "updates_in_turn"]

SHALLOW = 64
"""Weights a PE up to which its memories stay its own: look-up tables hold them, and have no width to fill."""

UPDATE_SHARE = 32
"""A unit a column updates its rows one after the other where that takes at most this part of a batch's cycles."""
WEIGHT_CYCLES = 3
"""Cycles of one weight's update by which that is told: those of a dW of 36 to 52 bits."""


def shares_columns(storage: Storage, depth: int) -> bool:
    """Whether the PEs of a tile's column keep ``depth`` weights each side by side in one memory, whose width then fills
    block RAM; else each has memories of its own."""
    return not storage.copy or (
        depth > 1
        and (storage.weights in ("block", "ultra") or (storage.weights == "auto" and depth > SHALLOW))
    )


def load_pace(planned: StagePlan) -> int:
    """Cycles from one element to the next where sums or masters of a whole part go through the array: a load reads its
    column's word, as the peek of a later element does."""
    return 2 if shares_columns(planned.storage, planned.fold.depth) else 1


def updates_in_turn(storage: Storage, depth: int, tk: int, pixels: int, batch: int) -> bool:
    """Whether one unit a column of a tile of ``tk`` rows updates them one after the other, in place of one in every PE.

    A batch takes an array batch · pixels · depth cycles, such an update tk · WEIGHT_CYCLES · depth.
    """
    if storage.master != "here" or not shares_columns(storage, depth) or storage.update == "pe":
        return False
    return storage.update == "column" or UPDATE_SHARE * WEIGHT_CYCLES * tk <= pixels * batch


def update_rows(planned: StagePlan, batch: int) -> int:
    """Rows of a tile that a unit updates one after the other: 1 where every PE updates its own weights."""
    fold, stage, tk = planned.fold, planned.stage, planned.tile[0]
    if stage.frozen or not updates_in_turn(planned.storage, fold.depth, tk, stage.M, batch):
        return 1
    return tk
