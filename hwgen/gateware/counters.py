"""Counters that the host reads: they run all the time and are copied together by one snapshot."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Counters"]


class Counters(wiring.Component):
    """32-bit registers ``names``, each adding its input's value every cycle, or following it (``levels``).

    ``snapshot`` copies all of them at one instant; ``value`` is the copy numbered ``select``, one cycle
    later.
    """

    def __init__(self, names: tuple[str, ...]):
        self.names = names
        self._steps: dict[str, Value] = {}
        self._levels: dict[str, Value] = {}
        super().__init__({"snapshot": In(1), "select": In(range(max(2, len(names)))), "value": Out(32)})

    def add(self, name: str, step) -> None:
        """Count ``step`` (an unsigned value) every cycle."""
        assert name in self.names
        self._steps[name] = step

    def follow(self, name: str, level) -> None:
        """Show ``level`` as it is."""
        assert name in self.names
        self._levels[name] = level

    def elaborate(self, platform):
        m = Module()
        copies = {}
        for name in self.names:
            if name in self._steps:
                count = Signal(32, name=name)
                m.d.sync += count.eq(count + self._steps[name])
            elif name in self._levels:
                count = self._levels[name]
            else:
                continue
            copies[name] = Signal(32, name=f"{name}_copy")
            with m.If(self.snapshot):
                m.d.sync += copies[name].eq(count)
        m.d.sync += self.value.eq(0)
        with m.Switch(self.select):
            for number, name in enumerate(self.names):
                if name in copies:
                    with m.Case(number):
                        m.d.sync += self.value.eq(copies[name])
        return m
