"""Every mistake of a model, found together."""

from __future__ import annotations

from ..errors import ModelError
from ..ir.formats import layer_format_problems
from ..ir.graph import Graph
from ..ir.ops import Unknown
from .fusion import fusion_problems
from .learning_rate import learning_rate_problems
from .placement import placement_problems

__all__ = ["check"]


def check(graph: Graph) -> Graph:
    """The graph unchanged. Raises ModelError with each mistake as ``where: what; what to do``."""
    problems = list(graph.problems)
    for node in graph.nodes:
        problems += [f"{node.name}: {problem}" for problem in node.problems]
        problems += layer_format_problems(node.name, node.formats, graph.formats.master)
    problems += fusion_problems(graph)
    problems += placement_problems(graph)
    format_problems = graph.formats.problems()
    problems += format_problems or learning_rate_problems(graph)
    weighted = [node for node in graph.nodes if node.slot == "matrix"]
    unknown = any(isinstance(node.op, Unknown) for node in graph.nodes)
    if len(graph.nodes) > 1 and not weighted and not unknown:
        problems.append("layers: none has weights; give at least one nn.Conv2d or nn.Linear")
    if weighted and all(node.frozen for node in weighted) and not unknown:
        problems.append("layers: every layer is frozen, so nothing trains; drop frozen=True from one")
    if problems:
        raise ModelError(problems)
    return graph
