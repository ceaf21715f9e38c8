"""Lane bonding: words of several lanes, of unequal latency, made one wide word again."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream import REGISTER_DEPTH, Fifo, Fork
from .phy import LANE_BITS, phy_signature, phy_word

__all__ = ["MARKER", "MARKER_MAGIC", "Bond"]

MARKER_MAGIC = 0x5A17_C3D9
MARKER = data.StructLayout({"magic": 32, "count": 8, "lane": 8, "zero": 16})
"""A lane's word that shows where all lanes stand together. It is a frame of one word, which a link never sends."""

ENTRY = data.StructLayout({"data": LANE_BITS, "last": 1, "alone": 1})
"""A word in a deskew FIFO; ``alone``: the word before it was a last one too."""


class Bond(wiring.Component):
    """Spreads link words over lanes of 64 bits and aligns what comes back, whatever the lanes' latencies.

    Lane k carries bits 64k+63..64k of every word and a copy of ``last``. Between frames, at the start and then after
    every ``gap`` cycles, a marker goes down all lanes. The receiver holds each lane's words back in a FIFO until all
    show the same marker, and from then on takes one word of all at once. Words that cannot belong together (unequal
    ``last`` or markers) or a full FIFO end the alignment; it empties the FIFOs and waits for the next marker.
    Meanwhile frames are lost; the link sends them again.

    Lanes may differ by ``skew`` words, and each may hold up its transmitter as it likes: ``slack`` more words of
    wander fit. One word a cycle except for the markers. Latency 2 to the lanes, 3 from the slowest one. On one clock;
    rename ``sync`` to that of the link. ``phy.tx.ready`` and all ``valid`` depend on registers only.

    Members: ``phy`` of 64·``lanes`` bits; ``lane``: array of such interfaces of 64 bits, seen by a link end;
    ``aligned``; ``realigned``: how often alignment was lost (16 bits, it wraps); ``crossed``: a bit for each lane that
    last showed the marker of another one. ``phy.up``: all lanes are up and were aligned once since.
    """

    slack = 8
    transmit_depth = 4

    def __init__(self, lanes: int, *, skew: int = 16, gap: int = 256):
        self.depth = skew + self.slack
        if not 1 <= lanes <= 1 << 8:
            raise ValueError(f"Bond: {lanes} lanes; 1 to 256")
        if not 0 <= skew <= REGISTER_DEPTH - self.slack:
            raise ValueError(f"Bond: skew of {skew} words; 0 to {REGISTER_DEPTH - self.slack}")
        if gap < 4 * self.depth:
            raise ValueError(
                f"Bond: a marker every {gap} cycles; at least {4 * self.depth} for a skew of {skew}"
            )
        self.lanes, self.gap = lanes, gap
        super().__init__(
            {
                "phy": In(phy_signature(LANE_BITS * lanes)),
                "lane": Out(phy_signature(LANE_BITS)).array(lanes),
                "aligned": Out(1),
                "realigned": Out(16),
                "crossed": Out(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._transmit(m)
        self._receive(m)
        return m

    def _transmit(self, m):
        taken = self.phy.tx
        m.submodules.fork = fork = Fork(phy_word(LANE_BITS * self.lanes), self.lanes)
        age = Signal(range(self.gap + 1), init=self.gap)
        count = Signal(8)
        marking, between, moves = Signal(), Signal(init=1), Signal()
        markers = [
            MARKER.const({"magic": MARKER_MAGIC, "lane": k, "zero": 0, "count": 0}).as_bits()
            for k in range(self.lanes)
        ]
        marker = Signal(data.ArrayLayout(MARKER, self.lanes))
        m.d.comb += marker.as_value().eq(sum(bits << (LANE_BITS * k) for k, bits in enumerate(markers)))
        m.d.comb += [marker[k].count.eq(count) for k in range(self.lanes)]
        m.d.comb += [
            fork.i.valid.eq(marking | taken.valid),
            fork.i.payload.eq(taken.payload),
            taken.ready.eq(~marking & fork.i.ready),
            moves.eq(fork.i.valid & fork.i.ready),
        ]
        with m.If(marking):
            m.d.comb += [fork.i.payload.data.eq(marker), fork.i.payload.last.eq(1)]
        with m.If(age != self.gap):
            m.d.sync += age.eq(age + 1)
        with m.If(moves):
            m.d.sync += between.eq(fork.i.payload.last)
        with m.If(moves & marking):
            m.d.sync += [marking.eq(0), age.eq(0), count.eq(count + 1)]
        # A word that is on offer must not change: a marker steps in behind a last word or while there is none.
        with m.Elif((age == self.gap) & Mux(fork.i.valid, moves & fork.i.payload.last, between)):
            m.d.sync += marking.eq(1)
        for k, lane in enumerate(self.lane):
            fifo = Fifo(phy_word(LANE_BITS), self.transmit_depth)
            m.submodules[f"transmit_{k}"] = fifo
            word = fork.o[k].payload
            m.d.comb += [
                fifo.i.payload.data.eq(word.data.word_select(k, LANE_BITS)),
                fifo.i.payload.last.eq(word.last),
                fifo.i.valid.eq(fork.o[k].valid),
                fork.o[k].ready.eq(fifo.i.ready),
                lane.tx.payload.eq(fifo.o.payload),
                lane.tx.valid.eq(fifo.o.valid),
                fifo.o.ready.eq(lane.tx.ready),
            ]

    def _receive(self, m):
        up, emptying = Signal(), Signal()
        there, overflow, good, pop = (
            Signal(self.lanes, name=n) for n in ("there", "overflow", "good", "pop")
        )
        m.d.comb += up.eq(Cat(lane.up for lane in self.lane).all())
        words = [self._deskew(m, k, emptying, overflow[k], there[k], pop[k]) for k in range(self.lanes)]
        for k, word in enumerate(words):
            marker = data.View(MARKER, word.data)
            known = Signal(name=f"known_{k}")
            m.d.comb += known.eq(word.alone & word.last & (marker.magic == MARKER_MAGIC))
            m.d.comb += good[k].eq(known & (marker.lane == k))
            with m.If(there[k] & known):
                m.d.sync += self.crossed[k].eq(marker.lane != k)

        counts = [data.View(MARKER, word.data).count for word in words]
        single = Cat(word.alone & word.last for word in words)
        lasts = Cat(word.last for word in words)
        together, wrong = Signal(), Signal()
        m.d.comb += [
            together.eq(good.all() & Cat(count == counts[0] for count in counts).all()),
            # Single words are markers, and all of the same; any other words end together.
            wrong.eq(Mux(single.any(), ~together, lasts.any() & ~lasts.all())),
        ]

        lost, once = Signal(), Signal()
        with m.If(emptying):
            m.d.comb += pop.eq(~0)
        with m.Elif(there.all() & (self.aligned | good.all())):
            m.d.comb += [pop.eq(~0), lost.eq(Mux(self.aligned, wrong, ~together))]
            m.d.sync += self.aligned.eq(1)
        with m.Elif(~self.aligned):
            m.d.comb += pop.eq(there & ~good)

        m.d.comb += self.phy.up.eq(up & once)
        m.d.sync += self.phy.rx_valid.eq(self.aligned & there.all() & ~emptying & ~wrong & ~single.any())
        m.d.sync += [self.phy.rx.data.eq(Cat(word.data for word in words)), self.phy.rx.last.eq(lasts[0])]
        with m.If(self.aligned):
            m.d.sync += once.eq(1)

        # As many cycles as a marker may need until it has come on all lanes, so that none is met half way.
        wait = Signal(range(1 << ceil_log2(2 * self.depth + 1)), init=2 * self.depth)
        m.d.comb += emptying.eq(wait != 0)
        with m.If(emptying):
            m.d.sync += wait.eq(wait - 1)
        with m.If(lost | overflow.any() | ~up):
            m.d.sync += [wait.eq(2 * self.depth), self.aligned.eq(0)]
            m.d.sync += self.realigned.eq(self.realigned + self.aligned)
        with m.If(~up):
            m.d.sync += once.eq(0)

    def _deskew(self, m, k, emptying, overflow, there, pop):
        lane = self.lane[k]
        m.submodules[f"deskew_{k}"] = fifo = Fifo(ENTRY, self.depth)
        word = Signal(phy_word(LANE_BITS), name=f"word_{k}", reset_less=True)
        come, ended = Signal(name=f"come_{k}"), Signal(name=f"ended_{k}", init=1)
        m.d.sync += [word.eq(lane.rx), come.eq(lane.rx_valid)]
        with m.If(come):
            m.d.sync += ended.eq(word.last)
        with m.If(~lane.up):
            m.d.sync += ended.eq(1)
        m.d.comb += [
            fifo.i.payload.data.eq(word.data),
            fifo.i.payload.last.eq(word.last),
            fifo.i.payload.alone.eq(ended),
            fifo.i.valid.eq(come & ~emptying),
            overflow.eq(fifo.i.valid & ~fifo.i.ready),
            there.eq(fifo.o.valid),
            fifo.o.ready.eq(pop),
        ]
        return fifo.o.payload
