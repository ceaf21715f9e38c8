"""Look-up tables and flip-flops of a share, from its array alone: the estimate of plan.logic without a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..columns import shares_columns, updates_in_turn
from ..layout import Storage
from ..logic import COEFFICIENTS, array_features, board_logic, link_features
from .layer import Layer
from .options import Choice, Sizes

__all__ = ["board_base", "part_logic"]

CHANNELS = 10
"""Virtual channels of a link, both directions, where a layer is cut."""


def _weigh(kind: str, features: Mapping[str, float]) -> tuple[int, int]:
    luts, ffs = (
        math.ceil(sum(COEFFICIENTS[kind][what][name] * value for name, value in features.items()))
        for what in ("lut", "ff")
    )
    return luts, ffs


def part_logic(
    layer: Layer, sizes: Sizes, choice: Choice, storage: Storage, last: bool, shared: bool
) -> tuple[int, int]:
    """(LUTs, flip-flops) of a share in one of its foldings: plan.logic.estimate. ``last``: it rounds its sums;
    ``shared``: its sums of gradients are added to those of others."""
    stage, tk, pixels = layer.stage, choice.tile[0], sizes.rows * layer.stage.window.out_width
    in_turn = not stage.frozen and updates_in_turn(storage, choice.depth, tk, pixels, layer.batch)
    tile = array_features(
        stage, (choice.pk, choice.pn), choice.tile, layer.grad, layer.rate, shares_columns(storage, choice.depth),
        tk if in_turn else 1, shared, storage,
    )  # fmt: skip
    walks = 1 + (not stage.frozen) + (stage.dx is not None)
    row = stage.x.width * (1 + (not stage.frozen)) + (stage.col_bits if stage.dx is not None else 0)
    column = stage.acc_bits + stage.y.width + (stage.dy.width if layer.backs else 0)
    if stage.bias is not None and last:
        column += stage.bias.width + (0 if stage.frozen else layer.bias_grad + layer.rate)
    if stage.pool is not None and last:
        column += stage.y.width + stage.pool_back_bits
    elements = sizes.x_rows * stage.window.width * sizes.cin * sizes.groups
    around = {
        "stage": 1,
        "tap · address bits": choice.folding.u * elements.bit_length() * walks,
        "row · bits": choice.pk * row,
        "column · bits": choice.pn * column,
    }
    first, second = _weigh("tile", tile), _weigh("stage", around)
    return first[0] + second[0], first[1] + second[1]


def board_base(widths: list[int], loss: bool) -> tuple[int, int]:
    """(LUTs, flip-flops) of a board beside its shares, with link ends of these widths."""
    luts, ffs = board_logic(loss)
    for width in widths:
        end = _weigh("link", link_features(width, CHANNELS))
        luts, ffs = luts + end[0], ffs + end[1]
    return luts, ffs
