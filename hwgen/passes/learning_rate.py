"""The learning rate as the update uses it: learning rate / batch as an integer of ``Formats.lr`` bits."""

from __future__ import annotations

from ..ir.formats import lr_format
from ..ir.graph import Graph
from ..numeric import Q

__all__ = ["MAX_BATCH", "learning_rate", "learning_rate_problems"]

MAX_BATCH = 1 << 16
"""Samples of one update; sums over more would not fit their words either."""


def learning_rate(graph: Graph) -> tuple[Q, int]:
    """The format of learning rate / batch and the integer that stands for it (0: it underflows)."""
    step = graph.optimizer.lr / graph.optimizer.batch
    return lr_format(graph.formats.lr, step) if step > 0 else (Q(graph.formats.lr, 0), 0)


def learning_rate_problems(graph: Graph) -> list[str]:
    """What is wrong with the learning rate and the batch, each "where: what; what to do"."""
    rule = graph.optimizer
    if rule.batch > MAX_BATCH:
        return [f"optimizer: batch = {rule.batch}; give at most {MAX_BATCH}"]
    lr, rate = learning_rate(graph)
    if rate == 0:
        return [
            f"optimizer: lr / batch = {rule.lr:g} / {rule.batch} underflows its format {lr}; "
            "give a larger lr, a smaller batch or more lr bits"
        ]
    if rate > lr.max:
        return [
            f"optimizer: lr / batch = {rule.lr:g} / {rule.batch} exceeds its format {lr}, "
            f"at most {lr.to_float(lr.max):g}; give a smaller lr"
        ]
    return []
