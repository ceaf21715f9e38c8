"""Dividers of the ECP5's PLL for a wanted clock."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, floor

from ...errors import TargetError

__all__ = ["Pll", "clock_text", "fastest_below", "pll_of"]

INPUT_MHZ = (Fraction(8), Fraction(400))
DETECTOR_MHZ = (Fraction(10), Fraction(400))
OSCILLATOR_MHZ = (Fraction(400), Fraction(800))
OUTPUT_MHZ = (Fraction(3125, 1000), Fraction(400))
"""Ranges of the sysCLOCK PLL (FPGA-DS-02012): input, phase detector, oscillator, outputs."""
MOST_INPUT, MOST_FEEDBACK, MOST_OUTPUT = 128, 80, 128
"""Largest dividers (ECP5 library guide, EHXPLLL)."""


@dataclass(frozen=True)
class Pll:
    """Dividers: of the input, of the feedback, of the feedback's output and of the device clock's output.

    Detector: input / ``clki``. Oscillator: detector · ``clkfb`` · ``clkop``. Device clock: oscillator / ``clkos``.
    """

    clki: int
    clkfb: int
    clkop: int
    clkos: int

    def oscillator(self, source: Fraction) -> Fraction:
        """MHz of the oscillator from those of the input."""
        return source * self.clkfb * self.clkop / self.clki

    def output(self, source: Fraction) -> Fraction:
        """MHz of the device clock."""
        return self.oscillator(source) / self.clkos


def pll_of(source_mhz: float, wanted_mhz: float) -> Pll:
    """The dividers that make exactly ``wanted_mhz`` of an input of ``source_mhz``; of several the ones with the fastest
    detector, then the fastest oscillator.

    Raises TargetError naming the nearest clocks that can be made if there are none.
    """
    source, wanted = Fraction(repr(source_mhz)), Fraction(repr(wanted_mhz))
    low, high = INPUT_MHZ
    if not low <= source <= high:
        raise TargetError(
            f"an oscillator of {clock_text(source)} MHz; the PLL takes {clock_text(low)} to {clock_text(high)}"
        )
    best = _reachable(source).get(wanted)
    if best is None:
        raise TargetError(
            f"a clock of {clock_text(wanted)} MHz cannot be made of {clock_text(source)} MHz; "
            f"{_nearest(source, wanted)}"
        )
    return best


def fastest_below(source: Fraction, limit: Fraction) -> Fraction | None:
    """The fastest clock that can be made of an input of ``source`` MHz and is no faster than ``limit``."""
    return max((clock for clock in _reachable(source) if clock <= limit), default=None)


def clock_text(mhz: Fraction) -> str:
    """MHz for people, with no more digits than needed up to six behind the point."""
    return f"{float(mhz):.6f}".rstrip("0").rstrip(".")


def _nearest(source: Fraction, wanted: Fraction) -> str:
    clocks = sorted(_reachable(source))
    place = bisect(clocks, wanted)
    near = [clock_text(clock) for clock in clocks[max(place - 1, 0) : place + 1]]
    return f"take {' or '.join(near)}"


@cache
def _reachable(source: Fraction) -> dict[Fraction, Pll]:
    """Every clock whose decimal fraction is at most six digits long, with the best dividers for it."""
    found: dict[Fraction, Pll] = {}
    for pll in _settings(source):
        clock = pll.output(source)
        if (clock * 10**6).denominator == 1:
            found.setdefault(clock, pll)
    return found


def _settings(source: Fraction) -> Iterator[Pll]:
    """All dividers within the ranges, the fastest detector first, then the fastest oscillator."""
    low, high = OSCILLATOR_MHZ
    for clki in range(1, min(MOST_INPUT, floor(source / DETECTOR_MHZ[0])) + 1):
        detector = source / clki
        for product in range(floor(high / detector), ceil(low / detector) - 1, -1):
            split = _split(product, detector)
            if split is None:
                continue
            oscillator = detector * product
            first, last = ceil(oscillator / OUTPUT_MHZ[1]), floor(oscillator / OUTPUT_MHZ[0])
            for clkos in range(first, min(MOST_OUTPUT, last) + 1):
                yield Pll(clki, *split, clkos)


def _split(product: int, detector: Fraction) -> tuple[int, int] | None:
    """The feedback's divider and its output's, whose product is given, with the fastest feedback."""
    for clkop in range(1, MOST_OUTPUT + 1):
        clkfb, rest = divmod(product, clkop)
        low, high = OUTPUT_MHZ
        if not rest and 1 <= clkfb <= MOST_FEEDBACK and low <= detector * clkfb <= high:
            return clkfb, clkop
    return None
