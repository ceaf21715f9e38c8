"""Lowering: a fused graph with formats becomes the Network that reference, planner and gateware share."""

from __future__ import annotations

import re

from ..errors import ModelError
from ..ir.activation import activation_of
from ..ir.graph import Graph, Node
from ..ir.ops import Conv2d, Linear, MaxPool2d
from ..ir.stage import Loss, Network, Stage, Update
from ..ir.window import Window2d
from ..numeric import Q
from .learning_rate import learning_rate

__all__ = ["MAX_CLASSES", "MAX_SUM_BITS", "lower_graph"]

MAX_SUM_BITS = 62
"""Sums stay in 64-bit words with room for one rounding."""
MAX_CLASSES = 1 << 16
"""Labels travel in 16 bits."""


def lower_graph(graph: Graph, seed: int = 0) -> Network:
    """The network of a graph that has been through every pass.

    Raises ModelError naming every sum that does not fit by type, and every format that its sums miss
    altogether.
    """
    stages: list[Stage] = []
    x = graph.formats.input_format()
    error: Q | None = None  # format of dx: None until an earlier stage trains
    for index, node in enumerate(graph.nodes[:-1]):
        stages.append(_stage(graph, node, index, x, error))
        x = stages[-1].y
        error = None if error is None and node.frozen else stages[-1].dy
    last = stages[-1]
    (classes,) = graph.nodes[-1].shape or (0,)
    problems = [problem for stage in stages for problem in _sum_problems(stage, graph.optimizer.batch)]
    problems += [problem for stage in stages for problem in _point_problems(stage)]
    if classes > MAX_CLASSES:
        problems.append(f"loss: {classes} classes; at most {MAX_CLASSES} fit a label's 16 bits")
    if problems:
        raise ModelError(problems)
    lr, rate = learning_rate(graph)
    rule = graph.optimizer
    update = Update(lr, rate, rule.batch, rule.lr, graph.formats.rounding, seed & 0xFFFFFFFF)
    name = re.sub(r"[^A-Za-z0-9_]", "_", graph.name)
    loss = Loss(classes, last.y, last.dy)
    return Network(name, graph.formats.input_format(), tuple(stages), loss, update)


def _stage(graph: Graph, node: Node, index: int, x: Q, dx: Q | None) -> Stage:
    op, shape = node.op, node.conv_shape
    assert shape is not None
    if isinstance(op, Conv2d):
        before = _image_before(graph, node)
        window, channels, groups = (
            op.window(before[0], before[1]),
            (op.in_channels, op.out_channels),
            op.groups,
        )
    else:
        assert isinstance(op, Linear)
        window, channels, groups = Window2d(1, 1), (op.in_features, op.out_features), 1
    pool = node.pool
    formats = node.formats
    assert formats.w is not None
    assert formats.y is not None
    assert formats.dy is not None
    return Stage(
        name=node.name,
        index=index,
        window=window,
        in_channels=channels[0],
        out_channels=channels[1],
        x=x,
        w=formats.w,
        master=graph.formats.master_format(formats.w),
        bias=formats.bias,
        y=formats.y,
        dy=formats.dy,
        dx=dx,
        groups=groups,
        activation=activation_of(node.activation),
        pool=pool.window(shape[0], shape[1]) if isinstance(pool, MaxPool2d) else None,
        frozen=node.frozen,
        array=node.array,
        wish=node.wish,
        place=node.place,
    )


def _image_before(graph: Graph, node: Node) -> tuple[int, ...]:
    shape = graph.shape(node.input)
    assert shape is not None
    assert len(shape) == 3
    return shape


def _point_problems(stage: Stage) -> list[str]:
    sums = [("y", stage.acc_bits, stage.acc_frac, stage.y)]
    if stage.dx is not None:
        sums.append(("dx (dy of the layer before)", stage.col_bits, stage.back_frac, stage.dx))
    found = []
    if stage.activation is not None and (problem := stage.activation.problem(stage.y)) is not None:
        found.append(f"{stage.name}: {problem}")
    for role, bits, frac, to in sums:
        shift = frac - to.frac
        if shift >= bits:
            found.append(
                f"{stage.name}: {role} = {to} is too coarse: all its sums, {bits} bits with {frac} "
                f"fractional ones, round to 0; give frac above {frac - bits}"
            )
        elif bits - shift > MAX_SUM_BITS:
            found.append(
                f"{stage.name}: {role} = {to} is too fine for its sums, {bits} bits with {frac} fractional "
                f"ones; give frac of at most {MAX_SUM_BITS - bits + frac}"
            )
    return found


def _sum_problems(stage: Stage, batch: int) -> list[str]:
    products = f"{stage.K} products of {stage.x.width} × {stage.w.width} bits"
    sums = [("forward sums", stage.acc_bits, products)]
    if stage.dx is not None:
        products = f"{stage.N * stage.window.positions} products of {stage.dy.width} × {stage.w.width} bits"
        sums.append(("backward sums", stage.col_bits, products))
    if not stage.frozen:
        terms = f"{stage.M} pixels × {batch} samples of {stage.x.width} × {stage.dy.width} bits"
        sums.append(("weight gradients", stage.grad_bits(batch), terms))
    return [
        f"{stage.name}: its {what} need {bits} bits ({terms}), at most {MAX_SUM_BITS} fit; "
        "give narrower formats"
        for what, bits, terms in sums
        if bits > MAX_SUM_BITS
    ]
