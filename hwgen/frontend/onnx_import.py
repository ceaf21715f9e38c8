"""An ONNX file as a model of hwgen: constants are computed, the rest has to be a chain of layers."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..ir.formats import Formats
from .chain import DAMAGED, Chain, Tensor
from .dsl import Model
from .nn import SGD, Layer, SoftmaxCrossEntropy
from .onnx_file import onnx_module, opset, read_onnx
from .onnx_graph import label, read_input, wire
from .onnx_node import Node
from .onnx_operators import ALTERNATIVES, OPERATORS
from .reshaping import BATCH

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["model_from_onnx"]

MOVES = ("Identity", "Cast", "Concat", "Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape")
"""Operators on constants that only move numbers, so that one of them may be a batch."""
FIRST = ("Shape", *OPERATORS)
"""Operators that cannot do without their first input."""
FOLDED = (*MOVES, "Constant", "Add", "Div", "Mul", "Neg", "ReduceProd", "Sqrt", "Sub", "Transpose")
"""Operators that are computed if all their inputs are constant."""


def model_from_onnx(
    path: Path, *, loss: Layer | None = None, optimizer: SGD | None = None, formats: Formats | None = None
) -> Model:
    """The model in an ONNX file, with its weights, to be trained with ``loss`` and ``optimizer``.

    Mistakes of its nodes are noted in the model, which reports them when it is lowered. Raises ModelError, "path: what;
    what to do", if the file cannot be read, ToolError if the package onnx is not installed.
    """
    walk = _Walk(path, read_onnx(path), Formats() if formats is None else formats)
    chain = walk.run()
    return chain.model(
        SoftmaxCrossEntropy() if loss is None else loss, SGD() if optimizer is None else optimizer, path.stem
    )


class _Walk:
    """Goes through the nodes of a graph; ``head`` is the tensor that the chain has reached."""

    def __init__(self, path: Path, model: ModelProto, formats: Formats):
        self._problems: list[str] = []
        self._opset = opset(model)
        self.head, self._batch, dims = read_input(model.graph, self._problems)
        known = len(self._problems)
        self._wiring = wire(model.graph, self._problems)
        if len(self._problems) > known:
            dims = None  # what follows would be judged by the wrong shapes
        self._constants: dict[str, Tensor] = {}
        for tensor in model.graph.initializer:
            self._load(tensor.name, tensor)
        self.chain = Chain(dims, formats)
        self._dims = {self.head: dims}

    def run(self) -> Chain:
        """Every node once."""
        self._refuse_branches()
        self.chain.problems += self._problems
        for index, proto in self._wiring.nodes:
            self.chain.at(label(index, proto), _own_name(proto))
            self._step(proto)
        if not self.chain.problems and self.head not in self._wiring.outputs:
            self.chain.at(f"output {self._wiring.outputs[0]!r}", "")
            self.chain.say("does not depend on the input; export the model again")
        return self.chain

    def _refuse_branches(self) -> None:
        static = set(self._constants)
        for _, node in self._wiring.nodes:
            if node.op_type == "Shape" or static.issuperset(filter(None, node.input)):
                static.update(node.output)
        for name, readers in self._wiring.readers.items():
            if len(readers) > 1 and name not in static:
                self._problems.append(
                    f"tensor {name!r}: read by {' and '.join(readers)}; "
                    "networks are chains without branches so far: let one layer follow another"
                )

    def _step(self, proto: NodeProto) -> None:
        data = [name for name in dict.fromkeys(filter(None, proto.input)) if name not in self._constants]
        if proto.domain not in ("", "ai.onnx"):
            self._refuse(proto, f"{proto.op_type} of {proto.domain} is not supported")
        elif proto.op_type in FIRST and not any(proto.input[:1]):
            self.chain.say("its first input is missing; export the model again")
            self._lose(proto)
        elif proto.op_type == "Shape":
            self._shape(proto)
        elif not data and proto.op_type in FOLDED:
            self._fold(proto)
        elif proto.op_type not in OPERATORS:
            self._refuse(proto, f"{proto.op_type} is not supported")
        elif not data:
            self.chain.say("works on constants only; compute it before the export (constant folding)")
            self._constants.update(dict.fromkeys(proto.output, DAMAGED))
        elif len(data) > 1:
            self.chain.say(
                f"joins {' and '.join(map(repr, data))}; networks are chains without branches so far: "
                "let one layer follow another, with constant weights"
            )
            self._lose(proto)
        else:
            self._layer(proto, data[0])

    def _layer(self, proto: NodeProto, data: str) -> None:
        chain = self.chain
        if data != self.head:
            chain.lose()  # behind a branch, which has been noted
        node = Node(proto, chain, self._constants, self._batch, proto.output[0] in self._wiring.outputs)
        OPERATORS[proto.op_type](node, chain)
        node.refuse_unread()
        for name in filter(None, proto.output[1:]):
            if name in self._wiring.readers:
                chain.say(
                    f"its output {name!r} is used; hwgen gives the first one only: remove what reads it"
                )
        if chain.wrong:
            chain.lose()
        self._reach(proto)

    def _refuse(self, proto: NodeProto, problem: str) -> None:
        near = difflib.get_close_matches(proto.op_type, OPERATORS, n=1, cutoff=0.75)
        advice = ALTERNATIVES.get(proto.op_type) or (f"did you mean {near[0]}?" if near else "leave it out")
        self.chain.say(f"{problem}; {advice} (hwgen ops lists what is)")
        self._lose(proto)

    def _lose(self, proto: NodeProto) -> None:
        self.chain.lose()
        self._reach(proto)

    def _reach(self, proto: NodeProto) -> None:
        self.head = proto.output[0]
        self._dims[self.head] = self.chain.dims

    def _shape(self, proto: NodeProto) -> None:
        """The dimensions of data, with BATCH for the batch, or of constants."""
        name = proto.input[0]
        node = Node(proto, self.chain, self._constants, self._batch, False)
        start, end = node.whole("start", 0), node.whole("end", 1 << 30)
        node.refuse_unread()
        constant, dims = self._constants.get(name), self._dims.get(name)
        found = DAMAGED
        if constant is not None or dims is not None:
            shape = (BATCH, *(dims or ())) if constant is None else constant.values.shape
            found = Tensor("", np.array(shape[start:end], dtype=np.int64))
        self._constants[proto.output[0]] = found

    def _fold(self, proto: NodeProto) -> None:
        """Compute a node all of whose inputs are constant."""
        inputs = {name: self._constants[name] for name in proto.input if name}
        self._constants[proto.output[0]] = DAMAGED
        if DAMAGED in inputs.values():
            return
        if proto.op_type == "Constant" and proto.attribute and proto.attribute[0].name == "value":
            self._load(proto.output[0], proto.attribute[0].t)
        elif proto.op_type == "Identity":
            self._constants[proto.output[0]] = inputs[proto.input[0]]
        elif proto.op_type not in MOVES and any(_has_batch(tensor) for tensor in inputs.values()):
            self.chain.say(
                "computes with the number of images of a batch; give shapes that hold for any batch"
            )
        else:
            try:
                values = _evaluate(proto, {name: t.values for name, t in inputs.items()}, self._opset)
                self._constants[proto.output[0]] = Tensor("", values)
            except Exception as error:  # whatever numpy says of the shapes
                self.chain.say(
                    f"cannot be computed ({' '.join(str(error).split())[:100]}); correct the model"
                )

    def _load(self, name: str, tensor: object) -> None:
        self._constants[name] = DAMAGED
        try:
            values = onnx_module().numpy_helper.to_array(tensor)
        except Exception as error:  # ValueError, TypeError, KeyError by what is damaged
            reason = " ".join(str(error).split())[:100]
            self._problems.append(f"tensor {name!r}: damaged ({reason}); export the model again")
            return
        extended = values.dtype.kind not in "fiub" and "float" in values.dtype.name  # bfloat16 and narrower
        self._constants[name] = Tensor(name, values.astype(np.float32) if extended else values)


def _has_batch(tensor: Tensor) -> bool:
    return tensor.values.dtype.kind == "i" and bool((tensor.values == BATCH).any())


def _own_name(proto: NodeProto) -> str:
    """A node's name without what exporters add: "/features/0/Conv" is "/features/0"."""
    return str(proto.name).removesuffix(f"/{proto.op_type}")


def _evaluate(proto: NodeProto, inputs: dict[str, np.ndarray], version: int) -> np.ndarray:
    """What onnx's own reference computes for one node."""
    onnx = onnx_module()
    helper = onnx.helper
    empty = onnx.TypeProto()
    graph = helper.make_graph(
        [proto],
        "constant",
        [helper.make_value_info(name, empty) for name in inputs],
        [helper.make_value_info(proto.output[0], empty)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    (values,) = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    return np.asarray(values)
