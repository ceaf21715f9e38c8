"""Look-up tables and flip-flops of a share, from its array alone: the estimate of plan.logic without a plan."""

from __future__ import annotations

from ...ir.stage import Loss
from ...target import Device
from ..array_logic import Cells
from ..columns import shares_columns, updates_in_turn
from ..engines import Around, Features
from ..layout import Storage
from ..logic import (
    core_features,
    family_of,
    has_port,
    link_features,
    loss_features,
    port_features,
    stage_logic,
    weigh,
)
from .layer import Layer, ceil_div
from .options import Choice, Sizes

__all__ = ["board_base", "part_logic"]

CHANNELS = 10
"""Virtual channels of a link, both directions, where a layer is cut."""
LOSS_LANES = 4
"""Columns of the last stage, for the loss behind it."""


def part_logic(
    layer: Layer, sizes: Sizes, choice: Choice, storage: Storage, last: bool, shared: bool, family: str
) -> tuple[int, int]:
    """(LUTs, flip-flops) of a share in one of its foldings: plan.logic.estimate. ``last``: it rounds its sums;
    ``shared``: its sums of gradients are added to those of others."""
    stage, here = layer.stage, storage.master == "here"
    tk, pixels = choice.tile[0], sizes.rows * stage.window.out_width
    bias = stage.bias.width if stage.bias is not None and last else 0
    trains = bias > 0 and not stage.frozen
    updates = layer.grad > 0 and here
    in_turn = updates and updates_in_turn(storage, choice.depth, tk, pixels, layer.batch)
    around = Around(
        stage, choice.folding.u, choice.folding.pc, choice.pn, choice.folding.b, choice.fn, choice.depth,
        sizes.groups * ceil_div(sizes.cin, choice.folding.pc), sizes.groups * choice.fn, sizes.rows, sizes.x_rows,
        stage.acc_bits, stage.col_bits, bias, layer.bias_grad if trains else 0, layer.bias_step if trains else 0,
        layer.rate, last,
    )  # fmt: skip
    cells = Cells(
        (choice.pk, choice.pn), choice.tile, choice.depth, stage.x.width, stage.w.width, stage.dy.width,
        stage.master.width if here else stage.w.width, stage.psum_bits, stage.back_bits, layer.grad, layer.rate,
        layer.step if updates else 0, stage.dx is not None, shares_columns(storage, choice.depth),
        (tk if in_turn else 1) if updates else 0, shared, storage,
    )  # fmt: skip
    return stage_logic(family, around, cells)


def board_base(
    widths: list[int], stages: int, loss: Loss | None, image: int | None, device: Device
) -> tuple[int, int]:
    """(LUTs, flip-flops) of a board of ``stages`` beside them, with link ends of these widths, the ``loss``, and a host
    that sends words of an ``image`` of so many bits; None: it has none."""
    parts: list[tuple[str, Features]] = [("core", core_features(stages, bool(widths)))]
    if loss is not None:
        parts.append(("loss", loss_features((loss.classes, loss.z.width, loss.dz.width), LOSS_LANES)))
    if image is not None and has_port(device):
        parts.append(("port", port_features(image)))
    parts += [("link", link_features(width, CHANNELS)) for width in widths]
    return weigh(family_of(device), parts)
