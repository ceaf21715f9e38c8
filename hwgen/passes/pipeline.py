"""The one list of passes between a front end and the lowered network."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph
from ..ir.stage import Network
from .checks import check
from .formats import assign_formats
from .fusion import fuse
from .lowering import lower_graph
from .shapes import infer_shapes

__all__ = ["PIPELINE", "lower", "prepare"]

PIPELINE: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("shapes", infer_shapes),
    ("checks", check),  # needs the shapes; what follows relies on a correct model
    ("fusion", fuse),
    ("formats", assign_formats),  # after fusion: a format belongs to a stage's tensor
)


def prepare(graph: Graph) -> Graph:
    """The graph after every pass, fused and with all formats. Raises ModelError holding every mistake."""
    fused = False
    for name, transform in PIPELINE:
        graph = transform(graph)
        fused = fused or name == "fusion"
        if name != "shapes":  # a graph with mistakes may have names twice; checks has refused it
            graph.verify(name, fused=fused)
    return graph


def lower(graph: Graph, seed: int = 0) -> Network:
    """The network that reference, planner and gateware share; ``seed`` drives stochastic rounding.

    Raises ModelError holding every mistake of the model, one a line.
    """
    return lower_graph(prepare(graph), seed)
