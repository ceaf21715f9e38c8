"""What crosses a link at a place in the line of layers: link words a sample, away from the host and towards it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from ...ir.stage import Stage
from ..links import channel_lanes, row_run
from .layer import Layer, Share, rows_read

__all__ = ["batch_words", "run_words", "words_across", "words_between"]


@cache
def run_words(run: int, bits: int, width: int) -> int:
    """Link words of ``width`` bits for a run of elements, as channels carry them."""
    if not run:
        return 0
    lanes = channel_lanes(run, bits, width)
    return math.ceil(run / lanes) * math.ceil(lanes * bits / width)


def _x_words(stage: Stage, rows: int, run: int, width: int) -> int:
    """Link words of ``run`` channels of some rows of x."""
    if not run:
        return 0
    packed = row_run(stage.window.width, run, stage.x.width, width)
    return rows * stage.window.width // packed * run_words(packed * run, stage.x.width, width)


def words_between(layers: Sequence[Layer], behind: int, width: int) -> tuple[int, int]:
    """Words (down, up) of a boundary before stage ``behind``: its x, and its dx; labels and results."""
    stage = layers[behind].stage
    pixels, channels = stage.window.pixels_in, stage.in_channels
    down = _x_words(stage, stage.window.height, channels, width) + 1
    up = pixels * run_words(channels, stage.dx.width, width) if stage.dx is not None else 0
    return down, up + 1


def words_across(layer: Layer, share: Share, width: int) -> tuple[int, int]:
    """Words (down, up) of a boundary inside a layer, with ``share`` all that lies before it (low = 0)."""
    stage, axis, size = layer.stage, share.axis, share.high
    x_pixels, conv = stage.window.pixels_in, stage.M
    y_height, y_width, outputs = stage.out_shape
    y_pixels, inputs = y_height * y_width, stage.in_channels
    dx_bits = stage.dx.width if stage.dx is not None else 0
    down, up = 1, 1

    def words(run: int, bits: int) -> int:
        return run_words(run, bits, width)

    if axis == "input_channels":
        rest = inputs - size
        down += _x_words(stage, stage.window.height, rest, width) + conv * words(outputs, stage.psum_bits)
        up += conv * words(outputs, stage.dy.width) if layer.backs else 0
        up += x_pixels * words(rest, dx_bits) if dx_bits else 0
    elif axis == "rows":
        rest = y_height - size
        rows = rows_read(stage, rest * layer.conv_rows, share.turns)
        down += _x_words(stage, rows, inputs, width) + size * y_width * words(outputs, stage.y.width)
        up += size * y_width * words(outputs, stage.dy.width) if layer.backs else 0
        # Behind every turn of parts before, and where the turns begin anew.
        pooled = layer.pool_overlap * (2 * share.turns - 1) * stage.window.out_width
        down += pooled * words(outputs, stage.y.width)
        up += pooled * words(outputs, stage.pool_back_bits) if layer.backs else 0
        if dx_bits:
            shared = min(rows, 2 * share.turns * max(0, rows_read(stage, 1, 1) - stage.window.stride[0]))
            up += stage.window.width * (
                rows * words(inputs, dx_bits) + shared * words(inputs, stage.col_bits)
            )
    else:
        done = size * stage.N if axis == "groups" else size
        # Of the group that is cut both sides multiply x and add to dx.
        shared = stage.cin if done % stage.N else 0
        rest = inputs - done // stage.N * stage.cin
        down += _x_words(stage, stage.window.height, rest, width) + y_pixels * words(done, stage.y.width)
        up += y_pixels * words(done, stage.dy.width) if layer.backs else 0
        if dx_bits:
            up += x_pixels * (words(shared, stage.col_bits) + words(rest - shared, dx_bits))
    return down, up


def batch_words(layer: Layer, axis: str, width: int) -> float:
    """Words a sample, each way, of what crosses a boundary inside a layer once a batch: sums of dW and db of a cut by
    rows, an element a word."""
    stage = layer.stage
    if axis != "rows" or stage.frozen:
        return 0.0
    biases = stage.out_channels if stage.bias is not None else 0
    return (math.prod(stage.weight_shape) + biases) * math.ceil(layer.grad / width) / layer.batch
