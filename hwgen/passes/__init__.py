"""Passes from graph to graph, run in one visible order."""

__all__: list[str] = []
