"""Rows dealt in turns: every row owned once, what is read and added where, against a plain count of taps."""

import re

import numpy as np
import pytest
from row_cases import Q8, draw_deal, draw_stage, parts_by_rows

from hwgen.errors import ModelError
from hwgen.ir.stage import Stage
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.part import part_stage
from hwgen.plan.rows import Rows, deal_cycles, deal_evenly, row_problems, rows_of, usual_turns

SEEDS = range(150)


def drawn(seed):
    rng = np.random.default_rng([seed, 17])
    while True:
        stage = draw_stage(rng)
        dealt = draw_deal(rng, stage)
        if dealt is not None:
            return stage, Rows(stage, *dealt)


def taps(window, oy):
    """Rows of the image under an output row."""
    rows = [window.first_row(oy) + ky * window.dilation[0] for ky in range(window.kernel[0])]
    return [row if 0 <= row < window.height else None for row in rows]


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_have_the_taps_of_the_whole(seed):
    """Every own output row reads, through the table, the rows of x that it reads in the whole stage."""
    stage, rows = drawn(seed)
    owned = []
    for part in parts_by_rows(stage, rows.deal, rows.count):
        own, x = part_stage(stage, part, 3), rows.x(part.index)
        assert own.in_shape == (len(x), *stage.in_shape[1:])
        assert own.conv_shape[0] == len(rows.conv(part.index))
        assert own.out_shape == (part.high, *stage.out_shape[1:])
        assert list(own.window.starts) == sorted(set(own.window.starts))
        for own_row, row in enumerate(rows.conv(part.index)):
            found = [None if tap is None else int(x[tap]) for tap in taps(own.window, own_row)]
            assert found == taps(stage.window, int(row))
        owned += rows.conv(part.index).tolist()
        assert own.grad_bits(7) == stage.grad_bits(7)
        assert own.bias_grad_bits(7) == stage.bias_grad_bits(7)
    assert sorted(owned) == list(range(stage.window.out_height))


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_parts_have_the_rows_of_the_whole(seed):
    """Every own row of y has under its pool what it has in the whole stage; each row before it has one owner, the first
    of those that have it; what an owner lacks, the parts before it have, and hand on."""
    stage, rows = drawn(seed)
    turns = np.cumsum([0, *rows.deal])
    windows = {}
    for part in parts_by_rows(stage, rows.deal, rows.count):
        p = part.index
        y = [r for k in range(p, len(rows.deal), rows.count) for r in range(turns[k], turns[k + 1])]
        assert rows.y(p).tolist() == y
        assert rows.y_before(p).tolist() == sorted(r for q in range(p) for r in rows.y(q))
        pooled, own = rows.pooled(p), part_stage(stage, part, 3)
        if stage.pool is None:
            assert rows.conv(p).tolist() == pooled.tolist() == y
            windows[p] = set(y)
            continue
        windows[p] = set()
        for own_row, row in enumerate(y):
            found = [None if tap is None else int(pooled[tap]) for tap in taps(own.pool, own_row)]
            assert found == taps(stage.pool, row)
            windows[p] |= {*found} - {None}
    for p in range(rows.count):
        for row in rows.conv(p).tolist():
            having = [q for q in windows if row in windows[q]]
            assert not having or p == min(having)
        come = set(rows.shared(p).tolist())
        assert windows[p] <= {*rows.pooled(p).tolist()} <= {*rows.conv(p).tolist()} | come
        assert come == {
            row for q in range(p) for row in rows.conv(q).tolist() for behind in range(p, rows.count)
            if row in rows.pooled(behind)
        }  # fmt: skip
    assert not len(rows.shared(0))
    assert not len(rows.shared(rows.count))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_of_dx_is_completed_once(seed):
    """Sums travel to the first part that adds to a row, are rounded there, and every part's share arrives."""
    stage, rows = drawn(seed)
    adds = [set(rows.x(part).tolist()) for part in range(rows.count)]
    completed = []
    coming, done = {}, set()
    for part in reversed(range(rows.count)):
        assert set(coming) == set(rows.back(part + 1).tolist())
        assert done == set(rows.dx(part + 1).tolist())
        sums = {
            row: coming.get(row, set()) | ({part} if row in adds[part] else set())
            for row in {*coming, *adds[part]}
        }
        assert sorted(sums) == rows.summed(part).tolist()
        own = set(rows.rounded(part).tolist())
        for row in own:
            assert sums.pop(row) == {q for q in range(rows.count) if row in adds[q]}
        completed += own
        coming, done = sums, done | own
    assert not coming
    assert sorted(completed) == list(range(stage.window.height)) == rows.dx(0).tolist()
    assert rows.x_from(0).tolist() == list(range(stage.window.height))


