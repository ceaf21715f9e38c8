"""Number formats: every stage's tensors get one, from the layer if it says so and else from its role."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ModelError
from ..ir.formats import LayerFormats
from ..ir.graph import Graph, Node
from ..numeric import Q

__all__ = ["assign_formats"]


def assign_formats(graph: Graph) -> Graph:
    """A fused graph in which each stage's ``formats`` are complete (``bias`` stays None without a bias).

    Raises ModelError if a layer's weight is wider than its master or its bias does not fit its sums.
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
            problems += _bias_problems(node.name, bias, x.frac + w.frac)
        if w.width > roles.master:
            problems.append(
                f"{node.name}: w = {w} is wider than its master of {roles.master} bits; "
                f"give Formats(master={w.width}) or more"
            )
        nodes.append(replace(node, formats=LayerFormats(w, y, dy, bias)))
        x = y
    if problems:
        raise ModelError(problems)
    return replace(graph, nodes=tuple(nodes))


def _bias_problems(name: str, bias: Q, acc_frac: int) -> list[str]:
    found = []
    if not 8 <= bias.width <= 48:
        found.append(f"{name}: bias = {bias}; give 8..48 bits")
    if bias.frac > acc_frac:
        found.append(
            f"{name}: bias = {bias} is finer than the sums it is added to, {acc_frac} fractional bits; "
            f"give frac of at most {acc_frac}"
        )
    return found
