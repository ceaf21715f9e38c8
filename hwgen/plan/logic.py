"""An estimate of the look-up tables and flip-flops that stages, link ends and boards take beside their memories.

Sums of features (engines.py, array_logic.py) times coefficients of a family of devices, fitted to Yosys's mapping of
small designs (``python -m benchmarks logic``; its data, and the errors of the fit: benchmarks/results/logic.json). No
coefficient is negative and no feature falls, so that more PEs, lanes or bits never take less.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources

from ..ir.stage import Network
from ..numeric import Q
from ..target import Device
from .array_logic import Cells, array_features, tile_features
from .columns import shares_columns, update_rows
from .engines import Around, Engines, Features, engines
from .latency import REGISTERED, pass_latencies
from .links import LinkPlan
from .plan import Plan, StagePlan

__all__ = [
    "COEFFICIENTS", "FAMILIES", "board_logic", "core_features", "estimate", "family_of", "has_port", "link_features",
    "link_logic", "loss_features", "nearest", "port_features", "stage_engines", "stage_logic", "step_bits", "weigh",
]  # fmt: skip

FAMILIES = ("xc7", "xcup", "ecp5", "alm")
"""Families with coefficients of their own: what Yosys's synth_xilinx, synth_ecp5 and synth_intel_alm make."""
COEFFICIENTS: dict[str, dict[str, dict[str, Features]]] = json.loads(
    resources.files(__package__).joinpath("logic.json").read_text(encoding="utf-8")
)
"""By family, kind of engine, "lut" or "ff": what a unit of a feature takes."""
_SEVEN = ("artix7", "kintex7", "virtex7", "spartan7", "zynq")
_NEAREST = {
    "xilinx": ("xc7", "its tables have six inputs and carry chains too"),
    "lattice": ("ecp5", "its tables have four inputs too"),
    "gowin": ("ecp5", "its tables have four inputs, and memories of 16 × 4 bits, too"),
    "intel": ("alm", "its ALMs hold two tables with carry chains too"),
}
_UNKNOWN = ("xc7", "nothing is known of its tables; those of six inputs are usual")


def family_of(device: Device) -> str:
    """The family whose coefficients a device has: its own, or the nearest one (see nearest)."""
    family = device.family.lower().replace(" ", "")
    if device.vendor == "xilinx":
        return "xcup" if "plus" in family else "xc7"
    return _NEAREST.get(device.vendor, _UNKNOWN)[0]


def nearest(device: Device) -> str | None:
    """Why the estimate takes coefficients of another family for a device; None where it has its own."""
    family = device.family.lower().replace(" ", "")
    measured = {
        "xilinx": family in _SEVEN or family.startswith(("virtexuplus", "kintexuplus", "zynquplus")),
        "lattice": family == "ecp5",
        "intel": family == "cyclonev",
    }
    if measured.get(device.vendor, False):
        return None
    _, reason = _NEAREST.get(device.vendor, _UNKNOWN)
    return f"{device.family} is not measured; {family_of(device)} is nearest: {reason}"


@cache
def _weights(family: str, kind: str) -> tuple[tuple[str, float, float], ...]:
    table = COEFFICIENTS[family][kind]
    return tuple(
        (name, lut, table["ff"][name]) for name, lut in table["lut"].items() if lut or table["ff"][name]
    )


def weigh(family: str, parts: Iterable[tuple[str, Features]]) -> tuple[int, int]:
    """(LUTs, flip-flops) of features by their kind; at least 1 of each."""
    luts = ffs = 0.0
    for kind, features in parts:
        for name, lut, ff in _weights(family, kind):
            value = features[name]
            luts += lut * value
            ffs += ff * value
    return max(1, math.ceil(luts)), max(1, math.ceil(ffs))


def step_bits(grad: int, rate: Q, shift: int) -> int:
    """Bits of the step round(rate·sum / 2**shift)."""
    return max(grad + rate.width - shift, 1) + 1


def stage_engines(planned: StagePlan, network: Network) -> Engines:
    """Features of the engines around a stage's array."""
    cells = _cells(planned, network)
    return engines(_around(planned, network), _latencies(cells))


def _latencies(cells: Cells) -> tuple[int, int]:
    held = 1 if not cells.storage.copy else int(cells.depth >= REGISTERED)
    return pass_latencies(cells.array, cells.tile, held, cells.storage.stack)


