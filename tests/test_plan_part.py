"""Parts of a stage: together exactly the whole, whatever the axis and the shares."""

import dataclasses
from functools import partial
from itertools import pairwise, starmap

import numpy as np
import pytest
from ref_networks import random_network

from hwgen.ir.activation import Activation
from hwgen.ir.stage import Stage
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.cuts import Cut, axis_channels, legal_axes, parts_of, within_groups
from hwgen.plan.part import WHOLE, Part, like_part, part_stage

Q8 = Q(8, 4)


def stage_of(cin=6, cout=6, groups=1, **changes):
    window = Window2d(5, 4, (3, 2), pads=(1, 0, 1, 1))
    values = {
        "bias": Q(16, 8),
        "y": Q8,
        "dy": Q8,
        "dx": Q8,
        "activation": Activation(),
        "pool": Window2d(5, 4, (2, 2), (2, 2)),
    }
    return Stage("conv", 1, window, cin, cout, Q8, Q8, Q(12, 8), groups=groups, **values | changes)


def shares_of(channels, count):
    """Every way to cut ``channels`` into ``count`` parts."""
    if count == 1:
        return [(channels,)]
    firsts = range(1, channels - count + 2)
    return [(first, *rest) for first in firsts for rest in shares_of(channels - first, count - 1)]


def every_cut(stage):
    for axis in legal_axes(stage):
        channels = axis_channels(stage, axis)
        for count in range(2, channels + 1):
            for shares in shares_of(channels, count):
                bounds = (0, *np.cumsum(shares).tolist())
                if axis != "output_channels" or all(starmap(partial(within_groups, stage), pairwise(bounds))):
                    yield axis, parts_of(Cut(0, axis, bounds))


STAGES = [stage_of(), stage_of(3, 5), stage_of(8, 12, 4), stage_of(4, 4, 4), stage_of(1, 3), stage_of(5, 1)]


@pytest.mark.parametrize("stage", STAGES)
def test_the_parts_tile_the_whole(stage):
    for axis, parts in every_cut(stage):
        times = {
            "w": np.zeros(stage.weight_shape),
            "x": np.zeros(stage.in_channels),
            "y": np.zeros(stage.out_channels),
        }
        for part in parts:
            own = part_stage(stage, part, 3)
            inputs, outputs = part.weights(stage)
            block = times["w"][:, :, inputs, outputs]
            assert block.shape == own.weight_shape
            block += 1
            times["x"][part.inputs(stage)] += 1
            times["y"][part.outputs(stage)] += 1
            assert (own.in_channels, own.out_channels) == (
                len(times["x"][part.inputs(stage)]),
                len(times["y"][part.outputs(stage)]),
            )
        assert (times["w"] == 1).all()
        # Every part that has outputs of a group reads the inputs of it.
        sharing = [
            sum(p.low < n + stage.N and p.high > n for p in parts)
            for n in range(0, stage.out_channels, stage.N)
        ]
        by_outputs = axis == "output_channels"
        assert (times["x"] == (np.repeat(sharing, stage.cin) if by_outputs else 1)).all()
        assert (times["y"] == (len(parts) if axis == "input_channels" else 1)).all()


@pytest.mark.parametrize("stage", STAGES)
def test_the_offset_is_that_of_the_first_weight(stage):
    """k·Cout + n of the whole, for its first kernel position."""
    index = np.arange(np.prod(stage.weight_shape)).reshape(stage.weight_shape)
    for _, parts in every_cut(stage):
        for part in parts:
            assert part.offset(stage) == index[:, :, *part.weights(stage)].flat[0]
    assert WHOLE.offset(stage) == 0


def who(part, stage):
    found = {
        "sends_back": part.back_out(stage), "sends_sums": part.sends_sums,
        "takes_back": part.back_in(stage), "takes_sums": part.takes_sums,
    }  # fmt: skip
    return " ".join(name for name, does in found.items() if does)


def test_sums_stay_within_their_group():
    """Outputs of three groups of four: the first whole, the second over three parts, the third over two."""
    stage, bounds = stage_of(6, 12, 3), (0, 4, 5, 6, 8, 9, 12)
    wanted = ["", "takes_back", "sends_back takes_back", "sends_back", "takes_back", "sends_back"]
    parts = parts_of(Cut(0, "output_channels", bounds))
    assert [who(part, stage) for part in parts] == wanted
    assert [part.inputs(stage) for part in parts] == [slice(0, 2), *[slice(2, 4)] * 3, *[slice(4, 6)] * 2]
    assert [part_stage(stage, part, 0).groups for part in parts] == [1] * 6
    assert part_stage(stage, Part("output_channels", 0, 2, 0, 8), 0).groups == 2
    for part in parts:
        like = like_part(part, stage)
        assert who(like, stage) == who(part, stage)
        assert part_stage(stage, like, 0) == part_stage(stage, part, 0)


def test_who_sends_and_takes_sums():
    table = {
        "output_channels": ["takes_back", "sends_back takes_back", "sends_back"],
        "input_channels": ["sends_sums", "sends_sums takes_sums", "takes_sums"],
        "groups": ["", "", ""],
    }
    for axis in table:
        for part, wanted in zip(parts_of(Cut(0, axis, (0, 1, 2, 4))), table[axis], strict=True):
            assert who(part, stage_of(4, 4)) == wanted
            assert (part.first, part.last) == (part.index == 0, part.index == 2)
    assert who(WHOLE, stage_of()) == ""
    assert WHOLE.first
    assert WHOLE.last


def test_a_part_is_a_stage_of_its_own_channels():
    stage = stage_of(8, 12, 4)
    assert part_stage(stage, WHOLE, 2) is stage
    own = part_stage(stage, Part("groups", 1, 2, 1, 4), 2)
    assert own == dataclasses.replace(stage, name="conv@2", in_channels=6, out_channels=9, groups=3)
    stage = stage_of()
    own = part_stage(stage, Part("output_channels", 0, 2, 0, 4), 0)
    assert own == dataclasses.replace(stage, name="conv@0", out_channels=4)
    last = part_stage(stage, Part("input_channels", 1, 2, 4, 6), 1)
    assert last == dataclasses.replace(stage, name="conv@1", in_channels=2)


def test_what_hands_its_sums_on_has_neither_bias_nor_activation():
    own = part_stage(stage_of(), Part("input_channels", 0, 2, 0, 4), 0)
    assert (own.bias, own.activation, own.pool, own.in_channels) == (None, None, None, 4)


@pytest.mark.parametrize("seed", range(30))
def test_sums_of_parts_fit_the_widths_of_the_whole(seed):
    """Why nothing is cut off where sums are added: a part's sums have at most the bits of the whole's."""
    for stage in random_network(seed).stages:
        for axis in legal_axes(stage):
            middle = axis_channels(stage, axis) // 2
            if axis == "output_channels":
                middle = middle // stage.N * stage.N or stage.N // 2
            for part in parts_of(Cut(0, axis, (0, middle, axis_channels(stage, axis)))):
                own = part_stage(stage, part, part.index)
                assert own.psum_bits <= stage.psum_bits
                assert own.acc_bits <= stage.acc_bits
                assert own.col_bits <= stage.col_bits
