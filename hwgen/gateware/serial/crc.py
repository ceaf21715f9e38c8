"""CRC-32 of bytes, a bit a cycle: an eighth of the logic that a byte a cycle takes."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CYCLES", "SerialCrc"]

CYCLES = 8
"""From the cycle after ``valid`` on, before ``crc`` has the byte."""
POLYNOMIAL = 0xEDB88320


class SerialCrc(wiring.Component):
    """CRC-32 (of Ethernet and zlib) of all bytes since ``start``. Model: zlib.crc32.

    Members: ``start`` clears; ``valid`` takes ``data``, while ``busy`` is 0; ``crc``; ``right``: what was taken ended
    with its own CRC, low byte first, a cycle later.
    """

    def __init__(self):
        super().__init__(
            {
                "start": In(1),
                "valid": In(1),
                "data": In(8),
                "busy": Out(1),
                "crc": Out(32),
                "right": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        state, byte, left = Signal(32, init=0xFFFFFFFF), Signal(8), Signal(8)
        mixed = state[0] ^ byte[0]
        m.d.comb += [self.busy.eq(left[0]), self.crc.eq(~state)]
        with m.If(left[0]):
            shifted = Cat(state[1:], 0)
            m.d.sync += [
                state.eq(shifted ^ (mixed.replicate(32) & POLYNOMIAL)),
                byte.eq(byte >> 1),
                left.eq(left >> 1),
            ]
        with m.If(self.valid):
            m.d.sync += [byte.eq(self.data), left.eq(0xFF)]
        with m.If(self.start):
            m.d.sync += [state.eq(0xFFFFFFFF), left.eq(0)]
        # Of a message with its own CRC the state is the same constant.
        halves = Signal(2)
        m.d.sync += [
            halves.eq(Cat(state[:16] == 0x20E3, state[16:] == 0xDEBB)),
            self.right.eq(halves.all()),
        ]
        return m
