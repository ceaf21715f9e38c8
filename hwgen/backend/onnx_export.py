"""A network with its weights as an ONNX file, channels first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..frontend.onnx_file import LEAST_OPSET, onnx_module
from ..frontend.origin import Origin
from ..ir.activation import Activation
from ..ir.stage import Network, Stage
from .trained import own_origin

__all__ = ["INPUT", "OUTPUT", "onnx_bytes"]

IR_VERSION = 8
"""Of files for opset 13 to 17, which every runtime of today reads."""
INPUT, OUTPUT = "images", "logits"
Floats = NDArray[np.float32]


def onnx_bytes(network: Network, origins: Mapping[str, Origin], real: Mapping[str, Floats]) -> bytes:
    """An ONNX file of ``network`` with tensors ``real`` by "conv1.weight", called as those of ``origins``.

    It takes ``images`` [N, C, H, W], or [N, features] where the first layer is a Linear one (in the order of the
    imported model, else hwgen's), and gives ``logits`` [N, classes]. Raises ToolError if the package onnx is missing.
    """
    onnx = onnx_module()
    helper = onnx.helper
    graph = _Graph(helper)
    height, width, channels = network.in_shape
    flat = (height, width) == (1, 1) and not _is_convolution(network.stages[0], origins)
    for stage in network.stages:
        convolution = _is_convolution(stage, origins)
        if not convolution and not flat:
            graph.add("Flatten", [], f"{stage.name}_flatten", axis=1)
            flat = True
        graph.stage(network, stage, origins, real, convolution)
    dims = [channels] if (height, width) == (1, 1) and flat else [channels, height, width]
    if not flat:
        graph.add("Flatten", [], "flatten", axis=1)
    graph.nodes[-1].output[0] = OUTPUT
    kind = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(INPUT, kind, ["N", *dims])]
    outputs = [helper.make_tensor_value_info(OUTPUT, kind, ["N", network.loss.classes])]
    made = helper.make_graph(graph.nodes, network.name, inputs, outputs, graph.tensors)
    model = helper.make_model(
        made,
        producer_name="hwgen",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", LEAST_OPSET)],
        ir_version=IR_VERSION,
    )
    return bytes(model.SerializeToString(deterministic=True))


def _is_convolution(stage: Stage, origins: Mapping[str, Origin]) -> bool:
    """Linear layers and convolutions of one pixel are the same in a network: the import says which, else Linear."""
    origin = origins.get(f"{stage.name}.weight")
    if origin is not None:
        return origin.layout == "OIHW"
    return stage.window.pixels_in > 1 or stage.groups > 1


class _Graph:
    """Nodes one behind the other, and their tensors."""

    def __init__(self, helper: Any):
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self._helper = helper
        self._head = INPUT

    def add(self, kind: str, tensors: list[str], name: str, **attributes: object) -> None:
        """A node that reads what the last one made."""
        node = self._helper.make_node(kind, [self._head, *tensors], [f"{name}_out"], name=name, **attributes)
        self._head = f"{name}_out"
        self.nodes.append(node)

    def stage(
        self,
        network: Network,
        stage: Stage,
        origins: Mapping[str, Origin],
        real: Mapping[str, Floats],
        convolution: bool,
    ) -> None:
        """A layer with what is fused into it."""
        names = []
        for role in ("weight", "bias"):
            key = f"{stage.name}.{role}"
            if key in real:
                own = own_origin(network, stage, role)
                origin = origins.get(key, own)
                names.append(self._tensor(origin.name, _behind_flatten(stage, role, own, origin), real[key]))
        window = stage.window
        if convolution:
            self.add(
                "Conv", names, stage.name, kernel_shape=window.kernel, strides=window.stride, pads=window.pads,
                dilations=window.dilation, group=stage.groups,
            )  # fmt: skip
        else:
            layout = origins[f"{stage.name}.weight"].layout if f"{stage.name}.weight" in origins else "OI"
            self.add("Gemm", names, stage.name, transB=int(layout == "OI"))
        if stage.activation is not None:
            self._activation(stage, stage.activation)
        if stage.pool is not None:
            pool = stage.pool
            self.add(
                "MaxPool", [], f"{stage.name}_pool", kernel_shape=pool.kernel, strides=pool.stride, pads=pool.pads
            )  # fmt: skip

    def _activation(self, stage: Stage, form: Activation) -> None:
        """The model's bounds, of which the hardware has the nearest in the format of y; the slope that it has."""
        if form.slope is not None:
            s, shift = form.slope
            self.add("LeakyRelu", [], f"{stage.name}_leaky_relu", alpha=s / (1 << shift))
            return
        if form == Activation():
            self.add("Relu", [], f"{stage.name}_relu")
            return
        names = [f"{stage.name}_min", f"{stage.name}_max"]
        for name, bound in zip(names, (form.low, form.high), strict=True):
            value = np.array(bound, dtype="<f4").tobytes()
            self.tensors.append(self._helper.make_tensor(name, 1, (), value, raw=True))
        self.add("Clip", names, f"{stage.name}_clip")

    def _tensor(self, name: str, origin: Origin, values: Floats) -> str:
        array = np.ascontiguousarray(origin.restore(values), dtype=np.float32)
        self.tensors.append(
            self._helper.make_tensor(name, 1, array.shape, array.astype("<f4").tobytes(), raw=True)
        )
        return name


def _behind_flatten(stage: Stage, role: str, own: Origin, origin: Origin) -> Origin:
    """The layout of ``origin`` behind the Flatten of this file, whose order is another if the model has a Transpose.

    Before the first layer there is no Flatten here.
    """
    if role == "bias":
        return own
    if origin.layout == "OIHW":
        kh, kw, cin, out = stage.weight_shape
        return replace(origin, shape=(out, cin, kh, kw))
    return origin if stage.index == 0 else replace(origin, order=own.order)
