"""Clocks of any periods for cocotb, and the inputs that change in step with them, as cpp/clocks.h has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hwgen.sim.bench.device import Device

__all__ = ["Clocks"]

DEFAULT = "clock clk 0 10000 0\nreset rst 0 40000 0\n"


@dataclass
class _Clock:
    """``changes``: (number of the fall, input, low bit, width, value), sorted by their falls."""

    name: str
    index: int
    period: int
    phase: int
    next: int
    falls: int = 0
    rises: bool = False
    changes: list[tuple[int, str, int, int, int]] = field(default_factory=list)


class Clocks:
    """``time`` of the next event and the clocks that rise in it (``rising``, a bit each); the first is the
    host's, whose reset ends after ``host_start`` cycles."""

    def __init__(self, device: Device, directory: Path):
        self._device = device
        self._clocks: list[_Clock] = []
        self.host_start = self.time = self.rising = 0
        path = directory / "clocks.txt"
        resets = 0
        for line in (path.read_text() if path.exists() else DEFAULT).splitlines():
            kind, name, *numbers = line.split()
            index, first, second = map(int, numbers)
            if kind == "clock":
                self._clocks.append(_Clock(name, index, first, second, second))
                continue
            clock = self._clocks[second]
            fall = -(-max(first - clock.phase, 0) // clock.period)
            device.drive_bits(name, index, 1, 1)
            self.host_start = fall if not resets else self.host_start
            resets += 1
            clock.changes.append((fall, name, index, 1, 0))
        path = directory / "settings.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            name, *words = line.split()
            low, width, value, *when = map(int, words)
            if when:
                self._clocks[when[0]].changes.append((when[1], name, low, width, value))
            else:
                device.drive_bits(name, low, width, value)
        for clock in self._clocks:
            clock.changes.sort(key=lambda change: change[0])
        self._plan()

    def of_board(self, board: int) -> int:
        """Which clock a board has: its own where every board has one, else the first."""
        own = (i for i, clock in enumerate(self._clocks) if (clock.name, clock.index) == ("board_clk", board))
        return next(own, 0)

    def advance(self) -> None:
        """Drives the clocks of the next event, and what changes with them."""
        for clock in self._clocks:
            if clock.next != self.time:
                continue
            rises, half = clock.rises, clock.period // 2
            self._device.drive_bits(clock.name, clock.index, 1, int(rises))
            clock.rises = not rises
            clock.next += clock.period - half if rises else half
            if rises:
                continue
            while clock.changes and clock.changes[0][0] <= clock.falls:
                self._device.drive_bits(*clock.changes.pop(0)[1:])
            clock.falls += 1
        self._plan()

    def _plan(self) -> None:
        self.time = min(clock.next for clock in self._clocks)
        due = ((i, clock) for i, clock in enumerate(self._clocks) if clock.next == self.time)
        self.rising = sum(clock.rises << i for i, clock in due)
