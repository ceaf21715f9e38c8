"""Adjoint of im2col: adds overlapping chunks into a circular row buffer and gives the sums in raster
order."""

from __future__ import annotations

import numpy as np
from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Geometry, col_ports
from .address import Banks, RasterAddress, Slots, TapAddress, turned, wrapped
from .loops import Nest
from .stream import lanes

__all__ = ["Col2im"]


class Col2im(wiring.Component):
    """out[pixel, word] = Σ of all chunk lanes whose tap is that pixel; 0 where there is none.

    Model: hwgen.ref.kernels.col2im. Takes a chunk and gives a word every cycle; a chunk waits for a row slot
    for its pixel, a word for the last output pixel that can touch it. Exact as long as ``width`` holds the
    sums. After reset a walk of ``depth`` cycles clears the marks. ``i.ready`` depends on registers only; the
    sums come ``latency`` cycles after the last chunk. A bank has one read port where plan.geometry.col_ports says so:
    then a word waits while a chunk is added to its bank.

    Members: ``i`` chunks lanes(u·pc, in_width) in order block, g, kf, m; ``o`` words lanes(pc, width);
    ``high`` most row slots in use.
    """

    latency = 5

    def __init__(self, geometry: Geometry, in_width: int, width: int, rows: int):
        self.geometry, self.in_width, self.width, self.rows = geometry, in_width, width, rows
        self.banks = Banks(geometry, rows)
        self.depth = self.banks.depth
        self.ports = col_ports(geometry)
        self.word = lanes(geometry.pc, width)
        super().__init__(
            {
                "i": In(stream.Signature(lanes(geometry.u * geometry.pc, in_width))),
                "o": Out(stream.Signature(self.word)),
                "high": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        banks = self.banks
        m.submodules.slots = slots = Slots(self.rows, self.geometry.slots)
        m.d.comb += self.high.eq(slots.high)
        sums = []
        for bank in range(banks.count):
            memory = Memory(shape=self.word, depth=banks.depth, init=[])
            m.submodules[f"bank_{bank}"] = memory
            writer = memory.write_port()
            # The very next chunk may add to the same word.
            adds = memory.read_port(transparent_for=[writer]) if self.ports != "emit" else None
            sums.append((writer, adds, adds if self.ports == "shared" else memory.read_port()))
        marks = _Marks(banks)
        m.submodules.marks = marks
        done, position, adding = self._add(m, slots, sums, marks)
        self._emit(m, slots, sums, marks, done, position, adding)
        return m

    def _add(self, m, slots, sums, marks):
        """Chunks in; pulse when a whole sample is added, the first output pixel that is not, banks that are read."""
        geometry, banks = self.geometry, self.banks
        y = geometry.vertical
        need = y.reached(y.first(np.arange(y.outputs)) + y.span)
        m.submodules.nest = nest = Nest(geometry, "chunks")
        m.submodules.taps = taps = TapAddress(banks, {"need": need.tolist()})
        base = Signal(banks.address, name="base")
        following = wrapped(m, "next_base", base, banks.sample_step, banks)
        ready, take = Signal(), Signal()
        m.d.comb += [
            *(getattr(taps, name).eq(getattr(nest, name)) for name in ("oy", "ox", "ky", "kx", "x_word")),
            taps.base.eq(base),
            slots.need.eq(taps.need),
            slots.use.eq(take),
            ready.eq(~marks.clearing & (~nest.fresh | slots.room)),
            self.i.ready.eq(ready),
            take.eq(self.i.valid & ready),
            nest.step.eq(take),
            slots.sample.eq(take & nest.sample_last),
        ]
        with m.If(take & nest.sample_last):
            m.d.sync += base.eq(following)

        # One cycle for the addresses, one for the read; the sum is written in the cycle after.
        flags = data.StructLayout(
            {"valid": banks.count, "block": 1, "sample": 1, "pixels": range(geometry.M + 1)}
        )
        early, late = Signal(flags, name="early"), Signal(flags, name="late")
        rotate_y, rotate_x = (
            Signal.like(taps.rotate_y, name="turn_y"),
            Signal.like(taps.rotate_x, name="turn_x"),
        )
        chunk = Signal.like(self.i.payload, name="chunk", reset_less=True)
        address = [Signal(banks.address, name=f"address_{k}", reset_less=True) for k in range(banks.count)]
        written = [Signal(banks.address, name=f"written_{k}", reset_less=True) for k in range(banks.count)]
        block_end = Signal(range(geometry.M + geometry.b + 1), name="block_end")
        m.d.sync += [early.eq(0), late.eq(early)]
        with m.If(take):
            m.d.sync += [
                early.valid.eq(Cat(taps.valid[k] for k in range(banks.count))),
                early.block.eq(nest.block_last),
                early.sample.eq(nest.sample_last),
                early.pixels.eq(block_end),
                rotate_y.eq(taps.rotate_y),
                rotate_x.eq(taps.rotate_x),
                chunk.eq(self.i.payload),
                *(register.eq(taps.address[k]) for k, register in enumerate(address)),
            ]
        # Output pixels done with this block, counted instead of computed.
        done_pixels = Signal(range(geometry.M + geometry.b + 1), name="done_pixels")
        m.d.comb += block_end.eq(done_pixels + geometry.b)
        with m.If(take & nest.block_last):
            m.d.sync += done_pixels.eq(Mux(nest.sample_last, 0, block_end))
        m.d.sync += [register.eq(source) for register, source in zip(written, address, strict=True)]
        by_bank = self._distribute(m, chunk, rotate_y, rotate_x)
        for bank, (writer, reader, gives) in enumerate(sums):
            add = Signal(lanes(self.geometry.pc, self.in_width), name=f"add_{bank}", reset_less=True)
            m.d.sync += add.eq(by_bank[bank])
            if reader is not None:
                # Of a shared port the other side is in _emit.
                with m.If(early.valid[bank] | (reader is not gives)):
                    m.d.comb += [reader.addr.eq(address[bank]), reader.en.eq(early.valid[bank])]
            m.d.comb += [
                writer.addr.eq(written[bank]),
                writer.en.eq(late.valid[bank]),
                marks.add_address[bank].eq(written[bank]),
                marks.add[bank].eq(late.valid[bank]),
            ]
            for lane in range(geometry.pc):
                old = Mux(marks.add_marked[bank], reader.data[lane], 0) if reader is not None else 0
                m.d.comb += writer.data[lane].eq(old + add[lane])

        position = Signal(range(geometry.M + 1), name="position")
        with m.If(late.block):
            m.d.sync += position.eq(Mux(late.sample, 0, late.pixels))
        return late.sample, position, early.valid

    def _distribute(self, m, chunk, rotate_y, rotate_x):
        """Bank (rotation + p) mod B gets position p: for every bank its lanes."""
        y, x = self.banks.vertical, self.banks.horizontal
        size = self.geometry.pc * self.in_width
        bits = chunk.as_value()
        parts = [[bits[(ky * x + kx) * size :][:size] for kx in range(x)] for ky in range(y)]
        parts = turned(m, "chunk_y", rotate_y, parts, back=True)
        columns = turned(m, "chunk_x", rotate_x, list(zip(*parts, strict=True)), back=True)
        parts = list(zip(*columns, strict=True))
        return [part for row in parts for part in row]

    def _emit(self, m, slots, sums, marks, done, position, adding):
        geometry, banks = self.geometry, self.banks
        y, x = geometry.vertical, geometry.horizontal
        rows, columns = np.arange(y.size), np.arange(x.size)
        left = y.left(np.arange(y.size + 1))
        row_fields = {
            "last_y": (y.touching(rows) * x.outputs).tolist(),
            "freed": np.diff(left).tolist(),
        }
        column_fields = {"last_x": x.touching(columns).tolist()}
        m.submodules.raster = raster = RasterAddress(banks, row_fields, column_fields)
        ahead = Signal(signed(self.rows.bit_length() + 3))
        take, move, read = Signal(name="emit"), Signal(), Signal(name="read")
        last = Signal(range(geometry.M))
        valid, bank = Signal(name="read_valid"), Signal.like(raster.bank, name="read_bank")
        address = Signal(banks.address, name="read_address", reset_less=True)
        freed = Signal.like(slots.freed, name="read_frees")
        shared = self.ports == "shared"
        m.d.comb += [
            last.eq(raster.last_y + raster.last_x),
            read.eq(valid & (~self.o.valid | self.o.ready) & ~(adding.bit_select(bank, 1) & shared)),
            move.eq(~valid | read),
            take.eq(move & ((ahead > 0) | ((ahead == 0) & (last < position)))),
            raster.step.eq(take),
        ]
        m.d.sync += ahead.eq(ahead + done - (take & raster.sample_last))

        shown = Signal.like(raster.bank, name="shown_bank")
        marked, fresh = Signal(name="shown_marked"), Signal(name="shown_now")
        with m.If(move):
            m.d.sync += [
                valid.eq(take),
                bank.eq(raster.bank),
                address.eq(raster.address),
                freed.eq(Mux(take & raster.row_last, raster.freed, 0)),
            ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(read):
            m.d.sync += [self.o.valid.eq(1), shown.eq(bank), marked.eq(marks.emit_marked.bit_select(bank, 1))]
        m.d.sync += fresh.eq(read)
        m.d.comb += [slots.freed.eq(Mux(read, freed, 0)), marks.emit_address.eq(address)]
        words = Array([reader.data.as_value() for _, _, reader in sums])
        word = Mux(marked, words[shown], 0)
        if shared:
            # The next chunk may be read while a word waits to be taken.
            kept = Signal(len(word), name="kept_word", reset_less=True)
            with m.If(fresh):
                m.d.sync += kept.eq(word)
            word = Mux(fresh, word, kept)
        m.d.comb += self.o.payload.as_value().eq(word)
        for k, (_, _, reader) in enumerate(sums):
            with m.If(~(adding[k] & shared)):
                m.d.comb += [reader.addr.eq(address), reader.en.eq(read)]
            m.d.comb += marks.emit[k].eq(read & (bank == k))


class _Marks(wiring.Component):
    """One bit a word: whether anything was added to it since it was last given out.

    Kept as the difference of two bits, one written by each side, so that no memory has two writers. Members
    by bank: ``add`` marks ``add_address``; ``emit`` clears ``emit_address`` (one for all); ``*_marked`` show
    the state before. ``clearing`` after reset.
    """

    def __init__(self, banks: Banks):
        self.banks = banks
        super().__init__(
            {
                "add": In(banks.count),
                "add_address": In(banks.address).array(banks.count),
                "add_marked": Out(banks.count),
                "emit": In(banks.count),
                "emit_address": In(banks.address),
                "emit_marked": Out(banks.count),
                "clearing": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        walk = Signal(self.banks.address)
        with m.If(self.clearing):
            m.d.sync += walk.eq(walk + 1)
            with m.If(walk == self.banks.depth - 1):
                m.d.sync += self.clearing.eq(0)
        for bank in range(self.banks.count):
            added = Memory(MemoryData(shape=1, depth=self.banks.depth, init=[]))
            given = Memory(MemoryData(shape=1, depth=self.banks.depth, init=[]))
            m.submodules[f"added_{bank}"], m.submodules[f"given_{bank}"] = added, given
            set_added, set_given = added.write_port(), given.write_port()
            reads = {}
            for side, address in (("add", self.add_address[bank]), ("emit", self.emit_address)):
                ports = added.read_port(domain="comb"), given.read_port(domain="comb")
                m.d.comb += [port.addr.eq(address) for port in ports]
                reads[side] = [port.data for port in ports]
            m.d.comb += [
                self.add_marked[bank].eq(reads["add"][0] ^ reads["add"][1]),
                self.emit_marked[bank].eq(reads["emit"][0] ^ reads["emit"][1]),
                set_added.en.eq(self.clearing | self.add[bank]),
                set_added.addr.eq(Mux(self.clearing, walk, self.add_address[bank])),
                set_added.data.eq(~self.clearing & ~reads["add"][1]),
                set_given.en.eq(self.clearing | self.emit[bank]),
                set_given.addr.eq(Mux(self.clearing, walk, self.emit_address)),
                set_given.data.eq(~self.clearing & reads["emit"][0]),
            ]
        return m
