"""A chain of layers from another framework, whose tensors have their channels first, as a model of hwgen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..ir import ops
from ..ir.activation import SLOPES, slope_of
from ..ir.formats import Formats, LayerFormats
from ..numeric import Q
from .calibrate import point
from .dsl import Model
from .names import Names
from .nn import SGD, Layer
from .origin import Origin
from .view import Dims, View, spell_dims

__all__ = ["DAMAGED", "Chain", "Tensor"]

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
Matrix = ops.Conv2d | ops.Linear
Array = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Tensor:
    """Constant numbers of the imported model; ``name`` is theirs there, "" if they have been computed."""

    name: str
    values: Array
    frozen: bool = False

    def __str__(self) -> str:
        return f"tensor {self.name!r}" if self.name else "its constant"


DAMAGED = Tensor("", np.zeros(0))
"""Stands for numbers that could not be told, which has been noted as a mistake."""

MOST_ELEMENTS = 1 << 28
"""Values of a tensor whose places are followed one by one."""


class Chain:
    """Layers one by one, in the order of computation, and ``problems``: mistakes, each "where: what; what to do".

    ``view`` is the last tensor, None once its shape is not known. :meth:`at` names the node whose layers and mistakes
    follow. ``formats`` gives the width of weights: those that would clip in the default format get another point.
    """

    def __init__(self, dims: Dims | None, formats: Formats):
        self.view: View | None = None if dims is None else View.of_input(dims)
        self.problems: list[str] = []
        self._formats = formats
        self._input: ops.Shape | None = None
        self._layers: list[Layer] = []
        self._weights: dict[str, object] = {}
        self._origins: dict[str, Origin] = {}
        self._names = Names()
        self._used: dict[str, str] = {}
        self.at("input", "")
        if dims is None:
            self.lose()
        self._check_size()

    @property
    def dims(self) -> Dims | None:
        """The shape of the last tensor as the other framework sees it, without its batch."""
        return None if self.view is None else self.view.dims

    def at(self, where: str, name: str) -> None:
        """What follows belongs to node ``name``, which messages call ``where``."""
        self._where, self._name = where, name
        self._before = len(self.problems)

    def say(self, problem: str) -> None:
        """Note a mistake, "what; what to do"."""
        self.problems.append(f"{self._where}: {problem}")

    @property
    def wrong(self) -> bool:
        """Whether this node has mistakes."""
        return len(self.problems) > self._before

    def lose(self) -> None:
        """The shape behind this node is not known."""
        self.view = None
        self._layers.append(Layer(ops.Unknown(self._where)))

    def conv2d(
        self, weight: Tensor, bias: Tensor | None, stride: Pair, pads: Pads, dilation: Pair, groups: int
    ) -> None:
        """A convolution with weights [Cout, Cin/groups, kh, kw]; ``pads`` (top, left, bottom, right)."""
        out, cin, kh, kw = weight.values.shape
        if groups < 1 or out % groups:
            self.say(f"group = {groups} does not divide its {out} output channels; give a divisor")
            return self.lose()
        op = ops.Conv2d(cin * groups, out, (kh, kw), stride, pads, dilation, groups, bias is not None)
        self._check(weight, bias, (out,))
        self._check_image(op)
        return self._weighted(op, weight, bias, weight.values.transpose(2, 3, 1, 0), "OIHW", None)

    def linear(self, weight: Tensor, bias: Tensor | None, *, transposed: bool) -> None:
        """A fully connected layer with weights [in, out], or [out, in] if ``transposed``."""
        values = weight.values.T if transposed else weight.values
        count, out = values.shape
        self._check(weight, bias, (out,), (1, out))
        if self.dims is not None and self.dims != (count,):
            self.say(
                f"weights for {count} features, but its input is {spell_dims(self.dims)}; "
                f"hwgen multiplies vectors [N, {count}]: flatten the data, or correct the weights"
            )
        if self.wrong:
            return self.lose()
        order = self._flatten()
        if order is not None:
            values = np.take(values.T, np.argsort(order), axis=1).T
        op = ops.Linear(count, out, bias is not None)
        return self._weighted(op, weight, bias, values[None, None], "OI" if transposed else "IO", order)

    def add_bias(self, bias: Tensor) -> bool:
        """Give ``bias`` to the layer before, if that has weights and no bias yet; whether it could take it."""
        last = self._layers[-1] if self._layers else None
        if last is None or not isinstance(last.op, ops.Conv2d | ops.Linear) or last.op.bias:
            return False
        linear = isinstance(last.op, ops.Linear)
        out = last.op.out_features if isinstance(last.op, ops.Linear) else last.op.out_channels
        behind = (out,) if linear else (out, 1, 1)
        shape = bias.values.shape
        if bias.values.size != out or shape[-len(behind) :] != behind or len(shape) > len(behind) + 1:
            return False
        if self.view is not None and (self.view.places is not None or len(self.view.dims) != len(behind)):
            return False
        self._check(None, bias, shape)
        if bias.frozen != last.frozen:
            one, other = ("is", "are not") if bias.frozen else ("is not", "are")
            self.say(f"{bias} {one} frozen and its weights {other}; hwgen freezes a whole layer: freeze both")
        self._layers[-1] = replace(last, op=replace(last.op, bias=True))
        self._keep(f"{last.name}.bias", bias, bias.values.reshape(-1), "vector", None)
        return True

    def activation(self, op: ops.ReLU | ops.LeakyReLU | ops.Hardtanh) -> None:
        """An activation of every element."""
        self._settle()
        self._layers.append(Layer(op, self._names.legal(self._name, ops.OPS[type(op)].prefix)))

    def leaky_relu(self, slope: float, name: str) -> None:
        """x above 0, else x · ``slope``, which the other framework calls ``name``."""
        if slope_of(slope) is None:
            self.say(f"{name} = {slope:g}; give {SLOPES}")
            slope = 0.5
        self.activation(ops.LeakyReLU(slope))

    def hardtanh(self, low: float, high: float) -> None:
        """min(max(x, ``low``), ``high``); without an upper bound from 0 on it is ReLU."""
        if (low, high) == (0.0, math.inf):
            return self.activation(ops.ReLU())
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            self.say(f"bounds {low:g} and {high:g}; hwgen needs two finite ones, the lower first")
            low, high = 0.0, 1.0
        return self.activation(ops.Hardtanh(low, high))

    def max_pool(self, kernel: Pair, stride: Pair, pads: Pads, *, ceil: bool) -> None:
        """A maximum over windows; with ``ceil`` a last window that reaches over the edge counts: more padding."""
        if ceil and self.dims is not None and len(self.dims) == 3:
            pads = _ceil_pads(self.dims[1:], kernel, stride, pads)
        if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
            self.say(f"pads = {list(pads)} are not below the kernel {list(kernel)}; give smaller ones")
        op = ops.MaxPool2d(kernel, stride, pads)
        self._check_image(op)
        if self.wrong:
            return self.lose()
        return self._append(Layer(op, self._names.legal(self._name, "pool")))

    def reshape(self, dims: Dims) -> None:
        """The same elements in the same order of the other framework, with other dimensions."""
        if self.view is not None:
            self.view = self.view.reshape(dims)

    def transpose(self, axes: Sequence[int]) -> None:
        """Dimensions in another order; ``axes`` count without the batch."""
        if self.view is not None:
            self.view = self.view.transpose(axes)

    def model(self, loss: Layer, optimizer: SGD, name: str) -> Model:
        """The chain as a model, with its mistakes: they are reported when it is lowered, together with all others."""
        self.at("output", "")
        if self.dims is not None and len(self.dims) != 1 and math.prod(self.dims) != max(self.dims):
            self.say(
                f"{spell_dims(self.dims)}; the loss takes one logit a class, [N, classes]: "
                "end the network with a layer that gives them"
            )
            self.lose()
        elif self.dims is not None and self._layers and self._flatten() is not None:
            self.say("its logits have been reordered; remove the Reshape or Transpose behind the last layer")
        return Model(
            input=self._input or (1,),
            layers=self._layers,
            loss=loss,
            optimizer=optimizer,
            formats=self._formats,
            weights=self._weights,
            name=name,
            origins=self._origins,
            problems=tuple(self.problems),
        )

    def _weighted(
        self, op: Matrix, weight: Tensor, bias: Tensor | None, values: Array, layout: str, order: Array | None
    ) -> None:
        if self.wrong:
            return self.lose()
        stem = weight.name.removesuffix(".weight")
        name = self._names.legal(stem if stem != weight.name else self._name, ops.OPS[type(op)].prefix)
        self._append(Layer(op, name, weight.frozen, formats=LayerFormats(w=self._wide(weight.values))))
        self._keep(f"{name}.weight", weight, values, layout, order)
        if bias is not None:
            self._keep(f"{name}.bias", bias, bias.values.reshape(-1), "vector", None)
        return None

    def _append(self, layer: Layer) -> None:
        self._layers.append(layer)
        if self.view is not None:
            image, _ = ops.OPS[type(layer.op)].infer(layer.op, self.view.image)
            assert image is not None
            self.view = View.of_output(image)
            self._check_size()

    def _check_size(self) -> None:
        """Note a tensor of more elements than can be followed."""
        if self.dims is not None and math.prod(self.dims) > MOST_ELEMENTS:
            self.say(f"{spell_dims(self.dims)}: more than {MOST_ELEMENTS} values an image; make it smaller")
            self.lose()

    def _keep(self, key: str, tensor: Tensor, values: Array, layout: str, order: Array | None) -> None:
        self._weights[key] = values
        if tensor.name:
            self._used[tensor.name] = self._where
            places = None if order is None else tuple(order.tolist())
            self._origins[key] = Origin(tensor.name, tensor.values.shape, layout, places)

    def _wide(self, values: Array) -> Q | None:
        """A format for weights that clip in the default one, else None."""
        peak = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        default = self._formats.weight_format()
        return None if round(math.ldexp(peak, default.frac)) <= default.max else point(default.width, peak)

    def _check(self, weight: Tensor | None, bias: Tensor | None, *shapes: Dims) -> None:
        """Note what is wrong with the numbers of a layer whose bias has one of some ``shapes``."""
        if bias is not None and bias.values.shape not in shapes:
            self.say(f"{bias}, the bias, has shape {list(bias.values.shape)}; give {list(shapes[0])}")
        for tensor in (weight, bias):
            if tensor is None:
                continue
            if tensor.name in self._used:
                self.say(
                    f"{tensor} is also that of {self._used[tensor.name]}; layers that train do not share weights: "
                    "give each its own copy"
                )
            if not tensor.values.size:
                self.say(f"{tensor} has shape {list(tensor.values.shape)}; give at least one of everything")
            elif tensor.values.dtype.kind != "f":
                self.say(f"{tensor} holds numbers of type {tensor.values.dtype}; give floating-point ones")
            elif not np.isfinite(tensor.values).all():
                place = tuple(int(i) for i in np.argwhere(~np.isfinite(tensor.values))[0])
                self.say(f"{tensor} is {tensor.values[place]} at {list(place)}; give finite numbers")
        if weight is not None and bias is not None and weight.frozen != bias.frozen:
            self.say(f"only one of {weight} and {bias} is frozen; hwgen freezes a whole layer: freeze both")

    def _check_image(self, op: ops.Conv2d | ops.MaxPool2d) -> None:
        """Note it if a layer on images gets none, or one that it does not fit."""
        self._settle()
        if self.view is None:
            return
        dims, image = self.view.dims, self.view.image
        if len(dims) != 3:
            self.say(f"its input is {spell_dims(dims)}; hwgen takes images [N, C, H, W] here")
        elif len(image) != 3 or self.view.places is not None:
            self.say(
                f"its input {spell_dims(dims)} is {ops.spell(image)} (channels last) reshaped or transposed; "
                "images stay as they are between layers: remove the Reshape or Transpose"
            )
        elif isinstance(op, ops.Conv2d) and op.in_channels != dims[0]:
            self.say(
                f"weights for {op.in_channels} input channels, but its input has {dims[0]}; "
                "give weights [Cout, Cin / group, kh, kw]"
            )
        else:
            for problem in ops.OPS[type(op)].infer(op, image)[1]:
                self.say(problem)

    def _settle(self) -> None:
        if self.view is not None:
            self.view = self.view.settle()
            self._input = self._input or self.view.image

    def _flatten(self) -> Array | None:
        """Put a Flatten behind an image; of every element its place in hwgen's vector, None if it is its own."""
        self._settle()
        if self.view is None:
            return None
        order = self.view.vector()
        if len(self.view.image) == 3:
            self._layers.append(Layer(ops.Flatten(), self._names.legal("", "flatten")))
            self.view = View.of_output((math.prod(self.view.image),))
        return order


def _ceil_pads(sizes: Dims, kernel: Pair, stride: Pair, pads: Pads) -> Pads:
    """Pads with which a pool that drops the rest has the windows of one that rounds up.

    A window counts that begins in the image or the padding before it, as in PyTorch.
    """
    after = []
    for axis, (size, span, step) in enumerate(zip(sizes, kernel, stride, strict=True)):
        room = size + pads[axis] + pads[axis + 2] - span
        count = max(-(-room // step), 0)
        if count * step >= size + pads[axis]:
            count -= 1
        after.append(pads[axis + 2] + max(count * step - room, 0))
    return (pads[0], pads[1], after[0], after[1])
