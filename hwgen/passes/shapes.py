"""Shape inference along the chain."""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, Node
from ..ir.ops import OPS, Shape

__all__ = ["infer_shapes"]


def infer_shapes(graph: Graph) -> Graph:
    """Give every node its output's shape and note what does not fit, up to the first unknown shape."""
    shape: Shape | None = graph.input_shape or None
    nodes: list[Node] = []
    for node in graph.nodes:
        found: list[str] = []
        if shape is not None:
            shape, found = OPS[type(node.op)].infer(node.op, shape)
        if node.vague:
            shape = None
        nodes.append(replace(node, shape=shape, problems=(*node.problems, *found)))
    return replace(graph, nodes=tuple(nodes))
