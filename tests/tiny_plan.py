"""A small plan written by hand, for tests that want no planner."""

from dataclasses import replace

from hwgen.ir.activation import Activation
from hwgen.ir.stage import Loss, Network, Stage, Update
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.fold import Folding
from hwgen.plan.plan import Depths, Plan, Prediction, StagePlan

__all__ = ["tiny_plan"]


def tiny_plan(batch=3, steady=(0, 2), frozen=False):
    """A convolution in two groups with ReLU and pool, and a linear layer; foldings leave padding everywhere.

    ``frozen``: the convolution does not train and has no backward pass, and the linear layer has no bias.
    """
    data, weight, master, bias, error = Q(8, 6), Q(8, 6), Q(16, 14), Q(16, 10), Q(8, 8)
    window = Window2d(5, 4, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1))
    pool = Window2d(4, 3, (2, 2), (2, 1), (0, 0, 0, 0), (1, 1))
    conv = Stage(
        "conv", 0, window, 4, 6, data, weight, master, bias, data, error, error, groups=2, activation=Activation(),
        pool=pool,
    )  # fmt: skip
    flat = Window2d(1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    if frozen:
        conv = replace(conv, frozen=True, dx=None)
    linear = Stage("linear", 1, flat, 24, 5, data, weight, master, bias, data, error, error)
    if frozen:
        linear = replace(linear, bias=None)
    lr = Q(16, 16)
    network = Network(
        "tiny", data, (conv, linear), Loss(5, data, error), Update(lr, 3000, batch, 0.1 * batch),
    )  # fmt: skip
    plans = (
        StagePlan(conv, Folding(2, 2, 2, 2), (2, 2), Depths(3, 10, 4, 3, 3, 40, 40)),
        StagePlan(linear, Folding(1, 7, 3, 1), (7, 3), Depths(1, 2, 1, 0, 0, 0, 0)),
    )
    return Plan(network, plans, 3, Prediction(30.0, 120.0, 0.5, "conv", 40, steady))
