"""Block buffers of output words: errors replayed for every chunk, sums put into raster order."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Geometry
from .loops import Nest, flags_layout
from .stream import lanes

__all__ = ["Reorder", "Replay"]


class _Pixels:
    """A circular memory of ``blocks`` · b output pixels of ``words`` words; pixel n lies in slot n mod
    size."""

    def __init__(self, geometry: Geometry, blocks: int):
        if blocks < 1:
            raise ValueError(f"blocks = {blocks}; at least 1")
        self.words = geometry.out_words
        self.pixels = blocks * min(geometry.b, geometry.M)
        self.depth = self.pixels * self.words
        self.address = range(max(2, self.depth))
        self.count = range(-1, self.pixels + 1)

    def next(self, base):
        """Address of the next pixel's first word."""
        return Mux(base == self.depth - self.words, 0, base + self.words)

    def walk(self, m, nest, take):
        """Address of the pixel of every op that is taken: a block is walked again in every pass."""
        pixel, start = Signal(self.address, name="pixel"), Signal(self.address, name="block_start")
        with m.If(take):
            with m.If(~nest.visit_last):
                m.d.sync += pixel.eq(self.next(pixel))
            with m.Elif(nest.block_last):
                m.d.sync += [pixel.eq(self.next(pixel)), start.eq(self.next(pixel))]
            with m.Else():
                m.d.sync += pixel.eq(start)
        return pixel


class Replay(wiring.Component):
    """Takes errors pixel by pixel and replays each block once for every chunk: the backward order.

    Model: the loop nest "backward" of docs/gateware.md. An op a cycle; latency 3 from a pixel's last word to
    its first op. ``i.ready`` depends on registers only.

    Members: ``i`` words lanes(pn, width), words of a pixel together, raster order; ``o`` ops {flags, dy};
    ``allow`` a new sample may start, ``started`` pulse: it did.
    """

    latency = 3

    def __init__(self, geometry: Geometry, width: int, pn: int, blocks: int):
        self.geometry, self.blocks = geometry, blocks
        self.place = _Pixels(geometry, blocks)
        self.word = lanes(pn, width)
        self.op_layout = data.StructLayout({"flags": flags_layout(geometry), "dy": self.word})
        super().__init__(
            {
                "i": In(stream.Signature(self.word)),
                "o": Out(stream.Signature(self.op_layout)),
                "allow": In(1),
                "started": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        place = self.place
        memory = m.submodules.memory = Memory(shape=self.word, depth=place.depth, init=[])
        writer, reader = memory.write_port(), memory.read_port()

        # Pixels written and not yet read in a first pass; pixels written and not yet free.
        fresh = Signal(range(place.pixels + 1), name="fresh_pixels")
        free = Signal(range(place.pixels + 1), init=place.pixels, name="free_pixels")
        word = Signal(range(max(2, place.words)), name="write_word")
        write = Signal(place.address, name="write_address")
        took, whole = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(free != 0),
            took.eq(self.i.valid & (free != 0)),
            whole.eq(took & (word == place.words - 1)),
            writer.en.eq(took),
            writer.addr.eq(write),
            writer.data.eq(self.i.payload),
        ]
        with m.If(took):
            m.d.sync += [
                word.eq(Mux(whole, 0, word + 1)),
                write.eq(Mux(write == place.depth - 1, 0, write + 1)),
            ]

        m.submodules.nest = nest = Nest(self.geometry, "backward")
        move, take = Signal(), Signal()
        address = Signal(place.address, name="address", reset_less=True)
        flags = Signal(flags_layout(self.geometry), name="early_flags", reset_less=True)
        late = Signal(flags_layout(self.geometry), name="late_flags", reset_less=True)
        valid = Signal(name="early_valid")
        frees, freed = Signal(place.count, name="frees"), Signal(place.count, name="freed")
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            take.eq(move & (~nest.fresh | (fresh != 0)) & (self.allow | ~nest.flags.sample_first)),
            nest.step.eq(take),
            self.started.eq(take & nest.flags.sample_first),
            freed.eq(Mux(move, frees, 0)),
        ]
        m.d.sync += [fresh.eq(fresh + whole - (take & nest.fresh)), free.eq(free - whole + freed)]
        pixel = place.walk(m, nest, take)
        with m.If(move):
            m.d.sync += [valid.eq(take), self.o.valid.eq(valid), frees.eq(0)]
            with m.If(take):
                m.d.sync += [address.eq(pixel + nest.out_word), flags.eq(nest.flags)]
                with m.If(nest.block_last):
                    m.d.sync += frees.eq(nest.m + 1)
            with m.If(valid):
                m.d.sync += late.eq(flags)
        m.d.comb += [
            reader.addr.eq(address),
            reader.en.eq(move & valid),
            self.o.payload.flags.eq(late),
            self.o.payload.dy.eq(reader.data),
        ]
        return m


class Reorder(wiring.Component):
    """Takes words block by block as [g, nf, m] and gives them pixel by pixel.

    A word a cycle on both sides; a pixel comes out when its block is complete. ``i.ready`` depends on
    registers only. Members: ``i``, ``o`` words lanes(pn, width).
    """

    def __init__(self, geometry: Geometry, width: int, pn: int, blocks: int):
        self.geometry, self.blocks = geometry, blocks
        self.place = _Pixels(geometry, blocks)
        self.word = lanes(pn, width)
        super().__init__({"i": In(stream.Signature(self.word)), "o": Out(stream.Signature(self.word))})

    def elaborate(self, platform):
        m = Module()
        place = self.place
        memory = m.submodules.memory = Memory(shape=self.word, depth=place.depth, init=[])
        writer, reader = memory.write_port(), memory.read_port()
        m.submodules.nest = nest = Nest(self.geometry, "sums")
        ready_pixels = Signal(range(place.pixels + 1))
        free = Signal(range(-1, place.pixels + 1), init=place.pixels, name="free_pixels")
        take = Signal()
        pixel = place.walk(m, nest, take)
        m.d.comb += [
            # Pixels of a block take their room in its first pass.
            self.i.ready.eq(~nest.fresh | (free > 0)),
            take.eq(self.i.valid & self.i.ready),
            nest.step.eq(take),
            writer.en.eq(take),
            writer.addr.eq(pixel + nest.out_word),
            writer.data.eq(self.i.payload),
        ]

        address = Signal(place.address, name="read_address")
        word = Signal(range(max(2, place.words)), name="read_word")
        fetch, last = Signal(), Signal()
        complete = Signal(range(place.pixels + 1))
        m.d.comb += [
            complete.eq(Mux(take & nest.block_last, nest.m + 1, 0)),
            reader.en.eq(~self.o.valid | self.o.ready),
            fetch.eq(reader.en & (ready_pixels != 0)),
            last.eq(fetch & (word == place.words - 1)),
            reader.addr.eq(address),
            self.o.payload.eq(reader.data),
        ]
        m.d.sync += [
            ready_pixels.eq(ready_pixels + complete - last),
            free.eq(free - (take & nest.fresh) + last),
        ]
        with m.If(reader.en):
            m.d.sync += self.o.valid.eq(ready_pixels != 0)
        with m.If(fetch):
            m.d.sync += [
                word.eq(Mux(last, 0, word + 1)),
                address.eq(Mux(address == place.depth - 1, 0, address + 1)),
            ]
        return m
