"""A small training run in real numbers that notes how large every tensor gets, for :mod:`.calibrate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ir.activation import Activation
from ..ir.stage import Network, Stage
from ..ir.window import Window2d

__all__ = ["FloatRun", "Peaks", "taps"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Picks = tuple[Floats, NDArray[np.intp]]


@dataclass
class Peaks:
    """Largest absolute values of one stage's tensors so far: weight, bias, output, error of the output."""

    w: float = 0.0
    bias: float = 0.0
    y: float = 0.0
    dy: float = 0.0

    def note(self, role: str, values: Floats | None) -> None:
        """Raise the peak of ``role`` to the largest of ``values``."""
        if values is not None and values.size:
            setattr(self, role, max(getattr(self, role), float(np.abs(values).max())))


def taps(window: Window2d) -> Ints:
    """Flat input pixel under [output pixel, kernel position]; ``pixels_in`` is a place outside the image."""
    outputs = [(oy, ox) for oy in range(window.out_height) for ox in range(window.out_width)]
    places = [(ky, kx) for ky in range(window.kernel[0]) for kx in range(window.kernel[1])]
    index = np.full((len(outputs), len(places)), window.pixels_in, dtype=np.int64)
    for m, output in enumerate(outputs):
        for p, place in enumerate(places):
            pixel = window.tap(*output, *place)
            if pixel is not None:
                index[m, p] = pixel[0] * window.width + pixel[1]
    return index


class FloatRun:
    """Mini-batch SGD in float64 over a network whose number formats are ignored.

    ``parameters`` holds weight [kh, kw, cin, Cout] and bias [Cout] or None of every stage; :meth:`step`
    changes them. ``peaks`` are the largest absolute values seen, one a stage; errors are those of single
    samples, as in the hardware.
    """

    def __init__(self, network: Network, parameters: Sequence[tuple[Floats, Floats | None]]):
        self.network = network
        self.parameters = [(w.copy(), None if b is None else b.copy()) for w, b in parameters]
        self.peaks = [Peaks() for _ in network.stages]
        self._layers = [_Layer(stage) for stage in network.stages]
        self._note_parameters()

    def _note_parameters(self) -> None:
        for peaks, (weight, bias) in zip(self.peaks, self.parameters, strict=True):
            peaks.note("w", weight)
            peaks.note("bias", bias)

    def forward(self, images: Floats) -> Floats:
        """The last stage's output [B, pixels, channels] of images [B, H, W, C]."""
        return self.outputs(images)[-1]

    def outputs(self, images: Floats) -> list[Floats]:
        """The outputs [B, pixels, channels] of every stage."""
        x = images.reshape(len(images), -1, images.shape[-1])
        found = []
        for layer, peaks, (weight, bias) in zip(self._layers, self.peaks, self.parameters, strict=True):
            if x.shape[1] != layer.stage.window.pixels_in:
                x = x.reshape(len(x), 1, -1)
            x = layer.forward(x, weight, bias)
            peaks.note("y", x)
            found.append(x)
        return found

    def step(self, images: Floats, labels: Ints) -> float:
        """One update from images [B, H, W, C] and labels [B]; the mean loss before it."""
        x = self.forward(images)
        logits = x.reshape(len(x), -1)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        p = powers / powers.sum(axis=1, keepdims=True)
        loss = -np.log(np.maximum(p[np.arange(len(p)), labels], np.finfo(float).tiny))
        error = p
        error[np.arange(len(p)), labels] -= 1.0
        self._backward(error.reshape(x.shape))
        self._note_parameters()
        return float(loss.mean())

    def _backward(self, error: Floats) -> None:
        scale = self.network.update.learning_rate / len(error)
        for index in reversed(range(len(self._layers))):
            layer, peaks = self._layers[index], self.peaks[index]
            weight, bias = self.parameters[index]
            peaks.note("dy", error)
            dx, dw, db, inner = layer.backward(error, weight)
            peaks.note("dy", inner)
            if not layer.stage.frozen:
                self.parameters[index] = (weight - scale * dw, None if bias is None else bias - scale * db)
            if index:
                before = self._layers[index - 1].stage.out_shape
                error = dx.reshape(len(dx), before[0] * before[1], before[2])


