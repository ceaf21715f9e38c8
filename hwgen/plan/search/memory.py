"""The memories of a share of a layer: how many of which depth and width, and what they take of a device."""

from __future__ import annotations

from dataclasses import dataclass

from ..layout import Storage
from ..rooms import Memories, Memory
from .layer import Layer, ceil_div
from .options import Choice, Sizes

__all__ = ["Flight", "memories"]

UNEVEN = 3
"""Rows of y by which parts are apart whose turns have not all the same rows."""
SPARE_ROWS = 1
"""Row slots beyond what a window needs, so that the next row is written while one is read."""


@dataclass(frozen=True)
class Flight:
    """Samples of a stage in flight: of x between its arrival and its gradient, of ReLU bits between the passes, of
    pool positions. Parts of a cut by rows keep so many times their own rows."""

    x: float
    masks: float
    argmax: float


def memories(
    layer: Layer, axis: str, sizes: Sizes, choice: Choice, flight: Flight, storage: Storage, last: bool
) -> Memories:
    """The memories of a share, as plan.memories lists those of its plan: but for small FIFOs, with depths by samples in
    flight. ``last``: it rounds forward sums (else it hands them on)."""
    stage, folding, pn = layer.stage, choice.folding, choice.pn
    window, b = stage.window, folding.b
    kh, kw = window.kernel
    down = kh if folding.u == window.positions else 1
    across = kw if folding.u > 1 else 1
    words = sizes.groups * ceil_div(sizes.cin, folding.pc)
    row = ceil_div(window.width, across * window.dilation[1]) * window.dilation[1] * words
    x_bits, col_bits = folding.pc * stage.x.width, folding.pc * stage.col_bits

    def banks(name: str, rows: float, width: int, reads: int = 1) -> Memory:
        return (name, down * across, max(1, ceil_div(int(rows + 0.999), down)) * row, width, reads, False)

    span = window.dilation[0] * (kh - 1) + 1
    # Blocks that divide a row never reach into the next one.
    crossed = (
        0
        if window.out_width % min(b, window.out_width) == 0 and b <= window.out_width
        else ceil_div(b, window.out_width)
    )
    near = span + (crossed + SPARE_ROWS) * window.stride[0]
    found = [*_weights(layer, choice, storage), banks("window", near, x_bits)]
    if not stage.frozen:
        kept = near if storage.again else max(1.0, flight.x) * sizes.x_rows + SPARE_ROWS
        found.append(banks("store", kept, x_bits))
    y_words = sizes.groups * choice.fn
    sums = stage.acc_bits if last else stage.psum_bits
    if b > 1:
        found.append(("sums", pn, b, sums, 1, True))
    if b > 1 and y_words > 1:
        width = sums if axis == "input_channels" else stage.y.width
        found.append(("reorder", 1, 2 * b * y_words, pn * width, 1, False))
    if layer.backs:
        found.append(("replay", 1, 2 * b * y_words, pn * stage.dy.width, 1, False))
    if stage.dx is not None:
        found.append(banks("col2im", near, col_bits, 2))
        found += [("back", choice.pk, b, stage.back_bits, 1, True)] if b > 1 else []
    if axis == "rows":
        found += _turns(layer, sizes, choice, row * across, y_words)
    pixels = sizes.rows * window.out_width
    if last and stage.relu and layer.backs:
        found.append(("mask", 1, int(max(1.0, flight.masks) * pixels) * y_words, pn, 1, False))
    if last and stage.pool is not None:
        found += _pool(layer, sizes, choice, flight, y_words)
    return tuple(found)


def _turns(layer: Layer, sizes: Sizes, choice: Choice, row: int, y_words: int) -> list[Memory]:
    """What waits for its turn in a cut by rows (plan.turns): about a turn of every tensor that passes."""
    stage, pc = layer.stage, choice.folding.pc
    turn = ceil_div(sizes.x_rows, sizes.turns) * row
    y_turn = ceil_div(sizes.rows, sizes.turns * layer.conv_rows) * stage.out_shape[1] * y_words
    found: list[Memory] = [
        ("turn x", 1, turn, pc * stage.x.width, 1, False),
        ("turn y", 2, y_turn, choice.pn * stage.y.width, 1, False),
    ]
    if layer.pool_overlap:
        found += _pool_turns(layer, sizes, choice, y_words)
    if layer.backs:
        found.append(("turn dy", 1, y_turn, choice.pn * stage.dy.width, 1, False))
    if stage.dx is not None:
        found.append(("turn sums", 1, turn, pc * stage.col_bits, 1, False))
        found.append(("turn dx", 2, turn, pc * stage.dx.width, 1, False))
    return found


def _pool_turns(layer: Layer, sizes: Sizes, choice: Choice, y_words: int) -> list[Memory]:
    """What waits for rows before the pool that another part has, and those: UNEVEN rows of y more than a turn."""
    stage, uneven = layer.stage, UNEVEN * layer.conv_rows
    row, bits = stage.window.out_width * y_words, choice.pn * stage.y.width
    turn, shared = ceil_div(sizes.rows, sizes.turns) + uneven, layer.pool_overlap + uneven
    found: list[Memory] = [
        ("turn conv", 1, turn * row, bits, 1, False),
        ("turn conv in", 1, shared * row, bits, 1, False),
        ("turn y uneven", 2, UNEVEN * stage.out_shape[1] * y_words, bits, 1, False),
    ]
    if layer.backs:
        found.append(("turn unpooled", 1, shared * row, choice.pn * stage.pool_back_bits, 1, False))
    return found


def _weights(layer: Layer, choice: Choice, storage: Storage) -> list[Memory]:
    stage, tk = layer.stage, choice.tile[0]
    if choice.depth == 1:
        return []
    widths = {"masters": stage.master.width if storage.master == "here" else stage.w.width}
    widths |= {"copy": stage.w.width} if storage.copy else {}
    widths |= {"sums of gradients": layer.grad} if layer.grad else {}
    count = choice.pes // tk
    return [(name, count, choice.depth, tk * width, 1, False) for name, width in widths.items()]


def _pool(layer: Layer, sizes: Sizes, choice: Choice, flight: Flight, y_words: int) -> list[Memory]:
    stage = layer.stage
    assert stage.pool is not None
    row = stage.pool.width * y_words
    kh = stage.pool.kernel[0]
    found: list[Memory] = [
        ("pool", 1, (kh + 2 * stage.pool.stride[0]) * row, choice.pn * stage.y.width, 1, False)
    ]
    if layer.backs:
        depth = (kh + 2 * stage.pool.stride[0]) * row
        found.append(("pool adjoint", 1, depth, choice.pn * stage.pool_back_bits, 2, False))
        pixels = sizes.rows // layer.conv_rows * stage.out_shape[1]
        bits = max(1, (stage.pool.positions - 1).bit_length())
        found.append(
            ("argmax", 1, int(max(1.0, flight.argmax) * pixels) * y_words, choice.pn * bits, 1, False)
        )
    return found
