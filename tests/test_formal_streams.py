"""Stream components by bounded model checking: proofs, and for every property a mistake that it finds."""

import pytest
import stream_proofs as proofs
from formal_bench import Bench, Verdict, combinational_paths, mutant, prove

from hwgen.gateware import channels, relane, relu, replay, stream
from hwgen.gateware import round as rounding

PASSES = ("stable", "count", "data", "progress")
MOVES = ("stable", "data", "progress")
JOINS = ("stable", "together", "count", "data", "progress")

# name, bench, component and its parameters, properties, cycles in the fast suite, in the long one.
CASES = {
    "fifo1": (proofs.fifo, (stream.Fifo, 1), (*PASSES, "level", "room"), 12, 30),
    "fifo2": (proofs.fifo, (stream.Fifo, 2), (*PASSES, "level", "room"), 12, 24),
    "fifo3 deep": (proofs.fifo, (stream.Fifo, 3), (*PASSES, "level", "room"), 10, 16),
    "fifo4 deep": (proofs.fifo, (stream.Fifo, 4), (*PASSES, "level", "room"), 9, 14),
    "fork2": (proofs.fork, (stream.Fork, 2), ("stable", "data", "once", "progress"), 10, 24),
    "fork3": (proofs.fork, (stream.Fork, 3), ("stable", "data", "once", "progress"), 10, 20),
    "buffer": (proofs.buffer, (stream.Buffer,), PASSES, 12, 30),
    "relane gather": (proofs.relane, (relane.Relane, (4, 2), (4, 4)), MOVES, 10, 18),
    "relane scatter": (proofs.relane, (relane.Relane, (3, 3), (3, 2)), MOVES, 10, 18),
    "relane shift": (proofs.relane, (relane.Relane, (4, 3), (2, 2)), MOVES, 9, 14),
    "relane uneven": (proofs.relane, (relane.Relane, (5, 2), (5, 3)), MOVES, 9, 14),
    "relane in turn": (proofs.relane, (relane.Relane, (4, 2), ((1, 3), 2)), MOVES, 9, 14),
    "split": (proofs.split, (channels.SplitChannels, 1, 2, 2), MOVES, 9, 14),
    "merge": (proofs.merge, (channels.MergeChannels, 1, 2, 2), MOVES, 9, 14),
    "add": (proofs.add, (channels.AddSums,), JOINS, 10, 24),
    "pack": (proofs.pack, (channels.Pack, 5, 2), MOVES, 9, 14),
    "unpack": (proofs.unpack, (channels.Unpack, 5, 2), MOVES, 10, 18),
    "relu": (proofs.relu, (relu.ReLU, 0), (*PASSES, "mask"), 10, 24),
    "relu trains": (proofs.relu, (relu.ReLU, 1), (*PASSES, "mask"), 10, 24),
    "adjoint": (proofs.adjoint, (relu.ReLUAdjoint,), JOINS, 10, 24),
    "round": (proofs.requantised, (rounding.Requantise, 3, (3, 1)), (*PASSES, "saturated"), 8, 14),
    "round up": (proofs.requantised, (rounding.Requantise, 1, (4, 2)), (*PASSES, "saturated"), 8, 14),
    "reorder": (proofs.reorder, (replay.Reorder, 1), MOVES, 14, 18),
    "replay": (proofs.replayed, (replay.Replay, 2), MOVES, 14, 20),
}


@pytest.fixture(autouse=True)
def few_registers(monkeypatch):
    """FIFOs of 3 words and more are of the deep kind."""
    monkeypatch.setattr(stream, "REGISTER_DEPTH", 2)


@pytest.mark.parametrize("name", CASES)
def test_proof(name):
    bench, (part, *arguments), properties, depth, _ = CASES[name]
    assert prove(bench(part, *arguments), depth) == Verdict(properties)


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_deep_proof(name):
    bench, (part, *arguments), properties, _, depth = CASES[name]
    assert prove(bench(part, *arguments), depth, engine="abc bmc3") == Verdict(properties)


