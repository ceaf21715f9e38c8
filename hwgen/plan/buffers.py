"""Depths of a stage's buffers: what the paced schedule fills, and never less than deadlock freedom asks
for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from ..ir.stage import Stage
from .geometry import Axis, Geometry, free_before, min_col_rows, min_rows
from .part import like_part
from .pixels import pool_geometry
from .plan import Depths, StagePlan
from .times import StageTimes

__all__ = ["fills", "least_depths", "shared_depths", "stall_free_depths"]

Ints = NDArray[np.int64]


def _spare(axis: Axis) -> int:
    """Slots for the rows of one more output row, the farthest from the one before it."""
    step = int(np.max(axis.step(np.arange(axis.outputs))))
    return max(axis.digit, math.ceil(step / axis.banks))


def _two_blocks(geometry: Geometry) -> int:
    """Row slots that hold what a block reads and what the next one needs, also across samples."""
    y = geometry.vertical
    ends = np.minimum(np.arange(geometry.b, geometry.M + geometry.b, geometry.b), geometry.M) - 1
    need = y.entered(np.minimum(y.first(ends // geometry.horizontal.outputs) + y.span, y.size - 1))
    following = np.append(need[1:], need[0] + geometry.slots)
    return int(np.max(following - free_before(geometry)))


def least_depths(planned: StagePlan, dy_blocks: int = 1, y_blocks: int = 1) -> Depths:
    """The least capacities that cannot deadlock: one block's windows, and one whole sample between forward
    and backward."""
    stage, fold = planned.stage, planned.fold
    geometry = fold.geometry
    backs = not (stage.frozen and stage.dx is None)
    pool = pool_geometry(planned, stage.pool) if stage.pool is not None else None
    return Depths(
        window_rows=min_rows(geometry),
        store_rows=0 if stage.frozen else max(geometry.slots, min_rows(geometry, "backward")),
        col_rows=0 if stage.dx is None or fold.dx_in_order else min_col_rows(geometry),
        pool_rows=min_rows(pool) if pool is not None else 0,
        pool_col_rows=min_col_rows(pool) if pool is not None and backs else 0,
        mask_words=stage.M * fold.y_words if stage.activation is not None and backs else 0,
        argmax_words=pool.M * fold.y_words if pool is not None and backs else 0,
        dy_blocks=dy_blocks,
        y_blocks=y_blocks,
    )


def _most(written: Ints, freed: Ints, amount: Ints) -> int:
    """Most units in a buffer: unit n is written at written[n], and amount[k] units are free from freed[k] on
    (both sorted)."""
    gone = np.concatenate([[0], amount])[np.searchsorted(freed, written, side="left")]
    return int(np.max(np.arange(1, len(written) + 1) - gone))


def _queue(written: list[Ints], read: list[Ints]) -> int:
    """Most pixels in a FIFO between two ends."""
    into, out = np.concatenate(written), np.concatenate(read)
    return _most(into, out, np.arange(1, len(out) + 1))


def _telling(times: StageTimes) -> int:
    """Samples that show how full buffers become; those behind them repeat it.

    Where every event of a sample comes one step after that of the sample before, what lies in a buffer at an event is
    what lay in it at the same event a sample earlier, once samples that do not repeat have left it.
    """
    events = [
        each for each in (times.x, times.relu, times.y, times.dy, times.masked, times.backward) if len(each)
    ]
    step = events[0].step
    if not step or any(each.step != step for each in events):
        return len(times.x)
    first = max(each.start or 0 for each in events)
    stay = max(int(each[first].max()) for each in events) - min(int(each[first].min()) for each in events)
    return min(len(times.x), first + -(-stay // step) + 2)


def _store(geometry: Geometry, times: StageTimes) -> int:
    """Most row slots of the feature store: from the first pixel written to the last block that needs the
    slot."""
    y = geometry.vertical
    rows = np.arange(y.size)
    first_pixel = rows * geometry.horizontal.size
    slot = y.entered(rows)
    starts = np.arange(0, geometry.M, geometry.b) // geometry.horizontal.outputs
    left = np.append(y.below(y.first(starts[1:])), geometry.slots)
    written, need, freed, gone = [], [], [], []
    told = _telling(times)
    for sample, (x, backward) in enumerate(zip(times.x[:told], times.backward[:told], strict=True)):
        written.append(x[first_pixel])
        need.append(slot + sample * geometry.slots)
        freed.append(backward)
        gone.append(left + sample * geometry.slots)
    free = np.concatenate([[0], np.concatenate(gone)])
    at = np.searchsorted(np.concatenate(freed), np.concatenate(written), side="left")
    return int(np.max(np.concatenate(need) - free[at]))


def fills(planned: StagePlan, times: StageTimes) -> dict[str, int]:
    """Most that the schedule ``times`` has in the feature store (row slots), and in the FIFOs of masks and argmax
    (words), by their names in Depths; none of a stage whose errors nobody wants."""
    fold, stage = planned.fold, planned.stage
    if not times.backward:
        return {}
    found, told = {}, _telling(times)
    if not stage.frozen:
        found["store_rows"] = _store(fold.geometry, times)
    if stage.activation is not None:
        found["mask_words"] = _queue(times.relu[:told], times.masked[:told]) * fold.y_words
    if stage.pool is not None:
        found["argmax_words"] = _queue(times.y[:told], times.dy[:told]) * fold.y_words
    return found


def stall_free_depths(planned: StagePlan, times: StageTimes) -> Depths:
    """Depths at which the schedule ``times`` (samples at the pace of the slowest part) never waits for
    room."""
    fold, least = planned.fold, least_depths(planned, 2, 2)
    geometry, filled = fold.geometry, fills(planned, times)
    spare = {
        "store_rows": _spare(geometry.vertical),
        "mask_words": 2 * fold.y_words,
        "argmax_words": 2 * fold.y_words,
    }
    deep = {name: max(getattr(least, name), most + spare[name]) for name, most in filled.items()}
    pool = pool_geometry(planned, planned.stage.pool) if planned.stage.pool is not None else None
    return replace(
        least,
        **deep,
        window_rows=max(least.window_rows + _spare(geometry.vertical), _two_blocks(geometry)),
        col_rows=least.col_rows and least.col_rows + _spare(geometry.vertical),
        pool_rows=max(least.pool_rows + _spare(pool.vertical), _two_blocks(pool)) if pool else 0,
        pool_col_rows=least.pool_col_rows and least.pool_col_rows + (_spare(pool.vertical) if pool else 0),
    )


def shared_depths(wholes: Sequence[Stage], stages: Sequence[StagePlan]) -> tuple[StagePlan, ...]:
    """Parts of a stage (``wholes`` by number) that differ in nothing but a few words of their buffers get those
    of the deepest one.

    Then they are one engine, emitted and checked once. Of the middle parts of a cut each keeps a sample a little
    shorter than the one before.
    """

    def like(planned: StagePlan) -> tuple[object, ...]:
        own = replace(planned.stage, name="")
        return own, planned.folding, planned.tile, planned.storage, like_part(planned.part, wholes[own.index])

    alike: dict[tuple[object, ...], list[Depths]] = {}
    for planned in stages:
        alike.setdefault(like(planned), []).append(planned.depths)
    return tuple(replace(planned, depths=_deepest(alike[like(planned)])) for planned in stages)


def _deepest(depths: Sequence[Depths]) -> Depths:
    return Depths(**{each.name: max(getattr(one, each.name) for one in depths) for each in fields(Depths)})
