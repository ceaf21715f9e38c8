"""Devices and chains whose masters lie in external memory: the same bits as the reference, over several batches."""

import dataclasses

import pytest
from chain_cases import chain_device, chain_plan
from chain_networks import cut_plan, tall_rows
from device_cases import device_of, run
from hwgen.sim import memory_top
from ref_networks import random_network
from test_chain_rows import WIDE
from test_device_storage import network as stored
from test_device_storage import stored_plan

from hwgen.backend.verilog import emit
from hwgen.errors import ToolError
from hwgen.plan.cuts import Cut
from hwgen.plan.layout import Storage
from hwgen.plan.memory import board_bytes
from hwgen.plan.planner import plan_network


def elsewhere(found, rounding="nearest"):
    """The network with the masters of all layers that train in memory."""
    stages = tuple(
        stage if stage.frozen else dataclasses.replace(stage, place=dataclasses.replace(stage.place, master="memory"))
        for stage in found.stages
    )  # fmt: skip
    return dataclasses.replace(
        found, stages=stages, update=dataclasses.replace(found.update, rounding=rounding)
    )


def network(seed, rounding="nearest"):
    return elsewhere(random_network(seed), rounding)


def check(result):
    assert result["mismatched"] == 0
    assert result["compared"] > 0
    assert sum(stage["counters"]["updates"] for stage in result["stages"]) > 0


@pytest.mark.parametrize(("seed", "rounding", "stall"), [(4, "nearest", 0.0), (7, "stochastic", 0.2)])
def test_a_device(seed, rounding, stall):
    device = device_of(plan_network(network(seed, rounding)), seed)
    check(run(device, stall=stall, seed=seed, batches=1))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 13))
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_devices(seed, rounding):
    device = device_of(plan_network(network(seed, rounding)), seed, extreme=bool(seed % 2))
    simulator = "verilator" if seed % 3 else "icarus"
    check(run(device, stall=0.1 * (seed % 4), seed=seed, simulator=simulator, poison=True))


@pytest.mark.soak
def test_the_cycles_of_a_batch():
    result = run(device_of(plan_network(network(10)), batches=4), batches=1, gradients=False)
    assert abs(result["cycles_per_batch"] / result["predicted_cycles_per_batch"] - 1) <= 0.01


@pytest.mark.parametrize("b", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_every_way_to_keep_weights(b):
    turns, block = Storage(False, "memory"), Storage(True, "memory", "block", "block")
    plan = stored_plan(stored(b, (3, 2), rounding="stochastic"), turns, turns, block, b=b)
    check(run(device_of(plan, extreme=True), stall=0.1, batches=1))


@pytest.mark.soak
def test_parts_of_a_row_cut_update_their_own_masters():
    plan = cut_plan(elsewhere(tall_rows(), "stochastic"), "0r2:0,2,3,0 1 1 1", WIDE)
    check(run(chain_device(plan, emit), batches=2, stall=0.1))


def small_chain(rounding="stochastic"):
    return chain_plan(network(4, rounding), 2, lambda *_: (Cut(0), Cut(1)))


def test_a_chain():
    check(run(chain_device(small_chain(), emit), batches=1, stall=0.1))


@pytest.mark.soak
@pytest.mark.parametrize("board", [0, 1])
def test_a_board_alone(board):
    check(run(chain_device(small_chain(), emit), batches=2, stall=0.1, device=board))


@pytest.mark.soak
def test_a_layer_cut_over_boards():
    plan = chain_plan(network(11, "stochastic"), 2, lambda *_: (Cut(0, "output_channels", (0, 2, 5)),))
    check(run(chain_device(plan, emit, 11), batches=2, stall=0.1))


def test_an_address_outside_is_refused(monkeypatch):
    monkeypatch.setattr(memory_top, "board_bytes", lambda *where: board_bytes(*where) - 4096)
    device = device_of(plan_network(network(4)))
    with pytest.raises(ToolError):
        run(device, batches=1)