def stage_of(window=None, **changes):
    window = window or Window2d(8, 4, (3, 3), pads=(1, 1, 1, 1))
    return Stage("conv", 0, window, 2, 3, Q8, Q8, Q(12, 8), None, Q8, Q8, Q8, **changes)


def test_a_plain_case():
    """Eight rows of a 3×3 convolution in turns of two for two parts."""
    rows = Rows(stage_of(), (2, 2, 2, 2), 2)
    assert rows.y(0).tolist() == [0, 1, 4, 5]
    assert rows.x(0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert rows.starts(0) == (-1, 0, 3, 4)
    assert rows.x(1).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert rows.starts(1) == (0, 1, 4, 5)
    assert rows.dx(1).tolist() == [7]
    assert rows.back(1).tolist() == [1, 2, 3, 4, 5, 6]
    assert rows.rounded(0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    wide = Rows(stage_of(), (4, 4), 2)
    assert (wide.x(1).tolist(), wide.back(1).tolist(), wide.dx(1).tolist()) == (
        [3, 4, 5, 6, 7],
        [3, 4],
        [5, 6, 7],
    )


TWO = "give 2 or more parts, and turns that sum to the 8 rows of its output"
ILLEGAL = {
    "too few rows": ({}, (2, 2, 2), 2, 1, f"turns of (2, 2, 2) rows for 2 parts; {TWO}"),
    "one part": ({}, (8,), 1, 1, f"turns of (8) rows for 1 parts; {TWO}"),
    "an idle part": ({}, (4, 4), 3, 1, "parts [2] of 3 get none of 8 rows; give each a row, or fewer parts"),
    "blocks across rows": (
        {}, (4, 4), 2, 3, "blocks of b = 3 pixels cross the ends of rows of 4; legal b: [1, 2, 4]",
    ),
    "all rows before the pool on other boards": (
        {"pool": Window2d(8, 4, (3, 3), (1, 1), (1, 1, 1, 1))}, (2, 1, 2, 1, 2), 2, 1,
        "parts before parts [1] have all rows under their pool windows; give longer turns",
    ),
    "padding alone": (
        {"window": Window2d(1, 4, (1, 1), pads=(1, 0, 1, 0))}, (2, 1), 2, 1,
        "the rows of parts [1] lie in the padding alone; give them others",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ILLEGAL)
def test_what_cannot_be_cut_is_named(case):
    changes, deal, count, b, what = ILLEGAL[case]
    message = f"conv: rows: {what}"
    assert row_problems(stage_of(**changes), deal, count, b) == [message]
    if b == 1:
        with pytest.raises(ModelError, match=re.escape(message)):
            rows_of(stage_of(**changes), deal, count)


def test_every_problem_is_told_at_once():
    assert len(row_problems(stage_of(), (9,), 2, 3)) == 2


@pytest.mark.parametrize("height", range(1, 20))
def test_deals_sum_to_the_height(height):
    for shares in ((1, 1), (3, 2), (1, 4, 2)):
        deal = deal_cycles(height, shares)
        assert sum(deal) == height
        assert all(turn == shares[k % len(shares)] for k, turn in enumerate(deal[:-1]))
        assert 0 < deal[-1] <= shares[(len(deal) - 1) % len(shares)]
    for low in range(1, height):
        for cycles in range(1, 6):
            deal = deal_evenly((low, height - low), cycles)
            assert (sum(deal[::2]), sum(deal[1::2])) == (low, height - low)
            for part in (deal[::2], deal[1::2]):
                assert 0 < min(part) <= max(part) <= min(part) + 1


def test_usual_turns_read_a_third_twice_at_most():
    for window in (
        Window2d(30, 4, (3, 3), pads=(1, 1, 1, 1)),
        Window2d(60, 4, (5, 5), (2, 2)),
        Window2d(30, 4),
    ):
        stage = stage_of(window)
        for count in (2, 3):
            turns = usual_turns(stage, count)
            totals = tuple(
                stage.out_shape[0] * (p + 1) // count - stage.out_shape[0] * p // count for p in range(count)
            )
            rows = Rows(stage, deal_evenly(totals, turns), count)
            read = sum(len(rows.x(part)) for part in range(count))
            assert read <= 1.5 * window.height
    pooled = stage_of(Window2d(32, 4, (3, 3), pads=(1, 1, 1, 1)), pool=Window2d(32, 4, (2, 2), (2, 2)))
    assert usual_turns(pooled, 2) == 4
