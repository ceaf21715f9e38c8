"""Fusion: a layer with weights and the activation and max-pool behind it become one node, one stage of hardware.

A stage computes the activation, then the pool. A model with the pool first is the same function with the same
gradients if the activation stays at its bounds (the maximum of a window passes exactly if it is between them, and ties
that the activation makes are at a bound, where its gradient is 0); LeakyReLU makes other ties, as it rounds. A second
ReLU does nothing. Flatten moves no data and vanishes.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, Node
from ..ir.ops import LeakyReLU, ReLU

__all__ = ["fuse", "fusion_problems"]


def fusion_problems(graph: Graph) -> list[str]:
    """What cannot be fused, each ``where: what; what to do``."""
    problems: list[str] = []
    started = False
    pool: str | None = None
    activation: Node | None = None
    for node in graph.nodes:
        if node.slot in ("matrix", "unknown"):
            started, pool, activation = True, None, None
        elif node.slot in ("activation", "pool") and not started:
            problems.append(
                f"{node.name}: {type(node.op).__name__} stands before any layer with weights; "
                "put nn.Conv2d or nn.Linear before it, or apply it to the data"
            )
        elif node.slot == "pool":
            if pool is not None:
                problems.append(
                    f"{node.name}: a second pool behind {pool} in one stage; "
                    "use one pool with a larger kernel, or put nn.Conv2d between them"
                )
            pool = node.name
        elif node.slot == "activation":
            if isinstance(node.op, LeakyReLU) and pool is not None:
                problems.append(
                    f"{node.name}: LeakyReLU stands behind {pool}; put it before the pool, where it gives the same "
                    "values, but for the choice among those that round to the same"
                )
            if activation is not None and not (type(node.op) is type(activation.op) is ReLU):
                problems.append(
                    f"{node.name}: a second activation behind {activation.name} in one stage; "
                    "keep one of them, or put a layer with weights between them"
                )
            activation = node
    last = graph.nodes[-2].shape if len(graph.nodes) > 1 and graph.nodes[-1].slot == "loss" else None
    image = _logit_image(graph)
    if last is not None and image is not None and image[:2] != (1, 1):
        problems.append(
            f"loss: its logits come from a map of {image[0]}×{image[1]} pixels; "
            "end with nn.Linear, or with a convolution or pool that leaves 1×1"
        )
    return problems


def _logit_image(graph: Graph) -> tuple[int, ...] | None:
    """(H, W, C) of the last image if only Flatten and activations stand between it and the loss."""
    for node in reversed(graph.nodes[:-1]):
        if node.shape is None or (node.slot == "matrix" and len(node.shape) == 1):
            return None
        if len(node.shape) == 3:
            # an image straight into the loss is a shape problem, reported there
            return None if node is graph.nodes[-2] else node.shape
    return None


def fuse(graph: Graph) -> Graph:
    """One node a stage (matrix operation, ``activation``, ``pool``), then the loss."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.slot in ("matrix", "loss"):
            before = nodes[-1].name if nodes else graph.input
            nodes.append(replace(node, input=before, conv_shape=node.shape))
        elif node.slot == "activation":
            nodes[-1] = replace(nodes[-1], activation=node.op)
        elif node.slot == "pool":
            nodes[-1] = replace(nodes[-1], pool=node.op, shape=node.shape)
    return replace(graph, nodes=tuple(nodes))
