"""Chains planned: what crosses every boundary, foldings of parts, links, the schedule over boards, the plan as JSON."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from chain_cases import random_chain
from chain_networks import cut_plan, digits, grouped, mlp, six_layers

from hwgen.ir.stage import Stage
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan import latency as L
from hwgen.plan.buffers import least_depths
from hwgen.plan.chain import COMMAND_BITS, part_folding, with_channel_depths
from hwgen.plan.cuts import Cut
from hwgen.plan.fold import Fold, Folding, legal_pc, legal_u
from hwgen.plan.links import CHANNEL_BITS, MAX_CHANNELS, Channel, channel_lanes
from hwgen.plan.part import Part, part_stage
from hwgen.plan.planner import bottleneck, plan_network, predict
from hwgen.plan.schedule import run_schedule
from hwgen.plan.serial import plan_from_json, plan_to_json
from hwgen.target import Cluster, Link

Q8 = Q(8, 4)
SEEDS = [seed for seed in range(100, 130) if random_chain(seed) is not None]


def shown(channels):
    """What a boundary carries, without the fixed channels, as {kind: (stage, low, high, pixels, bits)}."""
    fixed = ("management", "label", "result")
    return {
        c.kind: (c.stage, c.low, c.high, c.pixels * c.run // (c.high - c.low), c.bits)
        for c in channels
        if c.kind not in fixed
    }


def boundary(network, text, index):
    link = cut_plan(network, text).links[index]
    assert [c.kind for c in link.down[:2]] == ["management", "label"]
    assert [c.kind for c in link.up[:2]] == ["management", "result"]
    return shown(link.down), shown(link.up)


# Of digits: first 4×4×2 → 3 channels, pooled to 2×2; second 2×2×3 → 4 channels on 2×3, pooled to 1×1; linear 4 → 3.


def test_between_stages():
    """All of the next stage's x; its dx as errors. Flattened tensors cross as the one pixel that they become."""
    _, second, linear = digits().stages
    assert boundary(digits(), "0 1 1", 0) == ({"x": (1, 0, 3, 4, 8)}, {"dy": (0, 0, 3, 4, second.dx.width)})
    assert boundary(digits(), "0 0 1", 0) == ({"x": (2, 0, 4, 1, 8)}, {"dy": (1, 0, 4, 1, linear.dx.width)})
    flat = grouped().stages[2]
    assert boundary(grouped(), "0 0 1", 0) == ({"x": (2, 0, 8, 1, 8)}, {"dy": (1, 0, 8, 1, flat.dx.width)})


def test_inside_a_stage_by_outputs():
    second = digits().stages[1]
    down, up = boundary(digits(), "0 0o1,3,4 2", 1)
    assert down == {"x": (1, 0, 3, 4, 8), "y": (1, 0, 3, second.pool.pixels_out, 8)}
    assert up == {"dy": (1, 0, 3, second.pool.pixels_out, 8), "back": (1, 0, 3, 4, second.col_bits)}


def test_inside_a_stage_by_inputs():
    """Forward sums and masked errors before the pool."""
    second = digits().stages[1]
    down, up = boundary(digits(), "0 0i1,2,3 2", 0)
    assert down == {"x": (1, 1, 3, 4, 8), "sums": (1, 0, 4, second.M, second.psum_bits)}
    assert up == {"dy": (1, 0, 4, second.M, 8), "dx": (1, 1, 3, 4, 8)}
    assert boundary(digits(), "0 0i1,2,3 2", 1)[0]["x"] == (1, 2, 3, 4, 8)


def test_inside_a_stage_by_groups():
    depthwise = grouped().stages[1]
    down, up = boundary(grouped(), "0 0g3,8 1", 0)
    pixels = depthwise.pool.pixels_out
    assert down == {"x": (1, 3, 8, depthwise.window.pixels_in, 8), "y": (1, 0, 3, pixels, 8)}
    assert up == {"dy": (1, 0, 3, pixels, 8), "dx": (1, 3, 8, depthwise.window.pixels_in, 8)}


def test_no_errors_cross_where_nothing_trains_before():
    network = digits(frozen=True)
    assert boundary(network, "0 1 1", 0)[1] == {}
    assert boundary(network, "0o1,3 1 1", 0)[1] == {}
    assert boundary(network, "0i1,2 1 1", 0)[1] == {}
    down, up = boundary(network, "0 0o1,4 1", 0)
    assert (set(down), set(up)) == ({"x", "y"}, {"dy"})


def test_the_first_layer_has_no_dx():
    assert set(boundary(digits(), "0o1,3 1 1", 0)[1]) == {"dy"}
    assert set(boundary(digits(), "0i1,2 1 1", 0)[1]) == {"dy"}


