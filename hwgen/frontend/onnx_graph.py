"""The nodes of an ONNX graph that its output needs, in order, and what is wrong with their connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .onnx_file import onnx_module
from .view import Dims

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, ValueInfoProto

__all__ = ["Wiring", "label", "read_input", "wire"]

NO_DATA = ("Shape", "Size")
"""Operators that look at a tensor's dimensions only, so that it does not branch there."""


@dataclass(frozen=True)
class Wiring:
    """``nodes`` with their numbers in the file, from 0, in an order of computation; ``readers`` of every tensor's data
    among them by their labels; ``outputs`` of the graph."""

    nodes: tuple[tuple[int, NodeProto], ...]
    readers: dict[str, list[str]]
    outputs: tuple[str, ...]


def label(index: int, node: NodeProto) -> str:
    """A node in messages: "node 3 'name' (Conv)", counted from 1."""
    name = f" {node.name!r}" if node.name else ""
    return f"node {index + 1}{name} ({node.op_type})"


def wire(graph: GraphProto, problems: list[str]) -> Wiring:
    """The nodes behind the outputs. Notes cycles, tensors that nothing or more than one thing makes, and more than one
    output."""
    outputs = tuple(value.name for value in graph.output)
    if len(outputs) != 1:
        listed = ", ".join(map(repr, outputs)) or "none"
        problems.append(
            f"outputs: {listed}; hwgen trains one: export the model with its logits as only output"
        )
    makers: dict[str, int] = {}
    known = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in makers or name in known:
                problems.append(
                    f"{label(index, node)}: {name!r} is made twice; give every tensor its own name"
                )
            makers.setdefault(name, index)
    order = _order(graph, makers, known, outputs, problems)
    nodes = tuple((index, graph.node[index]) for index in order)
    readers: dict[str, list[str]] = {}
    for index, node in nodes:
        if node.op_type not in NO_DATA:
            for name in dict.fromkeys(filter(None, node.input)):
                readers.setdefault(name, []).append(label(index, node))
    if len(outputs) == 1:
        readers.setdefault(outputs[0], []).append(f"output {outputs[0]!r}")
    return Wiring(nodes, readers, outputs)


def read_input(graph: GraphProto, problems: list[str]) -> tuple[str, int | None, Dims | None]:
    """Name, batch (None: any) and dimensions of the one input; dimensions None if they cannot be told."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        listed = ", ".join(repr(value.name) for value in inputs) or "none"
        problems.append(f"inputs: {listed}; hwgen takes one, the images: make the others constants")
        return inputs[0].name if inputs else "", None, None
    batch, dims = _dims(inputs[0], problems)
    return inputs[0].name, batch, dims


def _dims(value: ValueInfoProto, problems: list[str]) -> tuple[int | None, Dims | None]:
    where = f"input {value.name!r}"
    kind = value.type.tensor_type
    types = onnx_module().TensorProto
    if kind.elem_type not in (types.FLOAT, types.FLOAT16, types.DOUBLE, types.BFLOAT16):
        given = (
            types.DataType.Name(kind.elem_type) if kind.elem_type in types.DataType.values() else "no tensor"
        )
        problems.append(f"{where}: {given}; hwgen takes images as real numbers: give a FLOAT input")
    if not kind.HasField("shape"):
        problems.append(f"{where}: no shape; give [N, C, H, W] or [N, features] with all but N fixed")
        return None, None
    given = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    spelt = f"[{', '.join(map(str, given))}]"
    if not 2 <= len(given) <= 4:
        problems.append(f"{where}: {spelt}; hwgen takes [N, C, H, W], [N, H, W] or [N, features]")
        return None, None
    bad = [size for size in given[1:] if not isinstance(size, int) or size < 1]
    if bad:
        names = ", ".join(repr(size) for size in bad)
        problems.append(
            f"{where}: {spelt}: {names} not fixed; hardware is made for one size of image: "
            "give every dimension but the batch a number"
        )
        return None, None
    batch = given[0] if isinstance(given[0], int) and given[0] > 0 else None
    return batch, tuple(int(size) for size in given[1:])


def _order(
    graph: GraphProto, makers: dict[str, int], known: set[str], outputs: Iterable[str], problems: list[str]
) -> list[int]:  # fmt: skip
    """The needed nodes, makers before readers; a cycle is cut where it is noticed."""
    order: list[int] = []
    states: dict[int, bool] = {}  # absent: not seen, False: being looked at, True: done
    for name in outputs:
        if name not in makers and name not in known:
            problems.append(f"output {name!r}: no node makes it; export the model again")
    stack: list[tuple[int, Iterator[str]]] = []

    def enter(name: str, reader: int | None) -> None:
        index = makers.get(name)
        if index is None:
            if name not in known and reader is not None:
                problems.append(
                    f"{label(reader, graph.node[reader])}: reads {name!r}, which nothing makes; "
                    "export the model again"
                )
        elif states.get(index) is False:
            nodes = " → ".join(label(i, graph.node[i]) for i, _ in stack if not states[i])
            problems.append(f"{nodes}: a cycle through {name!r}; a network of hwgen has no loops")
            states[index] = True
        elif index not in states:
            states[index] = False
            stack.append((index, iter([name for name in graph.node[index].input if name])))

    for output in outputs:
        enter(output, None)
        while stack:
            index, rest = stack[-1]
            read = next(rest, None)
            if read is not None:
                enter(read, index)
                continue
            stack.pop()
            states[index] = True
            order.append(index)
    return order
