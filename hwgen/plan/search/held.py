"""What stages hold while samples are on their way: samples in flight, and rows that wait for their turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

__all__ = ["Flight", "Waits"]


@dataclass(frozen=True)
class Waits:
    """Rows that wait for their turn in a part of a cut by rows (plan.turns): ``x``, ``y`` and ``dy`` as shares of its
    own rows; the others, which wait for what other parts do, as rows: ``y_before`` of y, the last three of the
    convolution, those between of x."""

    x: float = 0.0
    y: float = 0.0
    dy: float = 0.0
    y_before: float = 0.0
    sums: float = 0.0
    back: float = 0.0
    dx: float = 0.0
    dx_behind: float = 0.0
    conv: float = 0.0
    conv_in: float = 0.0
    unpooled: float = 0.0


@dataclass(frozen=True)
class Flight:
    """Samples of a stage in flight: of x between its arrival and its gradient, of ReLU bits between the passes, of
    pool positions. Parts of a cut by rows keep so many times their own rows, and ``waits`` beside them.

    ``parts``: the same of the first part of a cut by rows, of those between, of the last one.
    """

    x: float
    masks: float
    argmax: float
    waits: Waits = Waits()
    parts: tuple[Flight, ...] = ()

    @staticmethod
    def of_parts(found: Sequence[Flight]) -> Flight:
        """That of a stage, from those of its parts in order."""
        between = reduce(Flight.most, found[1:-1] or found)
        return replace(reduce(Flight.most, found), parts=(found[0], between, found[-1]))

    def at(self, low: int, high: int, extent: int) -> Flight:
        """That of the part with rows ``low`` to ``high`` of ``extent``, if parts are told apart."""
        if not self.parts:
            return self
        return self.parts[0 if low == 0 else 2 if high == extent else 1]

    def most(self, other: Flight) -> Flight:
        """The larger of each."""
        if self is other:
            return self
        waits = Waits(*map(max, _numbers(self.waits), _numbers(other.waits)))
        x, masks, argmax = map(max, _samples(self), _samples(other))
        return Flight(x, masks, argmax, waits)

    def within(self, given: Flight) -> bool:
        """Nothing is more than in ``given``."""
        mine, theirs = (_samples(each) + _numbers(each.waits) for each in (self, given))
        return all(need <= have for need, have in zip(mine, theirs, strict=True))

    def times(self, factor: float) -> Flight:
        """Everything multiplied."""
        waits = Waits(*(factor * each for each in _numbers(self.waits)))
        x, masks, argmax = (factor * each for each in _samples(self))
        return Flight(x, masks, argmax, waits, tuple(part.times(factor) for part in self.parts))


def _samples(flight: Flight) -> tuple[float, ...]:
    return flight.x, flight.masks, flight.argmax


def _numbers(waits: Waits) -> tuple[float, ...]:
    return tuple(getattr(waits, field.name) for field in fields(waits))
