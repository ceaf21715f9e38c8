"""Image rows dealt to the parts of a stage in turns: who owns which, reads which, and completes which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..ir.stage import Stage
from ..ir.window import Window2d

__all__ = ["Rows", "deal_cycles", "deal_evenly", "row_problems", "rows_of", "uncut_problems", "usual_turns"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Rows of a whole stage under ``deal``: turn k, of deal[k] rows of y, belongs to part k mod ``count``.

    Everything of a part follows from its rows of y: the rows before the pool under them (where windows overlap, those
    that no part before has), and the rows of x that those read, from the first tap of a turn to its last one (its halo
    included). Rows of x that no output reads are taken as read by part 0. All answers are row numbers of the whole
    tensor, in increasing order.
    """

    stage: Stage
    deal: tuple[int, ...]
    count: int

    @cached_property
    def _y(self) -> Ints:
        """The part that owns each row of y."""
        return np.repeat(np.arange(len(self.deal), dtype=np.int64) % self.count, self.deal)

    @cached_property
    def _pools(self) -> Bools:
        """[part, row before the pool]: a window of its own rows of y has the row."""
        pool = self.stage.pool
        if pool is None:
            own: Bools = self._y == np.arange(self.count)[:, None]
            return own
        return self._under(pool, self._y)

    @cached_property
    def _conv(self) -> Ints:
        """The part that owns each row before the pool: the first whose windows have it; what none has goes with the row
        before."""
        found: Ints = np.where(self._pools.any(axis=0), np.argmax(self._pools, axis=0), -1)
        known = np.maximum.accumulate(np.where(found >= 0, np.arange(len(found)), 0))
        return found[known]

    @cached_property
    def _reads(self) -> Bools:
        """[part, row of x]: it reads the row."""
        found = self._under(self.stage.window, self._conv)
        found[0] |= ~found.any(axis=0)
        return found

    def _under(self, window: Window2d, owners: Ints) -> Bools:
        """[part, row of the input]: it lies under the part's rows of the output, or between those of a turn."""
        span = window.dilation[0] * (window.kernel[0] - 1)
        found = np.zeros((self.count, window.height), dtype=bool)
        edges = np.flatnonzero(np.diff(owners)) + 1
        for turn in np.split(np.arange(len(owners)), edges):
            low, high = window.first_row(int(turn[0])), window.first_row(int(turn[-1])) + span
            found[owners[turn[0]], max(0, low) : max(0, high + 1)] = True
        return found

    def y(self, part: int) -> Ints:
        """Own rows of y."""
        return np.flatnonzero(self._y == part)

    def conv(self, part: int) -> Ints:
        """Own rows before the pool."""
        return np.flatnonzero(self._conv == part)

    def pooled(self, part: int) -> Ints:
        """Rows before the pool that its own pool takes: its own ones, and those of parts before under its windows."""
        return np.flatnonzero(self._pools[part] | (self._conv == part))

    def shared(self, part: int) -> Ints:
        """Rows before the pool that the part before hands to it: of parts before it, under windows of it or behind."""
        return np.flatnonzero((self._conv < part) & self._pools[part:].any(axis=0))

    def x(self, part: int) -> Ints:
        """Rows of x that it reads, those that others read too included."""
        return np.flatnonzero(self._reads[part])

    def x_from(self, part: int) -> Ints:
        """Rows of x that it or a part behind it reads: what comes to it."""
        return np.flatnonzero(self._reads[part:].any(axis=0))

    def y_before(self, part: int) -> Ints:
        """Rows of y of the parts before it."""
        return np.flatnonzero(self._y < part)

    def dx(self, part: int) -> Ints:
        """Rows of dx that nothing before the part adds to: they are complete there, or behind it."""
        return np.flatnonzero(self._reads[part:].any(axis=0) & ~self._reads[:part].any(axis=0))

    def back(self, part: int) -> Ints:
        """Rows of dx that the part hands to the one before it as sums: both it or one behind, and one before, add to
        them."""
        return np.flatnonzero(self._reads[part:].any(axis=0) & self._reads[:part].any(axis=0))

    def summed(self, part: int) -> Ints:
        """Rows of dx that it has sums of: its own, and those that the part behind hands to it."""
        return np.union1d(self.x(part), self.back(part + 1))

    def rounded(self, part: int) -> Ints:
        """Rows of dx that it completes itself."""
        return np.intersect1d(self.summed(part), self.dx(part))

    def starts(self, part: int) -> tuple[int, ...]:
        """For every own row before the pool, its first tap among the rows of x that the part reads: negative above the
        image, from their number on below it."""
        return _places(self.stage.window, self.conv(part), self.x(part))

    def pool(self, part: int) -> Window2d | None:
        """The pool of a part."""
        pool, own = self.stage.pool, self.pooled(part)
        if pool is None or _whole_windows(pool):
            return None if pool is None else replace(pool, height=len(own))
        pads = (0, pool.pads[1], 0, pool.pads[3])
        return replace(pool, height=len(own), pads=pads, starts=_places(pool, self.y(part), own))


