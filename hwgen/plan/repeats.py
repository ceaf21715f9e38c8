"""A schedule that repeats itself is computed once: when it does, and samples that are not stored."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Series", "Watch"]

Ints = NDArray[np.int64]
Item = TypeVar("Item", Ints, int)


class Series(Sequence[Item], Generic[Item]):
    """One item a sample, arrays of cycles or single ones; those of a repeating run are worked out when asked for.

    Where the last samples are such a run, ``start`` is the number of its first one, and ``step`` the distance of two;
    else both are None.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._items: list[Item] = []
        self._steps: list[int] = []
        self._length = 0
        self.start: int | None = None
        self.step: int | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(self._length))]
        sample = range(self._length)[index]
        k = bisect_right(self._firsts, sample) - 1
        return self._items[k] + (sample - self._firsts[k]) * self._steps[k]

    def append(self, item: Item) -> None:
        """One more sample."""
        self._firsts.append(self._length)
        self._items.append(item)
        self._steps.append(0)
        self._length += 1
        self.start = self.step = None

    def repeat(self, count: int) -> None:
        """``count`` more samples, each as far behind the one before as the last two are apart; none if there is
        nothing yet."""
        if not count or not self._length:
            return
        last, before = self[-1], self[-2]
        first, step = self._length, int(np.max(last - before))
        self.append(last + step)
        self._steps[-1] = step
        self._length += count - 1
        self.start, self.step = first, step


class Watch:
    """Tells whether the rest of a batch repeats the last two samples.

    A schedule is made of maxima and sums: result[j] = max over its sources of (source[i] + constant), and over the
    result of the sample before. If from one sample to the next every result moved by a constant of its own, and no
    source by more than its result, then so it will for every further sample: what follows a source now moves with it,
    what follows the sample before keeps ahead of all sources.
    """

    def __init__(self) -> None:
        self._last: dict[object, tuple[Ints, ...]] = {}
        self._now: dict[object, tuple[Ints, ...]] = {}

    def begin(self, batch: bool) -> None:
        """A sample begins; the first one of a ``batch`` is not compared with those of other weights."""
        self._last = {} if batch else self._now
        self._now = {}

    def see(self, key: object, result: Ints, *sources: Ints) -> Ints:
        """Notes a result and what it was the maximum of; returns it."""
        self._now[key] = (result, *sources)
        return result

    @property
    def steady(self) -> bool:
        """Whether that holds of the sample that is over."""
        return bool(self._now) and self._now.keys() == self._last.keys() and all(map(self._moves, self._now))

    def _moves(self, key: object) -> bool:
        steps = [_step(before, now) for before, now in zip(self._last[key], self._now[key], strict=True)]
        return all(step is not None and steps[0] is not None and step <= steps[0] for step in steps)


def _step(before: Ints, now: Ints) -> int | None:
    """By what all cycles moved; None if not all by the same."""
    if before.shape != now.shape:
        return None
    moved = now - before
    first = int(moved.flat[0])
    return first if bool(np.all(moved == first)) else None
