"""Image rows dealt to the parts of a stage in turns: who owns which, reads which, and completes which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..ir.stage import Stage

__all__ = ["Rows", "deal_cycles", "deal_evenly", "row_problems", "rows_of", "uncut_problems", "usual_turns"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Rows of a whole stage under ``deal``: turn k, of deal[k] rows of y, belongs to part k mod ``count``.

    Everything of a part follows from its rows of y: the rows before the pool under them, and the rows of x that those
    read, from the first tap of a turn to its last one (its halo included). Rows of x that no output reads are taken as
    read by part 0. All answers are row numbers of the whole tensor, in increasing order.
    """

    stage: Stage
    deal: tuple[int, ...]
    count: int

    @cached_property
    def _y(self) -> Ints:
        """The part that owns each row of y."""
        return np.repeat(np.arange(len(self.deal), dtype=np.int64) % self.count, self.deal)

    @cached_property
    def _conv(self) -> Ints:
        """The part that owns each row before the pool; what the pool leaves over goes with the last row."""
        pool = self.stage.pool
        owners = self._y if pool is None else np.repeat(self._y, pool.stride[0])
        return np.append(owners, np.full(self.stage.window.out_height - len(owners), owners[-1]))

    @cached_property
    def _reads(self) -> Bools:
        """[part, row of x]: it reads the row."""
        window = self.stage.window
        span = window.dilation[0] * (window.kernel[0] - 1)
        found = np.zeros((self.count, window.height), dtype=bool)
        edges = np.flatnonzero(np.diff(self._conv)) + 1
        for turn in np.split(np.arange(len(self._conv)), edges):
            low, high = window.first_row(int(turn[0])), window.first_row(int(turn[-1])) + span
            found[self._conv[turn[0]], max(0, low) : max(0, high + 1)] = True
        found[0] |= ~found.any(axis=0)
        return found

    def y(self, part: int) -> Ints:
        """Own rows of y."""
        return np.flatnonzero(self._y == part)

    def conv(self, part: int) -> Ints:
        """Own rows before the pool."""
        return np.flatnonzero(self._conv == part)

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
        window = self.stage.window
        own, height = self.x(part), window.height
        first = np.array([window.first_row(int(row)) for row in self.conv(part)])
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
    blind = [part for part in range(count) if not len(rows.x(part))]
    if blind:
        found.append(f"{where}: the rows of parts {blind} lie in the padding alone; give them others")
    return found


def uncut_problems(stage: Stage, b: int = 1) -> list[str]:
    """Why ``stage`` in blocks of ``b`` pixels cannot be cut by rows, however they are dealt."""
    where, width = f"{stage.name}: rows", stage.window.out_width
    pool, found = stage.pool, []
    if pool is not None and (
        pool.kernel[0] != pool.stride[0] or pool.pads[0] or pool.pads[2] or pool.dilation[0] > 1
    ):
        found.append(
            f"{where}: its pool has kernel {pool.kernel[0]}, stride {pool.stride[0]}, pads {pool.pads[0]} and "
            f"{pool.pads[2]}, dilation {pool.dilation[0]} over rows, so that turns share windows; "
            "cut it by channels, or give the pool stride = kernel without padding"
        )
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
