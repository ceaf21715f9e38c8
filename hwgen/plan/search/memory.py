"""The memories of a share of a layer: how many of which depth and width, and what they take of a device."""

from __future__ import annotations

from dataclasses import dataclass

from ..layout import Storage
from .layer import Layer, ceil_div
from .options import Choice, Sizes

__all__ = ["Flight", "Memories", "memories"]

SPARE_ROWS = 2
"""Row slots beyond what a window needs, so that the next row is written while one is read."""


@dataclass(frozen=True)
class Flight:
    """Samples of a stage in flight: of x between its arrival and its gradient, of ReLU bits between the passes, of
    pool positions. Parts of a cut by rows keep so many times their own rows."""

    x: float
    masks: float
    argmax: float


Memories = tuple[tuple[str, int, int, int], ...]
"""(name, count, depth in words, width in bits)."""


def memories(
    layer: Layer, axis: str, sizes: Sizes, choice: Choice, flight: Flight, storage: Storage, last: bool
) -> Memories:
    """All memories of a share but those of links. ``last``: it rounds forward sums (else it hands them on)."""
    stage, folding = layer.stage, choice.folding
    found = list(_weights(layer, choice, storage))
    window = stage.window
    kh, kw = window.kernel
    down = kh if folding.u == window.positions else 1
    across = kw if folding.u > 1 else 1
    words = sizes.groups * ceil_div(sizes.cin, folding.pc)
    row = ceil_div(window.width, across * window.dilation[1]) * window.dilation[1] * words
    banks = down * across

    def rows(count: float) -> int:
        return max(1, ceil_div(ceil_div(int(count * 16), 16), down))

    span = window.dilation[0] * (kh - 1) + 1
    block_rows = ceil_div(folding.b, window.out_width) * window.stride[0]
    near = min(span + block_rows + SPARE_ROWS * window.stride[0], 2 * sizes.x_rows + SPARE_ROWS)
    found.append(("window", banks, rows(near) * row, folding.pc * stage.x.width))
    if not stage.frozen and not storage.again:
        kept = max(sizes.x_rows, flight.x * sizes.x_rows) + SPARE_ROWS
        found.append(("store", banks, rows(kept) * row, folding.pc * stage.x.width))
    elif storage.again:
        found.append(("store", banks, rows(near) * row, folding.pc * stage.x.width))
    if stage.dx is not None:
        found.append(("col2im", banks, rows(near) * row, folding.pc * stage.col_bits + 2))
    y_words = sizes.groups * choice.fn
    block = folding.b * y_words
    if layer.backs:
        found.append(("replay", 1, 2 * block, choice.pn * stage.dy.width))
    sums = axis == "input_channels"
    if folding.b > 1 and y_words > 1:
        found.append(("reorder", 1, 2 * block, choice.pn * (stage.acc_bits if sums else stage.y.width)))
    if not last:
        return tuple(found)
    pixels = sizes.rows * window.out_width
    if stage.relu and layer.backs:
        found.append(("mask", 1, int(max(1.0, flight.masks) * pixels) * y_words, choice.pn))
    if stage.pool is not None:
        found += _pool(layer, sizes, choice, flight, y_words)
    return tuple(found)


def _weights(layer: Layer, choice: Choice, storage: Storage) -> Memories:
    stage = layer.stage
    if choice.depth == 1:
        return ()
    tk, tn = choice.tile
    held = stage.master.width if storage.master == "here" else stage.w.width
    columns = ("weights", choice.pk // tk * choice.pn, choice.depth, tk * (held + layer.grad))
    if not storage.copy:
        return (columns,)
    return columns, ("copy", choice.pk * (choice.pn // tn), choice.depth, tn * stage.w.width)


def _pool(
    layer: Layer, sizes: Sizes, choice: Choice, flight: Flight, y_words: int
) -> list[tuple[str, int, int, int]]:
    stage = layer.stage
    assert stage.pool is not None
    row = stage.pool.width * y_words
    kh = stage.pool.kernel[0]
    found = [("pool", 1, (kh + 2 * stage.pool.stride[0]) * row, choice.pn * stage.y.width)]
    if layer.backs:
        found.append(
            ("pool adjoint", 1, (kh + 2 * stage.pool.stride[0]) * row, choice.pn * stage.pool_back_bits)
        )
        pixels = sizes.rows // layer.conv_rows * stage.out_shape[1]
        bits = max(1, (stage.pool.positions - 1).bit_length())
        found.append(("argmax", 1, int(max(1.0, flight.argmax) * pixels) * y_words, choice.pn * bits))
    return found
