"""Whole networks in numpy: against a slow second statement, PyTorch, and at every extreme."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from ref_networks import digits_model, random_batch, random_network, random_parameters
from slow_network import SlowNetwork

from hwgen import Formats, Model, Q, nn
from hwgen.data import random_dataset
from hwgen.errors import DataError
from hwgen.ir.initial import Parameters
from hwgen.ref.executor import COUNTS, Reference
from hwgen.ref.update import requantise_sums, step_values

SEEDS = 200


def same(got, want, where):
    assert (got is None) == (want is None), where
    if want is not None:
        assert got.dtype == np.int64, where
        assert got.shape == np.shape(want), where
        assert np.array_equal(got, want), where


def compare(trace, slow, network, where):
    same(trace.dz, slow.dz, (where, "dz"))
    same(trace.losses, slow.losses, (where, "losses"))
    for name in ("y", "dy", "dx", "dw", "db"):
        for i, (got, want) in enumerate(zip(getattr(trace, name), getattr(slow, name), strict=True)):
            same(got, want, (where, name, i))
    assert [dict(counts) for counts in trace.saturated] == slow.saturated, where


def run_against_slow(network, rng, extreme=False, batches=2, rate=None):
    parameters = random_parameters(network, rng, extreme)
    fast, slow = Reference(network, parameters), SlowNetwork(network, parameters)
    for step in range(batches):
        images, labels = random_batch(network, rng, network.update.batch - step % 2, extreme)
        trace = fast.train_batch(images, labels, rate)
        compare(trace, slow.train_batch(images, labels, rate), network, step)
        assert trace.parameters is fast.parameters
        assert fast.step == slow.step == step + 1
        for i in range(len(network.stages)):
            same(fast.parameters.weights[i], slow.weights[i], (step, "weights", i))
            same(fast.parameters.biases[i], slow.biases[i], (step, "biases", i))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_networks(seed):
    run_against_slow(random_network(seed), np.random.default_rng(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_many_random_networks(seed):
    run_against_slow(random_network(seed), np.random.default_rng(seed), extreme=seed % 4 == 0)


def test_the_random_networks_cover_what_they_should():
    networks = [random_network(seed) for seed in range(SEEDS)]
    stages = [s for network in networks for s in network.stages]
    assert {s.groups for s in stages} >= {1, 2, 4}
    for feature in ("activation", "frozen", "pool", "bias", "dx"):
        assert {bool(getattr(s, feature)) for s in stages} == {False, True}, feature
    forms = [s.activation for s in stages if s.activation is not None]
    assert {(f.slope is not None, f.low is not None, f.high is not None) for f in forms} == {
        (True, False, False), (False, True, False), (False, True, True),
    }  # fmt: skip
    assert any(s.frozen and s.dx for s in stages)
    assert any(s.frozen and not s.dx for s in stages)
    assert any(s.pool and s.pool.stride < s.pool.kernel for s in stages)
    assert {network.update.rounding for network in networks} == {"nearest", "stochastic"}
    totals = dict.fromkeys(COUNTS, 0)
    for seed, network in enumerate(networks):
        rng = np.random.default_rng(seed)
        trace = Reference(network, random_parameters(network, rng)).train_batch(
            *random_batch(network, rng, 3)
        )
        for counts in trace.saturated:
            totals = {name: totals[name] + counts[name] for name in COUNTS}
    assert min(totals.values()) > 0, totals


@pytest.mark.parametrize("width", [4, 16, 24])
@pytest.mark.parametrize("seed", range(4))
def test_extremes_of_every_operand(width, seed):
    """All images, masters and biases at the ends of their formats, overlapping pools."""
    formats = Formats(activation=width, weight=width, master=max(width, 28), error=width, lr=width)
    layers = [
        nn.Conv2d(2, 4, 3, padding=(1, 2, 1, 0), groups=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=1, padding=1),
        nn.Conv2d(4, 3, 2, stride=2),
        nn.Flatten(),
        nn.Linear(12, 3),
    ]
    model = Model(input=(5, 4, 2), layers=layers, formats=formats, optimizer=nn.SGD(lr=1.0, batch=2))
    run_against_slow(model.network(), np.random.default_rng(seed), extreme=True)


def test_full_fan_in_at_the_extremes():
    formats = Formats(activation=24, weight=24, master=24, error=24)
    layers = [nn.Conv2d(40, 30, 3, padding=1), nn.Flatten(), nn.Linear(30 * 12, 4)]
    network = Model(input=(3, 4, 40), layers=layers, formats=formats, optimizer=nn.SGD(batch=4)).network()
    least = Parameters(
        tuple(np.full(s.weight_shape, s.master.min) for s in network.stages),
        tuple(np.full(s.out_channels, s.bias.min) for s in network.stages),
    )
    images = np.full((4, 3, 4, 40), network.input.min)
    trace = Reference(network, least).train_batch(images, [0, 1, 2, 3])
    assert (trace.y[0] == network.stages[0].y.max).all()
    assert (trace.y[1] == network.stages[1].y.min).all()
    assert trace.saturated[0]["y"] == 4 * 12 * 30
    assert (
        trace.dw[1].astype(object).sum()
        == trace.y[0].astype(object).sum() // (4 * 360) * 360 * trace.dz.sum()
    )


def test_each_pass_is_autograd_on_its_own_operands():
    """The digits network in float64: exact sums from the trace's x, w and dy, rounded by Python."""
    model = digits_model()
    network = model.network()
    reference = Reference(network, model.parameters(network))
    data = random_dataset(network, 16, seed=3)
    before = reference.parameters
    trace = reference.train_batch(data.train_images, data.train_labels)
    x = data.train_images
    for i, stage in enumerate(network.stages):
        x = x.reshape(16, *stage.in_shape)
        w = before.weights[i] >> (stage.master.width - stage.w.width)
        leaves = [
            torch.tensor(np.ascontiguousarray(value, dtype=float), requires_grad=True)
            for value in (x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1))
        ]
        sums = torch.nn.functional.conv2d(*leaves, padding=stage.window.pads[:2])
        error = np.ascontiguousarray(trace.dy[i].transpose(0, 3, 1, 2), dtype=float)
        sums.backward(torch.tensor(error))
        acc = sums.detach().numpy() + (before.biases[i] << (stage.acc_frac - stage.bias.frac))[:, None, None]
        y = torch.tensor(
            np.clip(np.rint(np.ldexp(acc, stage.y.frac - stage.acc_frac)), stage.y.min, stage.y.max)
        )
        if stage.activation is not None:
            y = torch.nn.functional.max_pool2d(y.clamp(min=0), 2)
        assert np.array_equal(y.numpy().transpose(0, 2, 3, 1), trace.y[i])
        assert np.array_equal(leaves[1].grad.numpy().transpose(2, 3, 1, 0), trace.dw[i])
        assert np.array_equal(trace.dy[i].sum(axis=(0, 1, 2)), trace.db[i])
        if i:
            dx = np.ldexp(leaves[0].grad.numpy(), stage.dx.frac - stage.back_frac).transpose(0, 2, 3, 1)
            assert np.array_equal(np.clip(np.rint(dx), stage.dx.min, stage.dx.max), trace.dx[i])
        x = trace.y[i]
    assert trace.dx[0] is None