def _whole_windows(pool: Window2d) -> bool:
    """Whether no two rows of windows have a row in common, and none is left out between them."""
    return pool.kernel[0] == pool.stride[0] and pool.pads[0] == pool.pads[2] == 0 and pool.dilation[0] == 1


def _places(window: Window2d, outputs: Ints, own: Ints) -> tuple[int, ...]:
    """For some rows of the output, their first tap among the rows ``own`` of the input."""
    height = window.height
    first = np.array([window.first_row(int(row)) for row in outputs])
    inside = np.searchsorted(own, np.clip(first, 0, height - 1))
    places = np.where(first < 0, first, np.where(first >= height, len(own) + first - height, inside))
    return tuple(places.tolist())


@lru_cache(maxsize=256)
def rows_of(stage: Stage, deal: tuple[int, ...], count: int) -> Rows:
    """The rows of a stage under a deal. Raises ModelError where it cannot be cut like that."""
    problems = row_problems(stage, deal, count)
    if problems:
        raise ModelError(problems)
    return Rows(stage, deal, count)


def row_problems(stage: Stage, deal: Sequence[int], count: int, b: int = 1) -> list[str]:
    """Why ``stage`` in blocks of ``b`` pixels cannot be cut by rows so; nothing if it can."""
    where, height, found = f"{stage.name}: rows", stage.out_shape[0], uncut_problems(stage, b)
    if count < 2 or any(turn < 0 for turn in deal) or sum(deal) != height:
        found.append(
            f"{where}: turns of {_short(deal)} rows for {count} parts; give 2 or more parts, "
            f"and turns that sum to the {height} rows of its output"
        )
        return found
    idle = [part for part in range(count) if not sum(deal[part::count])]
    if idle:
        found.append(
            f"{where}: parts {idle} of {count} get none of {height} rows; give each a row, or fewer parts"
        )
    if found:
        return found
    rows = Rows(stage, tuple(deal), count)
    bare = [part for part in range(count) if not len(rows.conv(part))]
    if bare:
        found.append(
            f"{where}: parts before parts {bare} have all rows under their pool windows; give longer turns"
        )
        return found
    blind = [part for part in range(count) if not len(rows.x(part))]
    if blind:
        found.append(f"{where}: the rows of parts {blind} lie in the padding alone; give them others")
    return found


def uncut_problems(stage: Stage, b: int = 1) -> list[str]:
    """Why ``stage`` in blocks of ``b`` pixels cannot be cut by rows, however they are dealt."""
    where, width = f"{stage.name}: rows", stage.window.out_width
    found = []
    if width % b:
        found.append(
            f"{where}: blocks of b = {b} pixels cross the ends of rows of {width}; "
            f"legal b: {[d for d in range(1, width + 1) if width % d == 0]}"
        )
    return found


def _short(deal: Sequence[int]) -> str:
    return f"({', '.join(map(str, deal[:8]))}{', ...' if len(deal) > 8 else ''})"


def deal_cycles(height: int, shares: Sequence[int]) -> tuple[int, ...]:
    """``shares`` rows to every part in turn, again and again; what is left at the end as far as it goes."""
    found: list[int] = []
    while (left := height - sum(found)) > 0:
        found.append(min(left, shares[len(found) % len(shares)]))
    return tuple(found)


def deal_evenly(totals: Sequence[int], cycles: int) -> tuple[int, ...]:
    """``totals`` rows to every part, in so many turns each as alike as can be; in fewer where a turn would be empty."""
    cycles = max(1, min(cycles, *totals))
    return tuple(
        total * (cycle + 1) // cycles - total * cycle // cycles for cycle in range(cycles) for total in totals
    )


def usual_turns(stage: Stage, count: int) -> int:
    """Turns of a part where nothing is asked for: as many as leave no more than a third of the rows of x read twice."""
    window = stage.window
    shared = max(0, window.dilation[0] * (window.kernel[0] - 1) + 1 - window.stride[0])
    rows = max(1, 2 * shared // window.stride[0])
    if stage.pool is not None:
        rows = math.ceil(rows / stage.pool.stride[0])
    return max(1, stage.out_shape[0] // (count * rows))
