"""Masters on boards beside: where they lie, what they take there and on links, and layouts and boards that cannot."""

import dataclasses
import re

import pytest
from chain_cases import SMALL_LINK
from test_sim_neighbour import lend

from hwgen import Model, nn
from hwgen.errors import ModelError
from hwgen.plan.budget import board_load, needed_gbps
from hwgen.plan.chain import chain_links
from hwgen.plan.columns import load_pace
from hwgen.plan.cuts import Cut
from hwgen.plan.describe import describe
from hwgen.plan.errors import BudgetError, CapacityError
from hwgen.plan.file import network_digest, plan_from_file
from hwgen.plan.layout import Placement, Storage, check_layout
from hwgen.plan.links import MAX_CHANNELS
from hwgen.plan.memory import board_bytes, board_regions, own_region, regions
from hwgen.plan.neighbours import check_channels, lent_memories, link_cycles
from hwgen.plan.planner import plan_network
from hwgen.plan.propose import propose
from hwgen.plan.serial import plan_from_json, plan_to_json
from hwgen.target import Cluster, Link

WIDE = Link(lanes=4, gbps=10.3125, latency=20)


def network(first=None, second=None, third=None, batch=64, **wish):
    layers = [
        nn.Conv2d(1, 4, 3, padding=1, master=first), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 16, master=second), nn.ReLU(), nn.Linear(16, 10, master=third, **wish),
    ]  # fmt: skip
    optimizer = nn.SGD(lr=0.1, batch=batch)
    return Model(input=(8, 8, 1), layers=layers, optimizer=optimizer).network()


def cluster(boards=3, link=WIDE, **changes):
    """VC709s; ``changes`` {"board_1": {field of the device: value}}."""
    chain = Cluster.chain("vc709", boards, link=link)
    found = [
        dataclasses.replace(board, device=dataclasses.replace(board.device, **changes.get(f"board_{k}", {})))
        for k, board in enumerate(chain.boards)
    ]
    return dataclasses.replace(chain, boards=tuple(found))


def planned(net, chain=None):
    """A layer a board."""
    return plan_network(net, 1, chain or cluster(), lambda *_: tuple(Cut(k) for k in range(3)))


def refusal(net, chain=None, error=ModelError):
    with pytest.raises(error) as raised:
        planned(net, chain)
    return raised.value.problems


def test_the_map():
    plan = planned(network("down", "up", "up"))
    conv, wide, narrow = regions(plan)
    assert [(r.board, r.count, r.bits, r.external) for r in (conv, wide, narrow)] == [
        (1, 36, 32, False), (0, 4096, 32, False), (1, 160, 32, False),
    ]  # fmt: skip
    assert [(r.lanes, r.words) for r in (conv, wide, narrow)] == [(8, 5), (8, 512), (8, 20)]
    assert own_region(plan, 2) == (narrow, 1)
    assert board_regions(plan, 2) == ()
    assert board_bytes(plan, 1) == 0
    assert plan_from_json(plan_to_json(plan)) == plan


def test_the_chip_comes_behind_external_memory():
    plan = planned(network("down", "memory", "up"))
    assert [region.external for region in board_regions(plan, 1)] == [True, False, False]
    assert own_region(plan, 1)[1] == 0


def test_what_crosses():
    plan = planned(network("down", "up"))
    link = plan.links[0]
    kinds = [[channel.kind for channel in way] for way in (link.down, link.up)]
    assert kinds[0][-2:] == ["updates_0", "masters_1"]
    assert kinds[1][-2:] == ["masters_0", "updates_1"]
    words = {c.kind: c.words(link.width) for c in (*link.down, *link.up) if c.batch}
    # Eight masters of 32 bits in a word of 256; one word asks, one tells that all have come.
    assert words == {"updates_0": 6, "masters_0": 6, "masters_1": 513, "updates_1": 513}
    bare = planned(network()).links[0]
    here, there = (needed_gbps(each, 1000, 200.0, 64) for each in (bare, link))
    assert [round(b - a, 9) for a, b in zip(here, there, strict=True)] == [519 * 256 * 0.2e6 / 64 / 1e9] * 2


def test_receive_buffers_hold_a_round_trip():
    plan = planned(network("down", "up"))
    for channel in (*plan.links[0].down, *plan.links[0].up):
        if channel.batch:
            trip = 2 * plan.links[0].latency + 4 * plan.links[0].frame_words
            assert channel.depth >= min(channel.words(256), trip / channel.lanes + 64)


def test_memory_is_counted_at_the_neighbour():
    here, there = planned(network()), planned(network(second="up"))
    device = cluster().boards[0].device
    found = [lent_memories(there, board) for board in range(3)]
    assert [list(each) for each in found] == [
        [("masters of others", 8, 512, 32, 1, False), ("masters on their way", 1, 4, 256, 1, True)], [], [],
    ]  # fmt: skip
    before, after = (
        sum(m[1] * m[2] * m[3] for m in board_load(p, 0, device).memories) for p in (here, there)
    )
    assert after - before >= 4096 * 32


@pytest.mark.parametrize(("weights", "kind"), [("auto", "auto"), ("distributed", "auto"), ("ultra", "ultra")])
def test_the_kind_of_its_memory(weights, kind):
    plan = planned(network(second="up"))
    storage = Storage(master="up", weights=weights)
    stages = (plan.stages[0], dataclasses.replace(plan.stages[1], storage=storage), plan.stages[2])
    (region,) = regions(dataclasses.replace(plan, stages=stages))
    assert region.kind == kind


