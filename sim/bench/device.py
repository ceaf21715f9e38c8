"""A device's pins, cycle by cycle, for cocotb benches under any simulator."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cocotb.triggers import Timer
from hwgen.sim.cocotb_driver import BENCH_VARIABLE

__all__ = ["Device", "bench_directory"]

RESET_CYCLES = 4
INPUTS = (
    "image__valid",
    "label__valid",
    "result__ready",
    "reply__ready",
    "command__valid",
    "command__payload",
)


def bench_directory() -> Path:
    """Where the bench's files are."""
    return Path(os.environ[BENCH_VARIABLE])


class Device:
    """The top module. Inputs change while the clock is low; outputs are read just before it rises.

    So the bench owns the clock: it wakes twice a cycle whatever the design does, and no order of events
    within a time step matters. ``now`` counts rising edges.
    """

    def __init__(self, dut: Any):
        self._dut = dut
        self._handles: dict[str, Any] = {}
        self._driven: dict[str, int] = {}
        self.now = 0

    def _handle(self, name: str) -> Any:
        if name not in self._handles:
            self._handles[name] = getattr(self._dut, name)
        return self._handles[name]

    def drive(self, name: str, value: int) -> None:
        """Set an input for the coming cycle."""
        if self._driven.get(name) != value:
            self._driven[name] = value
            self._handle(name).value = value

    def drive_bits(self, name: str, low: int, width: int, value: int) -> None:
        """Set some bits of an input, leave the others."""
        mask = (1 << width) - 1
        self.drive(name, self.driven(name) & ~(mask << low) | (value & mask) << low)

    def driven(self, name: str) -> int:
        """What an input is set to."""
        return self._driven.get(name, 0)

    def read(self, name: str) -> int:
        """An output as an unsigned integer. Raises ValueError if a bit is unknown."""
        value = self._handle(name).value
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"cycle {self.now}: {name} has unknown bits: {value}") from None

    def bits(self, name: str) -> int:
        """An output as an unsigned integer, unknown bits as 0."""
        return int(re.sub("[^01]", "0", str(self._handle(name).value)), 2)

    def moves(self, stream: str) -> bool:
        """A transfer happens on this stream in this cycle."""
        return bool(self.read(f"{stream}__valid") and self.read(f"{stream}__ready"))

    async def settle(self) -> None:
        """The clock's low half; after it outputs may be read."""
        self.drive("clk", 0)
        await Timer(5, unit="ns")

    async def edge(self) -> None:
        """The rising edge and the high half; after it inputs may be driven."""
        self.drive("clk", 1)
        await Timer(5, unit="ns")
        self.now += 1

    async def cycle(self) -> None:
        """One cycle in which nothing is looked at."""
        await self.settle()
        await self.edge()

    async def reset(self) -> None:
        """All inputs 0, reset for some cycles."""
        for name in (*INPUTS, "image__payload", "label__payload"):
            self.drive(name, 0)
        self.drive("rst", 1)
        for _ in range(RESET_CYCLES):
            await self.cycle()
        self.drive("rst", 0)
