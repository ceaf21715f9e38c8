"""Arrays of which rows lie behind one another in the lanes of a column's memories."""

import re

import pytest
from array_bench import Bench, make_shape

from hwgen.gateware.lanes import Lanes

STACKED = [  # (Pk, Pn), (tk, tn), words, stack, period
    ((2, 1), (2, 1), 2, 2, 4),
    ((4, 3), (4, 3), 3, 2, 4),
    ((4, 6), (2, 6), 2, 2, 5),
    ((8, 4), (4, 4), 5, 4, 8),
    ((4, 9), (4, 9), 2, 4, 9),
    ((8, 3), (8, 3), 2, 8, 16),
    ((6, 5), (6, 5), 7, 2, 7),
]
WHO = {
    "masters elsewhere": {"in_place": False, "master": 5},
    "sums of others": {"in_place": False, "master": 5, "shared": True},
    "a unit a column": {"rows": True},
    "a unit a column, sums of others": {"rows": True, "shared": True},
}


def bench_of(array, tile, depth, stack, period, who, **more):
    fields = {"columns": True, "copy": False, "stack": stack, "period": period, **WHO[who], **more}
    if "rows" in fields:
        fields["rows"] = tile[0]
    return Bench(make_shape(depth, **fields), *array, tile, seed=depth + stack)


@pytest.mark.parametrize(("array", "tile", "depth", "stack", "period"), STACKED)
@pytest.mark.parametrize("who", WHO)
def test_rows_take_turns_at_a_lane(array, tile, depth, stack, period, who):
    bench = bench_of(array, tile, depth, stack, period, who)
    shape = bench.shape

    async def body(ctx):
        await bench.load(ctx)
        for k in range(2):
            bench.bubbles = 0.3 * k
            lengths = bench.rng.choice([stack, period - 1, period, period, period + 1], 3 * depth)
            await bench.visits(ctx, [(i % depth, int(n)) for i, n in enumerate(lengths)])
            await bench.peeks(ctx)
            await bench.load_some(ctx)
            if shape.shared:
                await bench.load_sums(ctx)
            await bench.peeks(ctx)
            if shape.updates:
                await bench.update(ctx)
            else:
                await bench.load(ctx)
                bench.dw[:] = 0

    bench.run(body)


@pytest.mark.parametrize("passes", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("period", [4, 6])
def test_without_all_passes(passes, period):
    """Without backward data a lane has twice as many turns."""
    backward, gradient = passes
    stack = 2 if backward else 4
    who = {"backward": backward, "gradient": gradient}
    bench = bench_of((4, 3), (4, 3), 3, stack, period, "masters elsewhere", **who)

    async def body(ctx):
        await bench.load(ctx)
        await bench.visits(ctx, [(k % 3, int(n)) for k, n in enumerate(bench.rng.choice([stack, period], 9))])
        if not gradient:
            bench.dw[:] = 0
        await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize(
    "fields",
    [
        {"stack": 4, "period": 7},
        {"stack": 2, "period": 3},
        {"stack": 4, "period": 3, "backward": False},
        {"stack": 2, "period": 4, "copy": True},
        {"stack": 2, "period": 4, "in_place": True},
    ],
)
def test_shapes_that_have_no_turns(fields):
    more = {"columns": True, "copy": False, "in_place": False, **fields}
    with pytest.raises(ValueError, match=f"^stack = {fields['stack']}: rows that lie behind one another"):
        make_shape(3, **more)


def test_a_stack_divides_the_rows():
    more = {"columns": True, "copy": False, "in_place": False, "period": 8}
    with pytest.raises(ValueError, match=r"^stack = 3 is not a power of two$"):
        make_shape(3, stack=3, **more)
    with pytest.raises(ValueError, match=re.escape("stack = 4 does not divide the tile's 6 rows")):
        Lanes(6, 2, 4)