class _Layer:
    """Forward and backward of one stage; tensors are [B, pixels, channels]."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self._taps = taps(stage.window)
        self._pool = None if stage.pool is None else taps(stage.pool)

    def forward(self, x: Floats, weight: Floats, bias: Floats | None) -> Floats:
        stage = self.stage
        self._columns = _gather(x, self._taps, 0.0, stage.groups)
        y = np.einsum("bmgk,kgn->bmgn", self._columns, _grouped(weight, stage), optimize=True)
        y = y.reshape(len(x), stage.M, stage.out_channels)
        if bias is not None:
            y = y + bias
        self._slope = None
        if stage.activation is not None:
            y, self._slope = _activated(y, stage.activation)
        if self._pool is not None:
            padded = np.concatenate([y, np.full_like(y[:, :1], -np.inf)], axis=1)
            seen = padded[:, self._pool]
            self._argmax = seen.argmax(axis=2)
            y = seen.max(axis=2)
        return np.asarray(y)

    def backward(self, error: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """dX, dW, db (sums over the batch), and the error behind the adjoints of pool and activation."""
        stage, batch = self.stage, len(error)
        if self._pool is not None:
            spread = np.zeros((batch, stage.M + 1, stage.out_channels))
            outputs = np.arange(self._pool.shape[0])[None, :, None]
            pixel = self._pool[outputs, self._argmax]
            sample, channel = np.arange(batch)[:, None, None], np.arange(stage.out_channels)
            np.add.at(spread, (sample, pixel, channel), error)
            error = spread[:, : stage.M]
        if self._slope is not None:
            error = error * self._slope
        grouped = error.reshape(batch, stage.M, stage.groups, stage.N)
        dw = np.einsum("bmgk,bmgn->kgn", self._columns, grouped, optimize=True).reshape(weight.shape)
        columns = np.einsum("bmgn,kgn->bmgk", grouped, _grouped(weight, stage), optimize=True)
        dx = np.zeros((batch, stage.window.pixels_in + 1, stage.in_channels))
        spots = columns.reshape(batch, stage.M, stage.groups, stage.window.positions, stage.cin)
        spots = spots.swapaxes(2, 3).reshape(batch, stage.M, stage.window.positions, stage.in_channels)
        np.add.at(dx, (np.arange(batch)[:, None, None], self._taps[None]), spots)
        return dx[:, :-1], dw, error.sum(axis=(0, 1)), error


def _activated(y: Floats, activation: Activation) -> tuple[Floats, Floats]:
    """y behind an activation, and its slopes."""
    if activation.slope is not None:
        slopes = np.where(y > 0, 1.0, activation.slope[0] / (1 << activation.slope[1]))
        return y * slopes, slopes
    low = -np.inf if activation.low is None else activation.low
    high = np.inf if activation.high is None else activation.high
    return np.clip(y, low, high), ((y > low) & (y < high)).astype(np.float64)


def _gather(x: Floats, index: Ints, outside: float, groups: int) -> Floats:
    """[B, M, groups, positions·cin] from x [B, pixels, C]."""
    padded = np.concatenate([x, np.full_like(x[:, :1], outside)], axis=1)
    seen = padded[:, index]  # [B, M, positions, C]
    batch, pixels, positions, channels = seen.shape
    split = seen.reshape(batch, pixels, positions, groups, channels // groups).swapaxes(2, 3)
    return split.reshape(batch, pixels, groups, positions * (channels // groups))


def _grouped(weight: Floats, stage: Stage) -> Floats:
    """[kh, kw, cin, Cout] as [k, groups, N]."""
    return weight.reshape(stage.K, stage.groups, stage.N)
