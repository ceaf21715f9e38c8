"""Rounding of sums and the weight update, for every width that a network may have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir.stage import Stage, Update
from ..numeric import Q, hash_words, requantise, saturate, scaled_step

__all__ = ["random_bits", "requantise_sums", "step_values"]

Ints = NDArray[np.int64]

WORD_BITS = 62
"""Magnitudes below 2**62 leave int64 room for one rounding."""


def requantise_sums(sums: Ints, frac: int, to: Q, bits: int) -> tuple[Ints, int]:
    """:func:`hwgen.numeric.requantise` of sums that have ``bits`` bits by type, whatever the shift.

    Returns the integers and how many saturated.
    """
    shift = frac - to.frac
    if shift > WORD_BITS or bits - shift > WORD_BITS:
        return requantise(sums.astype(object), frac, to)
    return requantise(sums, frac, to)


def random_bits(update: Update, stage: Stage, step: int) -> Ints | None:
    """Random integers in [0, 2**shift) for stochastic rounding of a stage's weights, shaped as they are.

    None where the update rounds to nearest or shifts nothing out.
    """
    shift = stage.update_shift(update.lr)
    if update.rounding != "stochastic" or shift <= 0:
        return None
    index = np.arange(np.prod(stage.weight_shape), dtype=np.int64).reshape(stage.weight_shape)
    words = hash_words(update.seed, stage.index, step & 0xFFFFFFFF, index & 0xFFFFFFFF)
    assert isinstance(words, np.ndarray)
    if shift <= 32:
        return words >> (32 - shift)
    return (words if shift <= WORD_BITS else words.astype(object)) << (shift - 32)


def step_values(
    values: Ints, gradient: Ints, to: Q, rate: int, shift: int, random: Ints | None = None
) -> tuple[Ints, int, int]:
    """saturate(values - round(rate·gradient / 2**shift)) in format ``to``.

    Returns the new values, how many saturated, and how many had a gradient but a step of 0.
    """
    bits = int(np.abs(gradient).max(initial=0)).bit_length() + abs(rate).bit_length() + 1
    if shift >= WORD_BITS:
        bits = 64  # int64 cannot shift that far
    step = scaled_step(gradient, rate, shift, random, bits=bits)
    new, clipped = saturate(values - step, to.width)
    zeros = int(np.count_nonzero((step == 0) & (gradient != 0)))
    return new.astype(np.int64), clipped, zeros
