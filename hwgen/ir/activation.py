"""What stands behind a stage's rounding: an identity between two bounds, or one with another slope below 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..numeric import Q
from .ops import Hardtanh, LeakyReLU, Op

__all__ = ["SLOPES", "SLOPE_BITS", "Activation", "activation_of", "slope_of"]

SLOPE_BITS = 8
"""Significant bits of a slope."""
SLOPES = "a number from 6e-8 to 0.998"
"""What :func:`slope_of` takes, for messages."""


@dataclass(frozen=True)
class Activation:
    """y = x and errors pass where ``low`` < x < ``high``; elsewhere y is the bound, and errors become 0.

    With ``slope`` = (s, shift), and no bounds, y = x·s / 2**shift where x ≤ 0, and errors there too, both rounded half
    to even. Bounds are real; None: there is none.
    """

    low: float | None = 0.0
    high: float | None = None
    slope: tuple[int, int] | None = None

    def bounds(self, y: Q) -> tuple[int | None, int | None]:
        """Both bounds in format ``y``, rounded half to even; None where the format goes no further."""
        low, high = _nearest(self.low, y), _nearest(self.high, y)
        return (
            None if low is not None and low < y.min else low,
            None if high is not None and high > y.max else high,
        )

    def problem(self, y: Q) -> str | None:
        """Why nothing passes in format ``y``: "what; what to do"."""
        low, high = self.bounds(y)
        least, most = y.min if low is None else low, y.max if high is None else high
        if least < most:
            return None
        return (
            f"between {self.low} and {self.high} y = {y} has no two values; give a finer y, or other bounds"
        )


def _nearest(bound: float | None, y: Q) -> int | None:
    """A bound in format ``y``, or something beyond the format if it is."""
    beyond = math.ldexp(1.0, y.width - y.frac)
    return None if bound is None else round(math.ldexp(min(max(bound, -beyond), beyond), y.frac))


def slope_of(slope: float) -> tuple[int, int] | None:
    """(s, shift) of the nearest s / 2**shift with SLOPE_BITS significant bits; None if that is 0, 1 or shift > 31."""
    if not 0.0 < slope < 1.0:
        return None
    fraction, exponent = math.frexp(slope)
    s, shift = round(math.ldexp(fraction, SLOPE_BITS)), SLOPE_BITS - exponent
    while s and s % 2 == 0:
        s, shift = s // 2, shift - 1
    return (s, shift) if 0 < s < 1 << shift and shift <= 31 else None


def activation_of(op: Op | None) -> Activation | None:
    """The activation that an operation asks for; None if there is none."""
    if op is None:
        return None
    if isinstance(op, LeakyReLU):
        return Activation(None, None, slope_of(op.negative_slope))
    if isinstance(op, Hardtanh):
        return Activation(op.min_val, op.max_val)
    return Activation()
