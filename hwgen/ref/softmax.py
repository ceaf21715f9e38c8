"""Softmax cross-entropy in exact integers: the definition that the gateware follows bit for bit.

For one sample of C logits z in format ``loss.z`` with largest value zmax:

    d_i  = zmax - z_i                                                    in units of 2**-z.frac, from 0
    t_i  = floor(d_i · log2(e))                                          in units of 2**-22; infinite from 32 on
    e_i  = floor(2**-t_i)                                                in units of 2**-24, by table and interpolation
    S    = Σ e_i                                                         exact, at least 1.0
    dz_i = saturate(round((e_i - [i = label]·S) · 2**dz.frac / S))       half to even, rounded once
    loss = d_label + ln S                                                in units of 2**-16, 32 bits unsigned, saturated

So p_i - onehot_i is rounded once and saturated once: an error of -1.0 or 1.0 that ``dz`` cannot hold becomes
its least or greatest value, all others are exact to half a unit; they sum to 0 within C/2 units (if none
saturates), equal logits give equal errors. With dz.frac < 0 every error rounds to 0. Against real numbers p
is off by less than 2**-19 + C·2**-24 plus that rounding, the loss by less than 2**-15 + C·2**-24.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DataError
from ..ir.stage import Loss
from ..numeric import round_shift
from ..numeric_tables import (
    EXP2_TABLE,
    FRACTION_BITS,
    INDEX_BITS,
    LERP_BITS,
    LN2,
    LOG1P_TABLE,
    LOG2E,
    LOG2E_BITS,
    UNIT_BITS,
)

__all__ = ["LOSS_FRAC", "T_BITS", "exponentials", "predict", "softmax_cross_entropy"]

Ints = NDArray[np.int64]

LOSS_FRAC = 16
"""Fractional bits of the loss."""
T_BITS = 5 + FRACTION_BITS
"""Bits of t; what does not fit counts as infinite."""

_LOSS_MAX = 2**32 - 1
_EXP2 = np.array(EXP2_TABLE, dtype=np.int64)
_LOG1P = np.array(LOG1P_TABLE, dtype=np.int64)
_DIGIT_BITS = 20


def predict(z: ArrayLike) -> Ints:
    """Index of the first largest logit of every sample; z [B, C]."""
    largest: Ints = np.argmax(np.asarray(z), axis=-1).astype(np.int64)
    return largest


def _scaled(value: Ints, shift: int, bits: int) -> tuple[Ints, NDArray[np.bool_]]:
    """floor(value · 2**shift) of non-negative values below 2**52, 0 where it needs more than ``bits``; and
    where it does."""
    if shift <= 0:
        result = value >> min(-shift, 63)
        far = result >> bits != 0
    else:
        far = value >> max(bits - shift, 0) != 0
        result = np.where(far, 0, value) << (shift if shift <= bits else 0)
    return np.where(far, 0, result), far


def exponentials(z: Ints, frac: int) -> Ints:
    """exp(z_i - max z) of logits [B, C] with ``frac`` fractional bits, in units of 2**-24 (the largest gives
    2**24)."""
    d = z.max(axis=-1, keepdims=True) - z
    t, far = _scaled(d * LOG2E, FRACTION_BITS - LOG2E_BITS - frac, T_BITS)
    fraction = t & ((1 << FRACTION_BITS) - 1)
    row = _EXP2[fraction >> LERP_BITS]
    low = fraction & ((1 << LERP_BITS) - 1)
    mantissa = row[..., 0] - ((row[..., 1] * low) >> LERP_BITS)
    return np.where(far, 0, mantissa >> (t >> FRACTION_BITS))


def _log(total: Ints) -> Ints:
    """ln of sums in units of 2**-24 and at least 1.0, in units of 2**-24."""
    k = np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1
    fraction = ((total << (52 - k)) >> (52 - FRACTION_BITS)) & ((1 << FRACTION_BITS) - 1)
    row = _LOG1P[fraction >> (FRACTION_BITS - INDEX_BITS)]
    low = fraction & ((1 << LERP_BITS) - 1)
    log: Ints = (k - UNIT_BITS) * LN2 + row[:, 0] + ((row[:, 1] * low) >> LERP_BITS)
    return log


def _quotients(numerator: Ints, total: Ints, frac: int, width: int) -> Ints:
    """round(numerator · 2**frac / total), half to even, for 0 <= numerator <= total; exact below
    2**(width+1)."""
    if frac < 0:
        return np.zeros_like(numerator)
    quotient = numerator // total
    rest = numerator - quotient * total
    while frac:
        bits = min(frac, _DIGIT_BITS)
        rest = rest << bits
        digit = rest // total
        rest = rest - digit * total
        # What is clipped here saturates whatever its low bits are.
        quotient = np.minimum((quotient << bits) + digit, 1 << (width + 1))
        frac -= bits
    rounded: Ints = quotient + ((2 * rest > total) | ((2 * rest == total) & (quotient & 1 == 1)))
    return rounded


def softmax_cross_entropy(z: ArrayLike, labels: ArrayLike, loss: Loss) -> tuple[Ints, Ints, Ints]:
    """Errors [B, C] in format ``loss.dz``, losses [B] in units of 2**-16, predictions [B] of logits z [B, C].

    Raises DataError if a shape does not fit or a label is not in 0 .. classes-1.
    """
    z, labels = np.asarray(z, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    if z.ndim != 2 or z.shape[1] != loss.classes or labels.shape != z.shape[:1]:
        raise DataError(
            f"loss: logits {z.shape} and labels {labels.shape}; need (B, {loss.classes}) and (B,)"
        )
    if labels.size and not (labels.min() >= 0 and labels.max() < loss.classes):
        wrong = labels[(labels < 0) | (labels >= loss.classes)][0]
        raise DataError(f"loss: label {wrong} is outside 0..{loss.classes - 1}")

    e = exponentials(z, loss.z.frac)
    total = e.sum(axis=1, keepdims=True)
    hot = np.arange(loss.classes) == labels[:, None]
    size = _quotients(np.where(hot, total - e, e), total, loss.dz.frac, loss.dz.width)
    dz = np.clip(np.where(hot, -size, size), loss.dz.min, loss.dz.max)

    d = z.max(axis=1) - z[np.arange(len(z)), labels]
    shift = LOSS_FRAC - loss.z.frac
    if shift < 0:
        behind, far = round_shift(d, min(-shift, 62)), np.zeros(len(z), dtype=bool)
    else:
        behind, far = _scaled(d, shift, 32)
    value = behind + round_shift(_log(total[:, 0]), UNIT_BITS - LOSS_FRAC)
    return dz, np.where(far, _LOSS_MAX, np.minimum(value, _LOSS_MAX)), predict(z)
