"""Cuts by rows in the search: whole turns, no small rests, and what waits."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from search_cases import fewest, random_board

from hwgen import Model, nn
from hwgen.plan.fold import Folding
from hwgen.plan.part import Part, part_stage
from hwgen.plan.plan import Depths, StagePlan
from hwgen.plan.rows import deal_evenly
from hwgen.plan.search.held import Flight, Waits
from hwgen.plan.search.search import ANY_ROWS, Search, usual_storages
from hwgen.plan.turns import COARSE, turn_rows, with_turn_depths
from hwgen.target import Cluster, Link

LINK = Link(lanes=1, gbps=10.0, latency=10)


def tall(height, kernel=3, pool=1):
    """One convolution over a tall image, cut by rows only, and a classifier."""
    layers = [nn.Conv2d(2, 3, kernel, padding=kernel // 2, split="rows"), nn.ReLU()]
    layers += [nn.MaxPool2d(pool)] if pool > 1 else []
    layers += [nn.Flatten(), nn.Linear(height // pool * (4 // pool) * 3, 2)]
    return Model(
        input=(height, 4, 2), layers=layers, loss=nn.SoftmaxCrossEntropy(), optimizer=nn.SGD(lr=0.1, batch=2)
    ).network(0)


def search_over(height, boards, **shape):
    board = random_board(np.random.default_rng(boards), "one")
    network = tall(height, **shape)
    cluster = Cluster((board,) * boards, (LINK,) * (boards - 1))
    return Search(network, cluster, usual_storages(network), paced_by_loss=False)


def found_cuts():
    """(search, plan, turns) of every pace at which a cut by rows in several turns is found."""
    for height, boards in ((24, 4), (21, 4)):
        search = search_over(height, boards)
        flown = [Flight(2.0, 2.0, 2.0)] * len(search.line.layers)
        for share in np.arange(1.0, 5.0, 0.25):
            pace = int(search.floor * share)
            found = search.at(pace, flown)
            assert (len(found.steps) if found else None) == fewest(search, pace, flown), (height, pace)
            turns = search.line.turns(pace, ANY_ROWS.most_turns)
            if found and len(found.shares(2)[0]) > 2 and turns[0] > 1:
                yield search, found, turns[0]


def test_parts_have_whole_turns_and_no_small_rest():
    tried = 0
    for search, found, turns in found_cuts():
        least = search.line.least_rows(found.pace, [turns, 1])[0]
        sizes = [share.size for _, share, _ in found.shares(2)[0]]
        assert all(size % turns == 0 for size in sizes[:-1])
        assert min(sizes) >= least >= turns
        tried += 1
    assert tried >= 5


@pytest.mark.parametrize(("kernel", "pool"), [(1, 1), (3, 1), (5, 1), (3, 2)])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rows_that_wait_are_those_of_the_plan(kernel, pool, turns):
    """A row of pixels against COARSE of them: less than the pixels of one apart, but for rounding of both."""
    stage = tall(36, kernel, pool).stages[0]
    sizes = [stage.out_shape[0] // 3] * 3
    deal = deal_evenly(sizes, turns)
    parts = []
    for index in range(3):
        part = Part("rows", index, 3, 0, sizes[index], deal)
        own, folding = part_stage(stage, part, index), Folding(1, 2, 3, 1)
        parts.append(StagePlan(own, folding, (1, 1), Depths(1, 1, 1, 1, 1, 1, 1), part, index))
    compared = 0
    for planned, rows in zip(
        with_turn_depths(stage, parts, [0.0] * 3), turn_rows(stage, deal, 3), strict=True
    ):
        for name, waiting in rows.items():
            y_sided = name in ("turn_y", "turn_y_before", "turn_dy")
            width = stage.out_shape[1] if y_sided else stage.window.width
            spare = 2 * planned.fold.b + 4 if getattr(planned.depths, name) else 0
            exact = (getattr(planned.depths, name) - spare) / width
            assert abs(exact - waiting) <= 1 / COARSE + 1 / width, (name, exact, waiting)
            compared += 1
    assert compared >= 6


def flight(*numbers):
    waits = Waits(*(numbers[k % len(numbers)] + k for k in range(len(fields(Waits)))))
    return Flight(*numbers, waits)


def test_the_most_of_two_is_that_of_every_number():
    small, large, mixed = flight(1.0, 2.0, 3.0), flight(4.0, 5.0, 6.0), flight(0.5, 9.0, 3.0)
    both = small.most(mixed)
    assert (both.x, both.masks, both.argmax) == (1.0, 9.0, 3.0)
    for field in fields(Waits):
        pair = getattr(small.waits, field.name), getattr(mixed.waits, field.name)
        assert getattr(both.waits, field.name) == max(pair)
    assert small.within(large)
    assert small.within(small)
    assert not large.within(small)
    assert not mixed.within(small)
    doubled = small.times(2.0)
    assert (doubled.x, doubled.waits.unpooled) == (2.0, 2 * small.waits.unpooled)


def test_one_wait_more_is_no_longer_within():
    given = flight(1.0, 2.0, 3.0)
    for field in fields(Waits):
        numbers = {each.name: getattr(given.waits, each.name) for each in fields(Waits)}
        numbers[field.name] += 0.5
        assert not Flight(1.0, 2.0, 3.0, Waits(**numbers)).within(given), field.name


def test_parts_are_told_apart_by_their_place():
    first, one, other, last = (flight(float(k), 1.0, 1.0) for k in (4, 2, 3, 1))
    whole = Flight.of_parts([first, one, other, last])
    assert whole.x == 4.0
    assert [whole.at(low, high, 40).x for low, high in ((0, 10), (10, 20), (20, 30), (30, 40))] == [
        4,
        3,
        3,
        1,
    ]
    pair = Flight.of_parts([first, last])
    assert (pair.at(0, 5, 10).x, pair.at(5, 10, 10).x, pair.at(3, 6, 10).x) == (4, 1, 4)
    assert one.at(0, 5, 10) is one
