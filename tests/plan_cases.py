"""Small networks with their plans, for the tests of reports, plan files and pictures."""

from dataclasses import replace
from functools import cache

from hwgen import Model, nn
from hwgen.plan.file import PlanFile
from hwgen.plan.propose import propose
from hwgen.target import Cluster, Link
from hwgen.target_files import built_in

__all__ = ["CASES", "chain", "model", "network", "planned", "write_source"]

SOURCE = """
from hwgen import Model, nn
model = Model(
    input=(8, 8, 4),
    layers=[
        nn.Conv2d(4, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 8, 3, padding=1, groups=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(128, 5),
    ],
    optimizer=nn.SGD(lr=0.1, batch=4), name="small",
)
"""


def write_source(folder, text=SOURCE):
    path = folder / "small.py"
    path.write_text(text)
    return path


def model(**pins):
    """The model of SOURCE; ``pins`` by layer: conv1={...}."""
    return Model(
        input=(8, 8, 4),
        layers=[
            nn.Conv2d(4, 12, 3, padding=1, **pins.get("conv1", {})),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 8, 3, padding=1, groups=2, **pins.get("conv2", {})),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128, 5, **pins.get("linear1", {})),
        ],
        optimizer=nn.SGD(lr=0.1, batch=4),
        name="small",
    )


def network(**pins):
    return model(**pins).network(0)


def chain(count, dsp=20, gbps=8.0, **device):
    """Equal boards with few DSPs, so that small networks fill several."""
    base = built_in("vc709")
    small = replace(base, device=replace(base.device, dsp=dsp, **device), name="few")
    return Cluster.chain(small, count, Link(lanes=1, gbps=gbps, latency=20))


CASES = {
    "one": ({}, 1, 60),
    "free": ({}, 3, 24),
    "outputs": ({"conv1": {"split": "output_channels", "device": (0, 1)}}, 3, 40),
    "inputs": ({"conv1": {"split": "input_channels", "shares": (1, 3), "device": (0, 1)}}, 3, 40),
    "groups": ({"conv2": {"split": "groups", "device": (1, 2)}}, 3, 40),
    "rows": ({"conv1": {"split": "rows", "device": (0, 1)}}, 3, 40),
    "linear": ({"linear1": {"split": "input_channels", "device": (1, 2, 3)}}, 4, 40),
}
"""(pins, boards, DSPs a board) by name."""


@cache
def planned(name) -> tuple[object, Cluster, PlanFile]:
    pins, boards, dsp = CASES[name]
    made, cluster = network(**pins), chain(boards, dsp)
    return made, cluster, propose(made, cluster).plan
