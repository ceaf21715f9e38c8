"""What else a board's project must know: transceivers that cables reach, the PCIe edge, pins held at a level."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .target_fields import NAME, Fields, is_real, is_whole, shorten
from .target_pins import ACTIVE, Pin

__all__ = ["PER_QUAD", "Held", "Pcie", "Socket", "position"]

CLOCKS = ("MGTREFCLK0", "MGTREFCLK1")
PER_QUAD = 4
_CHANNEL = re.compile(r"X(?P<x>\d{1,2})Y(?P<y>\d{1,3})")
_RATES = (2.5, 5.0, 8.0)
_WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Socket:
    """Transceivers of one quad that a cable between boards can reach.

    ``channels`` are their positions as AMD's tools name them ("X1Y12"), in the order in which links take them;
    ``clock`` their reference clock, a pair of pins of which ``source`` says which of the quad's two it is, in the quad
    number ``quad`` (-1: that of the channels). ``place`` counts the channels' quad among those that the package brings
    out, from 0, which is how the tools number transceivers of 7-series parts (-1: not told). Raises TargetError naming
    every wrong field.
    """

    channels: tuple[str, ...]
    clock: Pin
    source: str = "MGTREFCLK0"
    quad: int = -1
    place: int = -1

    def __post_init__(self) -> None:
        fields = Fields(self, "socket")
        value = self.channels
        good = (
            isinstance(value, (tuple, list))
            and 1 <= len(value) <= PER_QUAD
            and len(set(map(str, value))) == len(value)
            and all(isinstance(name, str) and _CHANNEL.fullmatch(name) for name in value)
        )
        if not good:
            fields.say(f'channels = {shorten(value)}; give 1 to 4 different positions such as "X1Y12"')
        else:
            fields.store("channels", tuple(value))
            if len({(x, y // PER_QUAD) for x, y in map(position, value)}) > 1:
                fields.say(f"channels = {shorten(value)} are of several quads; give a socket to each quad")
        _pair(fields, "clock", self.clock)
        fields.choice("source", CLOCKS)
        fields.whole("quad", -1, 999)
        fields.whole("place", -1, 11)
        fields.done()

    @property
    def quads(self) -> tuple[str, str]:
        """The quad of the channels, and that of the reference clock, as the tools name them ("Quad_X1Y3")."""
        x, y = position(self.channels[0])
        own = y // PER_QUAD
        return f"Quad_X{x}Y{own}", f"Quad_X{x}Y{own if self.quad < 0 else self.quad}"


@dataclass(frozen=True)
class Pcie:
    """The PCIe edge: ``lanes`` at ``gtps`` GT/s, the ``block`` ("X0Y1") that stands at them, reference clock, and
    ``reset`` (PERST#). Raises TargetError naming every wrong field."""

    clock: Pin
    reset: Pin
    lanes: int
    gtps: float
    block: str

    def __post_init__(self) -> None:
        fields = Fields(self, "pcie")
        _pair(fields, "clock", self.clock)
        if not isinstance(self.reset, Pin) or len(self.reset.pins) != 1 or not self.reset.standard:
            fields.say(f"reset = {shorten(self.reset)}; give a Pin of one pin and its standard")
        if not is_real(self.gtps, 0, 8, above=True) or self.gtps not in _RATES:
            fields.say(f"gtps = {shorten(self.gtps)}; give {', '.join(f'{rate:g}' for rate in _RATES)}")
        else:
            fields.store("gtps", float(self.gtps))
        if not is_whole(self.lanes, 1, 16) or self.lanes not in _WIDTHS:
            fields.say(f"lanes = {shorten(self.lanes)}; give {', '.join(map(str, _WIDTHS))}")
        fields.text("block", _CHANNEL, 'a position such as "X0Y1"')
        fields.done()


@dataclass(frozen=True)
class Held:
    """An output that every design must hold at ``level``, as the disable of a cable's module.

    Raises TargetError naming every wrong field.
    """

    name: str
    pin: Pin
    level: str

    def __post_init__(self) -> None:
        fields = Fields(self, "held")
        fields.text("name", NAME, "up to 40 small letters, digits and underscores, starting with a letter")
        if not isinstance(self.pin, Pin) or len(self.pin.pins) != 1 or not self.pin.standard:
            fields.say(f"pin = {shorten(self.pin)}; give a Pin of one pin and its standard")
        fields.choice("level", ACTIVE)
        fields.done()


def position(name: str) -> tuple[int, int]:
    """Column and row of a transceiver."""
    match = _CHANNEL.fullmatch(name)
    assert match is not None
    return int(match["x"]), int(match["y"])


def _pair(fields: Fields, name: str, pin: object) -> None:
    if not isinstance(pin, Pin) or len(pin.pins) != 2 or not pin.mhz:
        fields.say(f"{name} = {shorten(pin)}; give a Pin of two pins, positive first, and its mhz")
