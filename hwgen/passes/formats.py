"""Number formats: every stage's tensors get one, from the layer if it says so and else from its role."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ModelError
from ..ir.formats import LayerFormats
from ..ir.graph import Graph, Node

__all__ = ["assign_formats"]


def assign_formats(graph: Graph) -> Graph:
    """A fused graph in which each stage's ``formats`` are complete (``bias`` stays None without a bias).

    Raises ModelError if a bias is finer than the sums it is added to.
    """
    problems: list[str] = []
    nodes: list[Node] = []
    x = graph.formats.input_format()
    for node in graph.nodes:
        if node.slot == "loss":
            nodes.append(node)
            continue
        roles = graph.formats
        w = node.formats.w or roles.weight_format()
        y = node.formats.y or roles.activation_format()
        dy = node.formats.dy or roles.error_format()
        bias = None
        if node.op.bias:  # type: ignore[union-attr]
            bias = node.formats.bias or roles.bias_format(x.frac + w.frac)
            if bias.frac > x.frac + w.frac:
                problems.append(
                    f"{node.name}: bias = {bias} is finer than the sums it is added to, {x.frac + w.frac} "
                    f"fractional bits; give frac of at most {x.frac + w.frac}"
                )
        nodes.append(replace(node, formats=LayerFormats(w, y, dy, bias)))
        x = y
    if problems:
        raise ModelError(problems)
    return replace(graph, nodes=tuple(nodes))
