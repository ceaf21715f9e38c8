"""The walk over all weights: the order of logical indices, wherever a folding puts them."""

import dataclasses

import numpy as np
import pytest
from amaranth.sim import Simulator
from test_gateware_update import FOLDS, make_fold

from hwgen.gateware.walk import WeightWalk
from hwgen.host.placement import bias_index
from hwgen.ir.window import Window2d
from hwgen.plan.fold import Fold, Folding
from hwgen.plan.part import Part, part_stage
from hwgen.plan.weights import weight_index


def walk(part, rounds=2, seed=0):
    """(pe, address, bias, index, last) at every step of some rounds, with steps at random."""
    steps, rng = [], np.random.default_rng(seed)

    async def body(ctx):
        while len(steps) < rounds * part.count:
            step = int(rng.random() < 0.7)
            ctx.set(part.step, step)
            if step:
                names = (part.pe, part.address, part.bias, part.index, part.last)
                steps.append(tuple(int(ctx.get(name)) for name in names))
            await ctx.tick()

    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_testbench(body)
    simulator.run()
    return steps


def wanted(fold, biases):
    """(pe, address, bias) of all elements by the memory images of plan.weights."""
    found = []
    for index, bias in ((weight_index(fold), 0), (bias_index(fold.numbers).T, 1)):
        flat = index.reshape(-1, index.shape[-1])
        places = np.argwhere(flat >= 0)
        places = places[np.argsort(flat[flat >= 0])]
        if not bias or biases:
            found += [(int(pe), int(address), bias) for pe, address in places]
    return found


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("fold", FOLDS)
def test_every_weight_once_in_logical_order(fold, biases):
    part = WeightWalk(fold, biases)
    steps = walk(part)
    assert [step[:3] for step in steps] == wanted(fold, biases) * 2
    assert [step[4] for step in steps] == ([0] * (part.count - 1) + [1]) * 2
    weights = [step[3] for step in steps if not step[2]]
    assert weights == [*range(part.weights)] * 2


PARTS = [
    Part("output_channels", 1, 3, 2, 5),
    Part("output_channels", 0, 3, 0, 2),
    Part("input_channels", 1, 2, 3, 7),
]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_the_indices_of_the_whole(part):
    whole = make_fold(Window2d(5, 6, (3, 2)), 7, 6).stage
    fold = Fold(part_stage(whole, part, 1), Folding(2, 2, 2))
    steps = walk(WeightWalk(fold, False, whole, part))
    inputs, outputs = part.weights(whole)
    flat = np.arange(np.prod(whole.weight_shape)).reshape(whole.weight_shape)
    assert [step[3] for step in steps] == [*flat[:, :, inputs, outputs].reshape(-1)] * 2


def test_groups_of_a_part():
    whole = make_fold(Window2d(4, 4, (2, 2)), 6, 9, 3).stage
    part = Part("groups", 1, 2, 1, 3)
    fold = Fold(part_stage(whole, part, 1), Folding(2, 1, 2))
    steps = walk(WeightWalk(fold, True, dataclasses.replace(whole, bias=whole.w), part))
    flat = np.arange(np.prod(whole.weight_shape)).reshape(whole.weight_shape)
    assert [step[3] for step in steps if not step[2]] == [*flat[..., 3:].reshape(-1)] * 2
