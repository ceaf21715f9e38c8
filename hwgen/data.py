"""Images and labels: data sets, their checks against a network, the order of samples in an epoch."""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError
from .ir.stage import Network

__all__ = [
    "Dataset",
    "digits",
    "epoch_order",
    "quantise_images",
    "random_dataset",
    "read_dataset",
    "split",
]

Array = NDArray[np.generic]
Ints = NDArray[np.int64]
_KEY = (1 << 128) - 1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and held-out samples.

    Images are [N, H, W, C] or [N, F]: real numbers, or integers that already are in the network's input
    format. Labels are [N] class numbers from 0.
    """

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array

    def quantise(self, network: Network) -> Dataset:
        """The same samples as int64 in the network's input format, checked.

        Raises DataError naming the part and index of the first bad image or label.
        """
        return Dataset(
            quantise_images(network, self.train_images, "train_images"),
            _labels(network, self.train_labels, len(self.train_images), "train_labels"),
            quantise_images(network, self.test_images, "test_images"),
            _labels(network, self.test_labels, len(self.test_images), "test_labels"),
        )


def quantise_images(network: Network, images: object, where: str = "images") -> Ints:
    """Images [N, H, W, C] as int64 in the network's input format; integer arrays are taken as they are.

    A network that starts with a Linear layer of F features takes any images of F values each, and flattens
    them in raster order, channels last, to [N, 1, 1, F].

    Raises DataError if the shape is wrong, a value is not finite or an integer lies outside the format.
    """
    array = _array(images, where)
    shape = network.in_shape
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where}: values of type {array.dtype}; give real numbers or integers")
    if shape[:2] == (1, 1) and array.ndim >= 2 and math.prod(array.shape[1:]) == shape[2]:
        array = array.reshape(-1, *shape)
    if array.ndim != 4 or array.shape[1:] != shape:
        raise DataError(
            f"{where}: shape {array.shape}; the network takes images (H, W, C) = {shape}, "
            f"give (N, H, W, C) = (N, {', '.join(map(str, shape))})"
        )
    if array.dtype.kind == "f":
        _refuse(array, ~np.isfinite(array), where, "give finite numbers")
        return network.input.quantise(array)
    low, high = network.input.min, network.input.max
    _refuse(
        array, (array < low) | (array > high), where,
        f"integers are taken as {network.input}, {low}..{high}; give real numbers or integers in that range",
    )  # fmt: skip
    return array.astype(np.int64)


def _array(values: object, where: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{where}: a list of unequal parts; give an array") from None


def _refuse(array: Array, bad: NDArray[np.bool_], where: str, advice: str) -> None:
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"{where}[{', '.join(map(str, at))}]: value {array[at]}; {advice}")


def _labels(network: Network, labels: object, count: int, where: str) -> Ints:
    array = _array(labels, where)
    if array.shape != (count,):
        raise DataError(
            f"{where}: shape {array.shape} beside {count} images; give one label an image, ({count},)"
        )
    if count and array.dtype.kind not in "iu":
        raise DataError(f"{where}: values of type {array.dtype}; give integer class numbers")
    classes = network.loss.classes
    _refuse(
        array, (array < 0) | (array >= classes), where,
        f"the network has {classes} classes; labels run from 0 to {classes - 1}",
    )  # fmt: skip
    return array.astype(np.int64)


def split(images: object, labels: object, held_out: float = 0.2, seed: int = 0) -> Dataset:
    """A shuffled split: the share ``held_out`` (0..1) of the samples becomes the test part."""
    pictures, classes = np.asarray(images), np.asarray(labels)
    if not 0.0 <= held_out < 1.0:
        raise DataError(f"split: held_out = {held_out}; give a share of at least 0 and below 1")
    if len(pictures) != len(classes):
        raise DataError(f"split: {len(pictures)} images beside {len(classes)} labels; give as many of both")
    order = np.random.Generator(np.random.Philox(key=seed & _KEY)).permutation(len(pictures))
    cut = len(pictures) - round(len(pictures) * held_out)
    train, test = order[:cut], order[cut:]
    return Dataset(pictures[train], classes[train], pictures[test], classes[test])


def digits(held_out: float = 0.2, seed: int = 0) -> Dataset:
    """The 1,797 digits of scikit-learn: images [N, 8, 8, 1] in [-1, 1], labels 0..9, split by seed."""
    from sklearn.datasets import load_digits  # slow import, only needed here

    bunch = load_digits()
    return split(bunch.images[..., None] / 8.0 - 1.0, bunch.target, held_out, seed)


def read_dataset(path: Path) -> Dataset:
    """The samples of an .npz file: ``train_images`` and ``train_labels``, and held-out ``test_images`` and
    ``test_labels`` if it has any. Raises DataError if it cannot be read or has other arrays."""
    names = ("train_images", "train_labels", "test_images", "test_labels")
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}; give an .npz file") from None
    except (AttributeError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: no .npz file of arrays, or damaged ({error}); save it again") from None
    if not set(names[:2]) <= found.keys() <= set(names) or ("test_images" in found) != (
        "test_labels" in found
    ):
        have = ", ".join(found) or "no arrays"
        raise DataError(
            f"{path}: holds {have}; give {', '.join(names[:2])}, and {', '.join(names[2:])} or neither"
        )
    for name in names[2:]:
        found.setdefault(name, found[name.replace("test", "train")][:0])
    return Dataset(**found)


def random_dataset(network: Network, samples: int, seed: int = 0, test_samples: int | None = None) -> Dataset:
    """Uniform random integers over half the input format, and random labels; for tests and benchmarks.

    ``test_samples`` defaults to ``samples`` // 4.
    """
    held = samples // 4 if test_samples is None else test_samples
    generator = np.random.Generator(np.random.Philox(key=seed & _KEY))
    high = network.input.max // 2 + 1
    images = generator.integers(-high, high, (samples + held, *network.in_shape), dtype=np.int64)
    labels = generator.integers(0, network.loss.classes, samples + held, dtype=np.int64)
    return Dataset(images[:samples], labels[:samples], images[samples:], labels[samples:])


def epoch_order(samples: int, seed: int, epoch: int) -> Ints:
    """The order in which epoch number ``epoch`` (from 0) takes the training samples: a seeded permutation.

    Hardware and reference both take full batches in this order and leave out the rest.
    """
    return (
        np.random.Generator(np.random.Philox(key=((seed << 64) + epoch) & _KEY))
        .permutation(samples)
        .astype(np.int64)
    )
