"""Max-pool and its adjoint against plain loops: ties, padding with negative inputs, overlap, remainders."""

import numpy as np
import pytest
from geometry_cases import rng_of
from stream_bench import run_streams

from hwgen.gateware.pool import MaxPool, MaxPoolAdjoint
from hwgen.ir.window import Window2d
from hwgen.plan.geometry import Geometry, min_col_rows, min_rows

CASES = [
    Window2d(4, 6, (2, 2), (2, 2)),
    Window2d(5, 7, (2, 2), (2, 2)),
    Window2d(5, 6, (3, 3), (2, 2)),
    Window2d(6, 5, (3, 3), (2, 2), (1, 1, 1, 1)),
    Window2d(4, 5, (3, 3), (1, 1), (1, 1, 1, 1)),
    Window2d(5, 5, (1, 1), (2, 2)),
    Window2d(7, 7, (2, 3), (3, 2), (0, 1, 0, 1)),
    Window2d(8, 8, (8, 8), (8, 8)),
    Window2d(1, 1, (1, 1), (1, 1)),
    Window2d(5, 2, (3, 2), (2, 1), (0, 1, 0, 1), starts=(0, 2)),  # a part's rows, some of another part
    Window2d(7, 2, (3, 1), (2, 1), starts=(-1, 2, 3, 5)),
]


def pooled(window, image):
    """(maxima, kernel position of each) of [H, W, C]."""
    out = np.zeros((window.out_height, window.out_width, image.shape[2]), dtype=np.int64)
    where = np.zeros_like(out)
    for oy, ox, c in np.ndindex(*out.shape):
        taps = [
            (image[*tap, c], -p, p)
            for p in range(window.positions)
            if (tap := window.tap(oy, ox, *divmod(p, window.kernel[1]))) is not None
        ]
        out[oy, ox, c], _, where[oy, ox, c] = max(taps)
    return out, where


def unpooled(window, error, where, width):
    image = np.zeros((window.height, window.width, error.shape[2]), dtype=np.int64)
    for oy, ox, c in np.ndindex(*error.shape):
        image[*window.tap(oy, ox, *divmod(int(where[oy, ox, c]), window.kernel[1])), c] += error[oy, ox, c]
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    return np.clip(image, low, high), int(((image < low) | (image > high)).sum())


def as_words(tensor, lanes):
    return tensor.reshape(-1, lanes).tolist()


def plain(words, lanes):
    return [[word[k] for k in range(lanes)] for word in words]


@pytest.mark.parametrize("train", [1, 0])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.3, 0.4)])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_max_pool(case, stalls, train):
    window, lanes, words = CASES[case], 2, 1 + case % 3
    rng = rng_of(case)
    span = (-2, 2) if case % 2 else (-16, -3)  # many ties, or all negative
    images = rng.integers(*span, (3, window.height, window.width, words * lanes))
    results = [pooled(window, image) for image in images]
    geometry = Geometry(window, 1, lanes, words)
    pool = MaxPool(geometry, 5, min_rows(geometry))
    count = 3 * window.pixels_out * words
    got, _ = run_streams(
        pool,
        {"i": as_words(images, lanes)},
        {"o": count, "argmax": count if train else 0},
        stalls=stalls,
        settings={"train": train},
    )
    assert plain(got["o"], lanes) == as_words(np.stack([r[0] for r in results]), lanes)
    if train:
        assert plain(got["argmax"], lanes) == as_words(np.stack([r[1] for r in results]), lanes)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.3, 0.4)])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_max_pool_adjoint(case, stalls):
    window, lanes, words = CASES[case], 2, 1 + case % 3
    rng = rng_of(case, 1)
    images = rng.integers(-2, 2, (3, window.height, window.width, words * lanes))
    wheres = np.stack([pooled(window, image)[1] for image in images])
    errors = rng.integers(-16, 16, wheres.shape)
    geometry = Geometry(window, 1, lanes, words)
    exact = window.starts is not None
    adjoint = MaxPoolAdjoint(geometry, 5, min_col_rows(geometry), exact)
    wanted = [unpooled(window, e, w, 9 if exact else 5) for e, w in zip(errors, wheres, strict=True)]
    counted = {}

    async def watch(ctx):
        for _ in range(4000):
            await ctx.tick()
        counted["saturated"] = ctx.get(adjoint.saturated)

    got, _ = run_streams(
        adjoint,
        {"i": as_words(errors, lanes), "argmax": as_words(wheres, lanes)},
        {"o": 3 * window.pixels_in * words},
        stalls=stalls,
        bench=watch,
    )
    assert plain(got["o"], lanes) == as_words(np.stack([w[0] for w in wanted]), lanes)
    assert counted["saturated"] == sum(w[1] for w in wanted)


def test_adjoint_saturates():
    """The overlapping case above must contain clipped sums, or it proves nothing."""
    window = CASES[4]
    rng = rng_of(4, 1)
    image = rng.integers(-2, 2, (window.height, window.width, 2))
    error = np.full((window.out_height, window.out_width, 2), 15)
    assert unpooled(window, error, pooled(window, image)[1], 5)[1] > 0
