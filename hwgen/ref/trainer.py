"""Training on whole data sets with the reference: batches, epochs, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, epoch_order
from ..errors import DataError
from ..ir.initial import Parameters
from ..ir.stage import Network
from .executor import COUNTS, Reference
from .softmax import LOSS_FRAC

__all__ = ["TrainResult", "batches", "evaluate", "predict", "train"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainResult:
    """``losses``: mean loss of every epoch, natural log; ``parameters`` at the end; ``steps`` updates done.

    ``counts[i]`` are stage i's saturations and zero updates (executor.COUNTS), summed over all batches.
    """

    losses: tuple[float, ...]
    parameters: Parameters
    steps: int
    counts: tuple[dict[str, int], ...]


def batches(samples: int, batch: int, epochs: int, seed: int) -> Iterator[Ints]:
    """The sample numbers [batch] of every update: full batches in the order of ``data.epoch_order``.

    The rest of each epoch is left out. Raises DataError if there are fewer samples than a batch takes.
    """
    if samples < batch:
        raise DataError(
            f"train_images: {samples} samples are fewer than a batch of {batch}; give more or a smaller batch"
        )
    return (
        order[start : start + batch]
        for order in (epoch_order(samples, seed, epoch) for epoch in range(epochs))
        for start in range(0, samples - batch + 1, batch)
    )


def train(
    network: Network,
    parameters: Parameters,
    dataset: Dataset,
    *,
    epochs: int,
    seed: int,
    progress: Callable[[int, float, Parameters], None] | None = None,
) -> TrainResult:
    """Trains on a quantised data set (``Dataset.quantise``); ``seed`` orders the samples.

    ``progress(epoch from 1, mean loss, parameters)`` is called after every epoch. Raises DataError as
    :func:`batches` and :meth:`Reference.train_batch` do.
    """
    reference = Reference(network, parameters)
    images, labels = np.asarray(dataset.train_images), np.asarray(dataset.train_labels)
    size = network.update.batch
    updates = len(images) // size
    losses: list[float] = []
    counts = tuple(dict.fromkeys(COUNTS, 0) for _ in network.stages)
    total = 0
    for chosen in batches(len(images), size, epochs, seed):
        trace = reference.train_batch(images[chosen], labels[chosen])
        total += int(trace.losses.sum())
        for summed, found in zip(counts, trace.saturated, strict=True):
            for name, value in found.items():
                summed[name] += value
        if reference.step % updates == 0:
            losses.append(total / (updates * size) / (1 << LOSS_FRAC))
            total = 0
            if progress is not None:
                progress(len(losses), losses[-1], reference.parameters)
    return TrainResult(tuple(losses), reference.parameters, reference.step, counts)


def predict(network: Network, parameters: Parameters, images: object, chunk: int = 256) -> Ints:
    """Class numbers [N] of images [N, H, W, C], ``chunk`` at a time."""
    reference, pictures = Reference(network, parameters), np.asarray(images)
    parts = [
        reference.forward(pictures[start : start + chunk]).predictions
        for start in range(0, len(pictures), chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def evaluate(
    network: Network, parameters: Parameters, images: object, labels: object, chunk: int = 256
) -> float:
    """The share of images [N, H, W, C] that get their label [N]. Raises DataError without
    images, or with other than one label an image."""
    wanted, pictures = np.asarray(labels), np.asarray(images)
    if not len(wanted):
        raise DataError("images: none to evaluate; give at least one")
    if wanted.shape != pictures.shape[:1]:
        raise DataError(
            f"labels: shape {wanted.shape} beside {len(pictures)} images; give one label an image"
        )
    return float(np.mean(predict(network, parameters, pictures, chunk) == wanted))
