"""Dividers of the MMCM of 7-series and UltraScale+ parts: the device's clock, and one for transceivers' start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...errors import TargetError
from .ecp5_pll import clock_text

__all__ = ["DETECTOR_MHZ", "INIT_MHZ", "OSCILLATOR_MHZ", "Mmcm", "mmcm_of"]

OSCILLATOR_MHZ = {"7": (600, 1200), "ultra": (800, 1600)}
"""Of the slowest speed grade (DS181, DS182, DS923: MMCM switching characteristics)."""
DETECTOR_MHZ = (10, 450)
INIT_MHZ = (50, 125)
"""Of the free-running clock: what an Aurora core takes in every family (PG074, init_clk)."""
EIGHTHS = 8
"""CLKFBOUT_MULT_F and CLKOUT0_DIVIDE_F are in steps of an eighth."""
MOST_MULTIPLY, MOST_DIVIDE = 64, 128


@dataclass(frozen=True)
class Mmcm:
    """DIVCLK_DIVIDE, CLKFBOUT_MULT_F, CLKOUT0_DIVIDE_F (the device's clock) and CLKOUT1_DIVIDE (free-running)."""

    divide: int
    multiply: Fraction
    output: Fraction
    init: int

    def oscillator(self, source: Fraction) -> Fraction:
        """MHz of the oscillator, of a ``source`` in MHz."""
        return source / self.divide * self.multiply

    def clock(self, source: Fraction) -> Fraction:
        """MHz of the device's clock."""
        return self.oscillator(source) / self.output

    def init_clock(self, source: Fraction) -> Fraction:
        """MHz of the free-running clock."""
        return self.oscillator(source) / self.init


def mmcm_of(source_mhz: float, clock_mhz: float, series: str) -> Mmcm:
    """Dividers that make exactly ``clock_mhz``; whole ones before others, then the highest rates at the phase
    detector and of the oscillator.

    ``series`` is a key of OSCILLATOR_MHZ. Raises TargetError naming the nearest clocks if there are none.
    """
    source, wanted = Fraction(repr(source_mhz)), Fraction(repr(clock_mhz))
    found = [
        Mmcm(divide, multiply, oscillator / wanted, int(-(-oscillator // INIT_MHZ[1])))
        for divide, multiply, oscillator in _oscillators(source, series)
        if _possible(oscillator / wanted)
    ]
    if not found:
        raise TargetError(
            f"a clock of {clock_text(wanted)} MHz cannot be made of {clock_text(source)} MHz; "
            f"take {_nearest(source, wanted, series)}"
        )
    return min(found, key=_cost)


def _oscillators(source: Fraction, series: str) -> Iterator[tuple[int, Fraction, Fraction]]:
    """Every divider and multiplier that keep detector and oscillator in their ranges, and the oscillator's MHz."""
    low, high = OSCILLATOR_MHZ[series]
    for divide in range(1, int(source / DETECTOR_MHZ[0]) + 1):
        detector = source / divide
        if detector > DETECTOR_MHZ[1]:
            continue
        first = -(-low * EIGHTHS // detector)
        last = min(high * EIGHTHS // detector, MOST_MULTIPLY * EIGHTHS)
        for eighths in range(max(int(first), 2 * EIGHTHS), int(last) + 1):
            multiply = Fraction(eighths, EIGHTHS)
            yield divide, multiply, detector * multiply


def _possible(output: Fraction) -> bool:
    """Whether CLKOUT0_DIVIDE_F can be this: 1, or 2 to 128 in eighths."""
    return output == 1 or (2 <= output <= MOST_DIVIDE and (output * EIGHTHS).denominator == 1)


def _cost(mmcm: Mmcm) -> tuple[int, int, Fraction]:
    broken = [value for value in (mmcm.multiply, mmcm.output) if value.denominator > 1]
    return len(broken), mmcm.divide, -mmcm.multiply


def _nearest(source: Fraction, wanted: Fraction, series: str) -> str:
    """The next slower and the next faster clock that can be made, in words."""
    made: set[Fraction] = set()
    for _, _, oscillator in _oscillators(source, series):
        eighths = int(oscillator * EIGHTHS / wanted)
        for output in (Fraction(eighths + step, EIGHTHS) for step in range(-8, 10)):
            # Only what a board's file can say exactly.
            if _possible(output) and (oscillator / output * 10**6).denominator == 1:
                made.add(oscillator / output)
    near = [
        max((c for c in made if c < wanted), default=None),
        min((c for c in made if c > wanted), default=None),
    ]
    told = [clock_text(clock) for clock in near if clock is not None]
    return " or ".join(told) if told else "an oscillator of 10 to 800 MHz"
