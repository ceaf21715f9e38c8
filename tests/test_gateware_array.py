"""The array against integers: forward, backward, gradient and update, for odd sizes, tiles and visits."""

import numpy as np
import pytest
from array_bench import Bench, make_shape

from hwgen.numeric import hash_words


@pytest.mark.parametrize(
    ("pk", "pn", "tile", "depth", "pixels"),
    [
        (1, 1, (1, 1), 1, (1, 3)),
        (1, 1, (1, 1), 2, (1, 1)),
        (2, 3, (2, 3), 1, (1, 1)),
        (3, 2, (1, 2), 2, (1, 2)),
        (4, 4, (2, 2), 3, (1, 1)),
        (7, 3, (7, 1), 2, (1, 4)),
        (6, 5, (2, 5), 5, (3, 3)),
        (5, 6, (1, 3), 4, (1, 7)),
    ],
)
def test_three_passes_and_update(pk, pn, tile, depth, pixels):
    bench = Bench(make_shape(depth), pk, pn, tile, seed=pk * 100 + depth)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(3):
            visits = [
                (k % depth, int(bench.rng.integers(pixels[0], pixels[1] + 1))) for k in range(4 * depth)
            ]
            await bench.visits(ctx, visits)
            await bench.peek(ctx)
            await bench.update(ctx)
        await bench.peek(ctx)

    bench.run(body)


@pytest.mark.parametrize("grad", [17, 18, 19, 34, 35, 36, 52])
@pytest.mark.parametrize("shift", [0, 1, 9, 40, 60])
def test_update_of_wide_sums(grad, shift):
    """dW of any width, loaded through extreme products, at every number of pieces and shift."""
    bench = Bench(make_shape(3, grad=grad, shift=shift, widths=(8, 8, 8)), 2, 2, (2, 1), seed=grad + shift)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 3, 2) for k in range(12)])
            await bench.update(ctx)
            await bench.peek(ctx)

    bench.run(body)


def test_counts_saturation_and_zero_updates():
    bench = Bench(make_shape(4, shift=9, master=8, grad=24), 3, 3, (3, 3), seed=5)
    bench.rate = 3

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(4):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.update(ctx)

    bench.run(body)
    assert bench.saturated > 0
    assert bench.zeros > 0


@pytest.mark.parametrize("grad", [18, 22, 36])
def test_stochastic_rounding_follows_the_hash(grad):
    """With one, two and three pieces a word."""
    bench = Bench(make_shape(4, grad=grad, shift=8, stochastic=True), 4, 2, (2, 1), seed=9)
    key = hash_words(1, 2, 3, 0)
    bench.key = int(key)  # any 32 bits
    bench.rate = 27  # odd, so that every step has a fraction to round

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % 4, 2) for k in range(8)])
            await bench.update(ctx)
            await bench.peek(ctx)

    bench.run(body)


@pytest.mark.parametrize(("backward", "gradient"), [(False, True), (True, False), (False, False)])
def test_missing_passes(backward, gradient):
    bench = Bench(make_shape(3, backward=backward, gradient=gradient), 3, 2, (3, 2), seed=1)
    bench.dw = bench.dw if gradient else np.zeros_like(bench.dw)

    async def body(ctx):
        await bench.load(ctx)
        await bench.visits(ctx, [(k % 3, 2) for k in range(6)])
        if gradient:
            await bench.update(ctx)
        await bench.peek(ctx)

    bench.run(body)


GRIDS = [(1, 1, (1, 1), 1), (3, 2, (1, 2), 2), (4, 4, (2, 2), 3), (2, 6, (2, 3), 5)]


@pytest.mark.parametrize(("pk", "pn", "tile", "depth"), GRIDS)
def test_peeks_follow_each_other(pk, pn, tile, depth):
    bench = Bench(make_shape(depth), pk, pn, tile, seed=depth)

    async def body(ctx):
        await bench.load(ctx)
        await bench.visits(ctx, [(k % depth, 2) for k in range(2 * depth)])
        await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize(("pk", "pn", "tile", "depth"), GRIDS)
@pytest.mark.parametrize("in_place", [True, False])
def test_sums_are_loaded_and_nothing_else(pk, pn, tile, depth, in_place):
    master = {} if in_place else {"master": 5}
    bench = Bench(make_shape(depth, shared=True, in_place=in_place, **master), pk, pn, tile, seed=depth)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(2):
            await bench.visits(ctx, [(k % depth, 2) for k in range(2 * depth)])
            await bench.load_sums(ctx)
            await bench.peeks(ctx)
            if in_place:
                await bench.update(ctx)
            await bench.peeks(ctx)

    bench.run(body)


@pytest.mark.parametrize(("pk", "pn", "tile", "depth"), GRIDS)
def test_loaded_weights_clear_their_sums(pk, pn, tile, depth):
    bench = Bench(make_shape(depth, in_place=False, master=5), pk, pn, tile, seed=depth)

    async def body(ctx):
        for _ in range(3):
            bench.master = bench.ints(5, bench.master.shape)
            bench.dw[:] = 0
            await bench.load(ctx)
            await bench.visits(ctx, [(k % depth, 2) for k in range(2 * depth)])
            await bench.peeks(ctx)

    bench.run(body)
