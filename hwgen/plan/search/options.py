"""Foldings of a share of a layer that keep a pace: the few worth considering, by multipliers and memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..fold import Folding
from ..foldings import MAX_PES
from .layer import Layer, ceil_div, rows_read

__all__ = ["Choice", "Sizes", "choices", "sizes_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_CHOICES = 10
SLACK = 1.8
"""Foldings with so many times the fewest PEs are considered: they may fill memories better."""
SAMPLES, TURN = 3.0, 0.12
"""Samples in flight, and the share of a part's rows that waits for its turn, for a first measure of memory."""
TILE_ROWS, TILE_COLUMNS = 9, 8


@dataclass(frozen=True)
class Sizes:
    """Extents of a share: channels of a group, groups, rows of the convolution and of x; turns of its rows."""

    cin: int
    n: int
    groups: int
    rows: int
    x_rows: int
    turns: int = 1


@dataclass(frozen=True)
class Choice:
    """A folding of a share: array, folds over k and n, cycles a sample of the array, ``busy`` those of the slowest of
    array, row buffers and pool."""

    folding: Folding
    pk: int
    pn: int
    fk: int
    fn: int
    depth: int
    cycles: int
    busy: int
    tile: tuple[int, int]

    @property
    def pes(self) -> int:
        """Processing elements."""
        return self.pk * self.pn


def sizes_of(
    layer: Layer, axis: str, size: int, turns: int = 1, first: bool = True, last: bool = True
) -> Sizes:
    """The extents of ``size`` units of ``axis``; of rows at most, and exactly if they fill the turns but for the
    image's edges: the ``first`` part has what all its pool windows read, others leave to those before what both read;
    the ``last`` one has what no window reads."""
    stage = layer.stage
    rows, x_rows = stage.window.out_height, stage.window.height
    if axis == "rows":
        rows = size * layer.conv_rows + first * min(turns, size) * layer.pool_overlap
        rows += last * max(0, layer.rows_left - layer.pool_overlap)
        rows = min(rows, stage.window.out_height)
        x_rows = rows_read(stage, rows, min(turns, size))
    groups = size if axis == "groups" else stage.groups
    if axis == "output_channels":
        groups = ceil_div(size, stage.N)
    return Sizes(
        size if axis == "input_channels" else stage.cin,
        min(size, stage.N) if axis == "output_channels" else stage.N,
        groups,
        rows,
        x_rows,
        min(turns, size) if axis == "rows" else 1,
    )


@cache
def divisor(count: int, most: int) -> int:
    """The largest divisor of ``count`` up to ``most``."""
    return max(d for d in range(1, min(count, most) + 1) if count % d == 0)


@cache
def _splits(count: int) -> tuple[Ints, Ints]:
    """Every distinct ceil(count / folds), and the fewest folds that give it."""
    lanes = sorted({ceil_div(count, folds) for folds in range(1, count + 1)})
    return np.array(lanes), np.array([ceil_div(count, each) for each in lanes])


