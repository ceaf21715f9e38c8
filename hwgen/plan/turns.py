"""How many pixels wait for their turn in a stage cut by rows, when all parts are busy all the time.

Rows come and go evenly over a sample, and every part spreads its own evenly too; a part of P has a P-th of the time to
take the rows of a turn, and all of it to compute them. So they wait before it, and what it made waits behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..ir.stage import Stage
from ..ir.window import Window2d
from .fold import Folding
from .part import Part, part_stage
from .pixels import needed_pixels, pool_geometry, touching_pixels
from .plan import Depths, StagePlan
from .rows import Rows

__all__ = ["turn_rows", "with_turn_depths"]

Ints = NDArray[np.int64]
PERIOD = 1 << 40
"""Units of time of a sample."""
COARSE = 4
"""Pixels of a row where rows are asked for."""
SAMPLES = 4
"""So many samples show the most that waits: nothing waits longer than two."""


def _evenly(count: int) -> Ints:
    """When each of ``count`` pixels of a sample is through, if they take all of the time."""
    return np.asarray(np.arange(1, count + 1, dtype=np.int64) * (PERIOD // count))


def _samples(times: Ints) -> Ints:
    """The same in sample after sample."""
    return np.ravel(np.arange(SAMPLES, dtype=np.int64)[:, None] * PERIOD + times)


def _pixels(rows: Ints, width: int) -> Ints:
    """Numbers of the pixels of rows."""
    return np.ravel(rows[:, None] * width + np.arange(width))


def _most(come: Ints, gone: Ints) -> int:
    """Most pixels between two ends of a FIFO; 0 if none ever passes."""
    if not len(come):
        return 0
    left = np.searchsorted(gone, come, side="right")
    return int(np.max(np.arange(1, len(come) + 1) - left))


class _Order:
    """A tensor's pixels as they pass one place: in raster order, each when it is ready, all samples."""

    def __init__(self, pixels: int):
        self.ready = np.full(SAMPLES * pixels, -1, dtype=np.int64)
        self.count = pixels

    def at(self, pixels: Ints) -> Ints:
        """Places of some pixels of every sample."""
        return np.ravel(np.arange(SAMPLES)[:, None] * self.count + pixels)

    def wait(self, pixels: Ints, times: Ints) -> None:
        """Some pixels are not ready before ``times``."""
        self.ready[self.at(pixels)] = np.maximum(self.ready[self.at(pixels)], times)

    def through(self, evenly: bool = False) -> Ints:
        """When each passes, behind all before it; ``evenly``: as a neighbour takes them that is never idle."""
        passed = np.maximum.accumulate(self.ready)
        if not evenly:
            return passed
        pace = _samples(_evenly(self.count))
        return pace + max(0, int(np.max(passed - pace)))


def _own_times(arrival: Ints, needs: Ints) -> tuple[Ints, Ints]:
    """Start and end of each own pixel of a sample, as late as never to wait for ``arrival[needs]``."""
    count = len(needs)
    ends = _evenly(count)
    starts = ends - PERIOD // count
    late = int(np.max(arrival[needs] - starts))
    return starts + late, ends + late


def with_turn_depths(whole: Stage, parts: Sequence[StagePlan], trips: Sequence[float]) -> list[StagePlan]:
    """The parts of a stage cut by rows with depths for what waits; ``trips[p]``: share of a sample's time that a way to
    a neighbour of part p and back takes."""
    found = _turn_depths(whole, parts)
    return [
        replace(planned, depths=replace(planned.depths, **_with_margins(planned, depths, trip)))
        for planned, depths, trip in zip(parts, found, trips, strict=True)
    ]


def _turn_depths(whole: Stage, parts: Sequence[StagePlan]) -> list[dict[str, int]]:
    """Most pixels that wait in each FIFO of each part, by the field of Depths."""
    found = _forward(whole, parts)
    if not (whole.frozen and whole.dx is None):
        for depths, more in zip(found, _backward(whole, parts), strict=True):
            depths.update(more)
    return found


