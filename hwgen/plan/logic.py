"""An estimate of the look-up tables and flip-flops that stages, link ends and boards take beside their memories.

Sums of features times coefficients, fitted to Yosys's mapping of small designs to 7-series devices (``python -m
benchmarks logic``; its data, and the errors of the fit: benchmarks/results/logic.json). No coefficient is negative and
no feature falls, so that more PEs, lanes or bits never take less.
"""

from __future__ import annotations

import math

from ..ir.stage import Network, Stage
from .columns import shares_columns, update_rows
from .layout import Storage
from .links import LinkPlan
from .plan import StagePlan

__all__ = [
    "COEFFICIENTS",
    "array_features",
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
            "tile": 33.0,
            "PE": 16.04,
            "PE · dW bits": 1.107,
            "lane · dW bits of others": 1.817,
            "PE · dW bits in turn": 0.2783,
            "lane · master bits": 1.485,
            "PE · weight bits in turn": 0.0,
            "PE · bits of the update": 2.681,
            "column · bits of the update": 3.756,
            "PE · x bits": 0.8194,
            "row · x bits": 0.0,
            "column · dy bits": 1.348,
        },
        "ff": {
            "tile": 68.93,
            "PE": 0.0,
            "PE · dW bits": 1.694,
            "lane · dW bits of others": 0.1295,
            "PE · dW bits in turn": 1.027,
            "lane · master bits": 0.3412,
            "PE · weight bits in turn": 0.2524,
            "PE · bits of the update": 1.923,
            "column · bits of the update": 2.806,
            "PE · x bits": 0.1837,
            "row · x bits": 0.0,
            "column · dy bits": 7.175,
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
    stage, fold, storage, batch = planned.stage, planned.fold, planned.storage, network.update.batch
    whole = network.stages[stage.index]
    grad = 0 if stage.frozen else whole.grad_bits(batch)
    return array_features(
        stage, (fold.pk, fold.pn), planned.tile, grad, network.update.lr.width,
        shares_columns(storage, fold.depth), update_rows(planned, batch), planned.part.shares_weights, storage,
    )  # fmt: skip


def array_features(
    stage: Stage,
    array: tuple[int, int],
    tile: tuple[int, int],
    grad: int,
    rate: int,
    columns: bool,
    rows: int,
    shared: bool,
    storage: Storage,
) -> Features:
    """As :func:`tile_features`, of a stage with ``grad`` bits of dW (0: frozen) and ``rate`` of the learning rate,
    memories of ``columns``, units that update so many ``rows``, sums ``shared`` with others; kept as ``storage``
    says."""
    (pk, pn), (tk, tn), here, stack = array, tile, storage.master == "here", storage.stack
    pes, master = pk * pn, stage.master.width if here else stage.w.width
    step = grad + rate + stage.master.width if grad and here else 0
    return {
        "tile": math.ceil(pk / tk) * math.ceil(pn / tn),
        "PE": pes,
        "PE · dW bits": 0 if columns else pes * grad,
        # Without loads of others, dW of columns comes from the multipliers' own registers.
        "lane · dW bits of others": pes // stack * grad if columns and shared else 0,
        "PE · dW bits in turn": pes * grad * (stack - 1) / stack,
        "lane · master bits": pes // stack * master if columns else 0,
        "PE · weight bits in turn": 0 if storage.copy else pes * stage.w.width * (1 + (stage.dx is not None)),
        "PE · bits of the update": pes * step if rows == 1 else 0,
        "column · bits of the update": pes // rows * step if rows > 1 else 0,
        "PE · x bits": pes * stage.x.width,
        "row · x bits": pk * stage.x.width,
        "column · dy bits": pn * stage.dy.width,
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
