"""Rows behind one another that the search chooses: as the gateware allows them, and in the memories of the plan."""

from dataclasses import replace

import numpy as np
import pytest
from search_cases import random_cluster, random_network

from hwgen.gateware.stage import array_shape
from hwgen.plan.chain import layout_stages
from hwgen.plan.foldings import tile_lanes
from hwgen.plan.memories import memories
from hwgen.plan.search.place import layout_of
from hwgen.plan.search.search import Search, usual_storages
from hwgen.plan.stack import stack_limit

NAMES = {"master": "masters", "grad": "sums of gradients"}


def searched(seed, master):
    """(network, stages, loads) of the fastest plan without copies of weights; None if there is none."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    if master == "here":  # a unit a column updates all its rows in a part of a long batch
        network = replace(network, update=replace(network.update, batch=1024))
    search = Search(network, random_cluster(rng), usual_storages(network, False, master), paced_by_loss=False)
    found = search.run()
    if found is None:
        return None
    loads = [load for taken in found.taken for load in taken.loads[:-1]]
    return network, layout_stages(network, layout_of(search.line.layers, found)), loads


@pytest.mark.parametrize("master", ["here", "memory"])
def test_memories_of_weights_are_those_of_the_plan(master):
    """The gateware has every stack that is chosen, and its memories are those that were counted."""
    stacked = compared = 0
    for seed in range(60):
        case = searched(seed, master)
        if case is None:
            continue
        network, stages, loads = case
        for planned, load in zip(stages, loads, strict=True):
            assert array_shape(network, planned).stack == planned.storage.stack
            stacked += planned.storage.stack > 1
            if planned.fold.depth == 1:
                continue
            counted = {name: tuple(memory[:3]) for name, *memory in load.memories}
            for memory in memories(network, planned):
                if memory.name in NAMES:
                    found = memory.count, memory.depth, memory.width
                    assert counted[NAMES[memory.name]] == found, (seed, memory)
                    compared += 1
    assert compared > 60
    assert stacked > 10


@pytest.mark.parametrize(
    ("b", "pixels", "backs", "most"),
    [(16, 32, True, 8), (16, 32, False, 8), (7, 49, True, 3), (7, 49, False, 7), (8, 42, True, 2), (8, 4, True, 2),
     (1, 9, False, 1), (2, 9, True, 1), (32, 1024, True, 8)],
)  # fmt: skip
def test_most_rows_that_may_take_turns(b, pixels, backs, most):
    assert stack_limit(b, pixels, backs) == most


def test_lanes_of_a_tile():
    assert [tile_lanes(72, stack) for stack in (1, 2, 4, 8)] == [9, 6, 3, 1]
    assert [tile_lanes(36, stack) for stack in (1, 2, 4)] == [9, 6, 3]
