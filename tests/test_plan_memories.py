"""The list of a stage's memories against those that its gateware has, bit by bit and port by port."""

import dataclasses
import random
from collections import Counter

import pytest
from built_memories import built_memories
from chain_cases import random_chain
from ref_networks import random_network
from tiny_plan import tiny_plan

from hwgen.gateware.stage import StageEngine
from hwgen.ir.stage import Wish
from hwgen.plan.blocks import rams_of
from hwgen.plan.columns import shares_columns
from hwgen.plan.fold import legal_pc, legal_u
from hwgen.plan.foldings import tile_of
from hwgen.plan.layout import Storage
from hwgen.plan.memories import Memory, memories, taken_by
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster

MOST = 21
"""PEs of an array; the netlist of a larger one takes seconds."""


def listed(network, planned):
    found = Counter()
    for memory in memories(network, planned):
        found[memory.depth, memory.width, memory.reads, memory.asynchronous] += memory.count
    return found


def compare(plan):
    """Stages compared."""
    checked = 0
    for planned in plan.stages:
        if planned.fold.pk * planned.fold.pn <= MOST:
            assert listed(plan.network, planned) == built_memories(StageEngine(plan.network, planned)), (
                planned
            )
            checked += 1
    return checked


STORAGE = (Storage(), Storage(copy=False), Storage(weights="block"), Storage(copy=False, samples="block"))


def stored(plan, rng):
    """The plan with storage drawn anew for every stage that can have it."""
    stages = []
    for planned in plan.stages:
        storage = rng.choice(STORAGE)
        legal = storage.copy or planned.stage.dx is None or min(planned.fold.b, planned.stage.M) > 1
        stages.append(dataclasses.replace(planned, storage=storage) if legal else planned)
    return dataclasses.replace(plan, stages=tuple(stages))


def random_plan(seed):
    rng, network = random.Random(seed), random_network(seed)
    stages = []
    for stage in network.stages:
        b = min(rng.choice([1, 2, 3, 4, stage.M]), stage.M)
        pc, pn = min(rng.randint(1, 3), legal_pc(stage)[-1]), rng.randint(1, min(stage.N, 3))
        stages.append(dataclasses.replace(stage, wish=Wish(rng.choice(legal_u(stage)), pc, pn, b)))
    return stored(plan_network(dataclasses.replace(network, stages=tuple(stages))), rng)


@pytest.mark.parametrize("storage", STORAGE)
def test_every_storage_of_the_tiny_plan(storage):
    plan = tiny_plan()
    conv = dataclasses.replace(plan.stages[0], storage=storage)
    assert compare(dataclasses.replace(plan, stages=(conv,))) == 1


@pytest.mark.parametrize("frozen", [False, True])
def test_the_tiny_plan(frozen):
    assert compare(tiny_plan(frozen=frozen)) == 2


def test_masters_elsewhere():
    plan = random_plan(1)
    stages = tuple(
        planned if planned.stage.frozen else dataclasses.replace(planned, storage=Storage(master="memory"))
        for planned in plan.stages
    )
    assert compare(dataclasses.replace(plan, stages=stages)) >= 1


def test_random_plans():
    assert sum(compare(random_plan(seed)) for seed in range(3)) >= 3


def test_parts_of_random_chains():
    plans = [stored(random_chain(seed), random.Random(seed)) for seed in (2, 5, 8, 11)]
    assert sum(compare(plan) for plan in plans) >= 6


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_more_random_plans(first):
    seeds = range(first, first + 10)
    plans = [random_plan(seed) for seed in seeds]
    assert sum(compare(plan) for plan in plans) >= 10


def test_tile_prefers_nine_rows():
    plan = tiny_plan()
    folding = dataclasses.replace(plan.stages[1].folding, pc=18, pn=5)
    assert tile_of(dataclasses.replace(plan.stages[1], folding=folding).fold) == (9, 5)


@pytest.mark.parametrize(
    ("copy", "weights", "depth", "shared"),
    [
        (True, "auto", 64, False), (True, "auto", 65, True), (True, "block", 2, True), (True, "block", 1, False),
        (True, "ultra", 9, True), (True, "distributed", 999, False), (False, "auto", 1, True),
        (False, "distributed", 5, True),
    ],
)  # fmt: skip
def test_which_columns_share(copy, weights, depth, shared):
    assert shares_columns(Storage(copy=copy, weights=weights), depth) is shared


def test_what_memories_take_adds_up():
    rams = rams_of(Cluster.parse("vc709").boards[0].device)
    found = (Memory("master", 512, 288, 4, kind="block"), Memory("fifo", 16, 6, 2, asynchronous=True))
    total = taken_by(found, rams)
    assert (total.bram, total.tables, found[0].bits) == (16, 8, 4 * 512 * 288)
