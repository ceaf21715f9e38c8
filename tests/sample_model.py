"""A model file small enough to build in every test, and a plan for its network made by hand."""

import textwrap

from hwgen.plan.fold import Folding
from hwgen.plan.plan import Depths, Plan, Prediction, StagePlan

SOURCE = textwrap.dedent("""
    from hwgen import Model, nn

    model = Model(
        input=(4, 4, 1),
        layers=[
            nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(8, 3),
        ],
        optimizer=nn.SGD(lr=0.1, batch=2),
    )
""")


def hand_plan(network, cluster=None):
    """A plan with every kind of field: the numbers are plausible, not tuned."""
    stages = tuple(
        StagePlan(stage, Folding(stage.window.positions, 1, 1), (1, 1), Depths(2, 4, 3, 2, 2, 8, 8))
        for stage in network.stages
    )
    return Plan(network, stages, 1, Prediction(32.0, 100.25, 0.1 + 0.2, "conv1 forward", 77, (1, 1)))


def write_model(directory, text=SOURCE):
    path = directory / "model.py"
    path.write_text(text)
    return path
