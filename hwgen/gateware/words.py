"""The words of a tile's column: side by side in one memory, or each PE's in its own; and what is loaded into them."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data
from amaranth.lib.memory import Memory

__all__ = ["Column", "Load", "SumLoad", "Words", "column_loads", "ram_style"]


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
class SumLoad:
    """Loads of a column's dW, once the column's word is there (asked for now: ``reading`` at
    ``reading_address``, in the same one of two cycles as peeks): whether there is one of any PE (``some``;
    ``soon``: with the next cycle), of which (``chosen``), where, and to what. ``kept``: for each PE flags and
    values, the last that is set counts, of loads before that set it in the same word, which the word read does
    not have yet. Where dW goes through the sums, they are ``resets`` instead, and written from there
    (``stored``) a cycle later.
    """

    some: Value
    soon: Value
    chosen: list[Value]
    address: Value
    grad: Value
    kept: list[list[tuple[Value, Value]]]
    resets: list[Value]
    stored: Value
    stored_address: Value
    reading: Value
    reading_address: Value


@dataclass(frozen=True)
class Load:
    """Loads of a column: whether there is one of a master (``master``), or of any PE (``some``), of which (``chosen``,
    of masters ``masters``), where, the master that it sets, and dW (``sums``).

    ``reading``: the column's word is asked for it, at ``reading_address``. PEs are lanes here and
    addresses those of memories (see lanes.Lanes). ``kept_masters``: PEs that the load before set in the same word,
    which the word read does not have yet, to ``kept_value``.
    """

    some: Value
    chosen: list[Value]
    master: Value
    masters: list[Value]
    address: Value
    value: Value
    reading: Value
    reading_address: Value
    kept_masters: list[Value]
    kept_value: Value
    sums: SumLoad


@dataclass(frozen=True)
class Column:
    """A column's masters: the words read (``late_words``: a cycle later, if they have a register), what is written,
    which rows and where, what an update makes of them; whether it clears dW now (``cleared``) and with the next cycle
    (``resets``)."""

    words: list[Value]
    late_words: list[Value]
    new: list[Value]
    stepped: list[Signal]
    enables: list[Value]
    cleared: Value
    resets: Value
    address: Signal

    def clears(self, load, i):
        """Whether dW of row i is set by an update or a load."""
        return self.cleared | load.sums.chosen[i]


def column_loads(m, shape, tile, lanes) -> list[Load]:
    """The loads of every column of a tile. Where they merge with the column's word they are written once that is read,
    with what loads before have written into it meanwhile."""
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
    past = [now]
    for k in range(1, 6 + shape.registered if shape.columns else 2):
        later = Signal.like(now, name=f"load_{k}")
        m.d.sync += later.eq(past[-1])
        past.append(later)
    loads = []
    for j in range(tn):
        sums = _sum_load(shape, past, j, rows, tn)
        here = past[2 if shape.columns else 1]
        chosen = _chosen(here, j, rows, tn)
        some, master = Signal(name=f"loads_{j}"), Signal(name=f"loads_master_{j}")
        m.d.comb += [some.eq(Cat(chosen).any()), master.eq(some & ~here.sum)]
        kept, kept_value = [Const(0)] * rows, Const(0)
        if shape.columns:
            before = past[3]
            same = (before.address == here.address) & ~before.sum
            kept, kept_value = [same & one for one in _chosen(before, j, rows, tn)], before.value
        loads.append(
            Load(
                some, chosen, master, [one & ~here.sum for one in chosen], here.address, here.value,
                reading[j], address, kept, kept_value, sums,
            )
        )  # fmt: skip
    return loads


def _chosen(load, j, rows, tn):
    """The PEs of column j that a load sets."""
    return [load.select[i * tn + j] for i in range(rows)]


def _sum_load(shape, past, j, rows, tn):
    """dW of column j among the loads ``past``, of 0, 1, ... cycles ago."""
    at = 3 if shape.columns else 1
    here, chosen = past[at], _chosen(past[at], j, rows, tn)
    some = Cat(chosen).any()
    if not shape.columns:
        none = Const(0)
        return SumLoad(
            some, none, chosen, here.address, here.grad, [], [], none, here.address, none, here.address
        )
    # What was written since the word was read, and in that cycle; what goes through the sums is written a cycle later.
    before = past[at + 1 : at + 2 + shape.registered + shape.through_sums]
    read = past[1 - shape.registered]
    reading = Cat(_chosen(read, j, rows, tn)).any()
    sets = [[one & (load.address == here.address) for one in _chosen(load, j, rows, tn)] for load in before]
    kept = [[(sets[k][i], load.grad) for k, load in reversed([*enumerate(before)])] for i in range(rows)]
    resets = [some & Cat(one, *(each[i] for each in sets)).any() for i, one in enumerate(chosen)]
    stored = Cat(_chosen(past[at + 1], j, rows, tn)).any()
    soon = Cat(_chosen(past[at - 1], j, rows, tn)).any()
    return SumLoad(
        some, soon, chosen, here.address, here.grad, kept, resets, stored, past[at + 1].address, reading, read.address,
    )  # fmt: skip
