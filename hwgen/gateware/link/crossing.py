"""A stream from one clock domain to another."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

__all__ = ["Crossing"]


class Crossing(wiring.Component):
    """Asynchronous FIFO: takes words in domain ``writer``, gives them in domain ``reader``.

    It holds ``slots`` words: ``depth`` rounded up to a power of two, at least 4. One word a cycle at both
    ends. After a reset it takes nothing until both sides run. Reset both sides together; either reset lasts
    at least four cycles of the slower clock.

    Members: ``i``, ``o`` streams of ``width`` bits; ``level`` (writer's domain) words inside, at most two
    cycles late for words written, later for words read.
    """

    def __init__(self, width: int, depth: int, *, writer: str, reader: str):
        if width < 1 or depth < 1:
            raise ValueError(f"Crossing: {depth} words of {width} bits; both must be at least 1")
        self.width, self.writer, self.reader = width, writer, reader
        self.slots = 1 << ceil_log2(max(4, depth))
        super().__init__(
            {
                "i": In(stream.Signature(width)),
                "o": Out(stream.Signature(width)),
                "level": Out(range(self.slots + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        fifo = m.submodules.fifo = AsyncFIFO(
            width=self.width, depth=self.slots, w_domain=self.writer, r_domain=self.reader
        )
        awake = Signal()
        reading = Signal()
        # A word written while the library still resets the reader's counters would be forgotten.
        m.d[self.reader] += awake.eq(~fifo.r_rst)
        m.submodules.awake = FFSynchronizer(awake, reading, o_domain=self.writer, reset_less=False)
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid & reading),
            self.i.ready.eq(fifo.w_rdy & reading),
            self.level.eq(fifo.w_level),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy & awake),
            fifo.r_en.eq(self.o.ready & awake),
        ]
        return m
