"""Bytes on two wires: start bit, eight data bits with the lowest first, stop bit."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from .frames import BYTE

__all__ = ["DIVIDER_BITS", "Uart", "uart_divider"]

DIVIDER_BITS = 16
LEAST_DIVIDER = 8
WORST_ERROR = 0.02
"""A byte is ten bits, and its last one must be met within half a bit at both ends."""


def uart_divider(clock_hz: float, baud: float) -> int:
    """Cycles a bit. Raises ValueError if the baud rate cannot be met within WORST_ERROR."""
    if clock_hz <= 0 or baud <= 0:
        raise ValueError(f"uart: clock {clock_hz:g} Hz, {baud:g} baud; both must be above 0")
    divider = round(clock_hz / baud)
    if not LEAST_DIVIDER <= divider < 1 << DIVIDER_BITS:
        low, high = clock_hz / ((1 << DIVIDER_BITS) - 1), clock_hz / LEAST_DIVIDER
        raise ValueError(
            f"uart: {baud:g} baud at a clock of {clock_hz:g} Hz; {low:.0f} to {high:.0f} can be had"
        )
    error = abs(clock_hz / divider / baud - 1)
    if error > WORST_ERROR:
        raise ValueError(
            f"uart: {baud:g} baud at a clock of {clock_hz:g} Hz is {error:.1%} off ({clock_hz / divider:.0f}), "
            f"at most {WORST_ERROR:.0%}; take another baud rate or clock"
        )
    return divider


class Uart(wiring.Component):
    """Sends and takes bytes; a byte with a wrong stop bit is dropped, and so is one that finds no room.

    Members: ``rx``, ``tx`` wires; ``divider`` cycles a bit (uart_divider), constant; ``i`` bytes to send;
    ``o`` bytes that came, valid for until the next one has come.
    """

    def __init__(self):
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "divider": In(DIVIDER_BITS),
                "i": In(stream.Signature(BYTE)),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._receive(m)
        self._send(m)
        return m

    def _receive(self, m):
        wire = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.rx, wire, init=1)
        clock, bits, shift = Signal(DIVIDER_BITS), Signal(4), Signal(8)
        tick = Signal()
        m.d.sync += tick.eq(clock == 2)
        m.d.sync += clock.eq(clock - 1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(bits == 0):
            m.d.sync += clock.eq(self.divider >> 1)
            with m.If(~wire):
                m.d.sync += [bits.eq(10), tick.eq(0)]
        with m.Elif(tick):
            m.d.sync += [clock.eq(self.divider), bits.eq(bits - 1), shift.eq(Cat(shift[1:], wire))]
            with m.If((bits == 10) & wire):
                m.d.sync += bits.eq(0)
            with m.If((bits == 1) & wire):
                m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(shift)]

    def _send(self, m):
        clock, bits, shift = Signal(DIVIDER_BITS), Signal(4), Signal(9)
        tick = Signal()
        m.d.sync += [tick.eq(clock == 2), clock.eq(clock - 1)]
        m.d.comb += self.i.ready.eq(bits == 0)
        with m.If(bits == 0), m.If(self.i.valid):
            m.d.sync += [
                clock.eq(self.divider),
                bits.eq(10),
                shift.eq(Cat(self.i.payload.data, 1)),
                self.tx.eq(0),
                tick.eq(0),
            ]
        with m.Elif(tick):
            m.d.sync += [
                clock.eq(self.divider),
                bits.eq(bits - 1),
                shift.eq(Cat(shift[1:], 1)),
                self.tx.eq(shift[0]),
            ]
