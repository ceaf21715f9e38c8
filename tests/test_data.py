"""Data sets: what fits a network, messages for what does not, and the order of samples."""

import numpy as np
import pytest

from hwgen import Formats, Model, Q, nn
from hwgen.data import Dataset, digits, epoch_order, quantise_images, random_dataset, split
from hwgen.errors import DataError


@pytest.fixture(scope="module")
def network():
    layers = [nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(18, 5)]
    return Model(input=(3, 4, 2), layers=layers, formats=Formats(input=Q(8, 5))).network()


def dataset(images=None, labels=None, test_images=None, test_labels=None):
    pick = lambda value, other: other if value is None else value  # noqa: E731
    return Dataset(
        pick(images, np.zeros((4, 3, 4, 2))),
        pick(labels, np.array([0, 1, 2, 4])),
        pick(test_images, np.zeros((2, 3, 4, 2))),
        pick(test_labels, np.array([3, 0])),
    )


def refused(network, message, **parts):
    with pytest.raises(DataError) as caught:
        dataset(**parts).quantise(network)
    assert str(caught.value) == message


def test_reals_are_rounded_half_to_even_and_saturate(network):
    images = np.zeros((1, 3, 4, 2))
    images[0, 0, 0] = 1.5 / 32, 2.5 / 32
    images[0, 1, 1] = 9.0, -9.0
    out = quantise_images(network, images)
    assert out.dtype == np.int64
    assert out[0, 0, 0].tolist() == [2, 2]
    assert out[0, 1, 1].tolist() == [127, -128]
    assert np.array_equal(quantise_images(network, images.astype(np.float32)), out)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, bool])
def test_integers_stay(network, kind):
    images = np.arange(24).reshape(1, 3, 4, 2).astype(kind)
    assert np.array_equal(quantise_images(network, images), images)
    assert quantise_images(network, images).dtype == np.int64


def test_the_range_of_integers(network):
    images = np.zeros((4, 3, 4, 2), int)
    images[0, 0, 0, 0], images[1, 0, 0, 0] = -128, 127
    assert np.array_equal(dataset(images).quantise(network).train_images, images)
    images[3, 2, 1, 1] = 128
    advice = "integers are taken as Q(8,5), -128..127; give real numbers or integers in that range"
    refused(network, f"train_images[3, 2, 1, 1]: value 128; {advice}", images=images)
    images[2, 0, 0, 0] = -129
    refused(network, f"train_images[2, 0, 0, 0]: value -129; {advice}", images=images)


def test_images_of_the_wrong_size(network):
    give = "the network takes images (H, W, C) = (3, 4, 2), give (N, H, W, C) = (N, 3, 4, 2)"
    for shape in [(4, 4, 3, 2), (4, 2, 3, 4), (4, 24), (3, 4, 2), (24,), (4, 3, 4, 1), (4, 1, 3, 4, 2), ()]:
        refused(network, f"train_images: shape {shape}; {give}", images=np.zeros(shape))
    refused(network, f"test_images: shape (2, 3, 3, 2); {give}", test_images=np.zeros((2, 3, 3, 2)))


def test_images_that_are_no_numbers(network):
    for value in (np.full((4, 3, 4, 2), "a"), np.zeros((4, 3, 4, 2), complex), np.full((4, 3, 4, 2), None)):
        refused(
            network,
            f"train_images: values of type {value.dtype}; give real numbers or integers",
            images=value,
        )
    for bad in (np.nan, np.inf, -np.inf):
        images = np.zeros((4, 3, 4, 2))
        images[1, 2, 3, 0] = bad
        refused(network, f"train_images[1, 2, 3, 0]: value {bad}; give finite numbers", images=images)


def test_labels_out_of_range(network):
    advice = "the network has 5 classes; labels run from 0 to 4"
    refused(network, f"train_labels[2]: value 5; {advice}", labels=[0, 4, 5, 9])
    refused(network, f"train_labels[1]: value -1; {advice}", labels=[0, -1, 0, 0])
    refused(network, f"test_labels[0]: value 99; {advice}", test_labels=[99, 0])


def test_labels_that_are_no_labels(network):
    one = "give one label an image, (4,)"
    refused(network, f"train_labels: shape (3,) beside 4 images; {one}", labels=[0, 1, 2])
    refused(network, f"train_labels: shape (4, 5) beside 4 images; {one}", labels=np.zeros((4, 5), int))
    refused(
        network,
        "train_labels: values of type float64; give integer class numbers",
        labels=[0.0, 1.0, 2.0, 3.0],
    )
    unsigned = dataset(labels=np.array([0, 1, 2, 4], np.uint8)).quantise(network).train_labels
    assert (unsigned.tolist(), unsigned.dtype) == ([0, 1, 2, 4], np.int64)