# A mistake: case, text of the component, text instead of it, the property that finds it.
MISTAKES = [
    ("fifo1", "self.i.ready.eq(self.level != self.depth)", "self.i.ready.eq(1)", "data"),
    ("fifo2", "self.i.ready.eq(self.level != self.depth)", "self.i.ready.eq(1)", "count"),
    ("fifo2", "self.o.valid.eq(self.level != 0)]", "self.o.valid.eq((self.level != 0) & ~push)]", "stable"),
    ("fifo2", "self.i.ready.eq(self.level != self.depth)", "self.i.ready.eq(self.level == 0)", "room"),
    ("fifo2", "m.d.sync += self.level.eq(level)", "m.d.sync += self.level.eq(level | push)", "level"),
    ("fifo2", "with m.If(level > self.high)", "with m.If(level < self.high)", "level"),
    ("fifo2", "reader.addr.eq(Mux(reader.addr == self.depth - 1, 0, reader.addr + 1))", "reader.addr.eq(0)", "data"),
    ("fifo3 deep", "stored.eq(stored + push - fetch)", "stored.eq(stored + (push & ~fetch) - fetch)", "progress"),
    ("fifo3 deep", "reader.en.eq(~self.o.valid | self.o.ready)", "reader.en.eq(1)", "stable"),
    ("fork2", "served[k].eq(done[k] | self.o[k].ready)", "served[k].eq(self.o[k].ready)", "once"),
    ("fork2", "self.i.valid & ~done[k]", "self.i.valid", "once"),
    ("fork2", "self.o[k].payload.eq(self.i.payload)", "self.o[k].payload.eq(self.i.payload ^ done[1])", "data"),
    ("fork2", "self.o[k].payload.eq(self.i.payload)", "self.o[k].payload.eq(self.i.payload ^ done[1])", "stable"),
    ("fork2", "self.i.ready.eq(served.all())", "self.i.ready.eq(served.all() & done.any())", "progress"),
    ("buffer", "with m.Elif(self.i.valid & ~full)", "with m.Elif(self.i.valid)", "data"),
    ("buffer", "self.o.valid.eq(self.i.valid | full)", "self.o.valid.eq(self.i.valid)", "progress"),
    ("buffer", "full.eq(0),", "full.eq(full & ~self.i.valid),", "count"),
    ("buffer", "with m.If(~self.o.valid | self.o.ready)", "with m.If(~full | self.o.ready)", "stable"),
    ("relane shift", "after + come <= ", "after <= ", "data"),
    ("relane shift", "level.eq(Mux(push, after + come, after))", "level.eq(Mux(push, level + come, after))", "data"),
    ("relane gather", "return ~self.o.valid | self.o.ready", "return C(1)", "stable"),
    ("relane scatter", "return after == 0", "return C(0)", "progress"),
    ("relane uneven", "return after + come <= self.capacity // self.unit", "return after + come <= 2", "progress"),
    ("relane in turn", "shown = Mux(flag, shown[: size * width], shown)", "pass", "data"),
    ("split", "(turn == k))]", "(turn != k))]", "data"),
    ("split", "Mux(turn, self.o[1].ready, self.o[0].ready)", "self.o[0].ready", "stable"),
    ("split", "Mux(turn, self.o[1].ready, self.o[0].ready)", "self.o[1].ready & ~turn", "progress"),
    ("merge", "Mux(turn, self.i[1].payload, self.i[0].payload)", "self.i[0].payload", "data"),
    ("merge", "Mux(turn, self.i[1].valid, self.i[0].valid)", "self.i[0].valid & self.i[1].ready", "progress"),
    ("add", "self.a.ready.eq(self.b.valid & free)", "self.a.ready.eq(free)", "together"),
    ("add", "self.a.payload[k] + self.b.payload[k]", "self.a.payload[k] | self.b.payload[k]", "data"),
    ("add", "with m.If(free):", "with m.If(take):", "count"),
    ("pack", "Mux(last, 0, beat + 1)", "beat + 1", "data"),
    ("pack", "self.o.ready & last", "self.o.ready & (beat == self.beats)", "progress"),
    ("unpack", "with m.If(take):", "with m.If(self.i.ready):", "data"),
    ("unpack", "self.i.ready.eq(~self.o.valid | self.o.ready)", "self.i.ready.eq(1)", "stable"),
    ("unpack", "self.o.valid.eq(self.i.valid & last)", "self.o.valid.eq(self.i.valid & (beat == 3))", "progress"),
    ("relu", "Mux(value > self.low, value, self.low)", "Mux(value > self.low, value, self.low - 1)", "data"),
    ("relu", "take & self.train", "take", "mask"),
    ("relu trains", "mask, result = value > self.low", "mask, result = value >= self.low", "mask"),
    ("relu trains", "self.i.ready.eq(free & mask_free)", "self.i.ready.eq(free)", "stable"),
    ("adjoint", "self.mask.ready.eq(self.i.valid & free)", "self.mask.ready.eq(free)", "together"),
    ("adjoint", "Mux(self.mask.payload[k], value, weak)", "value", "data"),
    ("round", "round_shift(self.i.payload[k], self.shift)", "(self.i.payload[k] >> self.shift)", "data"),
    ("round", "clips.eq(0),", "", "saturated"),
    ("round", "free.eq(~self.o.valid | self.o.ready)", "free.eq(~self.o.valid)", "progress"),
    ("round", "self.i.ready.eq(~full | free)", "self.i.ready.eq(1)", "count"),
    ("reorder", "self.i.ready.eq(~nest.fresh | (free > 0))", "self.i.ready.eq(1)", "data"),
    ("reorder", "Mux(take & nest.block_last, nest.m + 1, 0)", "Mux(take & nest.block_last, nest.m, 0)", "progress"),
    ("replay", "(fresh != 0)) & (self.allow", "(free != 0)) & (self.allow", "data"),
    ("replay", "fresh.eq(fresh + whole - ", "fresh.eq(fresh - ", "progress"),
    ("add", "free.eq(~self.o.valid | self.o.ready)", "free.eq(1)", "stable"),
    ("add", "free.eq(~self.o.valid | self.o.ready)", "free.eq(~self.o.valid)", "progress"),
    ("adjoint", "free.eq(~self.o.valid | self.o.ready)", "free.eq(1)", "stable"),
    ("adjoint", "free.eq(~self.o.valid | self.o.ready)", "free.eq(~self.o.valid)", "progress"),
    ("adjoint", "with m.If(free):", "with m.If(take):", "count"),
    ("relu", "self.o.valid.eq(take)", "self.o.valid.eq(take | self.o.valid)", "count"),
    ("relu", "self.i.ready.eq(free & mask_free)", "self.i.ready.eq(free & self.mask.valid)", "progress"),
    ("round", "free.eq(~self.o.valid | self.o.ready)", "free.eq(1)", "stable"),
    ("round", "self.o.valid.eq(full)", "self.o.valid.eq(1)", "count"),
    ("round", "with m.If(free & full)", "with m.If(free)", "saturated"),
    ("reorder", "reader.en.eq(~self.o.valid | self.o.ready)", "reader.en.eq(1)", "stable"),
    ("replay", "move.eq(~self.o.valid | self.o.ready)", "move.eq(1)", "stable"),
    ("pack", "self.o.valid.eq(fifo.o.valid)", "self.o.valid.eq(fifo.o.valid & ~self.i.valid)", "stable"),
    ("merge", "wiring.flipped(self.o))", "wiring.flipped(self.o))\n        m.d.comb += relane.o.ready.eq(1)", "stable"),
]  # fmt: skip


