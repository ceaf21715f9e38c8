"""Where each weight and bias lies in the memories of an array, from a handful of numbers of its folding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["bias_index", "weight_index"]

Ints = NDArray[np.int64]


def weight_index(fold: Mapping[str, int]) -> Ints:
    """Flat index into [kh, kw, cin, Cout] of the weight at [PE row, PE column, address], -1 where there is none."""
    row, column, address = np.meshgrid(
        np.arange(fold["pk"]), np.arange(fold["pn"]), np.arange(fold["depth"]), indexing="ij"
    )
    kf, rest = address % fold["fk"], address // fold["fk"]
    nf, group = rest % fold["fn"], rest // fold["fn"]
    position = (kf // fold["cgs"]) * fold["u"] + row // fold["pc"]
    channel = (kf % fold["cgs"]) * fold["pc"] + row % fold["pc"]
    n = nf * fold["pn"] + column
    flat = (position * fold["cin"] + channel) * fold["outputs"] + group * fold["n"] + n
    return np.where((channel < fold["cin"]) & (n < fold["n"]), flat, -1)


def bias_index(fold: Mapping[str, int]) -> Ints:
    """Output channel of the bias at [word, lane], -1 where there is none."""
    word, lane = np.meshgrid(np.arange(fold["y_words"]), np.arange(fold["pn"]), indexing="ij")
    n = (word % fold["fn"]) * fold["pn"] + lane
    return np.where(n < fold["n"], (word // fold["fn"]) * fold["n"] + n, -1)
