"""Rows of a tile's column that lie behind one another in the lanes of its memories: how many may, and what forbids it.

The rules are those of gateware.shape.ArrayShape: rows of a lane take turns at its one port, each in a cycle of its own
of the block for which a weight is kept.
"""

from __future__ import annotations

from ..ir.stage import Stage
from .columns import updates_in_turn
from .layout import STACKS, Storage
from .plan import StagePlan

__all__ = ["stack_limit", "stack_problem", "updates_at_once"]


def stack_limit(b: int, pixels: int, backs: bool) -> int:
    """The most rows that may take turns at a lane, with blocks of ``b`` of ``pixels``; ``backs``: there is dX too."""
    period = min(b, pixels)
    shortest = pixels % period or period
    return min(STACKS[-1], shortest, period // 2 if backs else period)


def updates_at_once(stage: Stage, storage: Storage, depth: int, rows: int, pixels: int, batch: int) -> bool:
    """Whether all ``rows`` of a tile's column are updated in the same cycles, so that none may wait for another."""
    here = not stage.frozen and storage.master == "here"
    return here and not updates_in_turn(storage, depth, rows, pixels, batch)


def stack_problem(planned: StagePlan, batch: int) -> str | None:
    """Why a part's rows cannot lie as its storage has them; None if they can."""
    stage, fold, storage = planned.stage, planned.fold, planned.storage
    stack = storage.stack
    if stack == 1:
        return None
    place = f"layout: {stage.name}: stack = {stack}"
    most = stack_limit(fold.b, stage.M, stage.dx is not None)
    if storage.copy:
        return f"{place} with copy = True; rows behind one another take turns with backward: copy = False or stack = 1"
    if fold.depth < 2:
        return f"{place} with one weight in each PE; there is nothing to lie behind: stack = 1"
    if fold.pk % stack:
        return (
            f"{place} does not divide the {fold.pk} rows of the array; give a smaller one, or another u or pc"
        )
    if stack > most:
        return (
            f"{place} with blocks of {min(fold.b, stage.M)} of {stage.M} pixels, which allow {most}: a word each and "
            "pass, and of a short last block as well; give a smaller one, or a larger b"
        )
    if updates_at_once(stage, storage, fold.depth, planned.tile[0], stage.M, batch):
        return (
            f'{place} with all rows updated at once; give update = "column", masters elsewhere, or stack = 1'
        )
    return None
