"""How well number formats suit a network: what its tensors reach in real numbers, and what integers make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ir.initial import real_parameters
from ..ir.stage import Network, Stage
from ..numeric import Q
from ..ref.executor import BatchTrace, Reference
from .calibrate import point
from .float_run import FloatRun, Peaks
from .loader import Source

__all__ = ["LEAST_SNR", "MOST_ZERO", "StageReport", "TensorReport", "format_report"]

LEAST_SNR = 20.0
"""Decibels below which a tensor is told as coarse: a noise of a tenth."""
MOST_ZERO = 0.5
"""Share of updates that round to zero from which it is told."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TensorReport:
    """One tensor: its ``role`` ("w", "bias", "y", "dy") and format, the largest real value, the share that saturated,
    signal to noise in decibels (None where it was not compared, or there is no noise), what would suit it better."""

    role: str
    format: Q
    peak: float
    clipped: float
    snr: float | None
    advice: str | None


@dataclass(frozen=True)
class StageReport:
    """The tensors of a stage, and the share of updates that rounded to zero, None without data."""

    name: str
    tensors: tuple[TensorReport, ...]
    zero_updates: float | None


def format_report(source: Source, batches: int) -> tuple[StageReport, ...]:
    """Weights beside their formats; with data of its own also outputs, errors and updates of ``batches`` batches.

    Real numbers and integers start from the same weights and take the same samples.
    """
    network = source.network
    real = real_parameters(network, source.seed, source.model.weights)
    if source.given is None:
        return tuple(
            StageReport(stage.name, tuple(_constants(stage, *values)), None)
            for stage, values in zip(network.stages, real, strict=True)
        )
    run, reference = FloatRun(network, real), Reference(network, source.parameters)
    size = network.update.batch
    count = min(batches, len(source.given.train_images) // size)
    traces: list[BatchTrace] = []
    noise: list[float | None] = []
    for start in range(0, count * size, size):
        images = source.given.train_images[start : start + size]
        labels = source.given.train_labels[start : start + size].astype(np.int64)
        pictures = network.input.to_float(images)
        if not traces:
            noise = _noise(network, run.outputs(pictures), reference.forward(images).y)
        run.step(pictures, labels)
        traces.append(reference.train_batch(images, labels))
    return tuple(
        _stage(stage, real[stage.index], run.peaks[stage.index], traces, noise[stage.index])
        for stage in network.stages
    )


def _noise(network: Network, real: Sequence[Floats], whole: Sequence[Ints]) -> list[float | None]:
    return [
        _decibels(values, stage.y.to_float(integers).reshape(values.shape))
        for stage, values, integers in zip(network.stages, real, whole, strict=True)
    ]


def _decibels(real: Floats, kept: Floats) -> float | None:
    noise = float(np.square(real - kept).sum())
    signal = float(np.square(real).sum())
    return 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else None


def _stage(
    stage: Stage, real: tuple[Floats, Floats | None], peaks: Peaks, traces: Sequence[BatchTrace], noise: float | None
) -> StageReport:  # fmt: skip
    samples = sum(len(trace.losses) for trace in traces)
    elements = samples * math.prod(stage.conv_shape)
    counts = [trace.saturated for trace in traces]
    y = sum(count[stage.index]["y"] for count in counts) / elements
    behind = [count[stage.index + 1]["dx"] if stage.index + 1 < len(count) else 0 for count in counts]
    dy = sum(count[stage.index]["dy"] for count in counts) + sum(behind)
    updates = (math.prod(stage.weight_shape) + stage.out_channels * (stage.bias is not None)) * len(traces)
    zero = sum(count[stage.index]["zero_updates"] for count in counts) / updates
    seen = (
        _told("y", stage.y, peaks.y, y, noise),
        _told("dy", stage.dy, peaks.dy, min(dy / elements, 1.0), None),
    )
    return StageReport(stage.name, (*_constants(stage, *real), *seen), zero)


def _constants(stage: Stage, weight: Floats, bias: Floats | None) -> list[TensorReport]:
    found = [_constant("w", stage.w, weight)]
    if stage.bias is not None and bias is not None:
        found.append(_constant("bias", stage.bias, bias))
    return found


def _constant(role: str, form: Q, values: Floats) -> TensorReport:
    scaled = np.rint(np.ldexp(values, form.frac))
    clipped = float(np.mean((scaled < form.min) | (scaled > form.max)))
    peak = float(np.abs(values).max(initial=0.0))
    return _told(role, form, peak, clipped, _decibels(values, form.to_float(form.quantise(values))))


def _told(role: str, form: Q, peak: float, clipped: float, snr: float | None) -> TensorReport:
    """With an advice where a tensor clips, or is coarse and another point would be finer."""
    better = point(form.width, peak)
    advice = None
    if better is not None and better != form:
        if clipped > 0:
            advice = f"{role} = {better} would hold ±{peak:.3g}"
        elif snr is not None and snr < LEAST_SNR and better.frac > form.frac:
            advice = f"{role} = {better} would be finer"
    return TensorReport(role, form, peak, clipped, snr, advice)
