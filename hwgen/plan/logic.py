"""An estimate of the look-up tables and flip-flops that stages, link ends and boards take beside their memories.

Sums of features times coefficients, fitted to Yosys's mapping of small designs to 7-series devices (``python -m
benchmarks logic``; its data, and the errors of the fit: benchmarks/results/logic.json). No coefficient is negative and
no feature falls, so that more PEs, lanes or bits never take less.
"""

from __future__ import annotations

import math

from ..ir.stage import Network
from .links import LinkPlan
from .plan import StagePlan

__all__ = [
    "COEFFICIENTS",
    "board_logic",
    "estimate",
    "link_features",
    "link_logic",
    "stage_features",
    "tile_features",
]

Features = dict[str, float]
COEFFICIENTS: dict[str, dict[str, Features]] = {
    "fixed": {
        "lut": {"with loss": 1884, "without loss": 687},
        "ff": {"with loss": 1157, "without loss": 668},
    },
    "tile": {
        "lut": {
            "tile": 0.0,
            "PE": 69.44,
            "PE · dW bits": 0.1974,
            "PE · bits of the update": 2.798,
            "PE · x bits": 0.0,
            "row · x bits": 0.0,
            "column · dy bits": 0.0,
        },
        "ff": {
            "tile": 0.0,
            "PE": 0.0,
            "PE · dW bits": 0.0,
            "PE · bits of the update": 1.956,
            "PE · x bits": 5.439,
            "row · x bits": 2.604,
            "column · dy bits": 0.0,
        },
    },
    "stage": {
        "lut": {"stage": 563.7, "tap · address bits": 15.29, "row · bits": 0.0, "column · bits": 3.359},
        "ff": {"stage": 1540.0, "tap · address bits": 8.3, "row · bits": 0.4211, "column · bits": 2.77},
    },
    "link": {
        "lut": {"end": 0.0, "bit": 5.869, "channel": 150.5, "channel · bit": 0.5603},
        "ff": {"end": 579.0, "bit": 8.0, "channel": 163.5, "channel · bit": 0.0},
    },
}
"""Look-up tables ("lut") and flip-flops ("ff") for each unit of a feature; those of "fixed" as they are."""


def tile_features(planned: StagePlan, network: Network) -> Features:
    """What the logic of a stage's tiles grows with; sums over all of them."""
    stage, fold = planned.stage, planned.fold
    whole = network.stages[stage.index]
    tk, tn = planned.tile
    tiles = math.ceil(fold.pk / tk) * math.ceil(fold.pn / tn)
    pes = fold.pk * fold.pn
    grad = 0 if stage.frozen else whole.grad_bits(network.update.batch)
    updates = not stage.frozen and planned.storage.master == "here"
    step = grad + network.update.lr.width + stage.master.width
    return {
        "tile": tiles,
        "PE": pes,
        "PE · dW bits": pes * grad,
        "PE · bits of the update": pes * step if updates else 0,
        "PE · x bits": pes * stage.x.width,
        "row · x bits": fold.pk * stage.x.width,
        "column · dy bits": fold.pn * stage.dy.width,
    }


def stage_features(planned: StagePlan, network: Network) -> Features:
    """What a stage's logic around its tiles grows with."""
    stage, fold = planned.stage, planned.fold
    whole = network.stages[stage.index]
    walks = 1 + (not stage.frozen) + (stage.dx is not None)
    row = stage.x.width * (1 + (not stage.frozen))
    column = whole.acc_bits + stage.y.width
    if stage.dx is not None:
        row += whole.col_bits
    if stage.dx is not None or not stage.frozen:
        column += stage.dy.width
    if stage.bias is not None:
        column += stage.bias.width
        if not stage.frozen:
            column += whole.bias_grad_bits(network.update.batch) + network.update.lr.width
    if stage.pool is not None:
        column += stage.y.width + stage.pool_back_bits
    return {
        "stage": 1,
        "tap · address bits": fold.folding.u * math.prod(stage.in_shape).bit_length() * walks,
        "row · bits": fold.pk * row,
        "column · bits": fold.pn * column,
    }


def link_features(width: int, channels: int) -> Features:
    """What an end of a link of ``width`` bits grows with; ``channels`` of both directions."""
    return {"end": 1, "bit": width, "channel": channels, "channel · bit": channels * width}


def _sum(kind: str, what: str, features: Features) -> float:
    return sum(COEFFICIENTS[kind][what][name] * value for name, value in features.items())


def estimate(planned: StagePlan, network: Network) -> tuple[int, int]:
    """LUTs and FFs of a stage, or of a board's part of one, without those of its memories.

    The streams that join parts of a cut layer are not in the data and not counted.
    """
    found = []
    for what in ("lut", "ff"):
        total = _sum("tile", what, tile_features(planned, network))
        total += _sum("stage", what, stage_features(planned, network))
        found.append(max(1, math.ceil(total)))
    return found[0], found[1]


def link_logic(link: LinkPlan) -> tuple[int, int]:
    """LUTs and FFs of one end of a link, without those of its memories."""
    features = link_features(link.width, len(link.down) + len(link.up))
    luts, ffs = (max(1, math.ceil(_sum("link", what, features))) for what in ("lut", "ff"))
    return luts, ffs


def board_logic(loss: bool) -> tuple[int, int]:
    """LUTs and FFs that a board has beside its stages and link ends; ``loss``: the last one has the loss too."""
    kind = "with loss" if loss else "without loss"
    return math.ceil(COEFFICIENTS["fixed"]["lut"][kind]), math.ceil(COEFFICIENTS["fixed"]["ff"][kind])
