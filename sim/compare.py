"""Counts equal and different integers, remembers the first difference, and names it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import MismatchError

__all__ = ["Comparison"]

Ints = NDArray[np.int64]


@dataclass
class Comparison:
    """All comparisons. ``first`` describes the first difference, ``tensors`` names all that differ."""

    compared: int = 0
    mismatched: int = 0
    first: str | None = None
    tensors: list[str] = field(default_factory=list)

    def equal(
        self, name: str, where: str, hardware: object, reference: object, samples: bool = False
    ) -> None:
        """Compares integer arrays of one shape; ``samples`` says that axis 0 counts the samples of ``where``.

        A difference in shape counts every integer of the larger one.
        """
        got, wanted = np.asarray(hardware, dtype=np.int64), np.asarray(reference, dtype=np.int64)
        self.compared += max(got.size, wanted.size)
        if got.shape != wanted.shape:
            text = f"{_at(name, where)}: hardware gives shape {got.shape}, reference {wanted.shape}"
            self._differ(name, max(got.size, wanted.size, 1), text)
            return
        different = got != wanted
        count = int(np.count_nonzero(different))
        if not count:
            return
        at = tuple(int(i) for i in np.argwhere(different)[0])
        place, index = where, at
        if samples:
            place, index = f"{where}, sample {at[0]}" if where else f"sample {at[0]}", at[1:]
        text = f"{_at(name, place)}{_index(index)}: hardware {got[at]}, reference {wanted[at]}"
        self._differ(name, count, f"{text} ({count} of {got.size} differ)")

    def zero(self, name: str, where: str, padding: Ints) -> None:
        """All values in lanes or addresses that belong to no element must be 0; they count once."""
        self.compared += 1
        if np.any(padding):
            value = padding[padding != 0].flat[0]
            self._differ(
                name, 1, f"{_at(name, where)}: hardware {value} in a lane that holds no element, reference 0"
            )

    def add(self, other: Comparison) -> None:
        """Append the comparisons of ``other``, as if made now."""
        self.compared += other.compared
        self.mismatched += other.mismatched
        self.tensors += other.tensors
        self.first = self.first or other.first

    def finish(self) -> None:
        """Raises MismatchError if anything differed or nothing was compared."""
        if self.mismatched:
            others = [name for name in dict.fromkeys(self.tensors) if name != self.tensors[0]]
            rest = (
                f"; different too: {', '.join(others[:8])}{', ...' if len(others) > 8 else ''}"
                if others
                else ""
            )
            raise MismatchError(
                f"{self.first}{rest}; {self.mismatched} of {self.compared} compared integers differ"
            )
        if not self.compared:
            raise MismatchError(
                "simulation: nothing was compared; ask for at least one batch, epoch or evaluation"
            )

    def _differ(self, name: str, count: int, text: str) -> None:
        self.mismatched += count
        self.tensors.append(name)
        if self.first is None:
            self.first = text


def _at(name: str, where: str) -> str:
    return f"{name}: {where}" if where else name


def _index(index: tuple[int, ...]) -> str:
    return f", index [{', '.join(map(str, index))}]" if index else ""
