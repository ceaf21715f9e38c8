"""Number formats, rounding, saturation and the counter hash: the one definition that all parts share.

Everything is an exact integer. A tensor in format ``Q(width, frac)`` holds two's complement integers v that
stand for v / 2**frac. Sums are exact; a result is rounded and saturated once, by :func:`requantise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "HASH_MASK", "Q", "bits_for_sum", "hash_words", "mix32", "product_bits", "requantise", "round_shift", "saturate",
    "scaled_step",
]  # fmt: skip

Ints = NDArray[np.int64]
HASH_MASK = 0xFFFFFFFF


@dataclass(frozen=True, order=True)
class Q:
    """A signed fixed-point format: ``width`` bits in all, ``frac`` of them behind the binary point.

    ``frac`` may exceed ``width`` or be negative. Integers run from ``min`` to ``max``.
    """

    width: int
    frac: int

    @property
    def min(self) -> int:
        """The least integer, -2**(width-1)."""
        return -(1 << (self.width - 1))

    @property
    def max(self) -> int:
        """The greatest integer, 2**(width-1) - 1."""
        return (1 << (self.width - 1)) - 1

    def quantise(self, values: object) -> Ints:
        """Round real values to the nearest integer of this format (ties to even), saturating."""
        scaled = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), self.frac))
        return np.clip(scaled, self.min, self.max).astype(np.int64)

    def to_float(self, integers: object) -> NDArray[np.float64]:
        """The real values that integers of this format stand for."""
        return np.ldexp(np.asarray(integers).astype(np.float64), -self.frac)

    def __str__(self) -> str:
        return f"Q({self.width},{self.frac})"


def product_bits(a: int, b: int) -> int:
    """Signed width that holds every product of an ``a``-bit and a ``b``-bit signed integer."""
    return a + b


def bits_for_sum(term_bits: int, terms: int) -> int:
    """Signed width that holds every sum of ``terms`` signed ``term_bits``-bit integers (by type, not by
    value)."""
    return term_bits + max(0, math.ceil(math.log2(max(1, terms))))


def round_shift(value: Ints, shift: int, random: Ints | None = None) -> Ints:
    """value / 2**shift as an integer: half to even, or floor(value + random) where ``random`` in [0,
    2**shift) is given.

    ``shift`` <= 0 multiplies by 2**-shift exactly (the caller guarantees that it fits). Works on int64 and on
    object arrays of Python integers.
    """
    if shift <= 0:
        return value << -shift if shift else value
    if random is not None:
        return (value + random) >> shift
    low = value >> shift
    rest = value - (low << shift)
    half = 1 << (shift - 1)
    up = (rest > half) | ((rest == half) & ((low & 1) == 1))
    rounded: Ints = low + up.astype(low.dtype)
    return rounded


def saturate(value: Ints, width: int) -> tuple[Ints, int]:
    """Clip to a signed width; also the number of elements that were clipped."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    clipped = int(np.count_nonzero((value < low) | (value > high)))
    return np.minimum(np.maximum(value, low), high), clipped


def requantise(value: Ints, frac: int, to: Q) -> tuple[Ints, int]:
    """Exact sums with ``frac`` fractional bits into format ``to``: round half to even, then saturate.

    Returns the integers and how many saturated.
    """
    rounded, clipped = saturate(round_shift(np.asarray(value), frac - to.frac), to.width)
    return rounded.astype(np.int64), clipped


def scaled_step(gradient: Ints, rate: int, shift: int, random: Ints | None = None, *, bits: int = 64) -> Ints:
    """``rate * gradient / 2**shift`` as an integer, rounded by :func:`round_shift`; exact for any width.

    ``bits`` is the width by type of the product (gradient width + rate width); above 63 it is computed on
    Python integers.
    """
    if bits <= 62 and -shift + bits <= 62:
        return round_shift(gradient * np.int64(rate), shift, random)
    wide = gradient.astype(object) * int(rate)
    return round_shift(wide, shift, None if random is None else random.astype(object))


def mix32(h: object) -> object:
    """One round of the counter hash, a bijection of 32-bit words made of adds, shifts and exclusive ors.

    h += h << 10; h ^= h >> 6; h += h << 3; h ^= h >> 11; h += h << 15 (all modulo 2**32). Takes Python
    integers or uint64/int64 arrays below 2**32.
    """
    h = (h + (h << 10)) & HASH_MASK  # type: ignore[operator]
    h = h ^ (h >> 6)
    h = (h + (h << 3)) & HASH_MASK
    h = h ^ (h >> 11)
    return (h + (h << 15)) & HASH_MASK


def hash_words(seed: int, tensor: int, step: int, index: object) -> object:
    """32 random bits for a logical element: a hash of (seed, tensor number, update step, logical element
    index).

    key = mix(mix(mix(seed) + tensor) + step), the same for a whole tensor and step; bits = mix(mix(key +
    index)). They depend on nothing else, so they survive re-folding and re-partitioning.
    """
    key = mix32(seed & HASH_MASK)
    key = mix32((key + tensor) & HASH_MASK)  # type: ignore[operator]
    key = mix32((key + step) & HASH_MASK)  # type: ignore[operator]
    return mix32(mix32((key + index) & HASH_MASK))  # type: ignore[operator]
