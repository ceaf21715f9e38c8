"""Where each weight and bias lies in the array: logical tensors to memory images and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..host import placement
from .fold import Fold

__all__ = ["bias_image", "bias_tensor", "weight_image", "weight_index", "weight_tensor"]

Ints = NDArray[np.int64]


def weight_index(fold: Fold) -> Ints:
    """Flat index into [kh, kw, cin, Cout] of the weight at [PE row, PE column, address], -1 where there is
    none."""
    return placement.weight_index(fold.numbers)


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


def bias_image(fold: Fold, bias: Ints) -> Ints:
    """[Cout] → [words, Pn] (word g·Fn + nf), zero where a lane holds no output."""
    index = placement.bias_index(fold.numbers)
    return np.where(index >= 0, bias[np.maximum(index, 0)], 0)


def bias_tensor(fold: Fold, image: Ints) -> Ints:
    """[words, Pn] → [Cout]."""
    index = placement.bias_index(fold.numbers)
    flat = np.zeros(fold.stage.out_channels, dtype=np.int64)
    flat[index[index >= 0]] = image.reshape(index.shape)[index >= 0]
    return flat