def test_forward_is_the_forward_of_training():
    model = digits_model()
    network = model.network()
    reference = Reference(network, model.parameters(network))
    data = random_dataset(network, 16)
    forward = reference.forward(data.train_images)
    assert reference.step == 0
    trace = reference.train_batch(data.train_images, data.train_labels)
    assert all(np.array_equal(a, b) for a, b in zip(forward.y, trace.y, strict=True))
    assert np.array_equal(forward.predictions, trace.predictions)
    assert [y.shape for y in forward.y] == [(16, *s.out_shape) for s in network.stages]


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_rate_zero_repeats_itself(rounding):
    model = digits_model(formats=Formats(rounding=rounding))
    network = model.network()
    first = model.parameters(network)
    reference = Reference(network, first)
    data = random_dataset(network, 16)
    traces = [reference.train_batch(data.train_images, data.train_labels, rate=0) for _ in range(3)]
    for trace in traces:
        assert trace.parameters == first
        for name in ("y", "dy", "dx", "dw", "db"):
            for got, want in zip(getattr(trace, name), getattr(traces[0], name), strict=True):
                assert (got is want is None) or np.array_equal(got, want)
        for counts, stage, dw, db in zip(trace.saturated, network.stages, trace.dw, trace.db, strict=True):
            assert stage.bias is not None
            assert counts["zero_updates"] == np.count_nonzero(dw) + np.count_nonzero(db) > 0


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_every_parameter_changes_and_the_next_batch_uses_it(rounding):
    model = digits_model(formats=Formats(rounding=rounding))
    network = model.network()
    reference = Reference(network, model.parameters(network))
    data = random_dataset(network, 16)
    before = reference.parameters
    reference.train_batch(data.train_images, data.train_labels)
    after = reference.parameters
    old = reference.forward(data.train_images).y
    for i in range(len(network.stages)):
        assert (before.weights[i] != after.weights[i]).mean() > 0.8  # a ReLU may be dead
        assert (before.biases[i] != after.biases[i]).mean() > 0.8
        for kind in ("weights", "biases"):
            mixed = list(getattr(after, kind))
            mixed[i] = getattr(before, kind)[i]
            other = Reference(network, dataclasses.replace(after, **{kind: tuple(mixed)}))
            assert not np.array_equal(other.forward(data.train_images).y[i], old[i])


