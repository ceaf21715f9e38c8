"""A network executed bit by bit: forward, backward and update of whole batches in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data import quantise_images
from ..errors import DataError
from ..ir.initial import Parameters
from ..ir.stage import Network, Stage
from ..numeric import saturate
from .kernels import (
    activate,
    activation_adjoint,
    conv_backward,
    conv_forward,
    conv_gradient,
    max_pool,
    max_pool_adjoint,
)
from .softmax import predict, softmax_cross_entropy
from .update import random_bits, requantise_sums, step_values

__all__ = ["COUNTS", "BatchTrace", "Forward", "Reference"]

Ints = NDArray[np.int64]

COUNTS = ("y", "dx", "dy", "master", "bias", "zero_updates")
"""Counters of a stage: saturated elements of y (before ReLU and pool), dx, dy (pool adjoint), master, bias;
and weights and biases whose gradient is not 0 but whose rounded step is."""


@dataclass(frozen=True, eq=False)
class Forward:
    """Outputs of one batch: ``y[i]`` [B, *out_shape] of stage i, ``predictions`` [B]."""

    y: tuple[Ints, ...]
    predictions: Ints


@dataclass(frozen=True, eq=False)
class BatchTrace:
    """Everything that one training batch computes, stage by stage; None where a stage does not compute it.

    ``y`` [B, *out_shape]; ``dy`` [B, *conv_shape], the masked errors entering the array; ``dx``
    [B, *in_shape]; ``dz`` [B, classes]; ``dw`` [kh, kw, Cin/groups, Cout] and ``db`` [Cout], exact sums over
    the batch; ``losses`` [B] in units of 2**-16; ``predictions`` [B]; ``saturated[i]`` counts by the names in
    COUNTS; ``parameters`` after the update.
    """

    y: tuple[Ints, ...]
    dy: tuple[Ints | None, ...]
    dx: tuple[Ints | None, ...]
    dz: Ints
    dw: tuple[Ints | None, ...]
    db: tuple[Ints | None, ...]
    losses: Ints
    predictions: Ints
    saturated: tuple[dict[str, int], ...]
    parameters: Parameters


@dataclass(frozen=True, eq=False)
class _Kept:
    """What the forward pass of a stage leaves for its backward pass."""

    x: Ints
    mask: NDArray[np.bool_] | None
    argmax: Ints | None


class Reference:
    """Trains and runs ``network`` exactly as the hardware does, from ``parameters``.

    ``parameters`` are the current ones, ``step`` the updates done so far. Raises DataError if the parameters
    do not fit the network.
    """

    def __init__(self, network: Network, parameters: Parameters):
        _check(network, parameters)
        self.network = network
        self.parameters = parameters
        self.step = 0

    def forward(self, images: object) -> Forward:
        """Runs images [B, H, W, C]: integers in the network's input format (real numbers are quantised).

        Raises DataError if they do not fit.
        """
        x = quantise_images(self.network, images)
        outputs = []
        for stage in self.network.stages:
            x, _, _ = self._forward(stage, x)
            outputs.append(x)
        return Forward(tuple(outputs), predict(self._logits(x)))

    def train_batch(self, images: object, labels: ArrayLike, rate: int | None = None) -> BatchTrace:
        """One update from images [B, H, W, C] and labels [B], B up to the network's batch.

        ``rate`` is learning rate / batch as an integer in format ``update.lr``, the network's own unless
        given. Raises DataError if images, labels or rate do not fit.
        """
        network, stages = self.network, self.network.stages
        rate = self._rate(rate)
        x = quantise_images(network, images)
        if not 1 <= len(x) <= network.update.batch:
            raise DataError(
                f"images: {len(x)} in a batch; the sums hold 1..{network.update.batch} samples, give as many"
            )
        saturated = [dict.fromkeys(COUNTS, 0) for _ in stages]
        y: list[Ints] = []
        kept: list[_Kept] = []
        for stage in stages:
            x, keep, saturated[stage.index]["y"] = self._forward(stage, x)
            y.append(x)
            kept.append(keep)
        dz, losses, predictions = softmax_cross_entropy(self._logits(x), labels, network.loss)

        dy: list[Ints | None] = [None] * len(stages)
        dx, dw, db = dy.copy(), dy.copy(), dy.copy()
        error: Ints | None = dz
        for i in reversed(range(len(stages))):
            if error is None:
                break
            stage, counts = stages[i], saturated[i]
            if stage.frozen and stage.dx is None:
                break
            entering = dy[i] = _masked(stage, kept[i], error, counts)
            error = dx[i] = self._dx(stage, entering, counts)
            if not stage.frozen:
                dw[i], sums = conv_gradient(
                    kept[i].x, entering, stage.window, stage.groups, (stage.x.width, stage.dy.width)
                )
                db[i] = None if stage.bias is None else sums
        self._update(dw, db, rate, saturated)
        return BatchTrace(
            y=tuple(y),
            dy=tuple(dy),
            dx=tuple(dx),
            dz=dz,
            dw=tuple(dw),
            db=tuple(db),
            losses=losses,
            predictions=predictions,
            saturated=tuple(saturated),
            parameters=self.parameters,
        )

    def _logits(self, y: Ints) -> Ints:
        return y.reshape(len(y), self.network.loss.classes)

    def _rate(self, rate: int | None) -> int:
        update = self.network.update
        if rate is None:
            return update.rate
        if not update.lr.min <= rate <= update.lr.max:
            raise DataError(f"rate: {rate} is outside {update.lr}; give {update.lr.min}..{update.lr.max}")
        return int(rate)

    def _weight(self, stage: Stage) -> Ints:
        """The weights as multiplied: the top bits of the master."""
        return self.parameters.weights[stage.index] >> (stage.master.width - stage.w.width)

    def _forward(self, stage: Stage, x: Ints) -> tuple[Ints, _Kept, int]:
        """y [B, *out_shape], what backward needs, and how many elements saturated."""
        x = x.reshape(len(x), *stage.in_shape)
        bias = self.parameters.biases[stage.index]
        if stage.bias is not None and bias is not None:
            bias = bias << (stage.acc_frac - stage.bias.frac)
        bits = (stage.x.width, stage.w.width)
        sums = conv_forward(x, self._weight(stage), stage.window, stage.groups, bias, bits)
        y, clipped = requantise_sums(sums, stage.acc_frac, stage.y, stage.acc_bits)
        mask = argmax = None
        if stage.activation is not None:
            y, mask = activate(y, stage.activation, stage.y)
        if stage.pool is not None:
            y, argmax = max_pool(y, stage.pool)
        return y, _Kept(x, mask, argmax), clipped

    def _dx(self, stage: Stage, dy: Ints, counts: dict[str, int]) -> Ints | None:
        if stage.dx is None:
            return None
        bits = (stage.dy.width, stage.w.width)
        sums = conv_backward(dy, self._weight(stage), stage.window, stage.groups, bits)
        dx, counts["dx"] = requantise_sums(sums, stage.back_frac, stage.dx, stage.col_bits)
        return dx

    def _update(
        self, dw: list[Ints | None], db: list[Ints | None], rate: int, saturated: list[dict[str, int]]
    ) -> None:
        update = self.network.update
        weights, biases = list(self.parameters.weights), list(self.parameters.biases)
        for i, stage in enumerate(self.network.stages):
            counts = saturated[i]
            gradient, sums, bias = dw[i], db[i], biases[i]
            if gradient is not None:
                random = random_bits(update, stage, self.step)
                weights[i], counts["master"], counts["zero_updates"] = step_values(
                    weights[i], gradient, stage.master, rate, stage.update_shift(update.lr), random
                )
            if sums is not None and bias is not None and stage.bias is not None:
                biases[i], counts["bias"], zeros = step_values(
                    bias, sums, stage.bias, rate, stage.bias_update_shift(update.lr)
                )
                counts["zero_updates"] += zeros
        self.parameters = Parameters(tuple(weights), tuple(biases))
        self.step += 1


def _masked(stage: Stage, kept: _Kept, error: Ints, counts: dict[str, int]) -> Ints:
    """The error of y [B, *out_shape] as it enters the array, [B, *conv_shape]."""
    dy = error.reshape(len(error), *stage.out_shape)
    if stage.pool is not None and kept.argmax is not None:
        sums = max_pool_adjoint(dy, kept.argmax, stage.pool)
        dy, counts["dy"] = saturate(sums, stage.dy.width)
    if stage.activation is None or kept.mask is None:
        return dy
    return activation_adjoint(dy, kept.mask, stage.activation)


def _check(network: Network, parameters: Parameters) -> None:
    count = len(network.stages)
    if len(parameters.weights) != count or len(parameters.biases) != count:
        raise DataError(
            f"parameters: {len(parameters.weights)} weights and {len(parameters.biases)} biases; "
            f"the network has {count} stages, give one of each a stage"
        )
    for stage, weight, bias in zip(network.stages, parameters.weights, parameters.biases, strict=True):
        _fits(f"{stage.name}.weight", weight, stage.weight_shape, stage.master.width)
        if (bias is None) != (stage.bias is None):
            wanted = "has no bias" if stage.bias is None else "needs a bias"
            raise DataError(f"{stage.name}.bias: the stage {wanted}; give parameters of this network")
        if stage.bias is not None and bias is not None:
            _fits(f"{stage.name}.bias", bias, (stage.out_channels,), stage.bias.width)


def _fits(where: str, value: Ints, shape: tuple[int, ...], width: int) -> None:
    if value.shape != shape or value.dtype != np.int64:
        raise DataError(f"{where}: {value.dtype} of shape {value.shape}; give int64 of shape {shape}")
    outside = int(np.count_nonzero(saturate(value, width)[0] != value))
    if outside:
        raise DataError(f"{where}: {outside} values do not fit {width} bits; give integers of the format")
