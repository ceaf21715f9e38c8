"""The memories of a share of a layer: how many of which depth and width, and what they take of a device."""

from __future__ import annotations

import math

from ..columns import shares_columns
from ..geometry import port_shared, touched_once
from ..layout import Storage
from ..rooms import Memories, Memory
from .held import Flight, Waits
from .layer import Layer, ceil_div
from .options import Choice, Sizes

__all__ = ["Buffers", "weight_words"]

SPARE_ROWS = 1
"""Row slots beyond what a window needs, so that the next row is written while one is read."""


class Buffers:
    """The memories of a share in a folding, as plan.memories lists those of its plan, but for small FIFOs.

    ``last``: it rounds forward sums (else it hands them on).
    """

    def __init__(self, layer: Layer, axis: str, sizes: Sizes, choice: Choice, last: bool):
        self.layer, self.axis, self.sizes, self.choice, self.last = layer, axis, sizes, choice, last
        stage, folding = layer.stage, choice.folding
        window, width = stage.window, stage.window.out_width
        self.down = window.kernel[0] if folding.u == window.positions else 1
        self.across = window.kernel[1] if folding.u > 1 else 1
        self.words = sizes.groups * ceil_div(sizes.cin, folding.pc)
        self.row = ceil_div(window.width, self.across * window.dilation[1]) * window.dilation[1] * self.words
        self.y_words = sizes.groups * choice.fn
        span = window.dilation[0] * (window.kernel[0] - 1) + 1
        # Blocks that divide a row never reach into the next one.
        b = folding.b
        crossed = 0 if width % min(b, width) == 0 and b <= width else ceil_div(b, width)
        # Behind a turn follows the first row of the next one.
        step = span if axis == "rows" and sizes.turns > 1 else window.stride[0]
        self.near = span + max(SPARE_ROWS * step, (crossed + SPARE_ROWS) * window.stride[0])

    def _banks(self, name: str, rows: float, width: int, reads: int = 1) -> Memory:
        depth = max(1, ceil_div(int(rows + 0.999), self.down)) * self.row
        return (name, self.down * self.across, depth, width, reads, False)

    def standing(self, storage: Storage) -> Memories:
        """Those whose depths do not depend on samples in flight."""
        stage, sizes, choice, last = self.layer.stage, self.sizes, self.choice, self.last
        window, pc, pn, b = stage.window, choice.folding.pc, choice.pn, choice.folding.b
        found = [*_weights(self.layer, choice, storage)]
        found.append(self._banks("window", self.near, pc * stage.x.width))
        sums = stage.acc_bits if last else stage.psum_bits
        if b > 1:
            found.append(("sums", pn, b, sums, 1, True))
        if b > 1 and self.y_words > 1:
            width = sums if self.axis == "input_channels" else stage.y.width
            found.append(("reorder", 1, 2 * b * self.y_words, pn * width, 1, False))
        if self.layer.backs:
            found.append(("replay", 1, 2 * b * self.y_words, pn * stage.dy.width, 1, False))
        if stage.dx is not None:
            chunks = sizes.rows * window.out_width * sizes.groups * choice.fk
            given = sizes.x_rows * window.width * self.words
            reads = 1 if touched_once(window) or port_shared(given, chunks, choice.fn) else 2
            found.append(self._banks("col2im", self.near, pc * stage.col_bits, reads))
            found += [("back", choice.pk, b, stage.back_bits, 1, True)] if b > 1 else []
        if last and stage.pool is not None:
            found += _pool(self.layer, choice, self.y_words)
        return tuple(found)

    def flying(self, storage: Storage, flight: Flight) -> Memories:
        """Those with depths by samples in flight."""
        layer, stage, sizes = self.layer, self.layer.stage, self.sizes
        found: list[Memory] = []
        if not stage.frozen:
            kept = self.near if storage.again else max(1.0, flight.x) * sizes.x_rows + SPARE_ROWS
            found.append(self._banks("store", kept, self.choice.folding.pc * stage.x.width))
        if self.axis == "rows":
            found += _turns(layer, sizes, self.choice, flight.waits, self.row * self.across, self.y_words)
        if self.last and layer.backs:
            pixels = sizes.rows * stage.window.out_width
            if stage.activation is not None:
                words = int(max(1.0, flight.masks) * pixels) * self.y_words
                found.append(("mask", 1, words, self.choice.pn, 1, False))
            if stage.pool is not None:
                pixels = sizes.rows // layer.conv_rows * stage.out_shape[1]
                words = int(max(1.0, flight.argmax) * pixels) * self.y_words
                bits = max(1, (stage.pool.positions - 1).bit_length())
                found.append(("argmax", 1, words, self.choice.pn * bits, 1, False))
        return tuple(found)


def _turns(layer: Layer, sizes: Sizes, choice: Choice, waits: Waits, row: int, y_words: int) -> list[Memory]:
    """What waits for its turn in a cut by rows."""
    stage, pc, pn = layer.stage, choice.folding.pc, choice.pn
    y_rows, y_row = sizes.rows // layer.conv_rows, stage.out_shape[1] * y_words
    conv_row, dx_bits = stage.window.out_width * y_words, pc * stage.dx.width if stage.dx is not None else 0
    found = [
        ("turn x", waits.x * sizes.x_rows * row, pc * stage.x.width),
        ("turn y", waits.y * y_rows * y_row, pn * stage.y.width),
        ("turn y before", waits.y_before * y_row, pn * stage.y.width),
        ("turn dy", waits.dy * y_rows * y_row, pn * stage.dy.width),
        ("turn sums", waits.sums * row, pc * stage.col_bits),
        ("turn back", waits.back * row, pc * stage.col_bits),
        ("turn dx", waits.dx * row, dx_bits),
        ("turn dx behind", waits.dx_behind * row, dx_bits),
    ]
    if layer.pool_overlap:
        bits = pn * stage.y.width
        found += [
            ("turn conv", waits.conv * conv_row, bits),
            ("turn conv in", waits.conv_in * conv_row, bits),
            ("turn unpooled", waits.unpooled * conv_row, pn * stage.pool_back_bits),
        ]
    return [(name, 1, math.ceil(words), width, 1, False) for name, words, width in found if words]


def weight_words(layer: Layer, storage: Storage) -> dict[str, int]:
    """Bits that lie in each memory beside a PE's multipliers for one weight."""
    stage = layer.stage
    words = {"masters": stage.master.width if storage.master == "here" else stage.w.width}
    words |= {"copy": stage.w.width} if storage.copy else {}
    return words | ({"sums of gradients": layer.grad} if layer.grad else {})


def _weights(layer: Layer, choice: Choice, storage: Storage) -> list[Memory]:
    stack = choice.stack
    if choice.depth == 1:
        return []
    lanes = choice.tile[0] // stack if shares_columns(storage, choice.depth) else 1
    count, words = choice.pes // (lanes * stack), choice.depth * stack
    return [
        (name, count, words, lanes * width, 1, False) for name, width in weight_words(layer, storage).items()
    ]


def _pool(layer: Layer, choice: Choice, y_words: int) -> list[Memory]:
    stage = layer.stage
    assert stage.pool is not None
    depth = (stage.pool.kernel[0] + 2 * stage.pool.stride[0]) * stage.pool.width * y_words
    found: list[Memory] = [("pool", 1, depth, choice.pn * stage.y.width, 1, False)]
    if layer.backs:
        reads = 1 if touched_once(stage.pool) else 2
        found.append(("pool adjoint", 1, depth, choice.pn * stage.pool_back_bits, reads, False))
    return found
