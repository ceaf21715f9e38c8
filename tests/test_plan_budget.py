"""Boards and links too small for what they get: refused with the board, the resource, need and limit."""

import dataclasses
import re

import pytest
from chain_networks import cuts_of, digits, mlp, six_layers

from hwgen.errors import ModelError
from hwgen.plan.budget import LINK_SHARE, board_load, check_budgets, dsps, multiplier_room, needed_gbps
from hwgen.plan.memories import memories
from hwgen.plan.planner import bottleneck, plan_network
from hwgen.target import Cluster, Link

LINK = Link(lanes=1, gbps=10.3125, latency=20)


def cluster_of(names, link=LINK, **changes):
    """A chain; ``changes`` {"board_1": {field of the device: value}}."""
    cluster = Cluster.chain(names, link=link)
    boards = [
        dataclasses.replace(board, device=dataclasses.replace(board.device, **changes.get(f"board_{k}", {})))
        for k, board in enumerate(cluster.boards)
    ]
    return dataclasses.replace(cluster, boards=tuple(boards))


def planned(network, text, cluster):
    return plan_network(network, 1, cluster, lambda *_: cuts_of(text))


def refusal(network, text, cluster):
    with pytest.raises(ModelError) as error:
        planned(network, text, cluster)
    return error.value.problems


def test_too_few_dsps_are_named():
    cluster = cluster_of(["vc709", "vc709"], board_1={"dsp": 10})
    plan = planned(digits(), "0 1 1", cluster_of(["vc709", "vc709"]))
    need = sum(dsps(stage, (25, 18)) for stage in plan.on(1))
    # second: 2·1 rows × 2 columns, linear: 2 × 2; three products each, none wider than 25 × 18.
    assert need == 3 * (4 + 4)
    assert refusal(digits(), "0 1 1", cluster) == [
        "board 1 (vc709): second, linear need 24 DSP48E1, it has 10 × 0.9 = 9; lower `array`, move a layer with "
        "device=, or add a board"
    ]


def test_exactly_enough_dsps_are_enough():
    changes = {"fill": dataclasses.replace(cluster_of(["vc709"]).boards[0].fill, dsp=1.0)}
    for dsp, fits in ((24, True), (23, False)):
        cluster = cluster_of(["vc709", "vc709"], board_1={"dsp": dsp})
        boards = tuple(dataclasses.replace(board, **changes) for board in cluster.boards)
        cluster = dataclasses.replace(cluster, boards=boards)
        if fits:
            planned(digits(), "0 1 1", cluster)
        else:
            (problem,) = refusal(digits(), "0 1 1", cluster)
            assert "need 24 DSP48E1, it has 23 × 1.0 = 23;" in problem


def test_too_little_memory_is_named():
    cluster = cluster_of(["vc709", "vc709"], board_0={"bram": 1, "lut_ram": 0})
    plan = planned(six_layers(), "0 0 0 1 1 1", cluster_of(["vc709", "vc709"]))
    load = board_load(plan, 0, cluster.boards[0].device)
    # Nothing may go to distributed RAM; what is read without a clock has no other place.
    blocks = sum(count * each for count, each, _, _ in load.mems)
    assert refusal(six_layers(), "0 0 0 1 1 1", cluster) == [
        f"board 0 (vc709): a, b, c need {load.tables:,} LUTs as memory, it has 0 to use; lower `array`, move a layer "
        "with device=, or add a board",
        f"board 0 (vc709): memories of a, b, c need {blocks:,g} block RAMs more than the 0 it has to use and "
        f"{load.tables:,} LUTs of distributed RAM; move a layer with device=, or add a board",
    ]


def test_too_little_logic_is_named():
    cluster = cluster_of(["vc709", "vc709"], board_0={"lut": 1000, "lut_ram": 900, "ff": 2000})
    plan = planned(six_layers(), "0 0 0 1 1 1", cluster_of(["vc709", "vc709"]))
    load = board_load(plan, 0, cluster.boards[0].device)
    luts, ffs, *_ = refusal(six_layers(), "0 0 0 1 1 1", cluster)
    need = load.luts + load.tables
    assert luts.startswith(
        f"board 0 (vc709): a, b, c need about {need:,} LUTs, an estimate, it has 700 to use; "
    )
    need = load.ffs
    assert ffs.startswith(
        f"board 0 (vc709): a, b, c need about {need:,} flip-flops, an estimate, it has 1,400 to use"
    )


