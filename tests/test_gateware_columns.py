"""Arrays of which the PEs of a column share memories, and of which forward and backward take turns at them."""

import pytest
from array_bench import Bench, make_shape

COLUMNS = [
    (1, 1, (1, 1), 1, {}),
    (3, 2, (3, 1), 2, {"columns": True}),
    (4, 2, (2, 2), 3, {"columns": True}),
    (4, 2, (2, 2), 4, {"columns": True, "style": "block"}),
    (2, 3, (2, 3), 1, {"columns": True, "copy": False, "period": 2}),
    (4, 3, (4, 3), 2, {"columns": True, "copy": False, "period": 2}),
    (2, 5, (2, 5), 3, {"columns": True, "copy": False, "period": 3}),
    (4, 4, (2, 4), 4, {"columns": True, "copy": False, "period": 4}),
    (2, 6, (2, 6), 5, {"columns": True, "copy": False, "period": 4}),
    (1, 8, (1, 8), 2, {"columns": True, "copy": False, "period": 7}),
]
"""Arrays of which columns share memories, with and without a copy of the weights for forward."""


@pytest.mark.parametrize(("pk", "pn", "tile", "depth", "more"), COLUMNS)
@pytest.mark.parametrize("bubbles", [0, 0.3])
def test_columns_share_memories(pk, pn, tile, depth, more, bubbles):
    bench = Bench(make_shape(depth, **more), pk, pn, tile, seed=pk * pn + depth)
    bench.bubbles = bubbles
    period = bench.shape.period

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            lengths = bench.rng.choice([1, period, period, period + 1], 6 * depth)
            await bench.visits(ctx, [(k % depth, int(n)) for k, n in enumerate(lengths)])
            await bench.peeks(ctx)
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize("passes", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("copy", [True, False])
def test_columns_without_all_passes(passes, copy):
    backward, gradient = passes
    more = {"columns": True, "copy": copy, "period": 2 if backward and not copy else 1}
    bench = Bench(make_shape(3, backward=backward, gradient=gradient, **more), 3, 2, (3, 2), seed=1)

    async def body(ctx):
        await bench.load(ctx)
        await bench.visits(ctx, [(k % 3, 2) for k in range(6)])
        if gradient:
            await bench.update(ctx)
        else:
            bench.dw[:] = 0
        await bench.peek(ctx)

    bench.run(body)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("in_place", [True, False])
def test_columns_with_loaded_sums(copy, in_place):
    master = {} if in_place else {"master": 5}
    more = {"columns": True, "copy": copy, "period": 1 if copy else 2, "shared": True, "in_place": in_place}
    bench = Bench(make_shape(4, **more, **master), 4, 3, (2, 3), seed=3)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.load_sums(ctx)
            await bench.peeks(ctx)
            if in_place:
                await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize(
    ("in_place", "shared", "rows"), [(1, 0, 1), (1, 0, 3), (1, 1, 3), (0, 0, 1), (0, 1, 1)]
)
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("depth", [2, 3])
def test_a_load_leaves_its_neighbours_alone(in_place, shared, rows, columns, depth):
    """Loads that follow each other in one word, with sums beside them."""
    more = {
        "columns": columns,
        "in_place": bool(in_place),
        "shared": bool(shared),
        "rows": rows if columns else 1,
    }
    bench = Bench(make_shape(depth, master=12 if in_place else 5, **more), 6, 2, (3, 2), seed=depth)

    async def body(ctx):
        await bench.load(ctx)
        for k in range(4):
            bench.bubbles = 0.2 * (k % 3)
            await bench.visits(ctx, [(k % depth, 2) for k in range(2 * depth)])
            await bench.load_some(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"copy": False}, "without a copy of the weights columns share memories; give columns = True"),
        (
            {"copy": False, "columns": True},
            "period = 1; forward and backward take turns in at least 2 cycles",
        ),
    ],
)
def test_shapes_that_cannot_take_turns(more, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_shape(3, **more)
