"""Passes from graph to graph, run in one visible order."""

from .pipeline import PIPELINE, lower, prepare

__all__ = ["PIPELINE", "lower", "prepare"]
