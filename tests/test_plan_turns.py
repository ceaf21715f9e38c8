"""Depths of what waits for its turn, channels and times of a stage cut by rows."""

import dataclasses

import pytest
from chain_networks import cut_plan, row_groups, tall_rows
from row_cases import Q8

from hwgen.ir.stage import Loss, Network, Stage, Update
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.budget import waiting
from hwgen.plan.describe import describe
from hwgen.plan.planner import bottleneck
from hwgen.plan.schedule import run_schedule
from hwgen.plan.serial import plan_from_json, plan_to_json
from hwgen.target import Link

WIDE = Link(gbps=100.0, encoding="none", adapter="parallel", latency=20)
TURNS = [f"turn_{name}" for name in ("x", "y", "y_before", "dy", "sums", "back", "dx", "dx_behind")]


def network_of(kernel, height=32, width=4):
    """Two convolutions over tall images, the second of which has dx, and a linear layer."""
    pads = (kernel // 2, 0, kernel // 2, 0)
    window = Window2d(height, width, (kernel, 1), pads=pads)
    first = Stage("first", 0, Window2d(height, width), 1, 8, Q8, Q8, Q(12, 8), None, Q8, Q8, None)
    conv = Stage("conv", 1, window, 8, 8, Q8, Q8, Q(12, 8), None, Q8, Q8, Q8)
    linear = Stage("linear", 2, Window2d(1, 1), height * width * 8, 2, Q8, Q8, Q(12, 8), None, Q8, Q8, Q8)
    return Network("net", Q8, (first, conv, linear), Loss(2, Q8, Q8), Update(Q8, 3, 2, 0.1))


def turns_of(planned):
    return {name: getattr(planned.depths, name) for name in TURNS}


def plan_of(kernel, deal, **sizes):
    return cut_plan(network_of(kernel, **sizes), f"0 0r2:{','.join(map(str, deal))} 1", WIDE)


@pytest.mark.parametrize("turn", [1, 2, 4, 8])
def test_half_a_turn_of_two_parts_waits(turn):
    """Kernel of one row: nothing is shared; before and behind each part half of its turn waits."""
    _, first, second, _ = plan_of(1, [turn] * (32 // turn)).stages
    half = turn * 4 // 2
    for planned, names in ((first, ["x", "dy", "dx", "dx_behind"]), (second, ["x", "y", "y_before", "dy"])):
        found = turns_of(planned)
        spare = 2 * planned.fold.b + 4
        for name in TURNS:
            waits = found[name]
            if name[5:] in names:
                assert half <= waits <= half + 4 + spare + 32 * 4, (name, waits)
            else:
                assert waits == 0, name
    counted = sum(depth * width for _, _, depth, width, _, _ in waiting(first))
    stage, depths = first.stage, first.depths
    x = depths.turn_x * stage.x.width + depths.turn_back * stage.col_bits
    x += (depths.turn_dx + depths.turn_dx_behind) * stage.dx.width
    y = (depths.turn_y + depths.turn_y_before) * stage.y.width + depths.turn_dy * stage.dy.width
    fold = first.fold
    assert counted == fold.x_words * fold.folding.pc * x + fold.y_words * fold.pn * y
    assert not list(waiting(dataclasses.replace(first, depths=without(first))))


def without(planned):
    return dataclasses.replace(planned.depths, **dict.fromkeys(TURNS, 0))


def test_shared_rows_wait_as_sums():
    """The first part's top rows of a turn wait for the bottom rows of the last part's turn before."""
    _, first, second, _ = plan_of(3, [4] * 8).stages
    assert first.depths.turn_sums > 4 * 4 // 2
    assert first.depths.turn_back > 0
    assert second.depths.turn_sums == second.depths.turn_back == 0
    assert turns_of(plan_of(3, [4] * 8).stages[0]) == dict.fromkeys(TURNS, 0)


def test_channels_carry_the_rows_of_the_table():
    (link,) = plan_of(3, [4] * 8).links
    found = {("down", c.kind): c.pixels for c in link.down} | {("up", c.kind): c.pixels for c in link.up}
    # Part 1 reads its four rows and one above and below, of which those inside the image cross.
    wanted = {("down", "x"): 23, ("down", "y"): 16, ("up", "dy"): 16, ("up", "dx"): 9, ("up", "back"): 14}
    assert {key: found[key] / 4 for key in wanted} == wanted
    weights = 3 * 8 * 8
    assert found["down", "grads"] == found["up", "totals"] == weights
    kinds = {c.kind for c in plan_of(1, [4] * 8).links[0].up}
    assert "back" not in kinds


def test_two_parts_halve_the_cycles():
    """Both are busy all the time, so the chain keeps the pace of its parts; what passes is counted too."""
    plan = plan_of(3, [4] * 8)
    pace, name = bottleneck(plan)
    halves = [planned.fold.cycles for planned in plan.stages if planned.stage.index == 1]
    assert halves == [32 * 4 // 2 * plan.stages[1].fold.depth] * 2
    times = run_schedule(dataclasses.replace(plan, network=endless(plan)), 12, pace)
    assert times.results[11] - times.results[10] == pace, name
    for stage in times.stages[1:3]:
        assert max(stage.forward[11][-1] - stage.forward[10][-1], pace) == pace


def endless(plan):
    update = dataclasses.replace(plan.network.update, batch=1 << 20)
    return dataclasses.replace(plan.network, update=update)


@pytest.mark.parametrize(
    ("network", "text"), [(tall_rows, "0r2:1,1,1,2 1 1r2:2,1 2"), (row_groups, "0r3:1,2,1,1 2r2:1,1 3")]
)
def test_a_plan_of_rows_is_written_and_told(network, text):
    plan = cut_plan(network(), text, WIDE)
    assert plan_from_json(plan_to_json(plan)) == plan
    for planned in plan.stages:
        if planned.part.cut == "rows":
            own = [turn for turn in planned.part.deal[planned.part.index :: planned.part.count] if turn]
            rows = f"({planned.part.high} of {sum(planned.part.deal)} rows in {len(own)} turn"
            assert f"{planned.stage.name} {rows}" in describe(plan)