def test_nothing_held_out(network):
    empty = dataset(test_images=np.zeros((0, 3, 4, 2)), test_labels=[]).quantise(network)
    assert empty.test_images.shape == (0, 3, 4, 2)
    assert empty.test_labels.shape == (0,)
    assert empty.test_labels.dtype == np.int64


def test_a_flat_network_takes_images_in_raster_order():
    model = Model(input=(2, 3, 2), layers=[nn.Flatten(), nn.Linear(12, 2)])
    network = model.network()
    images = np.arange(24).reshape(2, 2, 3, 2)
    for given in (images, images.reshape(2, 12), images.reshape(2, 1, 1, 12)):
        assert np.array_equal(quantise_images(network, given), images.reshape(2, 1, 1, 12))
    with pytest.raises(
        DataError, match=r"^images: shape \(2, 11\); the network takes images .* \(N, 1, 1, 12\)$"
    ):
        quantise_images(network, images.reshape(2, 12)[:, 1:])
    with pytest.raises(DataError, match=r"^images: shape \(12,\); "):
        quantise_images(network, images.reshape(-1)[:12])


def test_digits():
    data = digits()
    assert data.train_images.shape == (1438, 8, 8, 1)
    assert data.test_images.shape == (359, 8, 8, 1)
    assert (data.train_images.min(), data.train_images.max()) == (-1.0, 1.0)
    assert set(data.train_labels) == set(data.test_labels) == set(range(10))
    assert np.array_equal(digits().test_images, data.test_images)
    assert not np.array_equal(digits(seed=1).test_images, data.test_images)
    assert len(digits(held_out=0.0).test_images) == 0


def test_split_loses_nothing():
    images, labels = np.arange(50).reshape(50, 1, 1, 1), np.arange(50)
    part = split(images, labels, 0.3, seed=2)
    assert (len(part.train_images), len(part.test_images)) == (35, 15)
    together = np.concatenate([part.train_labels, part.test_labels])
    assert sorted(together) == list(range(50))
    assert list(together) != list(range(50))
    assert np.array_equal(part.train_images.ravel(), part.train_labels)
    assert np.array_equal(part.test_images.ravel(), part.test_labels)
    for share in (-0.1, 1.0):
        with pytest.raises(
            DataError, match=rf"^split: held_out = {share}; give a share of at least 0 and below 1$"
        ):
            split(images, labels, share)
    with pytest.raises(DataError, match=r"^split: 50 images beside 49 labels; give as many of both$"):
        split(images, labels[:-1])


def test_random_data_fits_its_network(network):
    data = random_dataset(network, 200, seed=1)
    assert data.train_images.shape == (200, 3, 4, 2)
    assert data.test_images.shape == (50, 3, 4, 2)
    assert (data.train_images.min(), data.train_images.max()) == (-64, 63)
    assert set(data.train_labels) == set(range(5))
    assert np.array_equal(data.quantise(network).train_images, data.train_images)
    assert np.array_equal(random_dataset(network, 200, seed=1).test_labels, data.test_labels)
    assert not np.array_equal(random_dataset(network, 200, seed=2).train_images, data.train_images)
    assert len(random_dataset(network, 8, test_samples=3).test_images) == 3


FIRST = [0, 5, 1, 2, 4, 3]
"""Fixed: hardware, reference and PyTorch runs of any version see the same batches."""


def test_the_order_of_an_epoch():
    order = epoch_order(100, seed=5, epoch=2)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(100))
    assert np.array_equal(order, epoch_order(100, 5, 2))
    others = [
        epoch_order(100, seed, epoch) for seed, epoch in ((5, 1), (4, 2), (2, 5), (-5, 2), (1 << 80, 2))
    ]
    assert all(not np.array_equal(order, other) for other in others)
    assert epoch_order(6, 0, 0).tolist() == FIRST


def test_lists_of_unequal_parts(network):
    with pytest.raises(DataError, match=r"^train_images: a list of unequal parts; give an array$"):
        dataset(images=[[1], [2, 3]]).quantise(network)
    with pytest.raises(DataError, match=r"^test_labels: a list of unequal parts; give an array$"):
        dataset(test_labels=[[1], [2, 3]]).quantise(network)
