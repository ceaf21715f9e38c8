"""Chains whose masters lie on boards beside: the same bits as the reference, whole and cut, with links and without."""

import dataclasses

import pytest
from chain_cases import SMALL_LINK, chain_device, chain_plan
from chain_networks import cut_plan, mlp, run_direct, tall_rows
from device_cases import run
from ref_networks import random_network
from test_chain_rows import WIDE
from test_sim_alone import ROUGH

from hwgen import Formats, Model, nn
from hwgen.backend.verilog import emit
from hwgen.plan.cuts import Cut
from hwgen.plan.layout import Placement
from hwgen.plan.planner import plan_layout
from hwgen.target import Cluster


def lend(plan, text, link=SMALL_LINK, rounding="stochastic"):
    """The plan with masters where the words of a line say, one a part."""
    update = dataclasses.replace(plan.network.update, rounding=rounding)
    layout = tuple(
        Placement(p.stage.index, p.board, p.folding, p.part, dataclasses.replace(p.storage, master=where))
        for p, where in zip(plan.stages, text.split(), strict=True)
    )
    cluster = Cluster.chain("vc709", len(plan.boards), link=link)
    return plan_layout(dataclasses.replace(plan.network, update=update), layout, 1, cluster)


def check(result, updates=3):
    assert result["mismatched"] == 0
    assert result["compared"] > 0
    assert all(stage["counters"]["updates"] == updates for stage in result["stages"])


def small_chain(rounding="stochastic"):
    """Both boards have the masters of the other."""
    return lend(chain_plan(random_network(4), 2, lambda *_: (Cut(0), Cut(1))), "down up", rounding=rounding)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_parts_of_a_cut_by_channels_and_whole_stages(rounding):
    """A board lends two regions and keeps others' at once; a link has masters in both directions."""
    link = dataclasses.replace(SMALL_LINK, lanes=4)
    plan = lend(cut_plan(mlp(), "0 0o2,4 2", link), "down down down up", link, rounding)
    check(run_direct(plan, batches=1, stall=0.2 if rounding == "nearest" else 0.0))


def test_parts_of_a_cut_by_rows():
    """Each has its masters on the board of the other."""
    plan = lend(cut_plan(tall_rows(), "0r2:0,2,3,0 1 1 1", WIDE), "down up up up up", WIDE)
    check(run_direct(plan, batches=1, gradients=False))


def test_a_chain():
    check(run(chain_device(small_chain(), emit), batches=1, stall=0.1))


@pytest.mark.parametrize("board", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_board_alone(board):
    """Masters, new ones, requests and receipts cross as the reference has them; so do those of the board beside."""
    check(run(chain_device(small_chain(), emit), batches=1, stall=0.1, device=board))


@pytest.mark.soak
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_links_with_faults(simulator, rounding):
    device = chain_device(small_chain(rounding), emit)
    check(run(device, batches=3, stall=0.2, cables=ROUGH, simulator=simulator, poison=True), 5)


@pytest.mark.soak
def test_a_layer_cut_over_boards_with_links():
    plan = chain_plan(random_network(11), 2, lambda *_: (Cut(0, "output_channels", (0, 2, 5)),), WIDE)
    check(run(chain_device(lend(plan, "down up", WIDE), emit, 11), batches=2, stall=0.1), 4)


def timed(first, second):
    """Cycles of a batch, simulated and predicted, of two layers on two boards."""
    layers = [
        nn.Flatten(),
        nn.Linear(16, 24, u=1, pc=4, pn=6, name="one", master=first),
        nn.ReLU(),
        nn.Linear(24, 8, u=1, pc=4, pn=4, name="two", master=second),
    ]
    formats = Formats(activation=8, weight=6, master=16, error=8, lr=8, bias=12)
    optimizer = nn.SGD(lr=0.5, batch=8)
    network = Model(input=(1, 1, 16), layers=layers, optimizer=optimizer, formats=formats).network(1)
    plan = chain_plan(network, 2, lambda *_: (Cut(0), Cut(1)))
    result = run(chain_device(plan, emit, batches=4), batches=1, gradients=False, simulator="verilator")
    return result["cycles_per_batch"], result["predicted_cycles_per_batch"]


@pytest.mark.soak
@pytest.mark.parametrize("masters", [("down", "here"), ("down", "up")])
def test_the_update_takes_as_long_as_predicted(masters):
    """Beside what the model of links is off by."""
    (measured, predicted), (other, other_predicted) = timed(*masters), timed("here", "here")
    assert measured - other == predicted - other_predicted > 300
