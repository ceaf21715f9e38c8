"""CRC-32, a word a cycle."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

__all__ = ["Crc32", "crc32"]


def crc32(width: int):
    """Parameters of the CRC-32 over words of ``width`` bits (low byte first; ``compute`` is its model)."""
    return CRC32_ISO_HDLC(data_width=width)


class Crc32(wiring.Component):
    """CRC of all words with ``valid`` since ``start``, which comes with the first; one cycle later.

    Model: ``crc32(width).compute(words)``. The rows of the matrix are taken from it; as one parity a bit they are
    a twentieth of the text of the library's processor, which adds up bit by bit.

    Parameters: ``width``: bits of a word, at least 32.
    """

    def __init__(self, width: int):
        if width < 32:
            raise ValueError(f"Crc32: words of {width} bits; at least 32")
        self.width = width
        super().__init__({"data": In(width), "start": In(1), "valid": In(1), "crc": Out(32)})

    def elaborate(self, platform):
        m = Module()
        start = CRC32_ISO_HDLC
        linear = Algorithm(
            crc_width=32,
            polynomial=start.polynomial,
            initial_crc=0,
            reflect_input=True,
            reflect_output=True,
            xor_output=0,
        )(self.width)
        columns = [linear.compute([1 << bit]) for bit in range(self.width)]
        state = Signal(32, reset_less=True)
        mixed = Signal(self.width)
        # Words go low bit first, so what is left of those before meets the lowest bits.
        m.d.comb += [
            mixed.eq(self.data ^ Mux(self.start, start.initial_crc, state)),
            self.crc.eq(state ^ start.xor_output),
        ]
        rows = (sum((column >> row & 1) << bit for bit, column in enumerate(columns)) for row in range(32))
        with m.If(self.valid):
            # Bits by name: Yosys takes a mask apart into a wire a row, put together bit by bit in every cycle.
            m.d.sync += state.eq(
                Cat(Cat(mixed[b] for b in range(self.width) if row >> b & 1).xor() for row in rows)
            )
        return m
