"""Circular row buffer with an im2col address generator: words of an image in, chunks of windows out."""

from __future__ import annotations

import numpy as np
from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Geometry
from .address import Banks, RasterAddress, Slots, TapAddress, turned, wrapped
from .loops import Nest, flags_layout
from .stream import lanes
from .words import ram_style

__all__ = ["Window"]


class Window(wiring.Component):
    """Holds ``rows`` row slots of a stream of images, in memory of ``kind``, and reads every window of them, in order
    ``order``.

    x lane p·pc + c of an op is channel c of the chunk at its position p, 0 outside the image (``inside`` bit
    p). Model: hwgen.ref.kernels.im2col. An op a cycle as soon as its pixels are written; latency ``latency``
    from the write of the last pixel needed to the op. ``i.ready`` depends on registers only, ``o`` ops stall
    as a whole.

    Members: ``i`` words lanes(pc, width) in raster order; ``o`` ops {flags, x, inside}; ``allow`` a new
    sample may start, ``started`` pulse: it did; ``high`` most row slots in use.
    """

    latency = 3

    def __init__(self, geometry: Geometry, width: int, rows: int, order: str, kind: str = "auto"):
        self.geometry, self.width, self.rows, self.order, self.kind = geometry, width, rows, order, kind
        self.banks = Banks(geometry, rows)
        self.word = lanes(geometry.pc, width)
        self.op_layout = data.StructLayout(
            {
                "flags": flags_layout(geometry),
                "x": lanes(geometry.u * geometry.pc, width),
                "inside": geometry.u,
            }
        )
        super().__init__(
            {
                "i": In(stream.Signature(self.word)),
                "o": Out(stream.Signature(self.op_layout)),
                "allow": In(1),
                "started": Out(1),
                "high": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        geometry, banks = self.geometry, self.banks
        m.submodules.slots = slots = Slots(self.rows, geometry.slots)
        m.d.comb += self.high.eq(slots.high)
        readers = []
        writers = []
        for bank in range(banks.count):
            memory = Memory(
                MemoryData(shape=self.word, depth=banks.depth, init=[]), attrs=ram_style(self.kind)
            )
            m.submodules[f"bank_{bank}"] = memory
            writers.append(memory.write_port())
            readers.append(memory.read_port())
        done = Signal(name="read_done")
        ahead, written = self._write(m, slots, writers, done)
        self._read(m, slots, readers, ahead, written, done)
        return m

    def _write(self, m, slots, writers, done):
        """The writing side; how many samples it is ahead, and pixels it has written of its sample."""
        geometry = self.geometry
        y = geometry.vertical
        raster = RasterAddress(self.banks, {"slot": [y.index(c) + 1 for c in range(y.size)]})
        m.submodules.raster = raster
        take = Signal(name="write")
        m.d.comb += [
            slots.need.eq(raster.slot),
            slots.use.eq(take),
            self.i.ready.eq(slots.room),
            take.eq(self.i.valid & slots.room),
            raster.step.eq(take),
            slots.sample.eq(take & raster.sample_last),
        ]
        for bank, writer in enumerate(writers):
            m.d.comb += [
                writer.addr.eq(raster.address),
                writer.data.eq(self.i.payload),
                writer.en.eq(take & (raster.bank == bank)),
            ]
        written = Signal(range(geometry.window.pixels_in + 1))
        ahead = Signal(signed(self.rows.bit_length() + 3))
        with m.If(take & raster.pixel_last):
            m.d.sync += written.eq(Mux(raster.sample_last, 0, written + 1))
        m.d.sync += ahead.eq(ahead + (take & raster.sample_last) - done)
        return ahead, written

    def _read(self, m, slots, readers, ahead, written, done):
        geometry, banks = self.geometry, self.banks
        y, x = geometry.vertical, geometry.horizontal
        width = geometry.horizontal.size
        oy, ox = np.arange(y.outputs), np.arange(x.outputs)
        last_row = np.minimum(y.first(oy) + y.span, y.size - 1)
        below = y.below(y.first(oy))
        row_fields = {
            "need_row": (np.maximum(last_row, -1) * width).tolist(),
            "below": below.tolist(),
            "below_next": [*below[1:].tolist(), 0],
        }
        column_fields = {"need_column": np.clip(x.first(ox) + x.span + 1, 0, x.size).tolist()}
        m.submodules.nest = nest = Nest(geometry, self.order)
        m.submodules.taps = taps = TapAddress(banks, row_fields, column_fields)

        base = Signal(banks.address, name="base")
        following = wrapped(m, "next_base", base, banks.sample_step, banks)
        move = Signal()  # ops go on by one stage
        ready = Signal()
        take = Signal()
        need = Signal(signed((geometry.window.pixels_in + 1).bit_length() + 2))
        m.d.comb += [
            need.eq(taps.need_row + taps.need_column),
            move.eq(~self.o.valid | self.o.ready),
            # A window in the padding alone waits for the sample's first pixel: no sample starts before it is there.
            ready.eq(~nest.fresh | (ahead > 0) | ((ahead == 0) & (written != 0) & (need <= written))),
            take.eq(move & ready & (self.allow | ~nest.flags.sample_first)),
            nest.step.eq(take),
            done.eq(take & nest.sample_last),
            self.started.eq(take & nest.flags.sample_first),
            *(getattr(taps, name).eq(getattr(nest, name)) for name in ("oy", "ox", "ky", "kx", "x_word")),
            taps.base.eq(base),
        ]
        with m.If(done):
            m.d.sync += base.eq(following)

        # What the block leaves free, once its ops have read.
        left = Signal(range(geometry.slots + 1), name="left")
        target = Signal.like(left, name="target")
        m.d.comb += target.eq(
            Mux(nest.sample_last, geometry.slots, Mux(nest.x_last, taps.below_next, taps.below))
        )
        freed = Signal.like(left, name="freed")
        address = [
            Signal(banks.address, name=f"address_{bank}", reset_less=True) for bank in range(banks.count)
        ]
        early = Signal(
            data.StructLayout(
                {
                    "flags": self.op_layout["flags"].shape,
                    "valid": banks.count,
                    "rotate_y": taps.rotate_y.shape(),
                    "rotate_x": taps.rotate_x.shape(),
                }
            ),
            name="early",
            reset_less=True,
        )
        late = Signal.like(early, name="late")
        early_valid = Signal()
        with m.If(move):
            m.d.sync += [early_valid.eq(take), freed.eq(0)]
            with m.If(take):
                m.d.sync += [
                    early.flags.eq(nest.flags),
                    early.valid.eq(Cat(taps.valid[bank] for bank in range(banks.count))),
                    early.rotate_y.eq(taps.rotate_y),
                    early.rotate_x.eq(taps.rotate_x),
                    *(register.eq(taps.address[bank]) for bank, register in enumerate(address)),
                ]
                with m.If(nest.block_last):
                    m.d.sync += [freed.eq(target - left), left.eq(Mux(nest.sample_last, 0, target))]
            m.d.sync += self.o.valid.eq(early_valid)
            with m.If(early_valid):
                m.d.sync += late.eq(early)
        m.d.comb += slots.freed.eq(Mux(move, freed, 0))
        for register, reader in zip(address, readers, strict=True):
            m.d.comb += [reader.addr.eq(register), reader.en.eq(move & early_valid)]
        self._rotate(m, readers, late)

    def _rotate(self, m, readers, late):
        """Put the banks' words in the order of the kernel positions; position p lies in bank (rotation + p)
        mod B."""
        y, x = self.banks.vertical, self.banks.horizontal
        u, pc = self.geometry.u, self.geometry.pc
        m.d.comb += self.o.payload.flags.eq(late.flags)
        words = [[readers[by * x + bx].data.as_value() for bx in range(x)] for by in range(y)]
        valid = [[late.valid[by * x + bx] for bx in range(x)] for by in range(y)]
        words, valid = (turned(m, f"{n}_y", late.rotate_y, g) for n, g in (("word", words), ("valid", valid)))
        words, valid = (list(zip(*g, strict=True)) for g in (words, valid))  # columns first
        words, valid = (turned(m, f"{n}_x", late.rotate_x, g) for n, g in (("word", words), ("valid", valid)))
        out_x = self.o.payload.x.as_value()
        size = pc * self.width
        assert x * y == u
        for kx in range(x):
            for ky in range(y):
                p = ky * x + kx
                m.d.comb += [
                    self.o.payload.inside[p].eq(valid[kx][ky]),
                    out_x[p * size : (p + 1) * size].eq(Mux(valid[kx][ky], words[kx][ky], 0)),
                ]
