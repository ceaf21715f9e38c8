"""What a part contributes to its stage, by the reference of the whole: exact sums, and its own counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ir.initial import Parameters
from ..ir.stage import Network, Stage
from ..numeric import saturate
from ..plan.part import Part
from ..plan.plan import StagePlan
from ..ref.executor import COUNTS, BatchTrace
from ..ref.kernels import activate, conv_backward, conv_forward, conv_gradient, max_pool, max_pool_adjoint
from ..ref.update import random_bits, requantise_sums, step_values

__all__ = [
    "Batch", "backward_sums", "conv_rows", "errors", "forward_sums", "gradient_sums", "gradient_totals", "inputs",
    "new_masters", "old_masters", "own_share", "part_counts", "row_sums", "unpooled_sums",
]  # fmt: skip

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch and what the reference made of it: ``images`` [B, H, W, C] integers, ``y[i]`` [B, *out_shape];
    ``parameters`` and ``step`` before its update; ``trace`` None in inference."""

    images: Ints
    y: tuple[Ints, ...]
    parameters: Parameters
    step: int
    trace: BatchTrace | None


def inputs(stage: Stage, batch: Batch) -> Ints:
    """x [B, *in_shape] of a stage."""
    x = batch.y[stage.index - 1] if stage.index else batch.images
    return x.reshape(len(x), *stage.in_shape)


def errors(network: Network, stage: Stage, batch: Batch) -> Ints | None:
    """Errors of a stage's y [B, *out_shape], before pool adjoint and mask; None where none come."""
    trace = batch.trace
    if trace is None:
        return None
    error = trace.dz if stage.index == len(network.stages) - 1 else trace.dx[stage.index + 1]
    return None if error is None else error.reshape(len(error), *stage.out_shape)


def _weights(stage: Stage, batch: Batch) -> Ints:
    """Weights as multiplied in this batch."""
    return batch.parameters.weights[stage.index] >> (stage.master.width - stage.w.width)


def forward_sums(stage: Stage, batch: Batch, count: int) -> Ints:
    """Sums [B, Ho, Wo, Cout] over the first ``count`` channels of x, without bias."""
    x, w = inputs(stage, batch)[..., :count], _weights(stage, batch)[:, :, :count]
    return conv_forward(x, w, stage.window, bits=(stage.x.width, stage.w.width))


