"""A region of external memory as streams: masters read once a batch, new ones written behind them."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.memory import AXI_BITS, BURST_BEATS, Region
from .axi import BEAT, CLIENT
from .stream import Fifo, lanes

__all__ = ["RegionStreams"]

READ_BEATS = 4 * BURST_BEATS
"""Words read ahead: those of the bursts under way must find room."""


class RegionStreams(wiring.Component):
    """Serves a :class:`hwgen.gateware.masters.MasterUpdate` from a region of external memory.

    A word of ``updates`` asks for the masters of a batch, the ``count`` words behind it are the new ones, in the same
    order. Masters are read only when all new ones of the batch before are in memory. An element a cycle each way as
    far as the memory can.

    Members: ``updates``, ``masters``; ``client`` of a BurstPort; ``quiet``: nothing is under way but masters read
    ahead.
    """

    def __init__(self, region: Region):
        self.region = region
        self.packed = AXI_BITS // (8 * region.stride)
        self.beats = -(-region.count // self.packed)
        word = stream.Signature(lanes(1, region.bits))
        super().__init__({"updates": In(word), "masters": Out(word), "client": Out(CLIENT), "quiet": Out(1)})

    def elaborate(self, platform):
        m = Module()
        start = Signal()
        self._write(m, start)
        self._read(m, start)
        return m

    def _write(self, m, start):
        """New masters into words and bursts; ``start`` when old ones of the next batch may be read."""
        region, client = self.region, self.client
        m.submodules.new = new = Fifo(BEAT, 2 * BURST_BEATS)
        asked, waiting = Signal(), Signal()
        left = Signal(range(region.count + 1))
        lane = Signal(range(max(2, self.packed)))
        beat = Signal(BEAT)
        full = Signal(BEAT)
        bits = 8 * region.stride
        take, last = Signal(), Signal()
        m.d.comb += [
            self.updates.ready.eq(~asked | new.i.ready),
            take.eq(self.updates.valid & new.i.ready & asked),
            last.eq(left == 1),
            full.eq(beat),
            new.i.valid.eq(take & ((lane == self.packed - 1) | last)),
            new.i.payload.eq(full),
        ]
        with m.Switch(lane):
            for k in range(self.packed):
                with m.Case(k):
                    m.d.comb += [
                        full.data[k * bits : (k + 1) * bits].eq(self.updates.payload[0]),
                        full.strobe[k * region.stride : (k + 1) * region.stride].eq(-1),
                    ]
        with m.If(self.updates.valid & ~asked):
            m.d.sync += [asked.eq(1), waiting.eq(1), left.eq(region.count)]
        with m.If(take):
            m.d.sync += [left.eq(left - 1), lane.eq(lane + 1), beat.eq(full)]
            with m.If(new.i.valid):
                m.d.sync += [lane.eq(0), beat.eq(0)]
            with m.If(last):
                m.d.sync += asked.eq(0)
        with m.If(start):
            m.d.sync += waiting.eq(0)

        size, going, done = self._bursts(m, "write", client.write, start)
        # Words of a burst under way belong to it; the next one is asked for when they are gone.
        pulled, sent = Signal(range(BURST_BEATS + 1)), Signal(range(2 * BURST_BEATS))
        m.d.comb += client.write.valid.eq((size != 0) & (pulled == 0) & (new.level >= size))
        wiring.connect(m, new.o, wiring.flipped(client.beats))
        with m.If(going):
            m.d.sync += pulled.eq(size)
        with m.Elif(client.beats.valid & client.beats.ready):
            m.d.sync += pulled.eq(pulled - 1)
        m.d.sync += sent.eq(sent + going - client.written)
        landed = Signal()
        m.d.comb += [
            landed.eq(done & (sent == 0)),
            start.eq(waiting & landed),
            self.quiet.eq(Mux(asked, ~waiting & (left == region.count), landed)),
        ]

    def _read(self, m, start):
        """Words asked for as long as there is room, taken apart."""
        region, client = self.region, self.client
        m.submodules.old = old = Fifo(AXI_BITS, READ_BEATS)
        room = Signal(range(READ_BEATS + 1), init=READ_BEATS)
        size, going, _ = self._bursts(m, "read", client.read, start)
        pop = Signal()
        m.d.comb += [
            client.read.valid.eq((size != 0) & (room >= size)),
            old.i.valid.eq(client.data_valid),
            old.i.payload.eq(client.data),
        ]
        m.d.sync += room.eq(room - Mux(going, size, 0) + pop)

        left, lane = Signal(range(region.count + 1)), Signal(range(max(2, self.packed)))
        moved = Signal()
        m.d.comb += [
            self.masters.valid.eq(old.o.valid),
            moved.eq(self.masters.valid & self.masters.ready),
            pop.eq(moved & ((lane == self.packed - 1) | (left == 1))),
            old.o.ready.eq(pop),
        ]
        with m.Switch(lane):
            for k in range(self.packed):
                with m.Case(k):
                    m.d.comb += self.masters.payload[0].eq(old.o.payload >> (8 * region.stride * k))
        with m.If(moved):
            m.d.sync += [left.eq(left - 1), lane.eq(lane + 1)]
            with m.If(pop):
                m.d.sync += lane.eq(0)
        with m.If(start):
            m.d.sync += left.eq(region.count)

    def _bursts(self, m, name, port, start):
        """The bursts that a region takes, from ``start`` on: words of the next one (0: none), it is taken, all are."""
        todo = Signal(range(self.beats + 1), name=f"{name}_todo")
        address = Signal(len(port.payload.address), name=f"{name}_address")
        size, going = Signal(range(BURST_BEATS + 1), name=f"{name}_size"), Signal(name=f"{name}_going")
        m.d.comb += [
            size.eq(Mux(todo > BURST_BEATS, BURST_BEATS, todo)),
            going.eq(port.valid & port.ready),
            port.payload.address.eq(address),
            port.payload.beats.eq(size),
        ]
        with m.If(start):
            m.d.sync += [todo.eq(self.beats), address.eq(self.region.base)]
        with m.Elif(going):
            m.d.sync += [todo.eq(todo - size), address.eq(address + size * (AXI_BITS // 8))]
        return size, going, todo == 0
