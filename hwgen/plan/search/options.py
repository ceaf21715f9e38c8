"""Foldings of a share of a layer that keep a pace: the few worth considering, by multipliers and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..fold import Folding
from ..foldings import MAX_PES, STACKED_ROWS, TILE, divisor, tile_lanes
from ..layout import STACKS, Storage
from ..stack import stack_limit, updates_at_once
from .layer import Layer, ceil_div, rows_read

__all__ = ["Choice", "Near", "Sizes", "choices", "near", "sizes_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_CHOICES = 10
SLACK = 1.8
"""Foldings with so many times the fewest PEs are considered: they may fill memories better."""
SAMPLES, TURN = 3.0, 0.12
"""Samples in flight, and the share of a part's rows that waits for its turn, for a first measure of memory."""
MERGE = 0.018
"""Halves of a block RAM that are worth the look-up tables of a bit that may come from elsewhere: 1.8 of about 200 that
a board has for each block."""


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
    array, row buffers and pool; ``stack`` rows of the tile share a lane of its memories."""

    folding: Folding
    pk: int
    pn: int
    fk: int
    fn: int
    depth: int
    cycles: int
    busy: int
    tile: tuple[int, int]
    stack: int = 1

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
def _splits(count: int) -> tuple[Ints, Ints]:
    """Every distinct ceil(count / folds), and the fewest folds that give it."""
    lanes = sorted({ceil_div(count, folds) for folds in range(1, count + 1)})
    return np.array(lanes), np.array([ceil_div(count, each) for each in lanes])


@dataclass(frozen=True)
class _Grid:
    """All (u, pc, pn) with their folds, fewest PEs first: cgs = ceil(cin / pc), folds = fk · fn."""

    u: Ints
    pc: Ints
    cgs: Ints
    fk: Ints
    pn: Ints
    fn: Ints
    pes: Ints
    folds: Ints
    fewest: Ints
    """The fewest folds of any with no more PEs; falling."""


@cache
def _grid(us: tuple[int, ...], positions: int, cin: int, n: int, pc: int | None, pn: int | None) -> _Grid:
    """All foldings, only with the pc and pn that are given."""
    pcs, cgss = _splits(cin) if pc is None else (np.array([pc]), np.array([ceil_div(cin, pc)]))
    pns, fns = _splits(n) if pn is None else (np.array([pn]), np.array([ceil_div(n, pn)]))
    u, k, c = (
        part.reshape(-1) for part in np.meshgrid(us, np.arange(len(pcs)), np.arange(len(pns)), indexing="ij")
    )
    order = np.argsort(u * pcs[k] * pns[c], kind="stable")
    u, k, c = u[order], k[order], c[order]
    fk = (positions // u) * cgss[k]
    folds = fk * fns[c]
    return _Grid(
        u, pcs[k], cgss[k], fk, pns[c], fns[c], u * pcs[k] * pns[c], folds, np.minimum.accumulate(folds)
    )


def _wishes(layer: Layer, axis: str, sizes: Sizes) -> tuple[int | None, int | None]:
    """The pc and pn that the user wants; a part of the cut channels has as many folds as the whole layer would have."""
    stage, (_, pc, pn) = layer.stage, layer.wish
    if pc is not None and axis == "input_channels":
        pc = ceil_div(sizes.cin, ceil_div(stage.cin, pc))
    if pn is not None and axis == "output_channels":
        pn = ceil_div(sizes.n, ceil_div(stage.N, pn))
    return pc, pn


@dataclass(frozen=True)
class Near:
    """Foldings that keep a pace with not many more PEs than the fewest: places in their grid, and what they take."""

    grid: _Grid
    places: Ints
    pixels: int
    depth: Ints
    streams: Ints

    @property
    def pes(self) -> int:
        """The fewest PEs."""
        return int(self.grid.pes[self.places[0]])


def near(layer: Layer, axis: str, sizes: Sizes, pace: int, in_turns: bool) -> Near | None:
    """Foldings of a share that keep ``pace``; None if there is none."""
    stage = layer.stage
    grid = _grid(tuple(layer.us), stage.window.positions, sizes.cin, sizes.n, *_wishes(layer, axis, sizes))
    pixels = sizes.rows * stage.window.out_width
    if in_turns:
        period = min(layer.b, pixels)
        pixels = ceil_div(pixels, period) * period
    most = min(pace // pixels, MAX_PES) // sizes.groups
    total = int(np.searchsorted(grid.pes, MAX_PES, side="right"))
    # Where enough multipliers begin; streams may ask for more.
    first = int(np.searchsorted(-grid.fewest, -most))
    while first < total:
        last = _reach(grid, first, total)
        streams = _streams(layer, axis, sizes, pixels, grid.cgs[first:last], grid.fn[first:last])
        fits = np.flatnonzero((grid.folds[first:last] <= most) & (streams <= pace))
        if not len(fits):
            first = last
            continue
        if fits[0]:
            first += int(fits[0])
            last = _reach(grid, first, total)
            streams = _streams(layer, axis, sizes, pixels, grid.cgs[first:last], grid.fn[first:last])
            fits = np.flatnonzero((grid.folds[first:last] <= most) & (streams <= pace))
        places = fits + first
        return Near(grid, places, pixels, sizes.groups * grid.folds[places], streams[fits])
    return None


def _reach(grid: _Grid, first: int, total: int) -> int:
    """Behind the last folding with not many more PEs than the ``first``."""
    return min(total, int(np.searchsorted(grid.pes, SLACK * grid.pes[first] + 8, side="right")))


def _streams(layer: Layer, axis: str, sizes: Sizes, pixels: int, cgs: Ints, fn: Ints) -> Ints:
    """Cycles of the slowest of row buffers, which take a word a cycle, and pool, which reads one a position."""
    stage = layer.stage
    streams = sizes.x_rows * stage.window.width * sizes.groups * cgs
    if stage.pool is not None and axis != "input_channels":
        pooled = sizes.rows // layer.conv_rows * stage.out_shape[1] * stage.pool.positions
        streams = np.maximum(streams, max(pooled, pixels) * sizes.groups * fn)
    return streams


def choices(
    layer: Layer, axis: str, sizes: Sizes, near: Near, words: Sequence[int], storage: Storage
) -> list[Choice]:
    """Of foldings ``near`` the fewest PEs, fewest first, each with less memory than those before it.

    Memories of ``words`` bits lie beside every PE's multipliers for its weights, kept as ``storage`` says but for the
    rows that lie behind one another: as many as take the fewest block RAMs.
    """
    grid, places = near.grid, near.places
    u, pc, pn, fk, fn = (each[places] for each in (grid.u, grid.pc, grid.pn, grid.fk, grid.fn))
    pes, depth = grid.pes[places], near.depth
    most = _most_stacked(layer, storage, sizes.rows * layer.stage.window.out_width)
    blocks, stacks = _blocks(depth, u * pc, pn, words, most, layer.grad if axis == "rows" else 0)
    blocks += _buffers(layer, axis == "rows", sizes, u, pc, grid.cgs[places], fn)
    order = np.lexsort((-pc, u, blocks, pes))
    sorted_blocks = blocks[order]
    fewer = np.flatnonzero(sorted_blocks[1:] < np.minimum.accumulate(sorted_blocks)[:-1]) + 1
    found: list[Choice] = []
    best = float("inf")
    for k in (order[0], *order[fewer]):
        if blocks[k] < 0.99 * best or not found:
            best = float(blocks[k])
            pk, stack = int(u[k] * pc[k]), int(stacks[k])
            tile = stack * tile_lanes(pk, stack), divisor(int(pn[k]), TILE[1])
            cycles = int(near.pixels * depth[k])
            folding = Folding(int(u[k]), int(pc[k]), int(pn[k]), layer.b)
            array = (pk, folding.pn, int(fk[k]), int(fn[k]), int(depth[k]))
            found.append(Choice(folding, *array, cycles, max(cycles, int(near.streams[k])), tile, stack))
            if len(found) == MOST_CHOICES:
                break
    return found


def _most_stacked(layer: Layer, storage: Storage, pixels: int) -> int:
    """The most rows of a share with so many ``pixels`` that may lie behind one another in a lane."""
    if storage.copy or updates_at_once(layer.stage, storage, 2, STACKED_ROWS, pixels, layer.batch):
        return 1
    return stack_limit(layer.b, pixels, layer.stage.dx is not None)


@cache
def _lanes(most: int, stack: int) -> Ints:
    """tile_lanes of every array of up to ``most`` rows that ``stack`` divides, else 0."""
    return np.array([tile_lanes(pk, stack) if pk and pk % stack == 0 else 0 for pk in range(most + 1)])


def _blocks(
    depth: Ints, pk: Ints, pn: Ints, words: Sequence[int], most: int, merged: int
) -> tuple[Floats, Ints]:
    """Block RAMs of 512 × 72 that weights take in the best of 1, 2, ... ``most`` rows behind one another, or what
    distributed RAM in words of 32 takes of them, whichever is less, and those rows: a first measure only.

    Words of which ``merged`` bits come from other boards take multiplexers in front of every memory, fewer of fewer.
    """
    found: Floats = np.full(len(depth), np.inf)
    stacks: Ints = np.ones(len(depth), dtype=np.int64)
    for stack in (stack for stack in STACKS if stack <= most):
        lanes = _lanes(int(pk.max()), stack)[pk]
        some = np.maximum(lanes, 1)
        halves = sum(np.ceil(some * word / 36) for word in words) * np.ceil(depth * stack / 512)
        tables = np.ceil(depth * stack / 32) * 32 * 1.6 * some * sum(words) / 18432
        halves = np.minimum(halves, tables) + MERGE * merged * some
        blocks: Floats = halves * (pk // stack) * pn / some / 2
        better = (lanes > 0) & (blocks < found) & ((stack == 1) | (depth > 1))
        found[better], stacks[better] = blocks[better], stack
    return found, stacks


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