def turn_rows(whole: Stage, deal: tuple[int, ...], count: int) -> list[dict[str, float]]:
    """The same in rows, without margins, to a part of a row: those of a stage that is COARSE pixels wide."""
    pool = _narrow(whole.pool) if whole.pool is not None else None
    narrow = replace(whole, window=_narrow(whole.window), pool=pool)
    least, found = Depths(1, 1, 1, 1, 1, 1, 1), []
    for index in range(count):
        part = Part("rows", index, count, 0, sum(deal[index::count]), deal)
        folding = Folding(1, whole.cin, whole.N, 1)
        found.append(StagePlan(part_stage(narrow, part, 0), folding, (1, 1), least, part))
    return [
        {name: pixels / COARSE for name, pixels in depths.items()} for depths in _turn_depths(narrow, found)
    ]


def _narrow(window: Window2d) -> Window2d:
    (kernel, _), (stride, _), (dilation, _) = window.kernel, window.stride, window.dilation
    pads = window.pads[0], 0, window.pads[2], 0
    return Window2d(window.height, COARSE, (kernel, 1), (stride, 1), pads, (dilation, 1))


def _with_margins(planned: StagePlan, depths: dict[str, int], trip: float) -> dict[str, int]:
    """Blocks, the steps of pipelines, and what is on its way over a link."""
    spare = 2 * planned.fold.b + 4
    return {
        name: pixels + spare + round(trip * planned.stage.window.pixels_in) if pixels else 0
        for name, pixels in depths.items()
    }


def _forward(whole: Stage, parts: Sequence[StagePlan]) -> list[dict[str, int]]:
    rows = parts[0].part.rows(whole)
    x_width, width = whole.window.width, whole.out_shape[1]
    y_pixels = whole.out_shape[0] * width
    arrival, found = _evenly(whole.window.pixels_in), []
    before: Ints | None = None
    passing = np.zeros(0, dtype=np.int64)
    for p, planned in enumerate(parts):
        own = arrival[_pixels(rows.x(p), x_width)]
        needs = needed_pixels(planned.fold.geometry) - 1
        starts, ends = _own_times(own, needs)
        # A pixel leaves for the window when the first one that needs it is computed.
        first = np.minimum(np.searchsorted(np.maximum.accumulate(needs), np.arange(len(own))), len(needs) - 1)
        depths = {"turn_x": _most(_samples(own), _samples(starts[first]))}
        made = _samples(ends)
        if planned.stage.pool is not None:
            taken, passing, more = _pool_turn(rows, p, whole, ends, passing)
            depths |= more
            made = taken[:, needed_pixels(pool_geometry(planned, planned.stage.pool)) - 1].ravel()
        order, mine, others = _Order(y_pixels), _pixels(rows.y(p), width), _pixels(rows.y_before(p), width)
        order.wait(mine, made)
        if before is not None:
            order.wait(others, before[order.at(others)])
        passed = order.through(p + 1 == len(parts))
        if before is not None:
            depths["turn_y"] = _most(made, passed[order.at(mine)])
            depths["turn_y_before"] = _most(before[order.at(others)], passed[order.at(others)])
        before = passed
        found.append(depths)
    return found


def _pool_turn(
    rows: Rows, p: int, whole: Stage, ends: Ints, passing: Ints
) -> tuple[Ints, Ints, dict[str, int]]:
    """When the pool of part p takes its pixels [sample, pixel], when those pass that parts behind want, and depths:
    from the ends of its own pixels, and from when those of parts before come."""
    width = whole.window.out_width
    mine, come = _pixels(rows.conv(p), width), _pixels(rows.shared(p), width)
    pooled, onward = _pixels(rows.pooled(p), width), _pixels(rows.shared(p + 1), width)
    there, order = _Order(whole.M), _Order(whole.M)
    there.wait(mine, _samples(ends))
    if not len(come) and not len(onward):
        return _samples(ends).reshape(SAMPLES, -1), onward, {}
    if len(come):
        there.wait(come, passing)
    order.wait(pooled, there.ready[there.at(pooled)])
    passed, read = order.through(), np.intersect1d(come, pooled)
    found = {"turn_conv": _most(_samples(ends), passed[order.at(mine)])} if len(read) else {}
    if len(read):
        found["turn_conv_in"] = _most(there.ready[there.at(read)], passed[order.at(read)])
    out = np.maximum.accumulate(there.ready[there.at(onward)])
    return passed[order.at(pooled)].reshape(SAMPLES, -1), out, found


