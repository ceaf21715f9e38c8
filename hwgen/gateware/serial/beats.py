"""The bytes of a host port as AXI4-Stream beats of a DMA engine, which has a clock of its own."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..link.crossing import Crossing
from .frames import BYTE

__all__ = ["ByteBeats"]

DEPTH = 16


class ByteBeats(wiring.Component):
    """Takes the bytes of beats one by one, and gathers bytes into beats, which ``last`` of a byte ends early.

    Beats are on the clock domain ``dma``, bytes on ``sync``; reset both together. A beat to the host is full, or the
    last of its transfer with the bytes that ``tkeep`` says, from the lowest on. Of beats from the host any bytes may be
    missing, ``tlast`` is not needed. At most a byte a cycle of the slower clock.

    Parameters: bytes of a beat.

    Members: ``h2c_*`` beats from the host, ``c2h_*`` to it (tdata, tkeep, tvalid, tready; ``c2h_tlast``); ``o`` bytes
    to the device's ``i``, ``i`` those of its ``o``.
    """

    def __init__(self, size: int):
        if size < 1 or size & (size - 1):
            raise ValueError(f"ByteBeats: {size} bytes; a power of two")
        self.size = size
        super().__init__(
            {
                "h2c_tdata": In(8 * size),
                "h2c_tkeep": In(size),
                "h2c_tvalid": In(1),
                "h2c_tready": Out(1),
                "c2h_tdata": Out(8 * size),
                "c2h_tkeep": Out(size),
                "c2h_tlast": Out(1),
                "c2h_tvalid": Out(1),
                "c2h_tready": In(1),
                "o": Out(stream.Signature(8)),
                "i": In(stream.Signature(BYTE)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.down = down = Crossing(8, DEPTH, writer="dma", reader="sync")
        m.submodules.up = up = Crossing(9, DEPTH, writer="sync", reader="dma")
        wiring.connect(m, down.o, wiring.flipped(self.o))
        m.d.comb += [
            up.i.payload.eq(self.i.payload.as_value()),
            up.i.valid.eq(self.i.valid),
            self.i.ready.eq(up.i.ready),
        ]
        self._apart(m, down.i)
        self._together(m, up.o)
        return m

    def _apart(self, m, out):
        """A beat's bytes, lowest first."""
        word, keep = Signal(8 * self.size, reset_less=True), Signal(self.size)
        m.d.comb += [
            self.h2c_tready.eq(keep == 0),
            out.payload.eq(word[:8]),
            out.valid.eq(keep[0]),
        ]
        with m.If(self.h2c_tready), m.If(self.h2c_tvalid):
            m.d.dma += [word.eq(self.h2c_tdata), keep.eq(self.h2c_tkeep)]
        with m.Elif(~keep[0] | out.ready):
            m.d.dma += [word.eq(word >> 8), keep.eq(keep >> 1)]

    def _together(self, m, taken):
        """Bytes gathered into a beat."""
        word, keep, last, full = Signal(8 * self.size, reset_less=True), Signal(self.size), Signal(), Signal()
        count = Signal(range(max(2, self.size)))
        m.d.comb += [
            self.c2h_tdata.eq(word),
            self.c2h_tkeep.eq(keep),
            self.c2h_tlast.eq(last),
            self.c2h_tvalid.eq(full),
            taken.ready.eq(~full),
        ]
        with m.If(full), m.If(self.c2h_tready):
            m.d.dma += [full.eq(0), keep.eq(0), count.eq(0)]
        with m.Elif(taken.valid):
            end = taken.payload[8] | (count == self.size - 1)
            m.d.dma += [
                word.word_select(count, 8).eq(taken.payload[:8]),
                keep.bit_select(count, 1).eq(1),
                count.eq(count + 1),
                last.eq(taken.payload[8]),
                full.eq(end),
            ]
