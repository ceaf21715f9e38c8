"""The words of a tile's column: side by side in one memory, or each PE's in its own; and what is loaded into them."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data
from amaranth.lib.memory import Memory

__all__ = ["Column", "Load", "Words", "column_loads", "ram_style"]


def ram_style(kind: str) -> dict[str, str]:
    """Attributes of a memory that synthesis is to keep in memory of ``kind`` (layout.MEMORIES)."""
    return {} if kind == "auto" else {"ram_style": kind}


class Words:
    """``rows`` signed words of ``width`` bits at each of ``depth`` addresses.

    ``together``: in one memory with one write enable for all. ``transparent``: a read sees what is written in the same
    cycle.
    """

    def __init__(self, m, name, rows, width, depth, *, together=False, transparent=False, kind="auto"):
        self.m, self.rows, self.together = m, rows, together
        shape = data.ArrayLayout(signed(width), rows) if together else signed(width)
        self.writers, self.readers = [], []
        for i in range(1 if together else rows):
            memory = Memory(MemoryData(shape=shape, depth=depth, init=[]), attrs=ram_style(kind))
            m.submodules[name if together else f"{name}_{i}"] = memory
            writer = memory.write_port()
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
        """Writes the rows whose enable is set; together all rows if the first one's is."""
        for writer in self.writers:
            self.m.d.comb += writer.addr.eq(address)
        if self.together:
            (writer,) = self.writers
            self.m.d.comb += writer.en.eq(enables[0])
            self.m.d.comb += [writer.data[i].eq(value) for i, value in enumerate(values)]
            return
        for writer, en, value in zip(self.writers, enables, values, strict=True):
            self.m.d.comb += [writer.en.eq(en), writer.data.eq(value)]


@dataclass(frozen=True)
class Load:
    """Loads of a column: whether there is one, of any PE (``some``) and of which (``chosen``; of masters ``master`` and
    ``masters``), where, the master and the dW that it sets.

    ``reading``: the column's word is to be read for it, at ``reading_address``. PEs are lanes here and
    addresses those of memories (see lanes.Lanes). ``kept`` and ``kept_masters``: PEs that the load before set in
    the same word, which the word read does not have yet: to ``kept_value`` and ``kept_grad``. Where dW goes through the
    sums, they are ``resets``, also of the last two loads, and written from there (``stored``) a cycle later.
    """

    some: Value
    chosen: list[Value]
    master: Value
    masters: list[Value]
    address: Value
    value: Value
    grad: Value
    reading: Value
    reading_address: Value
    kept: list[Value]
    kept_masters: list[Value]
    kept_value: Value
    kept_grad: Value
    resets: list[Value]
    stored: Value
    stored_address: Value


@dataclass(frozen=True)
class Column:
    """A column's masters: the words read, what is written, which rows and where, what an update makes of them; whether
    it clears dW now (``cleared``) and with the next cycle (``resets``)."""

    words: list[Value]
    new: list[Value]
    stepped: list[Signal]
    enables: list[Value]
    cleared: Value
    resets: Value
    address: Signal

    def clears(self, load, i):
        """Whether dW of row i is set by an update or a load."""
        return self.cleared | load.chosen[i]


def column_loads(m, shape, tile, lanes) -> list[Load]:
    """The loads of every column of a tile. Where they merge with the column's word they are written a cycle later, once
    that is read, with what the load before has written into it meanwhile."""
    rows, tn = lanes.count, lanes.tn
    reading = Signal(tn, name="load_reading")
    m.d.comb += reading.eq(Cat(Cat(tile.load_select[j::tn]).any() for j in range(tn)))
    select, group = lanes.select(tile.load_select)
    address = lanes.place(tile.load_address, group)
    fields = {"select": rows * tn, "address": shape.place, "value": signed(shape.master)}
    fields |= {"sum": 1, "grad": signed(shape.grad)}
    now = Signal(data.StructLayout(fields), name="load_now")
    sums = [Const(0), Const(0, signed(shape.grad))]
    if shape.shared:
        sums = [tile.load_sum, Mux(tile.load_sum, tile.load_grad, 0)]
    m.d.comb += now.as_value().eq(Cat(select, address, tile.load_value, *sums))
    kept, same = Signal.like(now, name="load_kept"), Signal(name="load_same")
    oldest, same_oldest = Signal(rows * tn, name="load_oldest"), Signal(name="load_same_oldest")
    if shape.columns:
        late = Signal.like(now, name="load_late")
        m.d.sync += [late.eq(now), kept.eq(late), same.eq(now.address == late.address)]
        m.d.sync += [oldest.eq(kept.select), same_oldest.eq(now.address == kept.address)]
        now = late
    loads = []
    for j in range(tn):
        chosen = [now.select[i * tn + j] for i in range(rows)]
        some, master = Signal(name=f"loads_{j}"), Signal(name=f"loads_master_{j}")
        m.d.comb += [some.eq(Cat(chosen).any()), master.eq(some & ~now.sum)]
        before = [same & kept.select[i * tn + j] for i in range(rows)]
        gone = [same_oldest & oldest[i * tn + j] for i in range(rows)]
        resets = [some & (a | b | c) for a, b, c in zip(chosen, before, gone, strict=True)]
        stored = Cat(kept.select[j::tn]).any()
        loads.append(
            Load(
                some, chosen, master, [one & ~now.sum for one in chosen], now.address, now.value, now.grad,
                reading[j], address, before, [one & ~kept.sum for one in before], kept.value, kept.grad,
                resets, stored, kept.address,
            )
        )  # fmt: skip
    return loads
