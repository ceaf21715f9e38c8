"""Tables and constants of the softmax and its loss, shared by the reference, the gateware and HLS.

Both tables are read at ``index`` (top INDEX_BITS of a fraction) and interpolated linearly by the next
LERP_BITS bits: exp2: value - (slope·low >> LERP_BITS) is 2**-x, log1p: value + (slope·low >> LERP_BITS) is
ln(1 + x), for x in [0, 1), in units of 2**-UNIT_BITS. Interpolation is off by less than 2**-20 and 2**-19.
"""

from __future__ import annotations

import itertools
import math

__all__ = [
    "EXP2_TABLE", "FRACTION_BITS", "INDEX_BITS", "LERP_BITS", "LN2", "LOG1P_TABLE", "LOG2E", "LOG2E_BITS", "SLOPE_BITS",
    "UNIT_BITS",
]  # fmt: skip

UNIT_BITS = 24
INDEX_BITS = 8
LERP_BITS = 14
FRACTION_BITS = INDEX_BITS + LERP_BITS
SLOPE_BITS = 16
LOG2E_BITS = 24

LOG2E = round(math.log2(math.e) * 2**LOG2E_BITS)
"""log2(e) in units of 2**-LOG2E_BITS (25 bits)."""

LN2 = round(math.log(2) * 2**UNIT_BITS)
"""ln(2) in units of 2**-UNIT_BITS (24 bits)."""

_STEPS = 2**INDEX_BITS
_EXP2 = [round(2 ** (UNIT_BITS - i / _STEPS)) for i in range(_STEPS + 1)]
_LOG1P = [round(math.log1p(i / _STEPS) * 2**UNIT_BITS) for i in range(_STEPS + 1)]

EXP2_TABLE: tuple[tuple[int, int], ...] = tuple((a, a - b) for a, b in itertools.pairwise(_EXP2))
"""(value, slope) of 2**-x; values up to 2**UNIT_BITS, slopes below 2**SLOPE_BITS."""

LOG1P_TABLE: tuple[tuple[int, int], ...] = tuple((a, b - a) for a, b in itertools.pairwise(_LOG1P))
"""(value, slope) of ln(1 + x)."""