@pytest.mark.parametrize(
    "mistake", range(len(MISTAKES)), ids=lambda k: f"{MISTAKES[k][0]}-{MISTAKES[k][3]}-{k}"
)
def test_mistake_is_found(mistake):
    name, old, new, found = MISTAKES[mistake]
    bench, (part, *arguments), _, _, depth = CASES[name]
    verdict = prove(bench(mutant(part, old, new), *arguments), depth, only=found)
    assert verdict == Verdict((found,), (found,))
    assert f"property_{found}" in verdict.trace


def test_every_property_finds_a_mistake():
    """Of every bench, in one of its cases."""
    wanted = {(case[0], name) for case in CASES.values() for name in case[2]}
    shown = {(CASES[name][0], found) for name, _, _, found in MISTAKES}
    missing = {(bench.__name__, name) for bench, name in wanted - shown}
    assert missing == set()


def test_no_property_is_no_proof():
    with pytest.raises(AssertionError, match="no property"):
        prove(Bench(), 3)


@pytest.mark.parametrize(
    ("part", "arguments", "readies", "valids"),
    [
        (stream.Fifo, (2, 2), ["o__ready"], ["o__valid", "i__ready"]),
        (stream.Fifo, (2, 33), ["o__ready"], ["o__valid", "i__ready"]),
        (stream.Fork, (2, 2), ["o__0__ready", "o__1__ready"], ["o__0__valid", "o__1__valid"]),
        (stream.Buffer, (2,), ["o__ready", "i__valid"], ["o__valid", "i__ready"]),
        (relane.Relane, (2, (4, 3), (2, 2)), ["o__ready"], ["o__valid"]),
        (
            channels.SplitChannels,
            (2, 1, 2, 2),
            ["o__0__ready", "o__1__ready"],
            ["o__0__valid", "o__1__valid"],
        ),
        (channels.MergeChannels, (2, 1, 2, 2), ["o__ready"], ["o__valid"]),
        (channels.AddSums, (1, 2, 3, 4), ["o__ready"], ["o__valid"]),
        (channels.Pack, (5, 2), ["o__ready"], ["o__valid", "i__ready"]),
        (channels.Unpack, (5, 2), ["o__ready"], ["o__valid"]),
        (relu.ReLU, (2, 2), ["o__ready", "mask__ready"], ["o__valid", "mask__valid"]),
        (relu.ReLUAdjoint, (2, 2), ["o__ready"], ["o__valid"]),
        (rounding.Requantise, (5, 3, proofs.Q(3, 1), 1), ["o__ready"], ["o__valid"]),
        (replay.Replay, (proofs.GEOMETRY, 2, 1, 2), ["o__ready"], ["o__valid", "i__ready"]),
        (replay.Reorder, (proofs.GEOMETRY, 2, 1, 2), ["o__ready"], ["o__valid", "i__ready"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_valid_does_not_wait_for_ready(part, arguments, readies, valids):
    assert combinational_paths(part(*arguments), readies, valids) == []


def test_path_from_ready_to_valid_is_found():
    part = mutant(
        stream.Fifo, "self.o.valid.eq(self.level != 0)]", "self.o.valid.eq((self.level != 0) & self.o.ready)]"
    )
    assert combinational_paths(part(2, 2), ["o__ready", "i__valid"], ["o__valid", "i__ready"]) == [
        ("o__ready", "o__valid")
    ]
