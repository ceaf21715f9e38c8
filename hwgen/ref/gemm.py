"""Exact integer matrix products through float64 BLAS.

A float64 sum of integers is exact while no partial sum can pass 2**53, in any order of addition. Where
the operands' types allow more, the reduction is cut into pieces, or the wider operand into limbs, and the
pieces are added as int64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_BITS", "exact_terms", "matmul"]

Ints = NDArray[np.int64]
Integers = NDArray[np.int64] | NDArray[np.float64]
"""Integers, as int64 or as float64 (which saves the conversion)."""

EXACT_BITS = 53
"""float64 holds every integer of magnitude up to 2**53."""
MAX_PIECES = 4
"""Pieces of a reduction that cost less than limbs."""


def exact_terms(a_bits: int, b_bits: int) -> int:
    """How many products of two signed integers float64 sums exactly; widths of 55 bits together at most."""
    return 1 << max(0, EXACT_BITS - (a_bits - 1) - (b_bits - 1))


def matmul(a: Integers, b: Integers, a_bits: int, b_bits: int) -> Ints:
    """The exact product of ``a`` [..., M, K] and ``b`` [..., K, N], integers of these widths.

    Leading axes broadcast as in numpy. The caller guarantees that the sums themselves fit into int64; widths
    are at most 55 bits together. One GEMM where K products fit by type (16 × 16 bits: K up to 2**23).
    """
    return _matmul(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False), a_bits, b_bits)


def _matmul(a: NDArray[np.float64], b: NDArray[np.float64], a_bits: int, b_bits: int) -> Ints:
    terms, length = exact_terms(a_bits, b_bits), a.shape[-1]
    if length <= terms:
        product: Ints = np.matmul(a, b).astype(np.int64)
        return product
    if length <= MAX_PIECES * terms:
        cuts = range(terms, length, terms)
        pieces = zip(np.split(a, cuts, axis=-1), np.split(b, cuts, axis=-2), strict=True)
        products: list[Ints] = [np.matmul(*piece).astype(np.int64) for piece in pieces]
        return sum(products[1:], products[0])
    if a_bits > b_bits:
        high, low, shift = _limbs(a, a_bits)
        return (_matmul(high, b, a_bits - shift, b_bits) << shift) + _matmul(low, b, shift + 1, b_bits)
    high, low, shift = _limbs(b, b_bits)
    return (_matmul(a, high, a_bits, b_bits - shift) << shift) + _matmul(a, low, a_bits, shift + 1)


def _limbs(value: NDArray[np.float64], bits: int) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """value = high · 2**shift + low with 0 <= low < 2**shift, and shift."""
    shift = bits // 2
    high = np.floor(np.ldexp(value, -shift))
    return high, value - np.ldexp(high, shift), shift
