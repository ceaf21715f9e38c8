"""Random window geometries over the grid of kernels, strides, pads, dilations, foldings, and a plain model of
their loop nests."""

import math

import numpy as np

from hwgen.ir.window import Window2d
from hwgen.plan.geometry import Geometry

__all__ = ["FIXED", "draw_geometry", "ops", "tap_of", "x_word_of"]

KERNELS = [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 5), (5, 1), (3, 2)]
PADS = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (2, 0, 1, 1)]


def _geometry(
    size, kernel, stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), u=1, pc=1, groups=1, cgs=1, fn=1, b=1
):
    return Geometry(Window2d(*size, kernel, stride, pads, dilation), u, pc, groups, cgs, fn, b)


FIXED = [
    _geometry((1, 1), (1, 1)),
    _geometry((1, 1), (1, 1), cgs=5, fn=3),
    _geometry((4, 5), (3, 3), pads=(1, 1, 1, 1), u=9, pc=2, cgs=2, fn=2, b=3),
    _geometry((5, 4), (3, 3), pads=(1, 1, 1, 1), u=9, b=7),
    _geometry((5, 7), (3, 3), stride=(2, 2), u=3, cgs=2, fn=2, b=2),
    _geometry((7, 5), (2, 2), stride=(3, 3), u=4, b=2),
    _geometry((6, 9), (3, 3), dilation=(2, 2), u=9, b=2),
    _geometry((8, 8), (2, 2), stride=(2, 2), groups=3),
    _geometry((2, 9), (1, 5), pads=(0, 4, 0, 4), u=5, b=4),
    _geometry((1, 1), (1, 1), pads=(2, 1, 2, 1), groups=2, fn=2, b=2),
]


def draw_geometry(rng, most=4000):
    """One of the grid, with at most ``most`` ops a sample."""
    while True:
        kernel = KERNELS[rng.integers(len(KERNELS))]
        stride = tuple(int(v) for v in rng.choice([1, 1, 2, 3], 2))
        dilation = tuple(int(v) for v in rng.choice([1, 1, 2], 2))
        size = tuple(int(v) for v in rng.integers(1, 11, 2))
        window = Window2d(*size, kernel, stride, PADS[rng.integers(len(PADS))], dilation)
        if window.out_height < 1 or window.out_width < 1:
            continue
        kh, kw = kernel
        u = int(rng.choice([1, kw, kh * kw]))
        b = int(rng.choice([1, 2, 3, 4, 8, window.pixels_out, window.pixels_out + 1]))
        groups, cgs, fn, pc = (int(v) for v in rng.choice([1, 1, 2, 3], 4))
        geometry = Geometry(window, u, pc, groups, cgs, fn, b)
        if geometry.M * geometry.groups * geometry.fk * fn <= most:
            return geometry


def ops(geometry, order):
    """(block's first pixel, pixel, g, nf, kf) of every op of a sample, in order; nf is absent (0) in
    "chunks"."""
    loops = {
        "forward": lambda: ((g, n, k) for g in G for n in N for k in K),
        "backward": lambda: ((g, n, k) for g in G for k in K for n in N),
        "chunks": lambda: ((g, 0, k) for g in G for k in K),
        "sums": lambda: ((g, n, 0) for g in G for n in N),
    }[order]
    G, N, K = range(geometry.groups), range(geometry.fn), range(geometry.fk)
    for start in range(0, geometry.M, geometry.b):
        for g, nf, kf in loops():
            for pixel in range(start, min(start + geometry.b, geometry.M)):
                yield start, pixel, g, nf, kf


def tap_of(geometry, pixel, kf, p):
    """The input pixel under position ``p`` of chunk ``kf``, or None."""
    position = (kf // geometry.cgs) * geometry.u + p
    oy, ox = divmod(pixel, geometry.window.out_width)
    return geometry.window.tap(oy, ox, *divmod(position, geometry.window.kernel[1]))


def x_word_of(geometry, g, kf):
    """The word of a pixel that chunk ``kf`` of group ``g`` reads."""
    return g * geometry.cgs + kf % geometry.cgs


def flags_of(geometry, order, start, pixel, g, nf, kf):
    """The flags that an op carries."""
    end = min(start + geometry.b, geometry.M) - 1
    last_op = (geometry.groups - 1, geometry.fn - 1, geometry.fk - 1) == (g, nf, kf) and pixel == end
    inner, count = (kf, geometry.fk) if order == "forward" else (nf, geometry.fn)
    return {
        "waddr": (g * geometry.fn + nf) * geometry.fk + kf,
        "word": g * geometry.fn + nf,
        "m": pixel - start,
        "first": inner == 0,
        "last": inner == count - 1,
        "visit_first": pixel == start,
        "visit_last": pixel == end,
        "kf_first": kf == 0,
        "block_last": last_op,
        "sample_first": (pixel, g, nf, kf) == (0, 0, 0, 0),
        "sample_last": last_op and pixel == geometry.M - 1,
    }


def blocks_of(geometry):
    """Number of blocks in a sample."""
    return math.ceil(geometry.M / geometry.b)


def random_words(rng, count, lanes, width):
    """Words of random signed lanes."""
    high = 1 << (width - 1)
    return [[int(v) for v in row] for row in rng.integers(-high, high, (count, lanes))]


def rng_of(*seed):
    """A generator for a test's case."""
    return np.random.default_rng(seed)
