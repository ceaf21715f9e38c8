"""Tiles of which one unit a column updates all rows: the same masters, dW, counts and random bits as of the model."""

import gc

import numpy as np
import pytest
from array_bench import Bench, make_shape

from hwgen.gateware.tile import ArrayShape, Tile
from hwgen.numeric import hash_words

ARRAYS = [
    (2, 1, (2, 1), 2, {"grad": 18}),
    (3, 2, (3, 2), 3, {}),
    (4, 3, (2, 3), 4, {"grad": 36, "copy": False, "period": 2}),
    (6, 4, (3, 2), 2, {"grad": 17, "copy": False, "period": 3}),
    (5, 2, (5, 2), 5, {"grad": 52, "style": "block"}),
    (4, 2, (4, 2), 1, {"copy": False, "period": 2}),
    (3, 3, (3, 3), 3, {"backward": False, "grad": 20}),
]


def bench_of(pk, pn, tile, depth, more, seed=0):
    return Bench(make_shape(depth, columns=True, rows=tile[0], **more), pk, pn, tile, seed=seed)


@pytest.mark.parametrize(("pk", "pn", "tile", "depth", "more"), ARRAYS)
def test_rows_are_updated_one_after_the_other(pk, pn, tile, depth, more):
    bench = bench_of(pk, pn, tile, depth, more, seed=pk + depth)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(3):
            lengths = bench.rng.choice([1, bench.shape.period, bench.shape.period + 1], 3 * depth)
            await bench.visits(ctx, [(k % depth, int(n)) for k, n in enumerate(lengths)])
            await bench.peeks(ctx)
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize("shift", [0, 9, 60])
@pytest.mark.parametrize("grad", [18, 19, 35, 36])
def test_wide_sums(grad, shift):
    bench = bench_of(2, 2, (2, 2), 3, {"grad": grad, "shift": shift, "widths": (8, 8, 8)}, seed=grad + shift)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 3, 2) for k in range(12)])
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


def test_counts_saturation_and_zero_updates():
    bench = bench_of(3, 3, (3, 3), 4, {"shift": 9, "master": 8, "grad": 24}, seed=5)
    bench.rate = 3

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(4):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)
    assert bench.saturated > 0
    assert bench.zeros > 0


@pytest.mark.parametrize("grad", [18, 22, 36])
def test_stochastic_rounding_follows_the_hash(grad):
    bench = bench_of(4, 2, (2, 1), 4, {"grad": grad, "shift": 8, "stochastic": True}, seed=9)
    bench.key, bench.rate = int(hash_words(1, 2, 3, 0)), 27

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


def test_totals_of_all_parts():
    bench = bench_of(4, 3, (2, 3), 4, {"shared": True, "grad": 30}, seed=3)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.load_sums(ctx)
            await bench.peeks(ctx)
            await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_units_that_cannot_be():
    with pytest.raises(
        ValueError, match=r"^rows of a column that does not share its memories, or never changes, upda"
    ):
        make_shape(3, rows=2)
    with pytest.raises(
        ValueError, match=r"^rows of a column that does not share its memories, or never changes, upda"
    ):
        make_shape(3, rows=2, columns=True, in_place=False, master=5)
    with pytest.raises(ValueError, match=r"^rows = 2; a unit updates all 3 rows of a column or one$"):
        Tile(make_shape(3, rows=2, columns=True), 3, 1)
    gc.collect()  # an unused part warns when it is collected: here, not in a later test


def test_a_row_takes_three_cycles_at_least():
    widths = {"x": 8, "w": 8, "dy": 8, "master": 8, "psum": 20, "back": 20, "rate": 4, "shift": 3}
    found = [
        ArrayShape(4, grad=grad, backward=True, gradient=True, columns=True, rows=rows, **widths).row_cycles
        for grad in (18, 35, 36)
        for rows in (1, 9)
    ]
    assert np.reshape(found, (3, 2)).tolist() == [[1, 3], [2, 3], [3, 3]]
