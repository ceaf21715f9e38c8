"""Where masters lie in external memory, and boards whose memory is missing, too small or too slow."""

import dataclasses
import itertools
import re

import pytest
from ref_networks import digits_model

from hwgen import Model, nn
from hwgen.errors import ModelError
from hwgen.plan.describe import describe
from hwgen.plan.errors import CapacityError
from hwgen.plan.layout import Placement, Storage, check_layout
from hwgen.plan.memories import memories
from hwgen.plan.memory import MEMORY_SHARE, PAGE, board_bytes, element_bytes, own_region, regions
from hwgen.plan.planner import plan_network
from hwgen.plan.serial import plan_from_json, plan_to_json
from hwgen.target import Cluster


def network(master="memory", batch=16, lr=0.1):
    layers = [
        nn.Conv2d(1, 4, 3, padding=1, master=master), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 10, master=master),
    ]  # fmt: skip
    model = Model(input=(8, 8, 1), layers=layers, optimizer=nn.SGD(lr=lr, batch=batch))
    return model.network()


def board(**changes):
    return Cluster((dataclasses.replace(Cluster.parse("kc705").boards[0], **changes),))


def test_the_map():
    plan = plan_network(network(), 1, board())
    conv, linear = regions(plan)
    assert (conv.count, conv.bits, conv.base, conv.stride) == (36, 32, 0, 4)
    assert (linear.count, linear.base) == (2560, PAGE)
    assert board_bytes(plan, 0) == PAGE + 4 * 2560
    assert own_region(plan, 1) == (linear, 1)
    assert plan_from_json(plan_to_json(plan)) == plan
    rows = [line.split() for line in describe(plan).split("external memory\n")[1].splitlines()[1:3]]
    assert rows == [
        ["0", "conv1", "36", "4", "0x0", "144"],
        ["0", "linear1", "2,560", "4", "0x1000", "10,240"],
    ]


@pytest.mark.parametrize(("bits", "taken"), [(4, 1), (8, 1), (9, 2), (16, 2), (17, 4), (24, 4), (32, 4)])
def test_bytes_of_an_element(bits, taken):
    assert element_bytes(bits) == taken


def test_regions_do_not_overlap():
    found = regions(plan_network(network()))
    for before, after in itertools.pairwise(found):
        assert before.base + before.bytes <= after.base
        assert after.base % PAGE == 0


def test_masters_elsewhere_save_memory_here():
    here, there = (plan_network(network(where), 1, board()).stages[1] for where in ("here", "memory"))
    kept = {memory.name: memory for memory in memories(network("here"), here)}["master"]
    rest = {memory.name: memory for memory in memories(network("memory"), there)}["master"]
    assert (kept.count, kept.depth) == (rest.count, rest.depth)
    # Three rows a column: masters of 32 bits, weights of 16.
    assert (here.tile[0], kept.width, rest.width) == (3, 3 * 32, 3 * 16)


def test_a_board_without_memory():
    with pytest.raises(CapacityError) as error:
        plan_network(network(), 1, board(memory_bytes=0, memory_gbytes_per_s=0.0))
    assert error.value.problems == [
        'board 0 (kc705): masters of conv1, linear1 in memory, but it has none; give master="here", or another board'
    ]


def test_a_memory_too_small():
    with pytest.raises(CapacityError) as error:
        plan_network(network(), 1, board(memory_bytes=14_335))
    assert error.value.problems == [
        "board 0 (kc705): masters of conv1, linear1 in memory need 14,336 bytes, it has 14,335; "
        "move a layer with device=, or add a board"
    ]
    plan_network(network(), 1, board(memory_bytes=14_336))


def test_a_memory_too_slow():
    with pytest.raises(CapacityError) as error:
        plan_network(network(batch=1), 1, board(memory_gbytes_per_s=0.01))
    (problem,) = error.value.problems
    assert re.fullmatch(
        r"board 0 \(kc705\): masters of conv1, linear1 in memory need \d+\.\d+ GB/s at 1 samples a batch of \d+ "
        rf'cycles, it gives 0\.01 × {MEMORY_SHARE} = 0\.007; give a larger batch, or master="here"',
        problem,
    )


def test_a_slow_memory_makes_batches_longer():
    fast, slow = (
        plan_network(network(batch=64), 1, board(memory_gbytes_per_s=rate)).prediction.cycles_per_batch
        for rate in (100.0, 1.0)
    )
    clock = board().boards[0].device.clock_mhz
    taken = 2 * 4 * (36 + 2560) / (1e3 * MEMORY_SHARE / clock)
    # The first layer's PEs have memories of their own; where columns share them a weight takes two cycles.
    assert 0 <= slow - fast - (taken - 36 - 2 * 2560) < 1


def test_masters_that_cannot_be_there():
    net = digits_model().network()
    layout = [Placement(i, 0, p.folding) for i, p in enumerate(plan_network(net).stages)]
    layout[0] = dataclasses.replace(layout[0], storage=Storage(master="up"))
    with pytest.raises(ModelError) as error:
        check_layout(net, tuple(layout), 1)
    assert error.value.problems == [
        'conv1: master = "up" on board 0, the first one: there is no board before it; give one of here, memory'
    ]


def test_the_wish_binds_the_layout():
    net = network()
    layout = tuple(Placement(i, 0, p.folding) for i, p in enumerate(plan_network(net).stages))
    with pytest.raises(ModelError) as error:
        check_layout(net, layout, 1)
    assert error.value.problems[0] == (
        'conv1: master = "here" in the layout, the model asks for "memory"; drop one of them'
    )
