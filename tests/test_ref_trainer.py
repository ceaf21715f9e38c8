"""Training on data sets: batches, sums over epochs, and the digits network beside float32 PyTorch."""

import time

import numpy as np
import pytest
from float_twin import accuracy, torch_digits, torch_train
from ref_networks import digits_model

from hwgen import Formats, nn
from hwgen.data import digits, epoch_order, random_dataset
from hwgen.errors import DataError
from hwgen.ref.executor import COUNTS, Reference
from hwgen.ref.trainer import batches, evaluate, predict, train


def test_batches_follow_the_epoch_order_and_leave_the_rest():
    got = list(batches(11, 4, 3, seed=7))
    assert [len(chosen) for chosen in got] == [4] * 6
    for epoch in range(3):
        order = epoch_order(11, 7, epoch)
        assert np.array_equal(np.concatenate(got[2 * epoch : 2 * epoch + 2]), order[:8])
    assert not np.array_equal(got[0], got[2])
    assert len(list(batches(8, 4, 1, 0))) == 2
    assert len(list(batches(4, 4, 2, 0))) == 2
    assert list(batches(4, 4, 0, 0)) == []


def test_too_few_samples():
    message = r"^train_images: 3 samples are fewer than a batch of 4; give more or a smaller batch$"
    with pytest.raises(DataError, match=message):
        batches(3, 4, 1, 0)
    model = digits_model()
    network = model.network()
    with pytest.raises(DataError, match=r"^train_images: 15 samples are fewer than a batch of 16"):
        train(network, model.parameters(network), random_dataset(network, 15), epochs=1, seed=0)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_training_is_batch_after_batch(rounding):
    model = digits_model(optimizer=nn.SGD(lr=0.01), formats=Formats(master=16, rounding=rounding))
    network = model.network(seed=3)
    data = random_dataset(network, 50, seed=1)
    first = model.parameters(network)
    told = []
    result = train(network, first, data, epochs=2, seed=5, progress=lambda *seen: told.append(seen))

    reference = Reference(network, first)
    losses, totals = [[], []], [dict.fromkeys(COUNTS, 0) for _ in network.stages]
    for number, chosen in enumerate(batches(50, 16, 2, 5)):
        trace = reference.train_batch(data.train_images[chosen], data.train_labels[chosen])
        losses[number // 3] += trace.losses.tolist()
        for total, counts in zip(totals, trace.saturated, strict=True):
            for name in COUNTS:
                total[name] += counts[name]
        if number == 2:
            middle = reference.parameters
    assert result.parameters == reference.parameters
    assert result.parameters != first
    assert result.steps == 6
    assert list(result.counts) == totals
    assert any(counts["zero_updates"] for counts in totals)
    assert result.losses == tuple(sum(epoch) / 48 / 65536 for epoch in losses)
    assert [seen[:2] for seen in told] == [(1, result.losses[0]), (2, result.losses[1])]
    assert told[0][2] == middle
    assert told[1][2] is result.parameters


def test_no_epochs_change_nothing():
    model = digits_model()
    network = model.network()
    first = model.parameters(network)
    result = train(network, first, random_dataset(network, 16), epochs=0, seed=0)
    assert (result.losses, result.steps) == ((), 0)
    assert result.parameters == first


def test_chunks_do_not_matter():
    model = digits_model()
    network = model.network()
    parameters = model.parameters(network)
    data = random_dataset(network, 23)
    whole = predict(network, parameters, data.train_images)
    assert np.array_equal(whole, Reference(network, parameters).forward(data.train_images).predictions)
    for chunk in (1, 7, 23):
        assert np.array_equal(predict(network, parameters, data.train_images, chunk), whole)
    share = evaluate(network, parameters, data.train_images, data.train_labels, chunk=5)
    assert share == np.count_nonzero(whole == data.train_labels) / 23
    assert evaluate(network, parameters, data.train_images, whole) == 1.0
    assert predict(network, parameters, data.train_images[:0]).shape == (0,)
    with pytest.raises(DataError, match=r"^images: none to evaluate; give at least one$"):
        evaluate(network, parameters, data.train_images[:0], data.train_labels[:0])
    with pytest.raises(DataError, match=r"^labels: shape \(22,\) beside 23 images; give one label an image$"):
        evaluate(network, parameters, data.train_images, data.train_labels[:-1])


def trained(lr, formats, epochs=8):
    raw = digits()
    model = digits_model(optimizer=nn.SGD(lr=lr, batch=16), formats=formats)
    network = model.network()
    first = model.parameters(network)
    data = raw.quantise(network)
    result = train(network, first, data, epochs=epochs, seed=0)
    share = evaluate(network, result.parameters, data.test_images, data.test_labels)
    return raw, network, first, result, share


def test_digits_learn_as_in_float32():
    raw, network, first, result, share = trained(0.2, Formats())
    twin = torch_digits(network, first)
    torch_train(twin, raw, 0.2, 16, 8, 0)
    assert share >= 0.95
    assert accuracy(twin, raw) >= 0.95
    assert result.losses[-1] < 0.1 < result.losses[0]


def test_digits_learn_with_sixteen_bit_masters_and_stochastic_rounding():
    *_, share = trained(0.2, Formats(master=16, rounding="stochastic"))
    assert share >= 0.95


@pytest.mark.soak
def test_training_takes_less_than_five_times_float32():
    raw, network, first, _, _ = trained(0.1, Formats(), epochs=1)
    data = raw.quantise(network)
    twin = torch_digits(network, first)
    torch_train(twin, raw, 0.1, 16, 1, 0)
    ratios = []
    for _ in range(3):
        start = time.perf_counter()
        train(network, first, data, epochs=2, seed=0)
        middle = time.perf_counter()
        torch_train(twin, raw, 0.1, 16, 2, 0)
        ratios.append((middle - start) / (time.perf_counter() - middle))
    assert min(ratios) < 5, ratios