@cache
def _grid(
    us: tuple[int, ...], positions: int, cin: int, n: int, pc: int | None, pn: int | None
) -> tuple[Ints, ...]:
    """All (u, pc, pn) as flat arrays with their folds: u, pc, cgs, fk, pn, fn; only the pc and pn that are given."""
    pcs, cgss = _splits(cin) if pc is None else (np.array([pc]), np.array([ceil_div(cin, pc)]))
    pns, fns = _splits(n) if pn is None else (np.array([pn]), np.array([ceil_div(n, pn)]))
    u, k, c = (
        part.reshape(-1) for part in np.meshgrid(us, np.arange(len(pcs)), np.arange(len(pns)), indexing="ij")
    )
    cgs = cgss[k]
    return u, pcs[k], cgs, (positions // u) * cgs, pns[c], fns[c]


def _wishes(layer: Layer, axis: str, sizes: Sizes) -> tuple[int | None, int | None]:
    """The pc and pn that the user wants; a part of the cut channels has as many folds as the whole layer would have."""
    stage, (_, pc, pn) = layer.stage, layer.wish
    if pc is not None and axis == "input_channels":
        pc = ceil_div(sizes.cin, ceil_div(stage.cin, pc))
    if pn is not None and axis == "output_channels":
        pn = ceil_div(sizes.n, ceil_div(stage.N, pn))
    return pc, pn


def choices(
    layer: Layer, axis: str, sizes: Sizes, pace: int, word: int, in_turns: bool = False
) -> list[Choice]:
    """Foldings of a share that keep ``pace``, fewest PEs first, each with less memory than those before it; [] if none.

    ``word`` bits lie in memory beside every PE's multipliers for one weight. ``in_turns``: forward and
    backward take turns at it, in whole blocks.
    """
    stage = layer.stage
    grid = _grid(tuple(layer.us), stage.window.positions, sizes.cin, sizes.n, *_wishes(layer, axis, sizes))
    u, pc, cgs, fk, pn, fn = grid
    width = stage.window.out_width
    pixels = sizes.rows * width
    if in_turns:
        period = min(layer.b, pixels)
        pixels = ceil_div(pixels, period) * period
    depth = sizes.groups * fk * fn
    fits = (pixels * depth <= pace) & (depth <= MAX_PES) & (u * pc * pn <= MAX_PES)
    # A word a cycle enters the row buffers and the pool; the pool reads one a position.
    streams = sizes.x_rows * stage.window.width * sizes.groups * cgs
    if stage.pool is not None and axis != "input_channels":
        pooled = sizes.rows // layer.conv_rows * stage.out_shape[1] * stage.pool.positions
        streams = np.maximum(streams, max(pooled, pixels) * sizes.groups * fn)
    fits &= streams <= pace
    if not fits.any():
        return []
    pes = u * pc * pn
    least = int(pes[fits].min())
    near = np.flatnonzero(fits & (pes <= SLACK * least + 8))
    blocks = _blocks(depth[near], pes[near], word)
    blocks += _buffers(layer, axis == "rows", sizes, u[near], pc[near], cgs[near], fn[near])
    order = np.lexsort((-pc[near], u[near], blocks, pes[near]))
    found: list[Choice] = []
    best = float("inf")
    for i in order:
        if blocks[i] < 0.99 * best or not found:
            best = float(blocks[i])
            k = near[i]
            tile = divisor(int(u[k] * pc[k]), TILE_ROWS), divisor(int(pn[k]), TILE_COLUMNS)
            cycles = int(pixels * depth[k])
            folding = Folding(int(u[k]), int(pc[k]), int(pn[k]), layer.b)
            array = (folding.u * folding.pc, folding.pn, int(fk[k]), int(fn[k]), int(depth[k]))
            found.append(Choice(folding, *array, cycles, max(cycles, int(streams[k])), tile))
            if len(found) == MOST_CHOICES:
                break
    return found


def _blocks(depth: Ints, pes: Ints, word: int) -> Floats:
    """Block RAMs of 512 × 72 that the weights take, or what distributed RAM in words of 32 takes of them, whichever is
    less: a first measure only."""
    block = np.ceil(depth / 512) * 512
    distributed = np.ceil(depth / 32) * 32 * 1.6
    blocks: Floats = np.minimum(block, distributed) * pes * word / 36864
    return blocks


def _buffers(layer: Layer, in_turns: bool, sizes: Sizes, u: Ints, chunk: Ints, cgs: Ints, fn: Ints) -> Floats:
    """The same of the row buffers, whose words hold a chunk's channels in as many banks as it has positions: wide ones
    leave block RAM empty."""
    stage = layer.stage
    window, (kh, kw) = stage.window, stage.window.kernel
    down, across = np.where(u == window.positions, kh, 1), np.where(u > 1, kw, 1)
    pc: Floats = chunk.astype(np.float64)
    row: Floats = cgs.astype(np.float64) * sizes.groups * np.ceil(window.width / across)
    near = (2 if in_turns else 1) * kh + 1
    few: Floats = np.ceil(near / down) * row
    found = _shaped(few, pc * stage.x.width)
    if not stage.frozen:
        kept: Floats = np.ceil(SAMPLES * sizes.x_rows / down) * row
        found += _shaped(kept, pc * stage.x.width)
    if stage.dx is not None:
        found += np.where(fn > 1, 1.0, 2.0) * _shaped(few, pc * stage.col_bits)
    buffers: Floats = found * down * across
    if in_turns and stage.dx is not None:
        waits: Floats = np.ceil(TURN * sizes.x_rows) * sizes.groups * cgs.astype(np.float64) * window.width
        buffers += 2 * _shaped(waits, pc * stage.col_bits)
    return buffers


def _shaped(depth: Floats, width: Floats) -> Floats:
    """Block RAMs of a memory in the shape of which it takes the fewest."""
    shapes = ((512, 72), (1024, 36), (2048, 18), (4096, 9))
    found: Floats = np.min([np.ceil(depth / words) * np.ceil(width / bits) for words, bits in shapes], axis=0)
    return found
