"""Streams of a stage whose image rows several boards share: rows dealt out, put together, their sums completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import lanes
from .table import Table

__all__ = ["AddRows", "RowDeal", "RowMerge"]


class _RowCount(wiring.Component):
    """Fields of the row that is next, of rows of ``words`` words that come again and again; ``step``: a word moves."""

    def __init__(self, words: int, fields: Mapping[str, Sequence[int]]):
        if words < 1:
            raise ValueError(f"rows of {words} words; at least 1")
        self.words, self.table = words, Table(fields)
        shapes = {name: self.table.signature.members[name].shape for name in fields}
        super().__init__({"step": In(1), **{name: Out(shape) for name, shape in shapes.items()}})
        self.names = tuple(fields)

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        word, row = Signal(range(max(2, self.words))), Signal(range(max(2, table.length)))
        last = word == self.words - 1
        m.d.comb += [
            table.index.eq(row),
            *(getattr(self, name).eq(getattr(table, name)) for name in self.names),
        ]
        with m.If(self.step):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
            with m.If(last):
                m.d.sync += row.eq(Mux(row == table.length - 1, 0, row + 1))
        return m


class RowDeal(wiring.Component):
    """Gives every row of ``i`` to ``o[0]``, to ``o[1]``, or to both, each of which takes it when it likes.

    No latency, a word a cycle. ``i.ready`` depends on the ``ready`` of those that still wait for the word, ``valid`` on
    ``i.valid`` and registers.

    Parameters: shape of a word, words in a row, ``takers`` of every row of a sample: bit k for ``o[k]``.
    """

    def __init__(self, shape, words: int, takers: Sequence[int]):
        if not takers or not all(1 <= bits <= 3 for bits in takers):
            raise ValueError(
                f"RowDeal: takers {list(takers)}; every row goes to one output (1, 2) or both (3)"
            )
        self.count = _RowCount(words, {"takers": takers})
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)).array(2)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.count = count = self.count
        done, served, takers = Signal(2), Signal(2), Signal(2)
        m.d.comb += [
            takers.eq(count.takers),
            self.i.ready.eq(served.all()),
            count.step.eq(self.i.valid & served.all()),
        ]
        for k in range(2):
            mine = takers[k]
            m.d.comb += [
                self.o[k].payload.eq(self.i.payload),
                self.o[k].valid.eq(self.i.valid & mine & ~done[k]),
                served[k].eq(~mine | done[k] | self.o[k].ready),
            ]
        with m.If(self.i.valid):
            m.d.sync += done.eq(Mux(served.all(), 0, served & takers))
        return m


class RowMerge(wiring.Component):
    """Puts rows together: row r of a sample is the next one of ``i[givers[r]]``.

    No latency, a word a cycle. ``ready`` of the input whose turn it is depends on ``o.ready``; ``o.valid`` on the
    ``valid`` of that one.

    Parameters: shape of a word, words in a row, ``givers`` 0 or 1 of every row.
    """

    def __init__(self, shape, words: int, givers: Sequence[int]):
        if not givers or not set(givers) <= {0, 1}:
            raise ValueError(f"RowMerge: givers {list(givers)}; every row comes from input 0 or 1")
        self.count = _RowCount(words, {"giver": givers})
        super().__init__({"i": In(stream.Signature(shape)).array(2), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.count = count = self.count
        m.d.comb += [
            self.o.valid.eq(Mux(count.giver, self.i[1].valid, self.i[0].valid)),
            self.o.payload.eq(Mux(count.giver, self.i[1].payload, self.i[0].payload)),
            count.step.eq(self.o.valid & self.o.ready),
            *(port.ready.eq(self.o.ready & (count.giver == k)) for k, port in enumerate(self.i)),
        ]
        return m


class AddRows(wiring.Component):
    """Exact sums of rows: own ones, those of the part behind, or both added; those complete go to ``done``, those that
    parts before add to, to ``rest``. All in raster order.

    Latency ``latency``, a word a cycle. Takes a word of all that a row has in the same cycle: the ``ready`` of each
    depends on the ``valid`` of the other and on the ``ready`` of both outputs; their ``valid`` are registers.

    Parameters: lanes, bits of a sum, words in a row; ``own``, ``back``, ``rest`` of every row: whether it has own sums,
    sums from behind, and goes to ``rest``.

    Members: ``own``; ``back`` where any row has such; ``done`` and ``rest`` where any row goes there.
    """

    latency = 1

    def __init__(
        self, P: int, width: int, words: int, own: Sequence[bool], back: Sequence[bool], rest: Sequence[bool]
    ):
        if not own or not len(own) == len(back) == len(rest) or not all(map(max, own, back)):
            raise ValueError("AddRows: every row must have own sums, sums from behind, or both")
        self.lanes = P
        fields = {"own": own, "back": back, "rest": rest}
        self.count = _RowCount(words, {name: [int(bit) for bit in bits] for name, bits in fields.items()})
        word = stream.Signature(lanes(P, width))
        members: dict[str, object] = {"own": In(word)}
        members |= {"back": In(word)} if any(back) else {}
        members |= {"done": Out(word)} if not all(rest) else {}
        members |= {"rest": Out(word)} if any(rest) else {}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.count = count = self.count
        names = self.signature.members
        outputs = [(name, getattr(self, name)) for name in ("done", "rest") if name in names]
        back_valid = self.back.valid if "back" in names else 0
        free, take = Signal(), Signal()
        own_there, back_there = Signal(), Signal()
        m.d.comb += [
            own_there.eq(~count.own | self.own.valid),
            back_there.eq(~count.back | back_valid),
            # One row waits for the next, wherever they go: the order of rows is the same for all streams.
            free.eq(Cat(~port.valid | port.ready for _, port in outputs).all()),
            take.eq(own_there & back_there & free),
            count.step.eq(take),
            self.own.ready.eq(count.own & back_there & free),
        ]
        if "back" in names:
            m.d.comb += self.back.ready.eq(count.back & own_there & free)
        for name, port in outputs:
            mine = count.rest if name == "rest" else ~count.rest
            with m.If(port.ready):
                m.d.sync += port.valid.eq(0)
            with m.If(take & mine):
                m.d.sync += port.valid.eq(1)
                for k in range(self.lanes):
                    behind = Mux(count.back, self.back.payload[k], 0) if "back" in names else 0
                    m.d.sync += port.payload[k].eq(Mux(count.own, self.own.payload[k], 0) + behind)
        return m
