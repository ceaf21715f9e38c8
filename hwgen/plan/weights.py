"""Where each weight and bias lies in the array: logical tensors to memory images and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .fold import Fold

__all__ = ["bias_image", "bias_tensor", "weight_image", "weight_index", "weight_tensor"]

Ints = NDArray[np.int64]


def weight_index(fold: Fold) -> Ints:
    """Flat index into [kh, kw, cin, Cout] of the weight at [PE row, PE column, address], -1 where there is
    none."""
    stage, u, pc = fold.stage, fold.folding.u, fold.folding.pc
    row, column, address = np.meshgrid(
        np.arange(fold.pk), np.arange(fold.pn), np.arange(fold.depth), indexing="ij"
    )
    kf, rest = address % fold.fk, address // fold.fk
    nf, group = rest % fold.fn, rest // fold.fn
    position = (kf // fold.cgs) * u + row // pc
    channel = (kf % fold.cgs) * pc + row % pc
    n = nf * fold.pn + column
    flat = (position * stage.cin + channel) * stage.out_channels + group * stage.N + n
    return np.where((channel < stage.cin) & (n < stage.N), flat, -1)


def weight_image(fold: Fold, weights: Ints) -> Ints:
    """[kh, kw, cin, Cout] → [Pk, Pn, depth], zero where an address holds no weight."""
    index = weight_index(fold)
    return np.where(index >= 0, weights.reshape(-1)[np.maximum(index, 0)], 0)


def weight_tensor(fold: Fold, image: Ints) -> Ints:
    """[Pk, Pn, depth] → [kh, kw, cin, Cout]."""
    index = weight_index(fold)
    flat = np.zeros(int(np.prod(fold.stage.weight_shape)), dtype=np.int64)
    flat[index[index >= 0]] = image.reshape(index.shape)[index >= 0]
    return flat.reshape(fold.stage.weight_shape)


def _bias_index(fold: Fold) -> Ints:
    word, lane = np.meshgrid(np.arange(fold.y_words), np.arange(fold.pn), indexing="ij")
    n = (word % fold.fn) * fold.pn + lane
    return np.where(n < fold.stage.N, (word // fold.fn) * fold.stage.N + n, -1)


def bias_image(fold: Fold, bias: Ints) -> Ints:
    """[Cout] → [words, Pn] (word g·Fn + nf), zero where a lane holds no output."""
    index = _bias_index(fold)
    return np.where(index >= 0, bias[np.maximum(index, 0)], 0)


def bias_tensor(fold: Fold, image: Ints) -> Ints:
    """[words, Pn] → [Cout]."""
    index = _bias_index(fold)
    flat = np.zeros(fold.stage.out_channels, dtype=np.int64)
    flat[index[index >= 0]] = image.reshape(index.shape)[index >= 0]
    return flat
