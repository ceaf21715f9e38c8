"""The counters of a link, read from another clock."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.cdc import PulseSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...plan.links import LINK_COUNTERS

__all__ = ["LEVELS", "OVERFLOW", "Tally"]

LEVELS = ("credit_low", "high")
"""Counters that follow a value; the others add up events."""
OVERFLOW = len(LINK_COUNTERS)
"""Number of one more value, for tests: a word came for which there was no room. It is never other than 0."""


class Tally(wiring.Component):
    """Counts in domain ``link``; ``snapshot`` (sync) copies all counters, one a cycle, in the order of LINK_COUNTERS.

    ``value`` (sync) is the copy numbered ``select``, a cycle later; it is valid 32 cycles of the slower clock
    after ``snapshot``.

    Members: one a counter, what it adds (``frames_lost`` 8 bits, the others 1) or follows (LEVELS, 16 bits);
    ``overflow``.
    """

    def __init__(self):
        widths = {"frames_lost": 8} | dict.fromkeys(LEVELS, 16)
        super().__init__(
            {name: In(widths.get(name, 1)) for name in LINK_COUNTERS}
            | {"overflow": In(1), "snapshot": In(1), "select": In(4), "value": Out(32)}
        )

    def elaborate(self, platform):
        m = Module()
        pulse = m.submodules.pulse = PulseSynchronizer("sync", "link")
        copies = m.submodules.copies = Memory(shape=32, depth=16, init=[])
        writer, reader = copies.write_port(domain="link"), copies.read_port(domain="comb")
        at = Signal(4)
        m.d.comb += pulse.i.eq(self.snapshot)
        with m.If(pulse.o):
            m.d.link += [at.eq(0), writer.en.eq(1)]
        with m.Elif(at == OVERFLOW):
            m.d.link += writer.en.eq(0)
        with m.Else():
            m.d.link += at.eq(at + 1)
        m.d.comb += writer.addr.eq(at)
        with m.Switch(at):
            for number, name in enumerate((*LINK_COUNTERS, "overflow")):
                value = getattr(self, name)
                if name not in LEVELS and name != "overflow":
                    count = Signal(32, name=f"count_{name}")
                    m.d.link += count.eq(count + value)
                    value = count
                with m.Case(number):
                    m.d.comb += writer.data.eq(value)
        m.d.comb += reader.addr.eq(self.select)
        m.d.sync += self.value.eq(reader.data)
        return m
