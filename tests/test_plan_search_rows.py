"""Cuts by rows in the search: whole turns, no small rests, and what waits."""

from __future__ import annotations

from dataclasses import fields, replace
from math import prod

import numpy as np
import pytest
from search_cases import fewest, random_board

from hwgen import Model, nn
from hwgen.plan.budget import needed_gbps
from hwgen.plan.chain import chain_links, layout_stages
from hwgen.plan.fold import Folding
from hwgen.plan.part import Part, part_stage
from hwgen.plan.plan import Depths, StagePlan
from hwgen.plan.rows import Rows, deal_evenly
from hwgen.plan.search.bound import lower_bound
from hwgen.plan.search.held import Flight, Waits
from hwgen.plan.search.layer import layers_of
from hwgen.plan.search.options import sizes_of
from hwgen.plan.search.place import layout_of
from hwgen.plan.search.search import ANY_ROWS, Search, usual_storages
from hwgen.plan.turns import COARSE, turn_rows, with_turn_depths
from hwgen.target import Cluster, Link

LINK = Link(lanes=1, gbps=10.0, latency=10)


def tall(height, kernel=3, pool=1, stride=1, pool_stride=None, outputs=3, width=4):
    """One convolution over a tall image, cut by rows only, and a classifier."""
    layers = [nn.Conv2d(2, outputs, kernel, stride=stride, padding=kernel // 2, split="rows"), nn.ReLU()]
    layers += [nn.MaxPool2d(pool, stride=pool_stride)] if pool > 1 else []
    behind = prod(_pooled(extent, kernel, pool, stride, pool_stride) for extent in (height, width))
    layers += [nn.Flatten(), nn.Linear(behind * outputs, 2)]
    optimizer = nn.SGD(lr=0.1, batch=2)
    return Model(
        input=(height, width, 2), layers=layers, loss=nn.SoftmaxCrossEntropy(), optimizer=optimizer
    ).network(0)


def _pooled(extent, kernel, pool, stride, pool_stride):
    """Pixels along one side behind the pool."""
    conv = (extent + 2 * (kernel // 2) - kernel) // stride + 1
    return (conv - pool) // (pool_stride or pool) + 1


def search_over(height, boards, dsp=None, **shape):
    board = random_board(np.random.default_rng(boards), "one")
    if dsp is not None:
        board = replace(board, device=replace(board.device, dsp=dsp, bram=100))
    network = tall(height, **shape)
    cluster = Cluster((board,) * boards, (LINK,) * (boards - 1))
    return Search(network, cluster, usual_storages(network), paced_by_loss=False)


def found_cuts():
    """(search, plan, turns) of every pace at which a cut by rows in several turns is found."""
    for height, boards in ((24, 4), (21, 4)):
        search = search_over(height, boards)
        flown = [Flight(2.0, 2.0, 2.0)] * len(search.line.layers)
        for share in np.arange(1.0, 2.75, 0.25):
            pace = int(search.floor * share)
            found = search.at(pace, flown)
            assert (len(found.steps) if found else None) == fewest(search, pace, flown), (height, pace)
            turns = search.line.turns(pace, ANY_ROWS.most_turns)[0][0]
            if found and len(found.shares(2)[0]) > 2 and turns > 1:
                yield search, found, turns


def test_parts_have_whole_turns_and_no_small_rest():
    tried = 0
    for search, found, turns in found_cuts():
        least = max(turns, search.line.least_rows(found.pace)[0])
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


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (5, 2)])
@pytest.mark.parametrize(("pool", "pool_stride"), [(1, None), (2, 2), (3, 2), (3, 1)])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rows_of_a_part_are_those_of_the_plan(kernel, stride, pool, pool_stride, turns):
    """At most so many; of parts between others exactly those before the pool."""
    layer = layers_of(tall(53, kernel, pool, stride, pool_stride, width=8))[0]
    height = layer.stage.out_shape[0]
    for count in (2, 3, 4):
        own = height // count // turns * turns
        sizes = [own] * (count - 1) + [height - own * (count - 1)]
        rows = Rows(layer.stage, deal_evenly(sizes, turns), count)
        for part, size in enumerate(sizes):
            first, last = part == 0, part == count - 1
            given = sizes_of(layer, "rows", size, turns, first, last)
            assert given.rows >= len(rows.conv(part))
            assert given.x_rows >= len(rows.x(part))
            if not first and not last and own // turns >= layer.pool_overlap:
                assert given.rows == len(rows.conv(part))
            if turns == 1:
                assert given.rows == len(rows.conv(part))


@pytest.mark.parametrize(("pool", "pool_stride", "width"), [(3, 2, 4), (3, 1, 4), (5, 2, 8)])
def test_bound_is_below_plans_whose_first_part_has_fewer_rows(pool, pool_stride, width):
    """Where pool windows overlap, the first part computes a row that others take from those before them."""
    tried = 0
    for dsp in range(16, 32, 2):
        search = search_over(56, 16, dsp, pool=pool, pool_stride=pool_stride, outputs=2, width=width)
        found = search.run()
        assert lower_bound(search.line, search.storages, search.floor, 4 * found.pace).pace <= found.pace
        sizes = [share.size for _, share, _ in found.shares(2)[0]]
        tried += sizes[0] < max(sizes)
    assert tried >= 2


def test_links_carry_what_rows_sum_once_a_batch():
    search = search_over(24, 4)
    found = search.run()
    network, line = search.line.network, search.line
    cut = [k for k, step in enumerate(found.steps[:-1]) if step.end.axis == "rows"]
    stages = layout_stages(network, layout_of(line.layers, found))
    links = chain_links(network, stages, line.cluster)
    for k in cut:
        batch = [tuple(c for c in way if c.batch) for way in (links[k].down, links[k].up)]
        sums = replace(links[k], down=batch[0], up=batch[1])
        room = line.room_gbps[k]
        for gbps in needed_gbps(sums, 1000, line.clock, network.update.batch):
            assert gbps > 0
            assert line.least_paced(k, found.steps[k].end, 0) * room / 1000 == pytest.approx(gbps)
    assert cut


def test_turns_whose_halos_take_longer_than_the_pace_are_not_taken():
    """A turn of one row reads 11 rows of x for it, of three rows 19: 8 of them in one go, or 16 in two halves."""
    search = search_over(96, 8, 2000, kernel=11, stride=4)
    layer = search.line.layers[0]
    words = 4 * layer.stage.groups
    for x_rows in (19, 23, 30, 38):
        ((turns, *_), _) = search.line.turns(x_rows * words, 5)
        assert sizes_of(layer, "rows", turns, turns, False, False).x_rows <= x_rows
