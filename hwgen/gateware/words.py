"""The words of a tile's column: side by side in one memory, or each PE's in its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data
from amaranth.lib.memory import Memory

from ..plan.memories import BYTE

__all__ = ["Column", "Load", "Words", "ram_style"]


def ram_style(kind: str) -> dict[str, str]:
    """Attributes of a memory that synthesis is to keep in memory of ``kind`` (layout.MEMORIES)."""
    return {} if kind == "auto" else {"ram_style": kind}


class Words:
    """``rows`` signed words of ``width`` bits at each of ``depth`` addresses.

    ``together``: in one memory, with ``enables`` a write enable a row (rows then begin at whole bytes), else one for
    all. ``transparent``: a read sees what is written in the same cycle.
    """

    def __init__(
        self, m, name, rows, width, depth, *, together=False, enables=False, transparent=False, kind="auto"
    ):
        self.m, self.rows, self.together, self.enables = m, rows, together, enables
        lane = math.ceil(width / BYTE) * BYTE if together and enables else width
        shape = data.ArrayLayout(signed(lane), rows) if together else signed(width)
        self.writers, self.readers = [], []
        for i in range(1 if together else rows):
            memory = Memory(MemoryData(shape=shape, depth=depth, init=[]), attrs=ram_style(kind))
            m.submodules[name if together else f"{name}_{i}"] = memory
            writer = memory.write_port(granularity=1 if together and enables else None)
            self.writers.append(writer)
            self.readers.append(memory.read_port(transparent_for=[writer] if transparent else []))

    def read(self, enables, addresses):
        """The rows' words, a cycle later; one enable and address for all, or of separate memories one a row."""
        for k, reader in enumerate(self.readers):
            en, address = (enables[k], addresses[k]) if isinstance(enables, list) else (enables, addresses)
            self.m.d.comb += [reader.en.eq(en), reader.addr.eq(address)]
        if not self.together:
            return [reader.data for reader in self.readers]
        return [self.readers[0].data[i] for i in range(self.rows)]

    def write(self, enables, address, values):
        """Writes the rows whose enable is set; together without enables of rows the first one counts for all."""
        for writer in self.writers:
            self.m.d.comb += writer.addr.eq(address)
        if self.together:
            (writer,) = self.writers
            self.m.d.comb += writer.en.eq(Cat(enables) if self.enables else enables[0])
            self.m.d.comb += [writer.data[i].eq(value) for i, value in enumerate(values)]
            return
        for writer, en, value in zip(self.writers, enables, values, strict=True):
            self.m.d.comb += [writer.en.eq(en), writer.data.eq(value)]


@dataclass(frozen=True)
class Load:
    """Loads of a column: whether there is one, of which PEs (also those that set dW only), of which masters; where and
    what. ``reading``: the column's word is to be read for it."""

    some: Value
    chosen: list[Value]
    masters: list[Value]
    address: Value
    value: Value
    reading: Value


@dataclass(frozen=True)
class Column:
    """A column's masters: the words read, what is written and which rows, what an update makes of them; which dW are
    cleared, whether any word is written, and where."""

    words: list[Value]
    new: list[Value]
    stepped: list[Signal]
    enables: list[Value]
    clears: list[Value]
    writes: Value
    address: Signal
