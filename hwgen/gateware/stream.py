"""Stream building blocks: words of lanes, FIFO, fork, register slice, checked connection."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["REGISTER_DEPTH", "Buffer", "Fifo", "Fork", "connect_streams", "lanes"]

REGISTER_DEPTH = 32
"""FIFOs up to this depth are read asynchronously (registers or LUT memory), deeper ones through a read
register."""


def lanes(P: int, width: int) -> data.ArrayLayout:
    """The payload of a word: P signed integers of ``width`` bits, lane 0 in the low bits."""
    if P < 1 or width < 1:
        raise ValueError(f"lanes: {P} lanes of {width} bits; both must be at least 1")
    return data.ArrayLayout(signed(width), P)


def connect_streams(m: Module, *, producer, consumer) -> None:
    """Connect two streams in the directions that the names say.

    Raises TypeError if the payload layouts differ, even where their widths agree.
    """
    source, target = producer.payload.shape(), consumer.payload.shape()
    if source != target:
        raise TypeError(f"producer sends {source!r}, consumer takes {target!r}")
    m.d.comb += [
        consumer.payload.eq(producer.payload),
        consumer.valid.eq(producer.valid),
        producer.ready.eq(consumer.ready),
    ]


class Fifo(wiring.Component):
    """Holds up to exactly ``depth`` words in order.

    One word a cycle at both ends (every second cycle for depth 1). Latency ``latency``: 1 cycle up to
    REGISTER_DEPTH, else 2. ``i.ready`` and ``o.valid`` depend on registers only.

    Members: ``i``, ``o`` streams of ``shape``; ``level`` words inside; ``high`` the highest level since
    reset.
    """

    def __init__(self, shape, depth: int):
        if depth < 1:
            raise ValueError(f"Fifo: depth {depth}; at least 1")
        self.shape, self.depth = shape, depth
        self.latency = 1 if depth <= REGISTER_DEPTH else 2
        count = range(depth + 1)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(count),
                "high": Out(count),
            }
        )

    def elaborate(self, platform):
        m = Module()
        push = self.i.valid & self.i.ready
        pop = self.o.valid & self.o.ready
        level = Signal(range(self.depth + 1), name="next_level")
        m.d.comb += [self.i.ready.eq(self.level != self.depth), level.eq(self.level + push - pop)]
        m.d.sync += self.level.eq(level)
        with m.If(level > self.high):
            m.d.sync += self.high.eq(level)
        if self.depth == 1:
            m.d.comb += self.o.valid.eq(self.level != 0)
            with m.If(push):
                m.d.sync += self.o.payload.eq(self.i.payload)
        elif self.depth <= REGISTER_DEPTH:
            self._asynchronous(m, push, pop)
        else:
            self._synchronous(m, push)
        return m

    def _asynchronous(self, m, push, pop):
        memory = m.submodules.memory = Memory(shape=self.shape, depth=self.depth, init=[])
        writer, reader = memory.write_port(), memory.read_port(domain="comb")
        self._write(m, writer, push, self.depth)
        m.d.comb += [self.o.payload.eq(reader.data), self.o.valid.eq(self.level != 0)]
        with m.If(pop):
            m.d.sync += reader.addr.eq(Mux(reader.addr == self.depth - 1, 0, reader.addr + 1))

    def _synchronous(self, m, push):
        # The read register holds one word of the capacity. It is empty only if the memory was, so the memory never
        # holds more than depth - 1 words, and a word is never read in the cycle that writes its address.
        slots = self.depth - 1
        memory = m.submodules.memory = Memory(shape=self.shape, depth=slots, init=[])
        writer, reader = memory.write_port(), memory.read_port()
        self._write(m, writer, push, slots)
        stored = Signal(range(slots + 1))
        fetch = Signal()
        m.d.comb += [
            reader.en.eq(~self.o.valid | self.o.ready),
            fetch.eq(reader.en & (stored != 0)),
            self.o.payload.eq(reader.data),
        ]
        m.d.sync += stored.eq(stored + push - fetch)
        with m.If(fetch):
            m.d.sync += reader.addr.eq(Mux(reader.addr == slots - 1, 0, reader.addr + 1))
        with m.If(reader.en):
            m.d.sync += self.o.valid.eq(stored != 0)

    def _write(self, m, writer, push, slots):
        m.d.comb += [writer.data.eq(self.i.payload), writer.en.eq(push)]
        with m.If(push):
            m.d.sync += writer.addr.eq(Mux(writer.addr == slots - 1, 0, writer.addr + 1))


class Fork(wiring.Component):
    """Gives every word of ``i`` to each of ``n`` consumers exactly once; each takes it when it likes.

    No latency, one word a cycle. ``i.ready`` depends on the ``ready`` of all consumers (those that still wait
    for the word), ``valid`` on ``i.valid`` and on registers.

    Members: ``i``; ``o``: ``n`` streams of the same ``shape``.
    """

    def __init__(self, shape, n: int):
        if n < 1:
            raise ValueError(f"Fork: {n} consumers; at least 1")
        self.n = n
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)).array(n)})

    def elaborate(self, platform):
        m = Module()
        done = Signal(self.n)
        served = Signal(self.n)
        m.d.comb += self.i.ready.eq(served.all())
        for k in range(self.n):
            m.d.comb += [
                self.o[k].payload.eq(self.i.payload),
                self.o[k].valid.eq(self.i.valid & ~done[k]),
                served[k].eq(done[k] | self.o[k].ready),
            ]
        with m.If(self.i.valid):
            m.d.sync += done.eq(Mux(served.all(), 0, served))
        return m


class Buffer(wiring.Component):
    """Cuts every combinational path of a stream: a register slice of two words.

    Latency 1, one word a cycle. ``i.ready``, ``o.valid`` and ``o.payload`` are registers.

    Members: ``i``, ``o`` streams of ``shape``.
    """

    latency = 1

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        spare = Signal.like(self.i.payload)
        full = Signal()
        m.d.comb += self.i.ready.eq(~full)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid | full),
                self.o.payload.eq(Mux(full, spare, self.i.payload)),
                full.eq(0),
            ]
        with m.Elif(self.i.valid & ~full):
            m.d.sync += [spare.eq(self.i.payload), full.eq(1)]
        return m