def test_frozen_stages_pass_errors_only_where_something_below_trains():
    model = Model(
        input=(5, 5, 1),
        layers=[
            nn.Conv2d(1, 2, 3, frozen=True),
            nn.Conv2d(2, 2, 2),
            nn.Conv2d(2, 2, 1, frozen=True),
            nn.Flatten(),
            nn.Linear(8, 3),
        ],
    )
    network = model.network()
    reference = Reference(network, model.parameters(network))
    before = reference.parameters
    data = random_dataset(network, 16)
    trace = reference.train_batch(data.train_images, data.train_labels)
    assert [v is not None for v in trace.dy] == [False, True, True, True]
    assert [v is not None for v in trace.dx] == [False, False, True, True]
    assert (
        [v is not None for v in trace.dw] == [v is not None for v in trace.db] == [False, True, False, True]
    )
    for i, changed in enumerate([False, True, False, True]):
        assert np.array_equal(before.weights[i], reference.parameters.weights[i]) != changed
        assert np.array_equal(before.biases[i], reference.parameters.biases[i]) != changed


def test_stochastic_rounding_differs_by_step_and_is_unbiased():
    formats = Formats(master=16, rounding="stochastic")
    model = Model(
        input=(64,), layers=[nn.Linear(64, 40)], formats=formats, optimizer=nn.SGD(lr=0.01, batch=4)
    )
    network = model.network(seed=5)
    first = model.parameters(network)
    data = random_dataset(network, 4)
    reference = Reference(network, first)
    steps = []
    for _ in range(30):
        reference.parameters = first
        trace = reference.train_batch(data.train_images, data.train_labels)
        steps.append(first.weights[0] - trace.parameters.weights[0])
    stage, update = network.stages[0], network.update
    exact = trace.dw[0] * update.rate / 2.0 ** stage.update_shift(update.lr)
    assert not np.array_equal(steps[0], steps[1])
    assert np.abs(np.stack(steps) - exact).max() < 1
    assert abs((np.stack(steps) - exact).mean()) < 0.01
    again = Reference(network, first).train_batch(data.train_images, data.train_labels)
    assert np.array_equal(first.weights[0] - again.parameters.weights[0], steps[0])


