"""Fusion: a layer with weights and the ReLU and max-pool behind it become one node, one stage of hardware.

A stage computes ReLU, then pool. A model with the pool first is the same function with the same gradients
(the maximum of a window passes ReLU exactly if it is positive, and ties are at 0, where ReLU's gradient is
0), so the order does not matter; nor does a second ReLU. Flatten moves no data and vanishes.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, Node

__all__ = ["fuse", "fusion_problems"]

_KIND = {"relu": "ReLU", "pool": "MaxPool2d"}


def fusion_problems(graph: Graph) -> list[str]:
    """What cannot be fused, each ``where: what; what to do``."""
    problems: list[str] = []
    started = False
    pool: str | None = None
    for node in graph.nodes:
        if node.slot in ("matrix", "unknown"):
            started, pool = True, None
        elif node.slot in ("relu", "pool") and not started:
            problems.append(
                f"{node.name}: {_KIND[node.slot]} stands before any layer with weights; "
                "put nn.Conv2d or nn.Linear before it, or apply it to the data"
            )
        elif node.slot == "pool":
            if pool is not None:
                problems.append(
                    f"{node.name}: a second pool behind {pool} in one stage; "
                    "use one pool with a larger kernel, or put nn.Conv2d between them"
                )
            pool = node.name
    last = graph.nodes[-2].shape if len(graph.nodes) > 1 and graph.nodes[-1].slot == "loss" else None
    image = _logit_image(graph)
    if last is not None and image is not None and image[:2] != (1, 1):
        problems.append(
            f"loss: its logits come from a map of {image[0]}×{image[1]} pixels; "
            "end with nn.Linear, or with a convolution or pool that leaves 1×1"
        )
    return problems


def _logit_image(graph: Graph) -> tuple[int, ...] | None:
    """(H, W, C) of the last image if only Flatten and ReLU stand between it and the loss."""
    for node in reversed(graph.nodes[:-1]):
        if node.shape is None or (node.slot == "matrix" and len(node.shape) == 1):
            return None
        if len(node.shape) == 3:
            # an image straight into the loss is a shape problem, reported there
            return None if node is graph.nodes[-2] else node.shape
    return None


def fuse(graph: Graph) -> Graph:
    """One node a stage (matrix operation, ``relu``, ``pool``), then the loss."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.slot in ("matrix", "loss"):
            before = nodes[-1].name if nodes else graph.input
            nodes.append(replace(node, input=before, conv_shape=node.shape))
        elif node.slot == "relu":
            nodes[-1] = replace(nodes[-1], relu=True)
        elif node.slot == "pool":
            nodes[-1] = replace(nodes[-1], pool=node.op, shape=node.shape)
    return replace(graph, nodes=tuple(nodes))
