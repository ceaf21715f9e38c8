"""Resets of an Aurora 64B/66B core after power-on."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["AuroraReset"]


class AuroraReset(wiring.Component):
    """Holds ``pma_init`` and ``reset_pb`` after reset, then lets the transceivers go, then the core.

    ``pma_init`` falls after ``hold`` cycles of the core's init_clk, which is this component's clock; ``reset_pb`` a
    further ``settle`` cycles in a row with ``pll_lock`` later, and rises again if the lock is lost. At its peer a long
    ``pma_init`` shows as a channel that goes down (PG074, reset: about a second).

    Members: ``pll_lock``, from any clock; ``pma_init``, ``reset_pb``.
    """

    def __init__(self, hold: int = 1 << 26, settle: int = 1 << 10):
        if hold < 1 or settle < 1:
            raise ValueError(f"AuroraReset: hold {hold}, settle {settle} cycles; both must be at least 1")
        self.hold, self.settle = hold, settle
        super().__init__({"pll_lock": In(1), "pma_init": Out(1, init=1), "reset_pb": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        locked = Signal()
        m.submodules.locked = FFSynchronizer(self.pll_lock, locked)
        held, settled = Signal(range(self.hold)), Signal(range(self.settle))
        with m.If(self.pma_init):
            m.d.sync += [held.eq(held + 1), self.pma_init.eq(held != self.hold - 1)]
        with m.Elif(~locked):
            m.d.sync += [settled.eq(0), self.reset_pb.eq(1)]
        with m.Elif(self.reset_pb):
            m.d.sync += [settled.eq(settled + 1), self.reset_pb.eq(settled != self.settle - 1)]
        return m
