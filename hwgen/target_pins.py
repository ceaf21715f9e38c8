"""Pins of a board that every design needs: clock, reset, serial port, LEDs."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from .target_fields import TEXT, Fields, shorten

__all__ = ["Pin", "Pins"]

ACTIVE = ("high", "low")
MAX_PINS = 64
_PIN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,19}")
"""Names of pins: safe in the constraints of all vendors' tools."""
_COUNTS = {"clock": (1, 2), "reset": (1, 1), "uart_tx": (1, 1), "uart_rx": (1, 1), "leds": (1, MAX_PINS)}
"""Fewest and most pins of each signal."""
_EITHER = ("reset", "leds")
"""Signals that may be active low."""


@dataclass(frozen=True)
class Pin:
    """Where a signal leaves the device: the ``pins`` of its bits, the first for bit 0.

    ``standard`` is the I/O standard as the vendor's tools spell it, "" for the board's usual one; ``mhz`` the rate
    of a clock; ``active`` the level, "high" or "low", that means yes. Raises TargetError naming every wrong field.
    """

    pins: tuple[str, ...]
    standard: str = ""
    mhz: float = 0.0
    active: str = "high"

    def __post_init__(self) -> None:
        checked = Fields(self, "pin")
        _names(checked, self.pins)
        _standard(checked, self.standard)
        checked.real("mhz", 0, 2000, "MHz")
        checked.choice("active", ACTIVE)
        checked.done()


@dataclass(frozen=True)
class Pins:
    """The pins of a board's own signals.

    ``standard`` is the I/O standard of those that name none; two pins of ``clock`` are a differential pair, the
    positive one first; ``uart_tx`` is an output of the device. Raises TargetError naming every wrong field.
    """

    clock: Pin
    standard: str = ""
    reset: Pin | None = None
    uart_tx: Pin | None = None
    uart_rx: Pin | None = None
    leds: Pin | None = None

    def __post_init__(self) -> None:
        checked = Fields(self, "pins")
        _standard(checked, self.standard)
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _COUNTS}
        for name, pin in given.items():
            if not isinstance(pin, Pin) and (pin is not None or name == "clock"):
                checked.say(f"{name} = {shorten(pin)}; give a Pin")
        if not checked.problems:
            signals = self.signals
            for name, pin in signals.items():
                self._check(checked, name, pin)
            if (self.uart_tx is None) != (self.uart_rx is None):
                checked.say("uart_tx or uart_rx without the other; give both or none")
            _once(checked, signals)
        checked.done()

    def _check(self, checked: Fields, name: str, pin: Pin) -> None:
        low, high = _COUNTS[name]
        if not low <= len(pin.pins) <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            checked.say(f"{name}.pins = {shorten(pin.pins)}; give {wanted}")
        if not self.standard_of(pin):
            checked.say(f"{name} has no standard; give it one, or one for all in [pins]")
        if name == "clock" and not pin.mhz:
            checked.say("clock.mhz = 0; give the rate of the oscillator, above 0 and up to 2000 MHz")
        if name != "clock" and pin.mhz:
            checked.say(f"{name}.mhz = {pin.mhz:g}; only clock has a rate, drop it")
        if name not in _EITHER and pin.active != "high":
            checked.say(f"{name}.active = {pin.active!r}; only {' and '.join(_EITHER)} have it, drop it")

    @property
    def signals(self) -> dict[str, Pin]:
        """The signals that the board has, by name."""
        given = {name: getattr(self, name) for name in _COUNTS}
        return {name: pin for name, pin in given.items() if pin is not None}

    def standard_of(self, pin: Pin) -> str:
        """The I/O standard of one of the signals."""
        return pin.standard or self.standard


def _names(checked: Fields, value: Any) -> None:
    """Stores ``pins`` as a tuple of different names."""
    good = (
        isinstance(value, (tuple, list))
        and 1 <= len(value) <= MAX_PINS
        and all(isinstance(name, str) and _PIN.fullmatch(name) for name in value)
    )
    if not good:
        checked.say(f'pins = {shorten(value)}; give 1 to {MAX_PINS} names of pins, pins = ["G2"]')
    else:
        checked.store("pins", tuple(value))


def _standard(checked: Fields, value: object) -> None:
    if value != "":
        checked.text("standard", TEXT, "an I/O standard such as LVCMOS33")


def _once(checked: Fields, signals: dict[str, Pin]) -> None:
    """No pin may carry two bits."""
    owners: dict[str, str] = {}
    for name, pin in signals.items():
        for place in pin.pins:
            if place in owners:
                checked.say(f"pin {place} is of {owners[place]} and of {name}; give each pin once")
            owners[place] = name
