"""What the tops of all projects make of a board's pins: its LEDs, its reset, the divider of its serial port."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...errors import TargetError
from ...gateware.serial.uart import uart_divider
from ...target_pins import Pins

__all__ = ["divider_of", "hertz_of", "lights", "released"]


def hertz_of(mhz: Fraction) -> int:
    """Whole hertz of a clock."""
    return int(mhz * 10**6)


def divider_of(mhz: Fraction, baud: int) -> int:
    """Of the device clock for the serial port. Raises TargetError if the clock is too slow for it."""
    try:
        return uart_divider(hertz_of(mhz), baud)
    except ValueError as error:
        raise TargetError(str(error)) from None


def released(pins: Pins) -> str | None:
    """The Verilog expression that is 1 while nobody resets the board; None without such a pin."""
    if pins.reset is None:
        return None
    return "reset" if pins.reset.active == "low" else "~reset"


def lights(pins: Pins, mhz: Fraction, shown: Sequence[str]) -> list[str]:
    """Verilog expressions of the LEDs: the clock runs (a bit that changes about once a second), the device is out of
    reset, and what is ``shown``; the rest is dark."""
    if pins.leds is None:
        return []
    signals = [f"second[{hertz_of(mhz).bit_length() - 1}]", "~rst", *shown]
    signals += ["1'b0"] * len(pins.leds.pins)
    dark = pins.leds.active == "low"
    return [f"~({signal})" if dark else signal for signal in signals[: len(pins.leds.pins)]]
