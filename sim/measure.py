"""Cycles and occupancy of a run, from result times and the device's counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plan.plan import StagePlan
from .layout import Words
from .program import Results
from .readback import counters
from .session import Session, Snapshot

__all__ = ["PASSES", "measure"]

Ints = NDArray[np.int64]
PASSES = ("forward", "backward", "gradient")


def measure(session: Session, results: Results) -> dict[str, Any]:
    """The measured keys of a simulation's result (see run.simulate); None where a run was too short."""
    plan, free = session.plan, session.free
    base = session.recorded
    window = _window(session.snapshots, results.reads)
    busy = None
    if window is not None:
        busy = [_busy(planned, window, i, plan.present) for i, planned in enumerate(plan.stages)]
    multipliers = [_multipliers(planned) for planned in plan.stages]
    samples = sum(len(batch) for batch in free)
    macs = sum(sum(planned.stage.macs) for planned in plan.stages)
    marks = results.marks
    nanoseconds = int(marks[session.idle, 1] - marks[session.start, 1])
    return {
        "cycles_per_sample": _cycles_per_sample(plan.prediction.steady, base, free, results.cycles),
        "predicted_cycles_per_sample": plan.prediction.cycles_per_sample,
        "cycles_per_batch": _cycles_per_batch(base, free, results.cycles),
        "predicted_cycles_per_batch": plan.prediction.cycles_per_batch,
        "occupancy": _occupancy(busy, multipliers) | {"total": _total(busy, multipliers)},
        "multipliers": plan.multipliers,
        "macs_per_second": macs * samples / (nanoseconds * 1e-9) if samples else None,
        "stages": [
            {
                "name": planned.stage.name,
                "board": planned.board,
                "multipliers": planned.fold.multipliers,
                "occupancy": _occupancy(busy and [busy[i]], [multipliers[i]]),
                "counters": counters(session.counters[i], results.reads),
                "depths": _depths(planned),
            }
            for i, planned in enumerate(plan.stages)
        ],
    }


def _cycles_per_sample(
    steady: tuple[int, int], base: int, free: Sequence[Ints], cycles: Ints
) -> float | None:
    """Mean distance of results within the steady part of all free-running batches."""
    first, last = steady
    found = []
    for batch in free:
        if first < last < len(batch):
            found.append((cycles[base + last] - cycles[base + first]) / (last - first))
        base += len(batch)
    return float(np.mean(found)) if found else None


def _cycles_per_batch(base: int, free: Sequence[Ints], cycles: Ints) -> float | None:
    """Mean distance of the last results of free-running batches that follow each other: fill, drain, update."""
    last = base - 1 + np.cumsum([len(batch) for batch in free])
    return float(np.mean(np.diff(cycles[last]))) if len(free) > 1 else None


def _window(snapshots: Sequence[Snapshot], reads: Words) -> tuple[Ints, Ints] | None:
    """Cycles of every board between the two snapshots, and [stages, passes] busy cycles in between."""
    if len(snapshots) != 2:
        return None
    cycles = [np.asarray([reads[part] for part in s.cycles], dtype=np.int64) for s in snapshots]
    ops = [np.asarray([reads[part] for part in s.stages], dtype=np.int64) for s in snapshots]
    passed = (cycles[1] - cycles[0]) @ np.asarray([1, 1 << 32])
    return passed, (ops[1] - ops[0]) & 0xFFFFFFFF


def _multipliers(planned: StagePlan) -> Ints:
    """Multipliers of each pass that a stage has."""
    fold = planned.fold
    has = [1, planned.stage.dx is not None, not planned.stage.frozen]
    return np.asarray(has, dtype=np.int64) * fold.pk * fold.pn


Rates = Sequence[NDArray[np.float64]]
"""Useful multiply-accumulates a cycle of each pass, a row a stage."""


def _busy(
    planned: StagePlan, window: tuple[Ints, Ints], index: int, boards: tuple[int, ...]
) -> NDArray[np.float64]:
    """Useful multiply-accumulates a cycle of each pass in the window: busy cycles without the folding's padding."""
    cycles, ops = window
    share: NDArray[np.float64] = ops[index] * np.asarray(planned.stage.macs) / planned.fold.cycles
    return share / cycles[boards.index(planned.board)]


def _occupancy(busy: Rates | None, multipliers: Sequence[Ints]) -> dict[str, float | None]:
    """Useful multiply-accumulates / (multipliers · cycles) by pass; None for a pass that does not exist."""
    count = np.sum(multipliers, axis=0)
    useful = None if busy is None else np.sum(busy, axis=0)
    return {
        name: float(useful[i] / count[i]) if useful is not None and count[i] else None
        for i, name in enumerate(PASSES)
    }


def _total(busy: Rates | None, multipliers: Sequence[Ints]) -> float | None:
    return None if busy is None else float(np.sum(busy) / np.sum(multipliers))


def _depths(planned: StagePlan) -> dict[str, int]:
    """Capacities beside the counters of the same name: "window" for "window_high", ..."""
    depths = planned.depths
    return {
        "window": depths.window_rows, "store": depths.store_rows, "col": depths.col_rows,
        "pool": depths.pool_rows, "pool_col": depths.pool_col_rows,
        "mask": depths.mask_words, "argmax": depths.argmax_words,
    }  # fmt: skip
