"""One direction of the link by bounded model checking: proofs, and mistakes that they find."""

import pytest
from formal_bench import Verdict, combinational_paths, mutant, prove
from link_proofs import crossing, direction
from narrow_link import narrow_link

from hwgen.gateware.link.crossing import Crossing

DEEP = "abc bmc3"
SAFE = ("room", "stable", "count", "data")
# Two channels, frames lost, damaged and repeated at will: the deepest that a quick run affords.
DEPTH = 16


@pytest.mark.parametrize("channel", [0, 1])
def test_nothing_lost_doubled_or_altered(channel):
    assert prove(direction(narrow_link(), (1, 2), channel), DEPTH) == Verdict(SAFE)


@pytest.mark.soak
@pytest.mark.parametrize(("depths", "channel"), [((1, 2), 0), ((1, 2), 1), ((2,), 0)])
def test_nothing_lost_doubled_or_altered_for_long(depths, channel):
    assert prove(direction(narrow_link(), depths, channel), 22, engine=DEEP) == Verdict(SAFE)


def test_a_quiet_cable_carries_on():
    """A word comes out within 20 cycles without a fault or a stall."""
    bench = direction(narrow_link(), (1,), 0, faults=False, limit=20)
    assert prove(bench, 22, only="progress") == Verdict(("progress",))


@pytest.mark.soak
def test_a_cable_that_behaves_again_carries_on():
    """Frames are lost, damaged and repeated in the first cycles; a word comes out within 28 cycles after."""
    bench = direction(narrow_link(), (1,), 0, limit=28)
    assert prove(bench, 44, only="progress", engine=DEEP) == Verdict(("progress",))


@pytest.mark.soak
def test_a_link_that_sends_nothing_again_is_found():
    parts = narrow_link("ring", "m.d.sync += back.eq(1)", "m.d.sync += back.eq(0)")
    verdict = prove(direction(parts, (1,), 0, limit=28), 44, only="progress", engine=DEEP)
    assert verdict == Verdict(("progress",), ("progress",))


MISTAKES = {
    "credits ignored": ("assembler", "credit[k].eq(limits[k] != sent[k])", "credit[k].eq(1)", "count", 16),
    "buffer overrun": ("assembler", "credit[k].eq(limits[k] != sent[k])", "credit[k].eq(1)", "room", 18),
    "room promised twice": ("grants", "limit.eq(Array(granted)[at] - Array(self.level)[at])",
                            "limit.eq(Array(granted)[at])", "count", 22),
    "damage taken": ("receiver", "(word.data == crc.crc)", "1", "data", 18),
    "gap taken": ("order", "self.accept.eq(is_data & in_order)", "self.accept.eq(is_data)", "data", 20),
    "damaged words kept": ("receiver", "m.d.sync += end.eq(committed)", "m.d.sync += end.eq(end)", "data", 20),
    "payload not read": ("sender", "header.length.eq(self.next.frame.length), self.read.eq(step)",
                         "header.length.eq(self.next.frame.length)", "data", 18),
    "credit never told": ("assembler", "limits[k].eq(self.credit.limit)", "limits[k].eq(limits[k])", "progress", 44),
    "never sent": ("ring", "fetched & ~back & ~behind", "fetched & back", "progress", 26),
}  # fmt: skip
LONG = {"credit never told", "room promised twice", "damaged words kept"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in LONG else []) for name in MISTAKES]
)
def test_mistake_is_found(name):
    module, old, new, found, depth = MISTAKES[name]
    limit = 20 if found == "progress" else None
    bench = direction(narrow_link(module, old, new), (1, 2), 1, faults=limit is None, limit=limit)
    assert prove(bench, depth, only=found) == Verdict((found,), (found,))


@pytest.mark.parametrize("cycles", [12, pytest.param(20, marks=pytest.mark.soak)])
def test_crossing(cycles):
    verdict = prove(crossing(Crossing, 4), cycles)
    assert verdict == Verdict(("stable", "count", "data", "progress", "level"))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "self.o.valid.eq(fifo.r_rdy & awake)",
            "self.o.valid.eq(fifo.r_rdy & awake & ~self.i.valid)",
            "stable",
        ),
        ("fifo.w_en.eq(self.i.valid & reading)", "fifo.w_en.eq(self.i.valid)", "count"),
        ("fifo.w_data.eq(self.i.payload)", "fifo.w_data.eq(self.i.payload ^ self.o.valid)", "data"),
        ("self.o.valid.eq(fifo.r_rdy & awake)", "self.o.valid.eq(fifo.r_rdy & ~awake)", "progress"),
        ("self.level.eq(fifo.w_level)", "self.level.eq(fifo.w_level + 4)", "level"),
    ],
)
def test_mistake_in_crossing_is_found(old, new, found):
    assert prove(crossing(mutant(Crossing, old, new), 4), 14, only=found) == Verdict((found,), (found,))


def test_valid_of_a_crossing_does_not_wait_for_ready():
    part = Crossing(1, 4, writer="sync", reader="sync")
    assert combinational_paths(part, ["o__ready"], ["o__valid", "i__ready"]) == []