def _backward(whole: Stage, parts: Sequence[StagePlan]) -> list[dict[str, int]]:
    rows = parts[0].part.rows(whole)
    x_width, width = whole.window.width, whole.out_shape[1]
    arrival = _evenly(whole.out_shape[0] * width)
    found: list[dict[str, int]] = []
    sums_behind = done_behind = None
    shared, conv_width = np.zeros(0, dtype=np.int64), whole.window.out_width
    for p, planned in reversed(list(enumerate(parts))):
        own, stage = arrival[_pixels(rows.y(p), width)], planned.stage
        needs, came_at = np.arange(stage.M), own
        if stage.pool is not None:
            # Behind the pool: of every pixel that it took, the last of y that touches it.
            touched = np.minimum(touching_pixels(pool_geometry(planned, stage.pool)), len(own) - 1)
            places = np.searchsorted(_pixels(rows.pooled(p), conv_width), _pixels(rows.conv(p), conv_width))
            needs = touched[places]
            came_at = _with_shared(rows, p, whole, own[np.maximum.accumulate(touched)], shared)
            starts, ends = _own_times(came_at, np.arange(stage.M))
        else:
            starts, ends = _own_times(own, needs)
        first = np.searchsorted(np.maximum.accumulate(needs), np.arange(len(own)))
        depths = {"turn_dy": _most(_samples(own), _samples(starts[np.minimum(first, stage.M - 1)]))}
        found.append(depths)
        if stage.pool is not None:
            shared, more = _shared_turn(rows, p, whole, starts, shared)
            depths |= more
        if stage.dx is None:
            continue
        mine, sums = _pixels(rows.x(p), x_width), _Order(whole.window.pixels_in)
        made = ends[touching_pixels(planned.fold.geometry)]
        sums.wait(mine, _samples(np.maximum.accumulate(made)))
        came = _pixels(rows.back(p + 1), x_width)
        if sums_behind is not None:
            sums.wait(came, sums_behind[sums.at(came)])
        # Rows of others pass elsewhere and hold up nothing here.
        passed = sums.through()
        if len(came) and sums_behind is not None:
            depths["turn_sums"] = _most(_samples(np.maximum.accumulate(made)), passed[sums.at(mine)])
            depths["turn_back"] = _most(sums_behind[sums.at(came)], passed[sums.at(came)])
        done, rounded = _Order(whole.window.pixels_in), _pixels(rows.rounded(p), x_width)
        done.wait(rounded, passed[done.at(rounded)])
        behind = _pixels(rows.dx(p + 1), x_width)
        if len(behind) and done_behind is not None:
            done.wait(behind, done_behind[done.at(behind)])
        through = done.through(p == 0)
        if len(behind) and done_behind is not None:
            depths["turn_dx"] = _most(passed[done.at(rounded)], through[done.at(rounded)])
            depths["turn_dx_behind"] = _most(done_behind[done.at(behind)], through[done.at(behind)])
        sums_behind, done_behind = passed, through
    return found[::-1]


def _with_shared(rows: Rows, p: int, whole: Stage, pooled: Ints, shared: Ints) -> Ints:
    """When the errors of part p's own pixels before the pool are complete, of one sample: those that its pool took, at
    ``pooled``, and sums from behind at ``shared``."""
    width = whole.window.out_width
    order, took = _Order(whole.M), _pixels(rows.pooled(p), width)
    order.wait(took, _samples(pooled))
    if len(behind := _pixels(rows.shared(p + 1), width)):
        order.wait(behind, shared)
    mine = _pixels(rows.conv(p), width)
    last = slice((SAMPLES - 1) * len(mine), None)
    return np.asarray(order.through()[order.at(mine)][last] - (SAMPLES - 1) * PERIOD)


def _shared_turn(rows: Rows, p: int, whole: Stage, starts: Ints, shared: Ints) -> tuple[Ints, dict[str, int]]:
    """When sums of errors go to the part before p, and how many of those from behind wait: until its own pixels before
    them in the order of rows have gone into its array."""
    width = whole.window.out_width
    mine, behind = _pixels(rows.conv(p), width), _pixels(rows.shared(p + 1), width)
    order = _Order(whole.M)
    order.wait(mine, _samples(starts))
    if len(behind):
        order.wait(behind, shared)
    passed = order.through()
    more = {"turn_unpooled": _most(shared, passed[order.at(behind)])} if len(behind) else {}
    return passed[order.at(_pixels(rows.shared(p), width))], more