@pytest.mark.parametrize("shift", [-80, -40, -8, -1, 0, 1, 5, 31, 40, 61, 62, 63, 64, 65, 100])
def test_rounding_at_every_shift(shift):
    rng = np.random.default_rng(abs(shift))
    edges = [0, 1, -1, 2**61 - 1, -(2**61), 2**60, 3 << 59, -(3 << 59), 1 << 40, 3 << 39]
    values = np.array(
        edges + [int(v) >> int(s) for v, s in rng.integers((-(2**61), 0), (2**61, 62), (500, 2))]
    )
    q = Q(20, 0)
    got, clipped = requantise_sums(values, shift, q, 62)
    want = [round(Fraction(int(v)) / Fraction(2) ** shift) for v in values]
    assert got.tolist() == [min(max(w, q.min), q.max) for w in want]
    assert got.dtype == np.int64
    assert clipped == sum(not q.min <= w <= q.max for w in want)

    for rate, bits in itertools.product([1, -(1 << 23), (1 << 23) - 1, 3], [61, 38, 30, 20, 4]):
        values = rng.integers(-(2**bits), 2**bits, 300)
        start = rng.integers(q.min, q.max + 1, len(values))
        random = None
        if bits % 4 == 0 and shift > 0:
            random = np.array(
                [int(r) << shift >> 32 for r in rng.integers(0, 2**32, len(values))], dtype=object
            )
            random = random.astype(np.int64) if shift < 63 else random
        new, saturated, zeros = step_values(start, values, q, rate, shift, random)
        steps = [round(Fraction(int(v) * rate) / Fraction(2) ** shift) for v in values]
        if random is not None:
            steps = [(int(v) * rate + int(r)) // 2**shift for v, r in zip(values, random, strict=True)]
        raw = [int(s) - step for s, step in zip(start, steps, strict=True)]
        assert new.tolist() == [min(max(r, q.min), q.max) for r in raw]
        assert new.dtype == np.int64
        assert saturated == sum(not q.min <= r <= q.max for r in raw)
        assert zeros == sum(step == 0 and v != 0 for step, v in zip(steps, values, strict=True))


def test_errors_say_what_and_where():
    model = digits_model()
    network = model.network()
    parameters = model.parameters(network)
    reference = Reference(network, parameters)
    data = random_dataset(network, 17)
    with pytest.raises(
        DataError, match=r"^images: 17 in a batch; the sums hold 1\.\.16 samples, give as many$"
    ):
        reference.train_batch(data.train_images, data.train_labels)
    with pytest.raises(DataError, match=r"^images: 0 in a batch"):
        reference.train_batch(data.train_images[:0], data.train_labels[:0])
    with pytest.raises(DataError, match=r"^rate: 32768 is outside Q\(16,\d+\); give -32768\.\.32767$"):
        reference.train_batch(data.train_images[:2], data.train_labels[:2], rate=32768)
    with pytest.raises(DataError, match=r"^loss: label 10 is outside 0\.\.9$"):
        reference.train_batch(data.train_images[:2], [0, 10])
    with pytest.raises(DataError, match=r"^images: shape \(2, 8, 8, 2\)"):
        reference.forward(np.zeros((2, 8, 8, 2)))
    assert reference.step == 0
    assert reference.parameters is parameters

    weights, biases = parameters.weights, parameters.biases
    with pytest.raises(DataError, match=r"^parameters: 2 weights and 3 biases; the network has 3 stages"):
        Reference(network, Parameters(weights[:2], biases))
    with pytest.raises(
        DataError, match=r"^conv2\.weight: int64 of shape \(3, 3, 1, 8\); give .* \(3, 3, 8, 16\)$"
    ):
        Reference(network, Parameters((weights[0], weights[0], weights[2]), biases))
    with pytest.raises(DataError, match=r"^conv1\.bias: the stage needs a bias"):
        Reference(network, Parameters(weights, (None, *biases[1:])))
    with pytest.raises(DataError, match=r"^linear1\.weight: 640 values do not fit 32 bits"):
        Reference(network, Parameters((*weights[:2], weights[2] * 0 + (1 << 31)), biases))