# --- Words and lanes


def words(run, bits, width, lanes):
    return math.ceil(run / lanes) * math.ceil(lanes * bits / width)


@pytest.mark.parametrize("width", [64, 128, 256])
def test_no_lanes_take_fewer_words(width):
    for run, bits in itertools.product([*range(1, 20), 33, 64, 100], [1, 7, 8, 12, 18, 31, 33, 64, 65, 70]):
        lanes = channel_lanes(run, bits, width)
        each = [words(run, bits, width, other) for other in range(1, min(run, CHANNEL_BITS // bits) + 1)]
        assert each[lanes - 1] == min(each)
        assert each.index(min(each)) == lanes - 1  # the fewest lanes of these


@pytest.mark.parametrize("width", [64, 128, 256])
def test_channel_words_are_no_wider_than_needed(width):
    """512 sums of 43 bits: within 3 % of the link words that one channel word for all of them would take."""
    lanes = channel_lanes(512, 43, width)
    assert lanes * 43 <= CHANNEL_BITS
    assert words(512, 43, width, lanes) <= 1.03 * words(512, 43, width, 512)
    assert channel_lanes(4, 3000, width) == 1


def test_words_of_a_channel():
    channel = Channel("x", 0, 0, 10, pixels=6, run=10, bits=8, lanes=5, depth=64)
    assert (channel.beats(64), channel.words(64)) == (1, 12)
    assert (channel.beats(32), channel.words(32)) == (2, 24)


def test_receive_buffers_hold_a_round_trip():
    """At one word a cycle for a quarter of the pace, a quarter of the trip; a frame and two pixels more."""
    link = cut_plan(mlp(), "0 1 1").links[0]
    (x,) = (c for c in link.down if c.kind == "x")
    link = dataclasses.replace(link, latency=500, down=(*link.down[:2], dataclasses.replace(x, pixels=100)))
    pace = 4 * 100 * words(x.run, x.bits, 64, x.lanes)
    (deep,) = with_channel_depths([link], pace)
    trip = 2 * 500 + 4 * link.frame_words
    assert deep.down[2].depth >= trip // 4 + link.frame_words
    assert deep.down[2].depth & deep.down[2].depth - 1 == 0
    assert [c.depth for c in deep.down[:2]] == [c.depth for c in link.down[:2]]


# --- Whole plans


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (Part("output_channels", 0, 2, 0, 5), (3, 2, 3)),  # 12 outputs in 2 folds of 6: 5 in 2 of 3
        (Part("output_channels", 1, 2, 5, 12), (3, 2, 4)),
        (Part("input_channels", 0, 2, 0, 1), (3, 1, 6)),  # 7 inputs in 4 folds of 2: 1 in one of 1
        (Part("input_channels", 1, 2, 1, 7), (3, 2, 6)),
    ],
)
def test_parts_fold_as_often_as_their_whole(part, wanted):
    stage = Stage("s", 0, Window2d(4, 4, (3, 3)), 7, 12, Q8, Q8, Q8, None, Q8, Q8, Q8)
    folding = part_folding(Fold(stage, Folding(3, 2, 6, 4)), part)
    assert (folding.u, folding.pc, folding.pn, folding.b) == (*wanted, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_chain_is_legal(seed):
    plan = random_chain(seed)
    assert plan == random_chain(seed)
    line = [planned.board for planned in plan.stages]
    assert line == sorted(line)
    assert set(line) == set(range(len(plan.boards)))
    assert [link.index for link in plan.links] == list(range(len(plan.boards) - 1))
    for link in plan.links:
        for channels in (link.down, link.up):
            kinds = [c.kind for c in channels]
            assert len(set(kinds)) == len(kinds) <= MAX_CHANNELS
            for c in channels[2:]:
                row = plan.network.stages[c.stage].window.width if c.kind == "x" else 1
                assert c.high > c.low
                assert c.run in (c.high - c.low, row * (c.high - c.low))
            assert all(c.depth > link.frame_words or c.kind in ("label", "result") for c in channels)
    blocks = {}
    for planned in plan.stages:
        whole, stage, fold = plan.whole(planned), planned.stage, planned.fold
        assert stage == part_stage(whole, planned.part, planned.board)
        assert planned.folding.u in legal_u(stage)
        assert planned.folding.pc in legal_pc(stage)
        assert 1 <= planned.folding.pn <= stage.N
        assert blocks.setdefault(stage.index, planned.folding.b) == planned.folding.b
        assert (fold.pk % planned.tile[0], fold.pn % planned.tile[1]) == (0, 0)
        least = dataclasses.asdict(least_depths(planned))
        assert all(getattr(planned.depths, name) >= depth for name, depth in least.items())
    text = plan_to_json(plan)
    again = plan_from_json(text)
    assert again == plan
    assert plan_to_json(again) == text


@pytest.mark.parametrize("seed", SEEDS)
def test_no_part_is_slower_than_its_whole(seed):
    plan = random_chain(seed)
    alone = plan_network(plan.network, plan.image_lanes)
    slowest = max(planned.fold.cycles for planned in alone.stages)
    assert max(planned.fold.cycles for planned in plan.stages) <= max(slowest, bottleneck(plan)[0])


# --- The schedule


def with_latency(plan, latency):
    return dataclasses.replace(
        plan, links=tuple(dataclasses.replace(link, latency=latency) for link in plan.links)
    )


PLANS = [
    (digits, "0 1 2"),
    (digits, "0o1,3 1i1,3 2o1,3"),
    (six_layers, "0 0 1 1 2 2"),
    (mlp, "0i3,6 1o2,4 2"),
    (grouped, "0g1,4 1g5,8 2"),
]


@pytest.mark.parametrize(("network", "text"), PLANS)
def test_longer_cables_never_make_it_faster(network, text):
    plan = cut_plan(network(), text)
    found = [predict(with_latency(plan, latency)) for latency in (0, 10, 100, 1000)]
    for name in ("latency", "cycles_per_batch"):
        values = [getattr(prediction, name) for prediction in found]
        assert values == sorted(values)
        assert values[0] < values[-1]
    # A sample's result comes down all cables and back up.
    assert found[-1].latency - found[0].latency >= 2 * len(plan.links) * 1000
    assert found[0].latency >= 2 * len(plan.links) * L.LINK
    assert len({prediction.bottleneck for prediction in found}) == 1
    for prediction in found:
        assert prediction.cycles_per_sample >= bottleneck(plan)[0]
        assert prediction.cycles_per_batch >= prediction.cycles_per_sample
        assert 0 < prediction.occupancy <= 1


@pytest.mark.parametrize(("network", "text"), PLANS)
def test_a_chain_is_not_faster_than_its_boards_joined_without_cables(network, text):
    """A batch takes longer by the trips of its first and last samples, not by those of every one."""
    plan = cut_plan(network(), text)
    paced = run_schedule(with_latency(plan, 0), 2 * plan.network.update.batch)
    slow = run_schedule(with_latency(plan, 500), 2 * plan.network.update.batch)
    assert len(paced.results) == len(slow.results)
    assert (np.diff(slow.results) >= 0).all()
    for fast, late in zip(paced.stages, slow.stages, strict=True):
        for name in ("x", "forward", "y", "masked", "backward"):
            for a, b in zip(getattr(fast, name), getattr(late, name), strict=True):
                assert (b >= a).all(), name
    trips = 2 * len(plan.links) * 500
    assert slow.idle - paced.idle <= 3 * trips


@pytest.mark.parametrize(("network", "text"), PLANS)
def test_longer_cables_need_deeper_buffers(network, text):
    """What waits between forward and backward grows with the trip; never below what deadlock freedom asks for."""
    cuts = cut_plan(network(), text)
    boards = len(cuts.boards)
    previous = None
    for latency in (10, 300, 3000):
        cluster = Cluster.chain("vc709", boards, link=Link(lanes=1, gbps=10.3125, latency=latency))
        plan = plan_network(network(), 1, cluster, lambda *_: _cuts(cuts))
        depths = [dataclasses.asdict(planned.depths) for planned in plan.stages]
        if previous is not None:
            for before, after in zip(previous, depths, strict=True):
                assert all(after[name] >= before[name] for name in before)
            first = plan.stages[0].depths
            assert first.store_rows > previous[0]["store_rows"] or first.store_rows == 0
        previous = depths


def _cuts(plan):
    """The cuts that a plan was made with."""
    found = {}
    for planned in plan.stages:
        part = planned.part
        if part.cut == "whole":
            found[planned.stage.index] = Cut(planned.board)
        else:
            bounds = found[planned.stage.index].bounds if not part.first else (0,)
            found[planned.stage.index] = Cut(planned.board - part.index, part.cut, (*bounds, part.high))
    return tuple(found[index] for index in sorted(found))


def test_fixed_channels():
    """A label and a result a sample, and management when the host asks."""
    link = cut_plan(mlp(), "0 1 1").links[0]
    assert [(c.bits, c.pixels) for c in link.down[:2]] == [(COMMAND_BITS, 0), (16, 1)]
    assert [(c.bits, c.pixels) for c in link.up[:2]] == [(32, 0), (48, 1)]
    assert all(c.beats(link.width) == 1 for c in (*link.down[:2], *link.up[:2]))