def stage_logic(family: str, around: Around, cells: Cells) -> tuple[int, int]:
    """(LUTs, flip-flops) of a stage, or of a part of one."""
    parts = [part for own in engines(around, _latencies(cells)).values() for part in own]
    return weigh(family, [("tile", tile_features(cells)), ("array", array_features(cells)), *parts])


def estimate(planned: StagePlan, network: Network, family: str) -> tuple[int, int]:
    """LUTs and FFs of a stage, or of a board's part of one, without those of its memories.

    The streams that join parts of a cut layer are not in the data and not counted.
    """
    return stage_logic(family, _around(planned, network), _cells(planned, network))


def _around(planned: StagePlan, network: Network) -> Around:
    stage, fold, part, update = planned.stage, planned.fold, planned.part, network.update
    whole = network.stages[stage.index]
    trains = stage.bias is not None and not stage.frozen
    db = whole.bias_grad_bits(update.batch) if trains else 0
    return Around(
        stage, fold.folding.u, fold.folding.pc, fold.pn, fold.b, fold.fn, fold.depth, fold.x_words, fold.y_words,
        stage.window.out_height, stage.window.height,
        whole.acc_bits if part.takes_sums and part.last else stage.acc_bits, whole.col_bits,
        stage.bias.width if stage.bias is not None else 0, db,
        step_bits(db, update.lr, stage.bias_update_shift(update.lr)) if trains else 0,
        update.lr.width, not part.sends_sums,
    )  # fmt: skip


def _cells(planned: StagePlan, network: Network) -> Cells:
    stage, fold, storage, update = planned.stage, planned.fold, planned.storage, network.update
    here = storage.master == "here"
    grad = 0 if stage.frozen else network.stages[stage.index].grad_bits(update.batch)
    updates = grad > 0 and here
    return Cells(
        (fold.pk, fold.pn), planned.tile, fold.depth, stage.x.width, stage.w.width, stage.dy.width,
        stage.master.width if here else stage.w.width, stage.psum_bits, stage.back_bits, grad, update.lr.width,
        step_bits(grad, update.lr, stage.update_shift(update.lr)) if updates else 0, stage.dx is not None,
        shares_columns(storage, fold.depth), update_rows(planned, update.batch) if updates else 0,
        planned.part.shares_weights, storage,
    )  # fmt: skip


def link_features(width: int, channels: int) -> Features:
    """What an end of a link of ``width`` bits grows with; ``channels`` of both directions."""
    return {"end": 1, "bit": width, "channel": channels, "channel · bit": channels * width}


def core_features(stages: int, chained: bool) -> Features:
    """What a board with so many stages has beside them, link ends and the loss; ``chained``: it has links."""
    return {"board": 1, "stage": stages, "chained": chained}


def loss_features(loss: tuple[int, int, int], lanes: int) -> Features:
    """The loss, of so many classes, and bits of a logit and of its error, behind words of ``lanes`` logits."""
    classes, z, dz = loss
    return {
        "loss": 1,
        "logit bit": z + dz,
        "class bit": classes.bit_length(),
        "lane bit": lanes * (z + dz),
    }


def port_features(bits: int) -> Features:
    """A host's serial port with words of an image of ``bits``."""
    return {"port": 1, "word bit": bits}


def link_logic(link: LinkPlan, family: str) -> tuple[int, int]:
    """LUTs and FFs of one end of a link, without those of its memories."""
    return weigh(family, [("link", link_features(link.width, len(link.down) + len(link.up)))])


def has_port(device: Device) -> bool:
    """Whether the project of a device has a serial port for the host."""
    return device.vendor in ("lattice", "intel")


def board_logic(plan: Plan, index: int, device: Device) -> tuple[int, int]:
    """LUTs and FFs that a board has beside its stages and link ends, the last one with the loss, the first one of some
    devices with the host's serial port."""
    parts = [("core", core_features(len(plan.on(index)), len(plan.boards) > 1))]
    if index == len(plan.boards) - 1:
        loss = plan.network.loss
        sizes = loss.classes, loss.z.width, loss.dz.width
        parts.append(("loss", loss_features(sizes, plan.stages[-1].fold.pn)))
    if index == 0 and has_port(device):
        parts.append(("port", port_features(plan.image_lanes * plan.network.input.width)))
    return weigh(family_of(device), parts)
