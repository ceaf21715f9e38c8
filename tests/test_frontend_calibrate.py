"""Calibration: the float run against PyTorch, the choice of binary points, what narrow formats then learn."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from hwgen import Formats, Model, Q, calibrate, nn
from hwgen.data import Dataset, digits
from hwgen.errors import DataError, ModelError
from hwgen.frontend.calibrate import SPARE_BITS, point
from hwgen.frontend.float_run import FloatRun
from hwgen.frontend.loader import load_source
from hwgen.ir.initial import real_parameters
from hwgen.ref.trainer import evaluate, train

EXAMPLE = Path(__file__).parent.parent / "examples" / "digits.py"


def network_of(layers, shape, **settings):
    return Model(input=shape, layers=layers, **settings).network()


CASES = {
    "plain": ([nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 3)], (7, 8, 2)),
    "grouped, strided, dilated, four pads": (
        [
            nn.Conv2d(4, 6, (3, 2), (2, 1), padding=(1, 0, 2, 1), dilation=(1, 2), groups=2, bias=False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(180, 3),
        ],
        (9, 7, 4),
    ),
    "overlapping pool": (
        [
            nn.Conv2d(1, 3, 1),
            nn.MaxPool2d(3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(3, 3, 2),
            nn.Flatten(),
            nn.Linear(18, 2),
        ],
        (7, 5, 1),
    ),
    "other activations": (
        [
            nn.Conv2d(2, 4, 3),
            nn.LeakyReLU(0.1),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 1),
            nn.Hardtanh(-0.5, 0.75),
            nn.Flatten(),
            nn.Linear(24, 5),
            nn.ReLU6(),
            nn.Linear(5, 3),
        ],
        (6, 8, 2),
    ),
    "frozen": ([nn.Flatten(), nn.Linear(12, 5, frozen=True), nn.ReLU(), nn.Linear(5, 2)], (2, 3, 2)),
}  # fmt: skip


def by_torch_activated(x, form):
    if form.slope is not None:
        return functional.leaky_relu(x, form.slope[0] / 2 ** form.slope[1])
    low, high = (-1e9 if form.low is None else form.low), (1e9 if form.high is None else form.high)
    return functional.hardtanh(x, low, high)


def by_torch(network, parameters, images, labels):
    """Loss, gradients of all weights and biases, and the largest |y| and |dy| of every stage."""
    x = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    leaves, outputs, inner = [], [], []
    for stage, (weight, bias) in zip(network.stages, parameters, strict=True):
        w = torch.from_numpy(weight).requires_grad_()
        b = None if bias is None else torch.from_numpy(bias).requires_grad_()
        leaves.append((w, b))
        if x.shape[1] != stage.in_channels:
            x = x.permute(0, 2, 3, 1).reshape(len(x), -1, 1, 1)
        top, left, bottom, right = stage.window.pads
        x = functional.pad(x, (left, right, top, bottom))
        x = functional.conv2d(
            x, w.permute(3, 2, 0, 1), b, stage.window.stride, 0, stage.window.dilation, stage.groups
        )
        x.retain_grad()
        inner.append(x)
        if stage.activation is not None:
            x = by_torch_activated(x, stage.activation)
        if stage.pool is not None:
            top, left, bottom, right = stage.pool.pads
            x = functional.pad(x, (left, right, top, bottom), value=-torch.inf)
            x = functional.max_pool2d(x, stage.pool.kernel, stage.pool.stride)
        x.retain_grad()
        outputs.append(x)
    loss = functional.cross_entropy(x.flatten(1), torch.from_numpy(labels), reduction="sum")
    loss.backward()
    return loss.item() / len(labels), leaves, outputs, inner


@pytest.mark.parametrize("case", CASES)
def test_the_float_run_is_sgd(case):
    layers, shape = CASES[case]
    network = network_of(layers, shape, optimizer=nn.SGD(lr=0.25, batch=4))
    rng = np.random.default_rng(5)
    images, labels = rng.normal(size=(4, *shape)), rng.integers(0, network.loss.classes, 4)
    first = real_parameters(network, 3)
    run = FloatRun(network, first)
    loss = run.step(images, labels)
    wanted, leaves, outputs, inner = by_torch(network, first, images, labels)
    assert loss == pytest.approx(wanted, rel=1e-12)
    for index, stage in enumerate(network.stages):
        for leaf, before, after in zip(leaves[index], first[index], run.parameters[index], strict=True):
            if leaf is None:
                assert after is None
                continue
            step = 0.0 if stage.frozen else 0.25 * leaf.grad.numpy() / 4
            np.testing.assert_allclose(after, before - step, rtol=1e-9, atol=1e-12)
        peaks = run.peaks[index]
        error = max(outputs[index].grad.abs().max().item(), inner[index].grad.abs().max().item())
        assert peaks.y == pytest.approx(outputs[index].abs().max().item(), rel=1e-12)
        assert peaks.dy == pytest.approx(error, rel=1e-9)
        values = np.concatenate([first[index][0], run.parameters[index][0]])
        assert peaks.w == np.abs(values).max()


@pytest.mark.parametrize("width", [4, 8, 16, 24])
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_point_holds_its_peak_and_none_finer_does(width, spare):
    for peak in [1e-9, 0.1, 0.49, 0.5, 0.99, 1.0, 1.01, 127 / 128, 3.0, 3.9999999, 4.0, 1e5]:
        chosen = point(width, peak, spare)
        room = peak * 2**spare
        if chosen.frac < 48:
            assert round(room * 2.0**chosen.frac) <= chosen.max + 2**spare
            assert round(peak * 2.0 ** (chosen.frac + spare)) <= chosen.max
            finer = Q(width, chosen.frac + 1)
            assert round(peak * 2.0 ** (finer.frac + spare)) > finer.max
        assert chosen.width == width
    assert point(8, 0.0) is None
    assert point(8, float("nan")) is None
    assert point(8, 1e-30) == Q(8, 48)
    assert point(8, 1e30) == Q(8, -48)


def digits_model(formats):
    return load_source(EXAMPLE).model.replace(formats=formats)


@pytest.fixture(scope="module")
def data():
    return digits()


def learnt(model, data, seed):
    network = model.network(seed)
    samples = data.quantise(network)
    result = train(network, model.parameters(network, seed), samples, epochs=4, seed=seed)
    return evaluate(network, result.parameters, samples.test_images, samples.test_labels), result


@pytest.fixture(scope="module")
def as_wide(data):
    return functools.cache(lambda seed: learnt(digits_model(Formats()), data, seed)[0])


NARROW = {
    8: Formats(activation=8, weight=8, error=8, master=24),
    10: Formats(activation=10, weight=10, error=10, master=24),
    12: Formats(activation=12, weight=12, error=12, master=24),
}


@pytest.mark.parametrize(("width", "seed"), [(8, 0), (8, 1), (10, 1), (12, 0)])
def test_narrow_formats_learn_as_wide_ones_do(data, as_wide, width, seed):
    model = digits_model(NARROW[width])
    calibrated = calibrate(model, data.train_images, data.train_labels, seed=seed)
    before, _ = learnt(model, data, seed)
    after, result = learnt(calibrated, data, seed)
    wide = as_wide(seed)
    assert after >= min(before, wide) - 0.01
    assert after >= wide - 0.03
    assert all(count["y"] == count["master"] == 0 for count in result.counts)
    if width == 8:
        assert before < 0.5  # the default points saturate


def test_the_points_follow_the_data(data):
    model = digits_model(Formats())
    one = calibrate(model, data.train_images, data.train_labels)
    images = dataclasses.replace(data, train_images=data.train_images / 64).train_images
    small = calibrate(model, images, data.train_labels)
    assert small.formats.input == Q(16, one.formats.input.frac + 6)
    assert small.layers[0].formats.y.frac > one.layers[0].formats.y.frac
    assert one.formats.input == Q(16, 14)  # +1.0 itself still fits
    assert SPARE_BITS == 1
    last = one.network().stages[-1]
    assert last.dy == Q(16, 14)  # errors of just below 1, one bit to spare


def test_widths_stay_and_given_formats_are_kept(data):
    model = digits_model(Formats(activation=9, weight=10, error=11, master=20, bias=13, input=Q(12, 7)))
    layers = list(model.layers)
    layers[3] = nn.Conv2d(
        8, 16, 3, padding=1, formats=nn.Formats(w=Q(12, 9), y=Q(14, 3), dy=Q(7, 5), bias=Q(20, 2))
    )
    calibrated = calibrate(model.replace(layers=layers), data.train_images, data.train_labels)
    first, second, last = calibrated.network().stages
    assert (first.x, second.w, second.y, second.dy, second.bias) == (
        Q(12, 7), Q(12, 9), Q(14, 3), Q(7, 5), Q(20, 2)
    )  # fmt: skip
    assert [first.y.width, first.w.width, first.dy.width, first.bias.width] == [9, 10, 11, 13]
    assert [last.y.width, last.w.width, last.dy.width, last.bias.width] == [9, 10, 11, 13]
    assert [stage.master.width for stage in (first, second, last)] == [20, 20, 20]
    assert calibrated.formats == model.formats
    assert last.bias.frac <= last.x.frac + last.w.frac == last.acc_frac


def test_the_same_seed_gives_the_same_formats(data):
    model = digits_model(Formats(8, 8, error=8))
    once, again = (calibrate(model, data.train_images, data.train_labels, seed=4) for _ in range(2))
    assert once.network() == again.network()
    assert str(once.graph()) == str(again.graph())


def test_integer_images_are_in_the_input_format(data):
    model = digits_model(Formats(input=Q(12, 8)))
    integers = Q(12, 8).quantise(data.train_images)
    by_integers = calibrate(model, integers, data.train_labels)
    assert by_integers.formats.input == Q(12, 8)
    assert by_integers.network() == calibrate(model, integers / 256.0, data.train_labels).network()
    assert calibrate(digits_model(Formats()), integers * 64, data.train_labels).formats.input == Q(16, 14)


def test_a_tensor_that_is_always_zero_keeps_its_role(data):
    model = Model(
        input=(8, 8, 1),
        layers=[nn.Flatten(), nn.Linear(64, 10, name="a"), nn.ReLU(), nn.Linear(10, 10, name="b")],
        weights={"a": np.zeros((1, 1, 64, 10)), "a.bias": -np.ones(10)},
    )
    stage = calibrate(model, data.train_images, data.train_labels, batches=1).network().stages[0]
    assert (stage.w, stage.y) == (Q(16, 14), Q(16, 11))
    assert stage.dy == Q(16, 15)  # errors arrive, though ReLU lets none pass
    assert stage.bias == Q(32, 28)


def test_few_samples_are_enough(data):
    model = digits_model(Formats())
    few = calibrate(model, data.train_images[:3], data.train_labels[:3])
    assert few.network().update.batch == 16


def test_mistakes(data):
    model = digits_model(Formats())
    with pytest.raises(DataError, match=r"^calibrate: batches = 0; give at least 1$"):
        calibrate(model, data.train_images, data.train_labels, batches=0)
    with pytest.raises(DataError, match=r"^calibrate: no images; give at least a batch of samples$"):
        calibrate(model, data.train_images[:0], data.train_labels[:0])
    with pytest.raises(
        DataError, match=r"^train_labels\[2\]: value 10; the network has 10 classes; labels run .* 9$"
    ):
        calibrate(model, data.train_images[:3], [0, 1, 10])
    with pytest.raises(ModelError) as caught:
        calibrate(
            model.replace(formats=Formats(weight=30), optimizer=nn.SGD(lr=-1)),
            data.train_images,
            data.train_labels,
        )
    assert caught.value.problems == [
        "optimizer: lr = -1; give a number above 0",
        "formats: weight = 30 bits, which no multiplier carries; give 4..24",
    ]
    layers = [nn.Conv2d(1, 2, 8, formats=nn.Formats(bias=Q(32, 40))), nn.Flatten(), nn.Linear(2, 10)]
    with pytest.raises(
        ModelError, match=r"^conv1: bias = Q\(32,40\) is finer than the sums it is added to, .*$"
    ):
        calibrate(model.replace(layers=layers), data.train_images, data.train_labels)


def test_the_samples_may_be_a_dataset_of_reals(data):
    assert isinstance(data, Dataset)
    assert data.train_images.min() == -1.0
    assert data.train_images.max() == 1.0
