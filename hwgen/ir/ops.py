"""The operations of a model, with typed attributes, and the one table of what is known about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .window import Window2d

__all__ = [
    "OPS",
    "Conv2d",
    "Flatten",
    "Hardtanh",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Op",
    "OpInfo",
    "ReLU",
    "Shape",
    "SoftmaxCrossEntropy",
    "Unknown",
    "spell",
]

Shape = tuple[int, ...]
"""(H, W, C) of an image or (features,) of a flat vector; channels last, raster order."""
Inferred = tuple[Shape | None, list[str]]
"""The output's shape (None if it cannot be told) and what is wrong, each "what; what to do"."""


@dataclass(frozen=True)
class Conv2d:
    """2-D convolution (cross-correlation).

    ``padding`` is (top, left, bottom, right), pairs are (vertical, horizontal).
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = True

    def window(self, height: int, width: int) -> Window2d:
        """The window over an image of ``height`` × ``width``."""
        return Window2d(height, width, self.kernel_size, self.stride, self.padding, self.dilation)


@dataclass(frozen=True)
class Linear:
    """y = x·W + bias on a flat vector (ONNX Gemm)."""

    in_features: int
    out_features: int
    bias: bool = True


@dataclass(frozen=True)
class ReLU:
    """max(x, 0); its gradient at 0 is 0."""


@dataclass(frozen=True)
class LeakyReLU:
    """x above 0, else x · ``negative_slope``, and its gradient likewise."""

    negative_slope: float


@dataclass(frozen=True)
class Hardtanh:
    """min(max(x, ``min_val``), ``max_val``); its gradient at and beyond the bounds is 0. ReLU6 is that from 0 to 6."""

    min_val: float
    max_val: float


@dataclass(frozen=True)
class MaxPool2d:
    """Maximum over a window, positions outside the image left out; the remainder is dropped (floor mode)."""

    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def window(self, height: int, width: int) -> Window2d:
        """The window over an image of ``height`` × ``width``."""
        return Window2d(height, width, self.kernel_size, self.stride, self.padding)


@dataclass(frozen=True)
class Flatten:
    """(H, W, C) to H·W·C features in raster order, channels last; moves no data."""


@dataclass(frozen=True)
class SoftmaxCrossEntropy:
    """Softmax over the logits and cross-entropy with the label, mean over the batch."""


@dataclass(frozen=True)
class Unknown:
    """Something in the model that is no operation; ``kind`` is how the user spelled it."""

    kind: str


Op = Conv2d | Linear | ReLU | LeakyReLU | Hardtanh | MaxPool2d | Flatten | SoftmaxCrossEntropy | Unknown


@dataclass(frozen=True)
class OpInfo:
    """What the passes know of an operation.

    ``prefix`` starts the names of unnamed nodes; ``onnx`` and ``torch`` are the operators there; ``slot`` says where
    fusion puts it: "matrix" starts a stage, "activation" and "pool" follow it, "reshape" vanishes, "loss" ends the
    model.
    """

    prefix: str
    onnx: str
    torch: str
    slot: str
    infer: Callable[[Any, Shape], Inferred]


def spell(shape: Shape | None) -> str:
    """A shape for messages: "8×8×1", "64 features", "unknown"."""
    if shape is None:
        return "unknown"
    return f"{shape[0]} features" if len(shape) == 1 else "×".join(map(str, shape))


def _window(window: Window2d, channels: int) -> Inferred:
    problems = []
    spans = ((d * (k - 1) + 1) for d, k in zip(window.dilation, window.kernel, strict=True))
    sizes = (window.height, window.width)
    for axis, (span, size) in enumerate(zip(spans, sizes, strict=True)):
        before, after = window.pads[axis], window.pads[axis + 2]
        if size + before + after < span:
            line = "rows" if axis == 0 else "columns"
            problems.append(
                f"the kernel spans {span} {line} but the padded input has {size} + {before} + {after}; "
                "make the kernel or its dilation smaller, or add padding"
            )
    return (None if problems else (window.out_height, window.out_width, channels)), problems


def _conv(op: Conv2d, shape: Shape) -> Inferred:
    if len(shape) == 1:
        return None, [
            f"Conv2d gets {spell(shape)}; it takes an image (H, W, C), so remove the Flatten before it"
        ]
    out, problems = _window(op.window(shape[0], shape[1]), op.out_channels)
    if op.in_channels not in (0, shape[2]):  # 0: the front end could not tell
        problems.append(
            f"in_channels = {op.in_channels} but its input has {shape[2]} channels; give {shape[2]}"
        )
    return out, problems


def _linear(op: Linear, shape: Shape) -> Inferred:
    out = (op.out_features,)
    if len(shape) != 1:
        return out, [f"Linear gets an image of {spell(shape)}; put nn.Flatten() before it"]
    if op.in_features not in (0, shape[0]):
        return out, [f"in_features = {op.in_features} but its input has {shape[0]}; give {shape[0]}"]
    return out, []


def _pool(op: MaxPool2d, shape: Shape) -> Inferred:
    if len(shape) == 1:
        return None, [
            f"MaxPool2d gets {spell(shape)}; it takes an image (H, W, C), so move it before the Flatten"
        ]
    return _window(op.window(shape[0], shape[1]), shape[2])


def _flatten(op: Flatten, shape: Shape) -> Inferred:
    count = 1
    for size in shape:
        count *= size
    return (count,), []


def _loss(op: SoftmaxCrossEntropy, shape: Shape) -> Inferred:
    if len(shape) != 1:
        return None, [
            f"the loss gets an image of {spell(shape)}; end the layers with nn.Flatten() or nn.Linear"
        ]
    if shape[0] < 2:
        return None, ["the loss gets 1 logit; give the last layer one output for each class, at least 2"]
    return shape, []


OPS: dict[type, OpInfo] = {
    Conv2d: OpInfo("conv", "Conv", "conv2d", "matrix", _conv),
    Linear: OpInfo("linear", "Gemm", "linear", "matrix", _linear),
    ReLU: OpInfo("relu", "Relu", "relu", "activation", lambda op, shape: (shape, [])),
    LeakyReLU: OpInfo("leaky_relu", "LeakyRelu", "leaky_relu", "activation", lambda op, shape: (shape, [])),
    Hardtanh: OpInfo("hardtanh", "Clip", "hardtanh", "activation", lambda op, shape: (shape, [])),
    MaxPool2d: OpInfo("pool", "MaxPool", "max_pool2d", "pool", _pool),
    Flatten: OpInfo("flatten", "Flatten", "flatten", "reshape", _flatten),
    SoftmaxCrossEntropy: OpInfo("loss", "SoftmaxCrossEntropyLoss", "cross_entropy", "loss", _loss),
    Unknown: OpInfo("unknown", "", "", "unknown", lambda op, shape: (None, [])),
}
