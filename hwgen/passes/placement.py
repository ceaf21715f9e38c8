"""The boards that a model names for its layers: what can be judged before the chain is known."""

from __future__ import annotations

from ..ir.graph import Graph

__all__ = ["placement_problems"]


def placement_problems(graph: Graph) -> list[str]:
    """Layers on boards out of their order, each ``where: what; what to do``."""
    problems: list[str] = []
    board, holder = 0, ""
    for node in graph.nodes:
        device = node.place.device
        if device is None:
            continue
        if device[0] < board:
            problems.append(
                f"{node.name}: device = {device[0]} lies before board {board}, which has {holder}; "
                f"boards follow the order of layers, so give {board} or more"
            )
        elif device[-1] > board or not holder:
            board, holder = device[-1], node.name
    return problems