def test_a_neighbour_too_small_is_named():
    small = {"board_0": {"bram": 18, "lut_ram": 3000}}
    planned(network(pn=10), cluster(**small))
    (problem,) = refusal(network(second="up", pn=10), cluster(**small), BudgetError)
    assert re.fullmatch(
        r"board 0 \(vc709\): memories of conv1, masters of linear1 \(board 1\) need [\d.,]+ block RAMs more than the "
        r'\d+ it has to use and [\d,]+ LUTs of distributed RAM; give master="here" or "memory" to what lends its '
        r"masters here, move a layer with device=, or add a board",
        problem,
    )


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (
            ("up", "here", "here"),
            'conv1: master = "up" on board 0, the first one: there is no board before it; give one of here, memory, '
            "down, or another board with device=",
        ),
        (
            ("here", "up", "down"),
            'linear2: master = "down" on board 2, the last one: there is no board behind it; give one of here, memory, '
            "up, or another board with device=",
        ),
    ],
)
def test_no_neighbour_there(where, wanted):
    assert refusal(network(*where)) == [wanted]


def test_a_single_device_has_no_neighbours():
    with pytest.raises(ModelError) as error:
        plan_network(network("down"))
    assert error.value.problems == [
        'conv1: master = "down" on board 0, the last one: there is no board behind it; give one of here, memory'
    ]


def test_names_that_are_none_and_frozen_layers():
    plan = planned(network())
    layout = [Placement(i, i, p.folding) for i, p in enumerate(plan.stages)]
    layout[1] = dataclasses.replace(layout[1], storage=Storage(master="left"))
    with pytest.raises(ModelError) as error:
        check_layout(plan.network, tuple(layout), 3)
    assert error.value.problems == [
        "layout: linear1: master = 'left'; give one of ('here', 'memory', 'up', 'down')"
    ]
    net = dataclasses.replace(
        plan.network,
        stages=(dataclasses.replace(plan.network.stages[0], frozen=True), *plan.network.stages[1:]),
    )
    layout[0] = dataclasses.replace(layout[0], storage=Storage(master="down"))
    with pytest.raises(ModelError) as error:
        check_layout(net, (layout[0], Placement(1, 1, layout[1].folding), layout[2]), 3)
    assert error.value.problems == ['conv1: master = "down" of a frozen layer, which has none; give "here"']


def test_a_link_too_slow():
    slow = Link(lanes=1, gbps=10.3125, latency=20)
    problems = refusal(network(second="up", batch=1, pn=10), cluster(link=slow), BudgetError)
    assert len(problems) == 2
    assert re.fullmatch(
        r"link 0 \(board 0 to 1\): [\d.]+ Gb/s needed away from the host at \d+ cycles of 200 MHz a sample, it carries "
        r"9\.60; give more lanes or a higher rate, cut elsewhere, or lower `array`, a larger batch, or "
        r"master=\"here\" or \"memory\" \([\d.]+ of them are masters\)",
        problems[0],
    )


def test_a_link_that_carries_less_than_a_master_a_cycle_makes_batches_longer():
    plan = planned(network(second="up", batch=512))
    fast, slow = (cluster(link=Link(lanes=4, gbps=rate, latency=20)) for rate in (10.3125, 0.5))
    assert link_cycles(plan, fast) == 0
    rate = slow.links[0].payload_gbps * 0.96 * 1e3 / (256 * 200)
    assert link_cycles(plan, slow) == -(-513 // rate) - 513 * 8 * load_pace(plan.stages[1]) > 0


def test_more_channels_than_a_link_end_has():
    plan = planned(network(second="up"))
    many = tuple(dataclasses.replace(plan.stages[1]) for _ in range(14))
    stages = (plan.stages[0], *many, plan.stages[2])
    crowded = dataclasses.replace(plan, stages=stages, links=chain_links(plan.network, stages, cluster()))
    assert len(crowded.links[0].down) == 3 + 14 == MAX_CHANNELS + 1
    with pytest.raises(CapacityError) as error:
        check_channels(crowded)
    names = ", ".join(["linear1"] * 14)
    assert error.value.problems[0] == (
        f"link 0 (board 0 to 1): 17 channels away from the host, 14 of them with masters of {names}; a link end has "
        '16; give some of these layers master="here" or "memory"'
    )


def test_the_update_takes_a_cycle_a_weight():
    here, there, memory = (
        planned(network(second=where)).prediction.cycles_per_batch for where in ("here", "up", "memory")
    )
    assert there == memory > here + 3000


def test_text_tells_where_they_lie():
    text = describe(planned(network("down", "memory", "up")))
    rows = [line.split() for line in text.split("masters of other boards on the chip\n")[1].splitlines()[1:3]]
    assert rows == [
        ["1", "conv1", "on", "0", "36", "8", "5", "32"],
        ["1", "linear2", "on", "2", "160", "8", "20", "32"],
    ]
    assert "external memory" in text


def test_hwgen_plan_keeps_the_wish():
    net = network("down", "up", "up")
    chain = Cluster.chain("vc709", 2, link=WIDE)
    wished = tuple(
        dataclasses.replace(stage, place=dataclasses.replace(stage.place, device=(board,)))
        for stage, board in zip(net.stages, (0, 1, 1), strict=True)
    )
    net = dataclasses.replace(net, stages=wished)
    file = propose(net, chain).plan
    assert [place.storage.master for place in file.layout] == ["down", "up", "up"]
    assert file.digest == network_digest(net)
    plan = plan_from_file(file, net)
    assert [region.board for region in regions(plan)] == [1, 0, 0]


def test_a_plan_file_may_say_so():
    plan = lend(planned(network()), "down up here", WIDE, "nearest")
    assert [region.board for region in regions(plan)] == [1, 0]
    assert SMALL_LINK != WIDE
