"""Choosing binary points from sample data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..data import Dataset, quantise_images
from ..errors import DataError
from ..ir.formats import MAX_FRAC, Formats, LayerFormats
from ..ir.initial import real_parameters
from ..ir.ops import OPS
from ..ir.stage import Network
from ..numeric import Q
from ..passes import lower
from ..passes.checks import check
from ..passes.shapes import infer_shapes
from .dsl import Model
from .float_run import FloatRun, Peaks
from .nn import Layer

__all__ = ["SPARE_BITS", "calibrate", "point"]

SPARE_BITS = 1
"""Room above the largest value seen; images get none, their range is known."""


def calibrate(model: Model, images: object, labels: object, *, seed: int = 0, batches: int = 128) -> Model:
    """A copy of ``model`` whose formats have binary points that fit its tensors on sample data.

    The model is trained in float64 from its first weights (given ones, the rest drawn from ``seed``) on
    ``batches`` mini-batches of the samples, drawn by ``seed``. The largest absolute value of every weight,
    bias, output (behind ReLU and pool) and error places the binary point of that tensor, with one spare bit,
    at the width that the model gives to its role. All of them grow while a network learns, so ``batches``
    should make an epoch or more: points chosen after a few batches saturate later, and the learning stops.

    Formats that the user gave a layer, and ``Formats.input``, stay; a tensor that is always 0 keeps its
    role's default. Integer images count as values in the input format, which then stays too.

    ``images`` [N, H, W, C], ``labels`` [N]. Raises ModelError with every mistake of the model, DataError for
    samples that do not fit it or ``batches`` below 1.
    """
    if batches < 1:
        raise DataError(f"calibrate: batches = {batches}; give at least 1")
    network = _real_network(model)
    real, classes, fixed_input = _samples(model, network, images, labels)
    run = FloatRun(network, real_parameters(network, seed, model.weights))
    batch = min(network.update.batch, len(real))
    generator = np.random.Generator(np.random.Philox(key=seed & ((1 << 64) - 1)))
    for _ in range(batches):
        chosen = generator.choice(len(real), batch, replace=False)
        run.step(real[chosen], classes[chosen])
    input_format = fixed_input or point(model.formats.activation, float(np.abs(real).max()), 0)
    calibrated = model.replace(
        layers=_with_points(model, run.peaks, input_format or model.formats.input_format()),
        formats=replace(model.formats, input=input_format),
    )
    calibrated.network(seed)
    return calibrated


def point(width: int, peak: float, spare: int = SPARE_BITS) -> Q | None:
    """The finest format of ``width`` bits for ±``peak`` with ``spare`` bits left; None for a peak of 0."""
    if not peak > 0 or not math.isfinite(peak):
        return None
    frac = width - 1 - math.frexp(peak)[1]
    if round(math.ldexp(peak, frac)) > Q(width, frac).max:
        frac -= 1
    return Q(width, min(max(frac - spare, -MAX_FRAC), MAX_FRAC))


def _real_network(model: Model) -> Network:
    """Geometry and update of the model without its binary points. Raises ModelError with its mistakes."""
    graph = check(infer_shapes(model.graph()))
    nodes = tuple(replace(node, formats=LayerFormats()) for node in graph.nodes)
    return lower(replace(graph, nodes=nodes, formats=Formats(input=model.formats.input_format())))


def _samples(
    model: Model, network: Network, images: object, labels: object
) -> tuple[np.ndarray, np.ndarray, Q | None]:
    """Real images, labels, and the input format if it is not to be chosen."""
    array = np.asarray(images)
    checked = Dataset(array, np.asarray(labels), array[:0], np.asarray(labels)[:0]).quantise(network)
    if not len(array):
        raise DataError("calibrate: no images; give at least a batch of samples")
    given = model.formats.input
    if array.dtype.kind == "f":
        return array.astype(np.float64), checked.train_labels, given
    return network.input.to_float(quantise_images(network, array)), checked.train_labels, network.input


def _with_points(model: Model, peaks: list[Peaks], x: Q) -> list[Layer]:
    layers = []
    remaining = iter(peaks)
    for layer in model.layers:
        if OPS[type(layer.op)].slot == "matrix":
            formats = _layer_formats(layer.formats, model.formats, next(remaining), x)
            layer = replace(layer, formats=formats)
            x = formats.y or model.formats.activation_format()
        layers.append(layer)
    return layers


def _layer_formats(given: LayerFormats, roles: Formats, peaks: Peaks, x: Q) -> LayerFormats:
    w = given.w or point(roles.weight, peaks.w) or roles.weight_format()
    sums = x.frac + w.frac
    bias = point(roles.bias, peaks.bias) or roles.bias_format(sums)
    return LayerFormats(
        w,
        given.y or point(roles.activation, peaks.y),
        given.dy or point(roles.error, peaks.dy),
        given.bias or Q(bias.width, min(bias.frac, sums)),
    )