def test_memories_are_those_of_the_gateware_and_of_the_links():
    plan = planned(six_layers(), "0 0 0 1 1 1", cluster_of(["vc709", "vc709"]))
    link = plan.links[0]
    own = [memory for stage in plan.on(0) for memory in memories(plan.network, stage)]
    ends = [*(channel.depth for channel in link.up), link.replay_words]
    load = board_load(plan, 0, cluster_of(["vc709"]).boards[0].device)
    assert sum(count * depth * width for _, count, depth, width, _, _ in load.memories) == sum(
        memory.bits for memory in own
    ) + link.width * sum(ends)


def test_a_slow_link_is_refused_with_the_rate_it_needs():
    slow = Link(lanes=1, gbps=0.05, latency=20)
    fast = planned(digits(), "0 1 1", cluster_of(["vc709", "vc709"]))
    pace, _ = bottleneck(fast)
    clock = cluster_of(["vc709"]).boards[0].device.clock_mhz
    down, up = needed_gbps(fast.links[0], pace, clock)
    # x: 2 rows of 2 pixels of 3 bytes, a word each, with a label; dy: 4 pixels, a word each, with a result.
    assert down == pytest.approx((2 + 1) * 64 * clock * 1e6 / pace / 1e9)
    assert up == pytest.approx((4 + 1) * 64 * clock * 1e6 / pace / 1e9)
    room = slow.payload_gbps * LINK_SHARE
    problems = refusal(digits(), "0 1 1", cluster_of(["vc709", "vc709"], slow))
    assert problems == [
        f"link 0 (board 0 to 1): {gbps:.2f} Gb/s needed {way} at {pace} cycles of {clock:g} MHz a sample, it carries "
        f"{room:.2f}; give more lanes or a higher rate, cut elsewhere, or lower `array`"
        for way, gbps in (("away from the host", down), ("towards the host", up))
    ]


def test_only_the_links_that_are_too_slow_are_refused():
    cluster = cluster_of(["vc709"] * 3)
    cluster = dataclasses.replace(cluster, links=(LINK, dataclasses.replace(LINK, gbps=0.05)))
    problems = refusal(digits(), "0 1 2", cluster)
    assert problems
    assert all(problem.startswith("link 1 (board 1 to 2): ") for problem in problems)


def test_everything_is_named_at_once():
    cluster = cluster_of(
        ["vc709", "vc709"], dataclasses.replace(LINK, gbps=0.05), board_0={"dsp": 1}, board_1={"dsp": 1}
    )
    kinds = [re.sub(r"[ :].*", "", problem) for problem in refusal(digits(), "0 1 1", cluster)]
    assert kinds == ["board", "board", "link", "link"]


def test_mixed_boards():
    """The slower clock sets the rate of all links; each board's own DSPs count."""
    cluster = cluster_of(["vc709", "alveo_u280"], dataclasses.replace(LINK, lanes=4))
    plan = plan_network(digits(), 1, cluster)
    assert plan.boards == ("vc709", "alveo_u280")
    assert {stage.board for stage in plan.stages} == {0, 1}
    pace, _ = bottleneck(plan)
    check_budgets(plan, cluster, pace)
    rooms = [multiplier_room(digits(), board) for board in cluster.boards]
    assert rooms == [board.available("dsp") for board in cluster.boards]
    clocks = [board.device.clock_mhz for board in cluster.boards]
    assert min(clocks) < max(clocks)
    slow = dataclasses.replace(cluster, links=(dataclasses.replace(LINK, gbps=0.01),))
    with pytest.raises(ModelError, match=f" cycles of {min(clocks):g} MHz a sample, "):
        check_budgets(plan, slow, pace)


@pytest.mark.parametrize(
    ("widths", "x", "w", "each"),
    [
        ((25, 18), 25, 18, 1),
        ((25, 18), 18, 25, 1),
        ((25, 18), 26, 18, 2),
        ((18, 18), 24, 24, 4),
        ((27, 18), 27, 19, 2),
        ((18, 18), 18, 36, 3),
    ],
)
def test_wide_products_take_several_dsps(widths, x, w, each):
    """Signed pieces overlap by their sign bit: 24 more bits of one side, 17 of the other."""
    plan = plan_network(mlp())
    stage = plan.stages[0]
    formats = {
        name: dataclasses.replace(getattr(stage.stage, name), width=n) for name, n in (("x", x), ("w", w))
    }
    wide = dataclasses.replace(stage, stage=dataclasses.replace(stage.stage, frozen=True, **formats))
    assert dsps(wide, widths) == each * stage.fold.pk * stage.fold.pn
