"""Cycles that the gateware's parts take, as the schedule needs them; tests hold them against the parts
themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.stage import Loss, Stage, Update
from .columns import load_pace, update_rows
from .links import LinkPlan
from .plan import StagePlan

__all__ = [
    "CHUNK_BITS", "COL2IM", "FIFO", "FRAME", "LINK", "LINK_LONG", "LINK_SPREAD", "MASTERS", "MASTERS_ASKED",
    "MASTERS_DONE", "MEMORY", "POOL", "RELANE", "REGISTERED", "RELU", "REPLAY", "ROUND", "WINDOW", "back_latency",
    "dz_latency", "loss_cycles", "masters_come", "peek_latency", "result_latency", "settle", "sum_latency",
    "sums_latency", "update_chunks", "update_cycles", "update_word",
]  # fmt: skip

WINDOW = 3
"""From the write of the last pixel needed to the op (Window), and from the last word of a pixel to the op
(REPLAY)."""
REPLAY = 3
COL2IM = 5
"""From the last chunk to the first sum."""
ROUND = 2
POOL = 1
"""The register before a pool's comparators, and that before its adjoint."""
RELU = 1
FIFO = 1
FRAME = 1
RELANE = 1
LINK = 24
"""Both ends of a link beside the cable and the frame (see crossing.py): packing, crossings of clocks, the check."""
LINK_LONG = 44
"""The same with a frame of ten words: of masters, and of what waits for its turn."""
LINK_SPREAD = 52
"""Cycles by which a crossing may take longer: other channels' frames, and longer ones of its own."""
MEMORY = 60
"""From an address to its first word, in an external memory as simulations have it."""
MASTERS = 6
"""Cycles that masters elsewhere take beside one each and peek_latency: SumReader, MasterUpdate."""
MASTERS_ASKED = 7
"""From the first forward op of a batch to the first master of a neighbour, beside the way there and back: request,
ChipRegion, MasterWords."""
MASTERS_DONE = 12
"""From the last master taken to the first forward op of the next version, beside settle()."""
REGISTERED = 4
"""Words from which on a memory of an array has a register behind it: gateware.shape.REGISTERED."""
CHUNK_BITS = 17
"""Bits of dW that one multiplication of the update takes."""


def _held(planned: StagePlan) -> int:
    """Cycles that a weight waits in a register before it is used: ArrayShape.held."""
    return int(not planned.storage.copy or planned.fold.depth >= REGISTERED)


def sum_latency(planned: StagePlan) -> int:
    """From a forward op to the sum it completes, behind the pass's FIFO: ForwardPass.latency."""
    tk = planned.tile[0]
    return 1 + tk + 3 + _held(planned) + (planned.fold.pk // tk - 1).bit_length() + 2


def back_latency(planned: StagePlan) -> int:
    """From a backward op to the chunk it completes: BackwardPass.latency."""
    tn = planned.tile[1]
    return (
        1 + tn + 3 + _held(planned) + planned.storage.stack - 1 + (planned.fold.pn // tn - 1).bit_length() + 2
    )


def settle(planned: StagePlan) -> int:
    """From the last op to the last word written, with a margin: Updater.settle."""
    return 1 + planned.tile[1] + 9 + planned.storage.stack - 1 + 4


def update_chunks(stage: Stage, batch: int) -> int:
    """Multiplications of one weight's update: ArrayShape.chunks."""
    return max(1, math.ceil((stage.grad_bits(batch) - 1) / CHUNK_BITS))


def update_word(planned: StagePlan, batch: int) -> int:
    """Cycles of the update a weight address: ArrayShape.row_cycles for each of its rows."""
    rows = update_rows(planned, batch)
    return rows * max(update_chunks(planned.stage, batch), 3 if rows > 1 else 1)


def update_cycles(planned: StagePlan, update: Update) -> int:
    """From the last gradient op of a batch to the first forward op of the next: Updater.cycles and its
    ends."""
    stage, fold = planned.stage, planned.fold
    weights = update_word(planned, update.batch) * fold.depth
    if planned.storage.master != "here":
        pace = load_pace(planned)
        # A sum that comes in the wrong one of two cycles waits for the other.
        peek = peek_latency(planned)
        weights = pace * math.prod(stage.weight_shape) + MASTERS + peek - peek % pace
    weights += settle(planned)
    # The biases start a cycle before the first piece, so Bias.update_cycles - 1.
    biases = fold.y_words * (update.lr.width + 5) if stage.bias is not None else 0
    return settle(planned) + max(weights, biases) + 5 + 2


def masters_come(planned: StagePlan, asked: int, links: Sequence[LinkPlan]) -> int:
    """The first forward op of the next version, as masters of a neighbour allow it; ``asked`` when the batch began. No
    neighbour has them: then."""
    where = planned.storage.master
    if where not in ("up", "down"):
        return asked
    way = LINK_LONG + links[planned.board - (where == "up")].latency
    walk = load_pace(planned) * (math.prod(planned.stage.weight_shape) - 1)
    return asked + 2 * way + MASTERS_ASKED + walk + MASTERS_DONE + settle(planned)


def peek_latency(planned: StagePlan) -> int:
    """From the peek of a weight to its dW: Array.peek_latency."""
    return planned.tile[1] + 6


def sums_latency(planned: StagePlan) -> int:
    """From the end of the settling to the first own sum of a gradient: GradientSums and Array.peek_latency."""
    return peek_latency(planned) + 3


def _divider(loss: Loss) -> int:
    return max(loss.dz.frac, -1) + 2


def loss_cycles(loss: Loss) -> int:
    """Cycles a sample in training: SoftmaxCrossEntropy.cycles."""
    return loss.classes * (_divider(loss) + 1) + 11


def dz_latency(loss: Loss, lanes: int) -> int:
    """From a sample's last logits to its first word of errors: SoftmaxCrossEntropy.latency."""
    return loss.classes + 12 + min(loss.classes, lanes) * _divider(loss)


def result_latency(loss: Loss) -> int:
    """From a sample's last logits to its result: SoftmaxCrossEntropy.result_latency."""
    return loss.classes + 15
