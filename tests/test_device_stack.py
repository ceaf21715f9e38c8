"""Whole devices of which rows lie behind one another in the lanes of memories, equal to the reference bit by bit."""

import dataclasses
import re

import pytest
from device_cases import device_of, run
from test_device_storage import FORMATS
from test_plan_memories import compare

from hwgen import Model, nn
from hwgen.errors import ModelError
from hwgen.gateware.stage import array_shape
from hwgen.plan import latency as L
from hwgen.plan.layout import USUAL, Placement, Storage
from hwgen.plan.planner import plan_layout, plan_network

COLUMN = Storage(copy=False, update="column")


def network(b, folds, outputs=4, rounding="nearest"):
    """Two convolutions of 6 × 5 and 7 × 6 pixels under ``folds``, (u, pc, pn) each, in blocks of ``b``; and a linear
    layer."""
    (u, pc, pn), (v, qc, qn) = folds
    layers = [
        nn.Conv2d(2, 3, 2, u=u, pc=pc, pn=pn, b=b[0], name="first"),
        nn.ReLU(),
        nn.Conv2d(3, outputs, 2, padding=1, u=v, pc=qc, pn=qn, b=b[1], name="second"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(outputs * 9, 3, u=1, pc=2, pn=3, name="last"),
    ]
    formats, optimizer = dataclasses.replace(FORMATS, rounding=rounding), nn.SGD(lr=0.5, batch=2)
    return Model(
        input=(7, 6, 2), layers=layers, optimizer=optimizer, formats=formats, name="stacked"
    ).network(5)


def stacked_plan(net, *stacks, storage=COLUMN, last=USUAL):
    """The usual foldings, the convolutions kept as ``storage`` with these stacks, the linear layer as ``last``."""
    kept = [dataclasses.replace(storage, stack=stack) for stack in stacks] + [last]
    layout = [
        Placement(planned.stage.index, 0, planned.folding, planned.part, each)
        for planned, each in zip(plan_network(net).stages, kept, strict=True)
    ]
    return plan_layout(net, tuple(layout))


def check(plan, **options):
    result = run(device_of(plan, batches=3, extreme=True), batches=3, **options)
    assert result["mismatched"] == 0
    assert result["compared"] > 0
    updated = [stage["counters"]["updates"] for stage in result["stages"]]
    assert all(updated)
    return result


@pytest.mark.parametrize(
    ("b", "folds", "stacks", "rounding", "stall"),
    [
        ((5, 7), ((2, 2, 3), (2, 2, 2)), (4, 2), "nearest", 0.0),
        ((15, 21), ((2, 1, 2), (4, 2, 2)), (2, 8), "stochastic", 0.2),
        pytest.param((4, 9), ((4, 1, 3), (4, 1, 4)), (2, 4), "nearest", 0.3, marks=pytest.mark.soak),
        pytest.param((8, 42), ((4, 2, 1), (4, 3, 1)), (4, 4), "stochastic", 0.0, marks=pytest.mark.soak),
    ],
)
def test_rows_behind_one_another(b, folds, stacks, rounding, stall):
    """Without dX and with it; blocks that divide the pixels and that do not; as many rows as a tile has, or fewer."""
    plan = stacked_plan(network(b, folds, rounding=rounding), *stacks)
    assert [array_shape(plan.network, planned).stack for planned in plan.stages[:2]] == [*stacks]
    result = check(plan, seed=b[0], stall=stall)
    for planned, stage in zip(plan.stages, result["stages"], strict=True):
        cycles = L.update_cycles(planned, plan.network.update) - L.settle(planned) - 6
        assert stage["counters"]["update_cycles"] == cycles * stage["counters"]["updates"]


def test_verilator_runs_it_too():
    plan = stacked_plan(network((6, 6), ((2, 2, 3), (2, 2, 2))), 4, 2)
    check(plan, simulator="verilator", stall=0.1)


@pytest.mark.parametrize("storage", [COLUMN, Storage(copy=False, master="memory")])
def test_memories_are_those_of_the_gateware(storage):
    for stacks in ((4, 2), (2, 4)):
        plan = stacked_plan(network((6, 14), ((2, 2, 3), (2, 2, 2))), *stacks, storage=storage)
        assert compare(plan) == 3


def test_the_rows_of_a_lane_are_one_memory():
    plan = stacked_plan(network((6, 14), ((2, 2, 3), (2, 2, 2))), 1, 4)
    one, four = plan.stages[:2]
    assert (one.tile, four.tile) == ((4, 3), (4, 2))
    assert (one.period, four.period) == (1, 14)


@pytest.mark.parametrize(
    ("stack", "b", "fold", "storage", "message"),
    [
        (3, 8, (2, 2, 2), COLUMN, "second: stack = 3; give one of (1, 2, 4, 8)"),
        (2, 8, (2, 2, 2), Storage(update="column", weights="block"), "second: stack = 2 with copy = True"),
        (2, 3, (2, 2, 2), COLUMN, "second: stack = 2 with blocks of 3 of 42 pixels, which allow 1"),
        (4, 7, (2, 2, 2), COLUMN, "second: stack = 4 with blocks of 7 of 42 pixels, which allow 3"),
        (4, 20, (4, 1, 4), COLUMN, "second: stack = 4 with blocks of 20 of 42 pixels, which allow 2"),
        (4, 8, (2, 1, 2), COLUMN, "second: stack = 4 does not divide the 2 rows"),
        (2, 8, (4, 3, 4), COLUMN, "second: stack = 2 with one weight in each PE"),
        (
            2,
            8,
            (2, 2, 2),
            Storage(copy=False, update="pe"),
            "second: stack = 2 with all rows updated at once",
        ),
    ],
)
def test_what_cannot_lie_behind_one_another(stack, b, fold, storage, message):
    net = network((6, b), ((2, 2, 3), fold))
    storage = dataclasses.replace(storage, stack=stack)
    usual = plan_network(net)
    layout = [
        Placement(
            planned.stage.index,
            0,
            planned.folding,
            planned.part,
            storage if planned.stage.index == 1 else USUAL,
        )
        for planned in usual.stages
    ]
    with pytest.raises(ModelError, match="^layout: " + re.escape(message)):
        plan_layout(net, tuple(layout))
