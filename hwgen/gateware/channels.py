"""Streams of a stage that several boards share: channels dealt out and put together, sums added, words packed."""

from __future__ import annotations

import math

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .relane import Relane
from .stream import Fifo, lanes

__all__ = ["AddSums", "MergeChannels", "Pack", "SplitChannels", "Unpack"]


class SplitChannels(wiring.Component):
    """Deals every pixel of ``low`` + ``high`` channels: the low ones to ``o[0]``, the high ones to ``o[1]``.

    A word a cycle. ``i.ready`` depends on the ``ready`` of the output whose turn it is; ``valid`` on registers only.

    Parameters: bits of an element, channels of both outputs, lanes of all words.

    Members: ``i``, ``o[0]``, ``o[1]``: words lanes(P, width) of runs of low + high, low, high channels.
    """

    def __init__(self, width: int, low: int, high: int, P: int):
        self.width, self.low, self.high, self.lanes = width, low, high, P
        word = lanes(P, width)
        super().__init__({"i": In(stream.Signature(word)), "o": Out(stream.Signature(word)).array(2)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.relane = relane = Relane(
            self.width, (self.low + self.high, self.lanes), ((self.low, self.high), self.lanes)
        )
        wiring.connect(m, wiring.flipped(self.i), relane.i)
        turn = _turn(m, self.low, self.high, self.lanes, relane.o.valid & relane.o.ready)
        for k, port in enumerate(self.o):
            m.d.comb += [port.payload.eq(relane.o.payload), port.valid.eq(relane.o.valid & (turn == k))]
        m.d.comb += relane.o.ready.eq(Mux(turn, self.o[1].ready, self.o[0].ready))
        return m


class MergeChannels(wiring.Component):
    """Puts pixels together: ``low`` channels of ``i[0]``, then ``high`` channels of ``i[1]``.

    A word a cycle. The ``ready`` of the input whose turn it is depends on ``o.ready``; ``o.valid`` on registers only.

    Parameters: as :class:`SplitChannels`. Members: ``i[0]``, ``i[1]``, ``o``: words lanes(P, width).
    """

    def __init__(self, width: int, low: int, high: int, P: int):
        self.width, self.low, self.high, self.lanes = width, low, high, P
        word = lanes(P, width)
        super().__init__({"i": In(stream.Signature(word)).array(2), "o": Out(stream.Signature(word))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.relane = relane = Relane(
            self.width, ((self.low, self.high), self.lanes), (self.low + self.high, self.lanes)
        )
        turn = _turn(m, self.low, self.high, self.lanes, relane.i.valid & relane.i.ready)
        for k, port in enumerate(self.i):
            m.d.comb += port.ready.eq(relane.i.ready & (turn == k))
        m.d.comb += [
            relane.i.payload.eq(Mux(turn, self.i[1].payload, self.i[0].payload)),
            relane.i.valid.eq(Mux(turn, self.i[1].valid, self.i[0].valid)),
        ]
        wiring.connect(m, relane.o, wiring.flipped(self.o))
        return m


def _turn(m, low, high, P, step):
    """Whether the word that moves next belongs to the high channels."""
    first, words = math.ceil(low / P), math.ceil(low / P) + math.ceil(high / P)
    word = Signal(range(words), name="word")
    with m.If(step):
        m.d.sync += word.eq(Mux(word == words - 1, 0, word + 1))
    return word >= first


class AddSums(wiring.Component):
    """Adds two streams of exact sums, word by word.

    Latency ``latency``, a word a cycle. Takes a word of both in the same cycle: the ``ready`` of each depends on the
    ``valid`` of the other and on ``o.ready``; ``o.valid`` is a register.

    Parameters: lanes, bits of both inputs and of the result (wide enough by type: nothing is cut off).

    Members: ``a``, ``b``, ``o``.
    """

    latency = 1

    def __init__(self, P: int, a: int, b: int, width: int):
        if width < max(a, b):
            raise ValueError(f"AddSums: sums of {a} and {b} bits in {width}; at least {max(a, b)}")
        self.lanes = P
        super().__init__(
            {
                "a": In(stream.Signature(lanes(P, a))),
                "b": In(stream.Signature(lanes(P, b))),
                "o": Out(stream.Signature(lanes(P, width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        free, take = Signal(), Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            take.eq(self.a.valid & self.b.valid & free),
            self.a.ready.eq(self.b.valid & free),
            self.b.ready.eq(self.a.valid & free),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(take)
        with m.If(take):
            for k in range(self.lanes):
                m.d.sync += self.o.payload[k].eq(self.a.payload[k] + self.b.payload[k])
        return m


class Pack(wiring.Component):
    """Cuts a word of ``shape`` into ceil(bits/width) link words, low bits first, zero past the end.

    A link word a cycle. ``i.ready`` and ``o.valid`` depend on registers only.

    Members: ``i`` stream of ``shape``; ``o`` stream of ``width`` bits.
    """

    def __init__(self, shape, width: int):
        self.bits = Shape.cast(shape).width
        self.width, self.beats = width, math.ceil(self.bits / width)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(unsigned(width)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = Fifo(self.i.payload.shape(), 2)
        wiring.connect(m, wiring.flipped(self.i), fifo.i)
        beat = Signal(range(max(2, self.beats)))
        last = beat == self.beats - 1
        m.d.comb += [
            self.o.valid.eq(fifo.o.valid),
            fifo.o.ready.eq(self.o.ready & last),
            self.o.payload.eq(Value.cast(fifo.o.payload).word_select(beat, self.width)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        return m


class Unpack(wiring.Component):
    """Puts words of ``shape`` together from link words, low bits first: the inverse of :class:`Pack`.

    A link word a cycle. ``i.ready`` depends on ``o.ready``, ``o.valid`` on registers only.

    Members: ``i`` stream of ``width`` bits; ``o`` stream of ``shape``.
    """

    def __init__(self, shape, width: int):
        self.bits = Shape.cast(shape).width
        self.width, self.beats = width, math.ceil(self.bits / width)
        super().__init__({"i": In(stream.Signature(unsigned(width))), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        beat = Signal(range(max(2, self.beats)))
        last = beat == self.beats - 1
        parts = [Signal(self.width, name=f"part_{k}", reset_less=True) for k in range(self.beats)]
        take = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            Value.cast(self.o.payload).eq(Cat(parts)[: self.bits]),
        ]
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid & last)
        with m.If(take):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
            with m.Switch(beat):
                for k, part in enumerate(parts):
                    with m.Case(k):
                        m.d.sync += part.eq(self.i.payload)
        return m
