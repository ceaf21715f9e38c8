"""The search against exhaustive ones, its bound, and what it promises of every plan."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from search_cases import fewest, least_pes, random_board, random_network, random_search

from hwgen import Model, nn
from hwgen.plan.budget import dsps
from hwgen.plan.chain import layout_stages
from hwgen.plan.logic import estimate
from hwgen.plan.rows import deal_evenly
from hwgen.plan.search.bound import lower_bound
from hwgen.plan.search.held import Flight
from hwgen.plan.search.layer import Share, layers_of
from hwgen.plan.search.options import SLACK, _streams, near, sizes_of
from hwgen.plan.search.place import layout_of
from hwgen.plan.search.search import MOST_PACE, Search, _flies, usual_storages
from hwgen.plan.search.walk import _last
from hwgen.target import Cluster, Link

SEEDS = range(200)
PACES = (1.0, 1.6, 4.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_fewest_boards_at_a_pace_equal_exhaustive_search(seed):
    search = random_search(seed)
    flown = [Flight(2.0, 2.0, 2.0)] * len(search.line.layers)
    for share in PACES:
        pace = int(search.floor * share)
        found = search.at(pace, flown)
        assert (len(found.steps) if found else None) == fewest(search, pace, flown), pace


def test_exhaustive_cases_are_of_both_kinds():
    counts = set()
    for seed in range(40):
        search = random_search(seed)
        flown = [Flight(2.0, 2.0, 2.0)] * len(search.line.layers)
        for share in PACES:
            found = search.at(int(search.floor * share), flown)
            counts.add(len(found.steps) if found else 0)
    assert counts >= {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_least_pace_equals_exhaustive_search(seed):
    search = random_search(seed)
    found = search.run()
    top = found.pace if found else 20 * search.floor
    flown = found.flights if found else [Flight(1.0, 1.0, 1.0)] * len(search.line.layers)
    for pace in range(search.floor, top):
        if fewest(search, pace, flown) is not None:  # so many samples in flight are too few for a faster plan
            faster = search.at(pace, flown)
            assert not _flies(faster, search.needed(faster)), pace
    assert found is None or fewest(search, top, flown) is not None


@pytest.mark.parametrize("seed", range(120))
def test_whether_anything_fits_is_asked_at_few_paces(seed, monkeypatch):
    """Of those that the search tries, each twice the one before or more; the answer is the same."""
    search, asked = random_search(seed), []
    found, ladder = search.run(), set()
    for pace in search._ladder():
        ladder.add(pace)
    steady = search.steady
    monkeypatch.setattr(search, "steady", lambda pace: asked.append(pace) or steady(pace))
    assert (search.slowly() is None) == (found is None)
    assert asked
    assert set(asked) <= ladder
    assert all(b >= 2 * a for a, b in pairwise(asked))


@pytest.mark.parametrize("seed", range(60))
def test_bound_is_below_every_plan_and_above_the_floor(seed):
    search = random_search(seed)
    found = search.run()
    if found is not None:
        bound = lower_bound(search.line, search.storages, search.floor, 4 * found.pace)
        assert search.floor <= bound.pace <= found.pace


@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_paces_that_failed_are_not_tried_again(seed):
    search, again = random_search(seed), random_search(seed)
    found = search.run()
    if found is None:
        return
    second = again.run(failed=search.failed)
    assert (second.pace, second.steps) == (found.pace, found.steps)
    assert again.failed == search.failed
    if search.failed:
        assert again.tried < search.tried
        assert random_search(seed).run(cap=search.failed) is None


def test_last_that_fits_is_found_from_any_hint():
    """And with two probes if the hint is right."""
    for most in range(40):
        for last in range(most + 1):
            for hint in range(most + 3):
                asked = set()

                def fits(count, asked=asked, last=last):
                    asked.add(count)
                    return count <= last

                assert _last(fits, most, hint) == last
                assert asked <= set(range(1, most + 1))
                assert not hint or hint != last or len(asked) <= 2


@pytest.mark.parametrize("seed", range(30))
def test_fewest_multipliers_of_a_share_equal_exhaustive_search(seed):
    search = random_search(seed)
    tried = 0
    for index, layer in enumerate(search.line.layers):
        shares = [Share(index, "whole", 0, 1)]
        shares += [
            Share(index, axis, 0, size)
            for axis, extent in layer.axes.items()
            for size in range(1, extent)
            if axis != "rows"
            and (axis != "output_channels" or size < layer.stage.N or size % layer.stage.N == 0)
        ]
        for share in shares:
            for pace in (search.floor, 3 * search.floor, 10 * search.floor):
                flown = [Flight(2.0, 2.0, 2.0)] * len(search.line.layers)
                priced = search.prices(pace, flown).of(search.line.rooms[0].device, share)
                assert (priced[0][0].pes if priced else None) == least_pes(search, share, pace)
                assert all(choice.busy <= pace for choice, _ in priced)
                tried += 1
    assert tried


def test_foldings_near_the_fewest_multipliers_are_all_looked_at():
    """All that keep the pace with up to SLACK times the fewest PEs and 8, by the whole grid; also where x, of which a
    stride leaves much, is slower than the array."""
    stride = nn.Conv2d(24, 8, 1, stride=4)
    layers = [stride, nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)]
    optimizer = nn.SGD(lr=0.1, batch=2)
    model = Model(input=(16, 16, 24), layers=layers, loss=nn.SoftmaxCrossEntropy(), optimizer=optimizer)
    networks = [model.network(0), *(random_search(seed).line.network for seed in range(10))]
    for layer in (layer for network in networks for layer in layers_of(network)):
        sizes = sizes_of(layer, "whole", 1)
        for pace in np.geomspace(8, 20_000, 60).astype(int):
            kept = near(layer, "whole", sizes, pace, False)
            if kept is None:
                continue
            grid, pixels = kept.grid, sizes.rows * layer.stage.window.out_width
            cycles = pixels * sizes.groups * grid.folds
            busy = np.maximum(cycles, _streams(layer, "whole", sizes, pixels, grid.cgs, grid.fn))
            least = grid.pes[busy <= pace].min()
            places = np.flatnonzero((busy <= pace) & (grid.pes <= SLACK * least + 8))
            assert kept.places.tolist() == places.tolist()
            assert kept.depth.tolist() == (sizes.groups * grid.folds[places]).tolist()
            assert np.maximum(kept.streams, cycles[places]).tolist() == busy[places].tolist()


@pytest.mark.parametrize("seed", range(120))
def test_more_boards_are_never_slower(seed):
    """Than fewer of the same kind: a plan may leave boards empty."""
    rng = np.random.default_rng(seed)
    network, board = random_network(rng), random_board(rng, "one")
    link = Link(lanes=1, gbps=float(rng.choice([0.5, 2.0, 10.0])), latency=int(rng.integers(0, 20)))
    paces = []
    for count in range(1, 6):
        cluster = Cluster.chain(board, count, link)
        found = Search(network, cluster, usual_storages(network), paced_by_loss=False).run()
        paces.append(found.pace if found else MOST_PACE)
    assert paces == sorted(paces, reverse=True)


@pytest.mark.parametrize("seed", range(60))
def test_plan_covers_every_layer_once_within_its_pace(seed):
    search = random_search(seed)
    found = search.run()
    if found is None:
        return
    layers = search.line.layers
    for layer, parts in zip(layers, found.shares(len(layers)), strict=True):
        shares = [share for _, share, _ in parts]
        assert [board for board, _, _ in parts] == list(range(parts[0][0], parts[0][0] + len(parts)))
        if len(shares) == 1:
            assert shares[0].axis == "whole"
        else:
            ends = [(share.low, share.high) for share in shares]
            assert [low for low, _ in ends] == [0, *(high for _, high in ends[:-1])]
            assert ends[-1][1] == layer.axes[shares[0].axis]
            assert len({share.axis for share in shares}) == 1
    for board, (step, taken) in enumerate(zip(found.steps, found.taken, strict=True)):
        room = search.line.rooms[board]
        used = ((taken.dsp, room.dsp), (taken.dealt.bram, room.bram), (taken.dealt.luts, room.lut))
        assert all(take <= most for take, most in used)
        assert all(choice.busy <= found.pace for choice in taken.choices)
        if board < len(found.steps) - 1:
            words = max(search.line.words(board, step.end))
            assert words <= found.pace
            assert search.line.gbps(board, words, found.pace) <= search.line.room_gbps[board] * (1 + 1e-9)


def test_deal_gives_every_part_its_rows_in_equal_turns():
    assert deal_evenly([3, 2, 4], 2) == (1, 1, 2, 2, 1, 2)
    for sizes, turns in (([5], 3), ([1, 7], 1), ([4, 4, 4], 4)):
        deal = deal_evenly(sizes, turns)
        assert len(deal) == len(sizes) * turns
        assert [sum(deal[part :: len(sizes)]) for part in range(len(sizes))] == sizes


@pytest.mark.parametrize("seed", range(20))
def test_logic_of_a_share_is_that_of_its_plan(seed):
    search = random_search(seed)
    found = search.run()
    if found is None or any("rows" in {s.axis for s in step.shares} for step in found.steps):
        return
    network = search.line.network
    stages = layout_stages(network, layout_of(search.line.layers, found))
    parts = [(board, k) for board, step in enumerate(found.steps) for k in range(len(step.shares))]
    for planned, (board, k) in zip(stages, parts, strict=True):
        load = found.taken[board].loads[k]
        assert (load.luts, load.ffs) == pytest.approx(estimate(planned, network), abs=2)
        assert load.dsp == dsps(planned, search.line.rooms[board].device.dsp_widths)
