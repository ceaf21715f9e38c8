"""hwgen.numeric as expressions: rounding, saturation and the counter hash of one value."""

from __future__ import annotations

from amaranth import *

__all__ = ["mix32", "round_shift", "saturate"]


def round_shift(value, shift, random=None):
    """value / 2**shift, half to even, or floor with ``random`` bits added. Model:
    hwgen.numeric.round_shift."""
    if shift <= 0:
        return value << -shift
    if random is not None:
        return (value + random) >> shift
    if shift > len(value):  # |value| < 2**(shift-1): nearer to 0 than to 1, or at most a tie, which goes to 0
        return Const(0, signed(1))
    half = value[shift - 1]
    odd = value[shift] if shift < len(value) else value[-1]
    sticky = value[: shift - 1].any() if shift > 1 else Const(0)
    return (value >> shift) + (half & (sticky | odd))


def saturate(m, value, width, name):
    """Clip to a signed width. Returns the clipped value and whether it was. Model: hwgen.numeric.saturate."""
    if len(value) <= width:
        return value, Const(0)
    wide = Signal(signed(len(value)), name=f"{name}_wide")
    clipped = Signal(name=f"{name}_clipped")
    result = Signal(signed(width), name=f"{name}_clip")
    m.d.comb += [
        wide.eq(value),
        clipped.eq(wide[width - 1 :].any() & ~wide[width - 1 :].all()),
        result.eq(Mux(clipped, Mux(wide[-1], -(1 << (width - 1)), (1 << (width - 1)) - 1), wide)),
    ]
    return result, clipped


def mix32(m, value, name):
    """One round of the counter hash, a signal a step. Model: hwgen.numeric.mix32."""

    def step(number, expression):
        signal = Signal(32, name=f"{name}_{number}")
        m.d.comb += signal.eq(expression)
        return signal

    h = step(0, value)
    h = step(1, h + (h << 10))
    h = step(2, h ^ (h >> 6))
    h = step(3, h + (h << 3))
    h = step(4, h ^ (h >> 11))
    return step(5, h + (h << 15))
