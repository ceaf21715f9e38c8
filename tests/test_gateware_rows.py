"""Rows dealt, put together and added, against plain lists; both ends stall."""

import gc
import re

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from geometry_cases import random_words
from row_cases import draw_deal, draw_stage
from stream_bench import run_streams

from hwgen.gateware.rows import AddRows, RowDeal, RowMerge
from hwgen.gateware.stream import lanes
from hwgen.plan.rows import Rows

P, WIDTH = 2, 9
STALLS = [(0.0, 0.0), (0.5, 0.1), (0.1, 0.5)]
SAMPLES = 3


def rows_of(seed):
    rng = np.random.default_rng([seed, 23])
    while True:
        stage = draw_stage(rng)
        dealt = draw_deal(rng, stage)
        if dealt is not None:
            return rng, Rows(stage, *dealt)


def plain(words):
    return [[word[k] for k in range(P)] for word in words]


def cut(words, per_row, rows):
    """Rows of words, sample after sample, as a list of (row, its words)."""
    assert len(words) == SAMPLES * len(rows) * per_row
    parts = [words[k : k + per_row] for k in range(0, len(words), per_row)]
    return list(zip(list(rows) * SAMPLES, parts, strict=True))


@pytest.mark.parametrize("seed", range(9))
def test_every_row_goes_to_those_that_read_it(seed):
    rng, rows = rows_of(seed)
    per_row, part = int(rng.integers(1, 4)), int(rng.integers(rows.count - 1))
    come, mine, others = rows.x_from(part).tolist(), set(rows.x(part)), set(rows.x_from(part + 1))
    words = random_words(rng, SAMPLES * len(come) * per_row, P, WIDTH)
    wanted = [
        [word for row, own in cut(words, per_row, come) if row in takers for word in own]
        for takers in (mine, others)
    ]
    deal = RowDeal(lanes(P, WIDTH), per_row, [(row in mine) + 2 * (row in others) for row in come])
    got, cycles = run_streams(
        Ends(deal),
        {"i": words},
        {"o0": len(wanted[0]), "o1": len(wanted[1])},
        stalls=STALLS[seed % 3],
        seed=seed,
    )
    assert [plain(got["o0"]), plain(got["o1"])] == wanted
    assert seed % 3 or cycles == len(words)


@pytest.mark.parametrize("seed", range(9))
def test_rows_come_together_in_order(seed):
    rng, rows = rows_of(seed)
    per_row, part = int(rng.integers(1, 4)), int(rng.integers(1, rows.count))
    all_rows, mine = rows.y_before(part + 1).tolist(), set(rows.y(part))
    wanted = random_words(rng, SAMPLES * len(all_rows) * per_row, P, WIDTH)
    sides = [
        [w for row, own in cut(wanted, per_row, all_rows) if (row in mine) == k for w in own] for k in (0, 1)
    ]
    merge = RowMerge(lanes(P, WIDTH), per_row, [int(row in mine) for row in all_rows])
    got, cycles = run_streams(
        Ends(merge), {"i0": sides[0], "i1": sides[1]}, {"o": len(wanted)}, stalls=STALLS[seed % 3], seed=seed
    )
    assert plain(got["o"]) == wanted
    assert seed % 3 or cycles == len(wanted)


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_rows_are_completed(seed):
    rng, rows = rows_of(seed)
    per_row, part = int(rng.integers(1, 4)), int(rng.integers(rows.count))
    summed, complete = rows.summed(part).tolist(), set(rows.rounded(part))
    given = {"own": set(rows.x(part)), "back": set(rows.back(part + 1))}
    words = {
        name: random_words(rng, SAMPLES * len(own) * per_row, P, WIDTH - 2)
        for name, own in given.items()
        if own
    }
    left = {name: iter(values) for name, values in words.items()}
    wanted = {"done": [], "rest": []}
    for _ in range(SAMPLES):
        for row in summed:
            for _ in range(per_row):
                terms = [next(left[name]) for name, own in given.items() if row in own]
                wanted["done" if row in complete else "rest"].append(
                    [sum(lane) for lane in zip(*terms, strict=True)]
                )
    add = AddRows(
        P, WIDTH, per_row, [row in given["own"] for row in summed], [row in given["back"] for row in summed],
        [row not in complete for row in summed],
    )  # fmt: skip
    widened = {name: values for name, values in words.items() if values}
    outputs = {name: len(values) for name, values in wanted.items() if values}
    assert set(add.signature.members) == {*widened, *outputs}
    got, _ = run_streams(add, widened, outputs, stalls=STALLS[seed % 3], seed=seed)
    assert {name: plain(values) for name, values in got.items()} == {k: v for k, v in wanted.items() if v}


class Ends(wiring.Component):
    """A part's arrays of streams as streams of their own names."""

    def __init__(self, part):
        self.part = part
        members = {}
        for name, member in part.signature.members.items():
            if member.dimensions:
                members |= {f"{name}{k}": Out(member.signature) for k in range(2)}
            else:
                members[name] = member
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = self.part
        for name in self.signature.members:
            inner = getattr(part, name[0])[int(name[1])] if len(name) > 1 else getattr(part, name)
            outer = wiring.flipped(getattr(self, name))
            wiring.connect(m, *((inner, outer) if name[0] == "o" else (outer, inner)))
        return m


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RowDeal(lanes(1, 4), 1, [1, 0]),
            "RowDeal: takers [1, 0]; every row goes to one output (1, 2) or both (3)",
        ),
        (
            lambda: RowMerge(lanes(1, 4), 1, [0, 2]),
            "RowMerge: givers [0, 2]; every row comes from input 0 or 1",
        ),
        (lambda: RowMerge(lanes(1, 4), 0, [0]), "rows of 0 words; at least 1"),
        (
            lambda: AddRows(1, 4, 1, [True, False], [True, False], [False, False]),
            "AddRows: every row must have own sums, sums from behind, or both",
        ),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
    gc.collect()  # the refused part, while its warning is ignored
