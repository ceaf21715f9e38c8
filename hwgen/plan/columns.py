"""What the PEs of a tile's column share under a plan: their memories, and so the pace at which words are loaded."""

from __future__ import annotations

from .layout import Storage
from .plan import StagePlan

__all__ = ["SHALLOW", "load_pace", "shares_columns"]

SHALLOW = 64
"""Weights a PE up to which its memories stay its own: look-up tables hold them, and have no width to fill."""


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
