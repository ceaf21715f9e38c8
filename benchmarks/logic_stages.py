"""Stages whose engines the estimate of logic is fitted to: the second of three layers, kept small."""

from __future__ import annotations

from typing import Any

from hwgen import Formats, Model, nn
from hwgen.plan.plan import Plan
from hwgen.plan.planner import plan_network

__all__ = ["STAGES", "plan_of"]

# Kernel, channels in and out, side of the map, (u, pc, Pn, b), and what else is special.
Case = tuple[int, int, int, int, tuple[int, int, int, int], dict[str, Any]]
STAGES: tuple[Case, ...] = (
    (3, 4, 4, 8, (3, 1, 2, 2), {"pool": 2}),
    (3, 4, 4, 8, (9, 1, 1, 1), {"width": 8}),
    (3, 4, 8, 12, (1, 2, 4, 4), {"width": 8, "pool": 2}),
    (1, 16, 16, 6, (1, 4, 4, 4), {}),
    (3, 6, 6, 11, (3, 2, 1, 1), {"stride": 2, "width": 8, "activation": "hard"}),
    (5, 2, 4, 12, (5, 1, 2, 2), {"width": 12, "activation": "none"}),
    (1, 32, 16, 1, (1, 4, 4, 1), {}),
    (1, 64, 8, 1, (1, 8, 1, 1), {"width": 8, "activation": "leaky"}),
    (3, 3, 16, 24, (3, 3, 2, 4), {"first": True, "pool": 2, "width": 8}),
    (3, 8, 8, 10, (1, 4, 2, 4), {"groups": 2, "width": 8}),
    (3, 4, 4, 9, (1, 1, 1, 3), {"width": 18, "pool": 3}),
    (3, 8, 8, 28, (1, 2, 2, 4), {"width": 8, "bias": False, "batch": 64}),
    (1, 12, 10, 1, (1, 3, 2, 1), {"bias": False}),
    (3, 16, 16, 16, (3, 2, 4, 8), {"width": 8, "activation": "leaky", "pool": 2}),
    (3, 2, 4, 8, (3, 1, 2, 2), {"first": True, "width": 8}),
    (1, 8, 6, 1, (1, 2, 2, 1), {"bias": False, "width": 8}),
    (3, 2, 6, 6, (1, 1, 2, 2), {"bias": False, "width": 8, "activation": "none", "first": True}),
)
ACTIVATIONS = {"relu": nn.ReLU, "hard": nn.ReLU6, "leaky": nn.LeakyReLU}


def _layers(case: Case) -> tuple[list[Any], tuple[int, ...]]:
    """Layers up to the one under test and what is fused behind it, and the shape that they take."""
    kernel, before, after, side, (u, pc, pn, b), special = case
    options = {"u": u, "pc": pc, "pn": pn, "b": b, "bias": special.get("bias", True)}
    first, activation = special.get("first", False), special.get("activation", "relu")
    if side == 1:
        layers: list[Any] = [
            nn.Linear(4, before, array=(1, 1)),
            nn.ReLU(),
            nn.Linear(before, after, **options),
        ]
        shape: tuple[int, ...] = (4,)
    else:
        layers = [] if first else [nn.Conv2d(1, before, 1, array=(1, 1)), nn.ReLU()]
        stride, groups = special.get("stride", 1), special.get("groups", 1)
        layers.append(nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, **options))
        shape = (side, side, before if first else 1)
    if activation != "none":
        layers.append(ACTIVATIONS[activation]())
    return layers, shape


def plan_of(case: Case) -> tuple[Plan, int]:
    """The plan of a case's network, and the number of its stage under test."""
    _, _, after, side, _, special = case
    layers, shape = _layers(case)
    rest = after
    if side > 1:
        high = -(-side // special.get("stride", 1))
        if pool := special.get("pool"):
            layers.append(nn.MaxPool2d(pool, 2, padding=1 if pool == 3 else 0))
            high = (high + 1) // 2 if pool == 3 else high // 2
        layers.append(nn.Flatten())
        rest = high * high * after
    layers.append(nn.Linear(rest, 2, array=(1, 1)))
    width = special.get("width", 16)
    formats = Formats(activation=width, weight=width, error=width, master=min(32, 2 * width))
    optimizer = nn.SGD(batch=special.get("batch", 8))
    network = Model(input=shape, layers=layers, optimizer=optimizer, formats=formats).network()
    return plan_network(network), 0 if special.get("first") else 1
