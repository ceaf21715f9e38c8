"""Seeded random networks and small boards: layers, ways to cut them and sizes drawn, the plan left to the planner."""

from __future__ import annotations

import random
from dataclasses import replace

from hwgen import Model, nn
from hwgen.ir.stage import Network
from hwgen.target import Cluster, Fill, Link
from hwgen.target_files import built_in

__all__ = ["random_chain", "random_model", "small_boards"]

BATCH = 16
LINK = Link(lanes=1, gbps=10.3125, latency=40)


def random_model(seed: int) -> Model:
    """Two or three convolutions and a classifier; every convolution may only be cut along an axis that is drawn."""
    rng = random.Random(seed)
    height, width, channels = rng.choice([6, 8, 9]), rng.choice([4, 6]), rng.choice([1, 2, 4])
    shape, layers = (height, width, channels), []
    for _ in range(rng.randint(2, 3)):
        groups = rng.choice([1, 1, 2]) if channels % 2 == 0 else 1
        outputs = groups * rng.randint(2, 6)
        kernel, stride = rng.choice([1, 3, 3]), rng.choice([1, 1, 2])
        axes = ["output_channels", "rows", *(["groups"] if groups > 1 else ["input_channels"])]
        layers.append(
            nn.Conv2d(
                channels, outputs, kernel, stride, padding=kernel // 2, groups=groups, split=rng.choice(axes)
            )
        )
        layers.append(nn.ReLU())
        channels = outputs
        height, width = ((size - 1) // stride + 1 for size in (height, width))
        if min(height, width) > 2 and rng.random() < 0.6:
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
    layers += [nn.Flatten(), nn.Linear(height * width * channels, rng.randint(2, 4))]
    return Model(
        input=shape, layers=layers, loss=nn.SoftmaxCrossEntropy(), optimizer=nn.SGD(lr=0.1, batch=BATCH),
        name=f"random_{seed}",
    )  # fmt: skip


def small_boards(count: int, dsp: int) -> Cluster:
    """VC709 boards with few multipliers, so that small networks fill several."""
    base = built_in("vc709")
    few = replace(base, name="few", device=replace(base.device, dsp=dsp), fill=Fill(1.0, 1.0, 1.0, 1.0, 1.0))
    return Cluster.chain(few, count, LINK)


def random_chain(seed: int) -> tuple[Network, Cluster]:
    """A random network, and two to four boards for it."""
    rng = random.Random(seed ^ 0x5EED)
    return random_model(seed).network(seed), small_boards(rng.randint(2, 4), rng.randint(12, 40))
