"""Networks for tests of the reference: the digits network, and random ones with their data."""

import dataclasses
import random

import numpy as np

from hwgen import Model, Q, nn
from hwgen.ir.activation import Activation, slope_of
from hwgen.ir.initial import Parameters
from hwgen.ir.stage import Loss, Network, Stage, Update
from hwgen.ir.window import Window2d

__all__ = ["digits_model", "random_batch", "random_network", "random_parameters"]


def digits_model(**changes):
    layers = [
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    ]
    return Model(input=(8, 8, 1), layers=layers, **changes)


def random_window(rng, height, width, pooling):
    """A window that fits, with at least one output; a pool sees a pixel everywhere."""
    while True:
        kernel = (rng.choice([1, 2, 3]), rng.choice([1, 2, 3, 5]))
        pads = tuple(rng.randrange(min(3, k) if pooling else 3) for k in kernel * 2)
        stride = (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]))
        dilation = (1, 1) if pooling else (rng.randint(1, 2), rng.randint(1, 2))
        window = Window2d(height, width, kernel, stride, pads, dilation)
        if window.out_height > 0 and window.out_width > 0:
            return window


def random_network(seed):
    """One to three stages of any kind, narrow formats with odd binary points, so that much saturates."""
    rng = random.Random(seed)
    width = lambda: rng.choice([4, 6, 8, 12, 16, 18, 24])  # noqa: E731
    point = lambda bits: rng.randint(bits // 2 - 1, bits + 2)  # noqa: E731
    shape = (rng.randint(3, 6), rng.randint(3, 6), rng.choice([1, 2, 4]))
    bits = width()
    x = first = Q(bits, point(bits))
    stages, error = [], None
    for index in range(count := rng.randint(1, 3)):
        last = index == count - 1
        if last and rng.random() < 0.7:
            window, cin, cout, groups = Window2d(1, 1), shape[0] * shape[1] * shape[2], rng.randint(2, 5), 1
        else:
            window = random_window(rng, shape[0], shape[1], pooling=False)
            groups = rng.choice([g for g in (1, 2, 4) if shape[2] % g == 0])
            cin, cout = shape[2], groups * rng.randint(1, 2)
        pool = None
        if window.pixels_out > 1 and rng.random() < 0.6:
            pool = random_window(rng, window.out_height, window.out_width, pooling=True)
        w, y, dy = (Q(b, point(b)) for b in (width(), width(), width()))
        master = Q(w.width + rng.choice([0, 4, 8]), 0)
        stage = Stage(
            name=f"s{index}",
            index=index,
            window=window,
            in_channels=cin,
            out_channels=cout,
            x=x,
            w=w,
            master=dataclasses.replace(master, frac=w.frac + master.width - w.width),
            bias=Q(rng.choice([8, 20, 32]), x.frac + w.frac - rng.randint(0, 5))
            if rng.random() < 0.8
            else None,
            y=y,
            dy=dy,
            dx=error,
            groups=groups,
            activation=random_activation(index, y) if rng.random() < 0.6 else None,
            pool=pool,
            frozen=not last and rng.random() < 0.3,
        )
        stages.append(stage)
        shape, x = stage.out_shape, y
        error = None if stage.frozen and error is None else dy
    lr = Q(rng.choice([4, 8, 16]), rng.randint(2, 12))
    update = Update(
        lr, rng.randint(1, lr.max), 3, 0.1, rng.choice(["nearest", "stochastic"]), rng.randrange(1 << 32)
    )
    classes = int(np.prod(shape))
    return Network("random", first, tuple(stages), Loss(classes, x, stages[-1].dy), update)


def random_activation(index, y):
    """Often ReLU, else another one whose bounds, if any, lie within format ``y``; from a generator of its own."""
    rng = random.Random(repr((index, y)))
    kind = rng.choice(["relu", "relu", "high", "both", "low", "slope"])
    if kind == "slope":
        return Activation(
            None, None, slope_of(rng.choice([0.5, 0.125, 0.01, 0.1, 0.3, rng.random() * 0.98 + 0.01]))
        )
    unit = 2.0**-y.frac
    low = {"both": y.min // 3 * unit, "low": -2 * unit}.get(kind, 0.0)
    high = (y.max // 2 + 1) * unit if kind in ("high", "both") else None
    return Activation(low, high)


def random_parameters(network, rng, extreme=False):
    def draw(q, shape):
        if extreme:
            return rng.choice([q.min, q.max], shape).astype(np.int64)
        return rng.integers(q.min, q.max + 1, shape, dtype=np.int64)

    return Parameters(
        tuple(draw(s.master, s.weight_shape) for s in network.stages),
        tuple(None if s.bias is None else draw(s.bias, s.out_channels) for s in network.stages),
    )


def random_batch(network, rng, samples, extreme=False):
    q, shape = network.input, (samples, *network.in_shape)
    images = rng.choice([q.min, q.max], shape) if extreme else rng.integers(q.min, q.max + 1, shape)
    return images.astype(np.int64), rng.integers(0, network.loss.classes, samples)