def backward_sums(stage: Stage, batch: Batch, start: int) -> Ints:
    """Sums [B, H, W, Cin/groups] of dx over the outputs of a group from ``start`` on."""
    assert batch.trace is not None
    dy = batch.trace.dy[stage.index]
    assert dy is not None
    own = slice(start, (start // stage.N + 1) * stage.N)
    w = _weights(stage, batch)[..., own]
    return conv_backward(dy[..., own], w, stage.window, bits=(stage.dy.width, stage.w.width))


def row_sums(stage: Stage, batch: Batch, rows: Ints) -> Ints:
    """Sums [B, *in_shape] of dx over some rows of the errors before the pool."""
    assert batch.trace is not None
    dy = batch.trace.dy[stage.index]
    assert dy is not None
    own = np.zeros_like(dy)
    own[:, rows] = dy[:, rows]
    return conv_backward(
        own, _weights(stage, batch), stage.window, stage.groups, (stage.dy.width, stage.w.width)
    )


def _activated(stage: Stage, y: Ints) -> Ints:
    return y if stage.activation is None else activate(y, stage.activation, stage.y)[0]


def conv_rows(stage: Stage, batch: Batch) -> Ints:
    """What the pool of a stage takes [B, Ho, Wo, Cout]."""
    bias = batch.parameters.biases[stage.index]
    if bias is not None and stage.bias is not None:
        bias = bias << (stage.acc_frac - stage.bias.frac)
    bits = (stage.x.width, stage.w.width)
    sums = conv_forward(inputs(stage, batch), _weights(stage, batch), stage.window, stage.groups, bias, bits)
    y = requantise_sums(sums, stage.acc_frac, stage.y, stage.acc_bits)[0]
    return _activated(stage, y)


def unpooled_sums(network: Network, stage: Stage, batch: Batch, rows: Ints) -> Ints:
    """Exact sums [B, Ho, Wo, Cout] of the errors of some rows of y behind the pool's adjoint."""
    error = errors(network, stage, batch)
    assert error is not None
    assert stage.pool is not None
    own = np.zeros_like(error)
    own[:, rows] = error[:, rows]
    return max_pool_adjoint(own, max_pool(conv_rows(stage, batch), stage.pool)[1], stage.pool)


def own_share(part: Part, stage: Stage, kind: str, tensor: Ints) -> Ints:
    """A part's share of the whole "y", "dy" (before the pool) or "dx" [B, H, W, C] of its stage."""
    tensor = tensor[..., part.inputs(stage) if kind == "dx" else part.outputs(stage)]
    if part.cut != "rows":
        return tensor
    rows = part.rows(stage)
    own = {"y": rows.y, "dy": rows.conv, "dx": rows.rounded}[kind]
    return tensor[:, own(part.index)]


def gradient_totals(stage: Stage, batch: Batch) -> Ints:
    """dW and db [weights + biases] of a batch, in the order of gateware.walk."""
    assert batch.trace is not None
    dw, db = batch.trace.dw[stage.index], batch.trace.db[stage.index]
    assert dw is not None
    return dw.reshape(-1) if db is None else np.concatenate([dw.reshape(-1), db])


def gradient_sums(stage: Stage, batch: Batch, rows: Ints) -> Ints:
    """As :func:`gradient_totals`, of some rows of the errors before the pool."""
    assert batch.trace is not None
    dy = batch.trace.dy[stage.index]
    assert dy is not None
    own = np.zeros_like(dy)
    own[:, rows] = dy[:, rows]
    dw, db = conv_gradient(
        inputs(stage, batch), own, stage.window, stage.groups, (stage.x.width, stage.dy.width)
    )
    return dw.reshape(-1) if stage.bias is None else np.concatenate([dw.reshape(-1), db])


def part_counts(network: Network, planned: StagePlan, batch: Batch) -> dict[str, int]:
    """What a part of a stage adds to COUNTS in a batch of training."""
    stage, part = network.stages[planned.stage.index], planned.part
    counts = dict.fromkeys(COUNTS, 0)
    if not part.sends_sums:
        counts["y"], counts["dy"] = _rounded(network, stage, planned, batch)
    counts["dx"] = _back(stage, planned, batch)
    counts["master"], counts["bias"], counts["zero_updates"] = _updated(network, stage, planned, batch)
    return counts


def _rounded(network: Network, stage: Stage, planned: StagePlan, batch: Batch) -> tuple[int, int]:
    """Saturated elements of its own y, and of their errors behind the pool's adjoint."""
    part, outputs = planned.part, planned.part.outputs(stage)
    x = inputs(stage, batch) if part.takes_sums else inputs(stage, batch)[..., part.inputs(stage)]
    bias = batch.parameters.biases[stage.index]
    if bias is not None and stage.bias is not None:
        bias = bias[outputs] << (stage.acc_frac - stage.bias.frac)
    sums = conv_forward(
        x, _weights(stage, batch)[..., outputs], stage.window, planned.stage.groups,
        bias, (stage.x.width, stage.w.width),
    )  # fmt: skip
    y, clipped = requantise_sums(sums, stage.acc_frac, stage.y, stage.acc_bits)
    if part.cut == "rows":
        clipped = requantise_sums(
            own_share(part, stage, "dy", sums), stage.acc_frac, stage.y, stage.acc_bits
        )[1]
    error = errors(network, stage, batch)
    if stage.pool is None or error is None or batch.trace is None or batch.trace.dy[stage.index] is None:
        return clipped, 0
    _, argmax = max_pool(_activated(stage, y), stage.pool)
    back = max_pool_adjoint(error[..., outputs], argmax, stage.pool)
    if part.cut == "rows":
        back = own_share(part, stage, "dy", back)
    return clipped, saturate(back, stage.dy.width)[1]


def _back(stage: Stage, planned: StagePlan, batch: Batch) -> int:
    """Saturated elements of its own dx."""
    trace = batch.trace
    if trace is None or stage.dx is None or not planned.part.rounds_dx(stage):
        return 0
    dy = trace.dy[stage.index]
    assert dy is not None
    bits = (stage.dy.width, stage.w.width)
    sums = conv_backward(dy, _weights(stage, batch), stage.window, stage.groups, bits)
    own = own_share(planned.part, stage, "dx", sums)
    return requantise_sums(own, stage.back_frac, stage.dx, stage.col_bits)[1]


def old_masters(stage: Stage, planned: StagePlan, batch: Batch) -> Ints:
    """Masters [kh, kw, cin, Cout] of a part before the update."""
    rows, columns = planned.part.weights(stage)
    return batch.parameters.weights[stage.index][:, :, rows, columns]


def new_masters(network: Network, planned: StagePlan, batch: Batch) -> Ints:
    """As :func:`old_masters`, behind it."""
    return _stepped(network, network.stages[planned.stage.index], planned, batch)[0]


def _stepped(network: Network, stage: Stage, planned: StagePlan, batch: Batch) -> tuple[Ints, int, int]:
    """New masters of a part, how many of them are saturated, and how many steps are 0."""
    update, trace = network.update, batch.trace
    assert trace is not None
    dw = trace.dw[stage.index]
    assert dw is not None
    rows, columns = planned.part.weights(stage)
    random = random_bits(update, stage, batch.step)
    return step_values(
        old_masters(stage, planned, batch), dw[:, :, rows, columns], stage.master, update.rate,
        stage.update_shift(update.lr), None if random is None else random[:, :, rows, columns],
    )  # fmt: skip


def _updated(network: Network, stage: Stage, planned: StagePlan, batch: Batch) -> tuple[int, int, int]:
    """Saturated weights, saturated biases, and steps of 0, of its own."""
    trace, update, index = batch.trace, network.update, stage.index
    master = biases = zeros = 0
    _, columns = planned.part.weights(stage)
    if trace is not None and trace.dw[index] is not None:
        _, master, zeros = _stepped(network, stage, planned, batch)
    db, bias = trace.db[index] if trace is not None else None, batch.parameters.biases[index]
    if db is not None and bias is not None and stage.bias is not None and planned.stage.bias is not None:
        shift = stage.bias_update_shift(update.lr)
        _, biases, none = step_values(bias[columns], db[columns], stage.bias, update.rate, shift)
        zeros += none
    return master, biases, zeros
