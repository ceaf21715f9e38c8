"""Whole devices whose weights are kept in every way, equal to the reference bit by bit, and their predicted cycles."""

import dataclasses

import pytest
from device_cases import device_of, run, with_depths

from hwgen import Formats, Model, nn
from hwgen.errors import ModelError
from hwgen.plan import latency as L
from hwgen.plan.buffers import least_depths
from hwgen.plan.columns import update_rows
from hwgen.plan.layout import USUAL, Placement, Storage
from hwgen.plan.planner import plan_layout, plan_network

TURNS = Storage(copy=False)
BLOCK = Storage(weights="block", samples="block")
ROWS = Storage(weights="block", update="column")
FORMATS = Formats(activation=8, weight=6, master=12, error=8, lr=8, bias=12)


def network(b, size=(4, 3), fold=(1, 2, 2), rounding="nearest"):
    """Two convolutions, the second in blocks of ``b`` pixels under a folding (u, pc, pn), and a linear layer."""
    u, pc, pn = fold
    layers = [
        nn.Conv2d(2, 3, 1, u=1, pc=2, pn=3, b=2, name="first"),
        nn.ReLU(),
        nn.Conv2d(3, 4, 2, padding=1, u=u, pc=pc, pn=pn, b=b, name="second"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * ((size[0] + 1) // 2) * ((size[1] + 1) // 2), 3, u=1, pc=2, pn=3, name="last"),
    ]
    formats, optimizer = dataclasses.replace(FORMATS, rounding=rounding), nn.SGD(lr=0.5, batch=2)
    model = Model(input=(*size, 2), layers=layers, optimizer=optimizer, formats=formats, name="stored")
    return model.network(7)


def stored_plan(net, *storage, b=None):
    """The usual foldings with these storages; the second layer in blocks of ``b``, also more than its pixels."""
    usual = plan_network(net)
    layout = [
        Placement(planned.stage.index, 0, planned.folding, planned.part, kept)
        for planned, kept in zip(usual.stages, storage, strict=True)
    ]
    if b is not None:
        folding = dataclasses.replace(layout[1].folding, b=b)
        layout[1] = dataclasses.replace(layout[1], folding=folding)
    return plan_layout(net, tuple(layout))


def check(plan, least=False, **options):
    if least:
        plan = with_depths(plan, lambda planned: least_depths(planned))
    result = run(device_of(plan, batches=3, extreme=True), batches=3, **options)
    assert result["mismatched"] == 0
    return result


@pytest.mark.parametrize(
    ("b", "size", "fold"),
    [
        (2, (3, 2), (1, 3, 4)),
        (3, (3, 2), (2, 1, 2)),
        pytest.param(4, (2, 2), (2, 3, 2), marks=pytest.mark.soak),
        pytest.param(7, (3, 2), (4, 1, 4), marks=pytest.mark.soak),
        (15, (3, 2), (1, 2, 2)),
    ],
)
def test_forward_and_backward_take_turns(b, size, fold):
    """Blocks that divide the pixels, that do not, that are longer than a sample; few and many weights a PE."""
    plan = stored_plan(network(2, size, fold), TURNS, TURNS, BLOCK, b=b)
    check(plan, least=b == 3, seed=b, stall=0.3 * (b % 2))


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_a_columns_unit_updates_its_rows_in_turn(rounding):
    """With the copy of weights and without; and the cycles of the update."""
    turns = dataclasses.replace(TURNS, update="column")
    plan = stored_plan(network(2, (3, 2), (2, 3, 2), rounding), ROWS, turns, ROWS, b=2)
    batch = plan.network.update.batch
    assert [update_rows(planned, batch) for planned in plan.stages] == [1, 6, 2]  # the first: a weight a PE
    result = check(plan)
    for planned, stage in zip(plan.stages, result["stages"], strict=True):
        # Without the settling before it and the 6 cycles around it: as the schedule has it.
        cycles = L.update_cycles(planned, plan.network.update) - L.settle(planned) - 6
        assert stage["counters"]["updates"] > 0
        assert stage["counters"]["update_cycles"] == cycles * stage["counters"]["updates"]


def test_stochastic_rounding_where_both_take_turns():
    check(stored_plan(network(4, (2, 2), rounding="stochastic"), BLOCK, TURNS, USUAL))


def test_verilator_runs_it_too():
    check(stored_plan(network(3, (2, 2)), TURNS, TURNS, BLOCK), simulator="verilator", stall=0.2, seed=1)


def test_predicted_cycles_of_turns():
    """Short last blocks take as long as whole ones."""
    plan = stored_plan(network(4, (4, 4)), TURNS, TURNS, USUAL)
    second = plan.stages[1]
    assert (second.stage.M, second.period, second.cycles) == (25, 4, 7 * 4 * second.fold.depth)
    assert plan.prediction.cycles_per_sample == second.cycles


def test_one_pixel_has_no_turns():
    net = network(2)
    message = (
        r"layout: second: copy = False with blocks of 1 pixel; forward and backward then take turns at the weights, "
        r"which needs b >= 2 and as many output pixels; keep the copy"
    )
    with pytest.raises(ModelError, match=f"^{message}$"):
        stored_plan(network(1), USUAL, TURNS, USUAL)
    with pytest.raises(ModelError, match=r"^layout: first: weights = 'flash'; give one of \("):
        stored_plan(net, Storage(weights="flash"), USUAL, USUAL)
