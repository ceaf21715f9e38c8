"""Where the parameters of an imported model came from, so that trained ones can go back there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAYOUTS", "Origin"]

Scalar = TypeVar("Scalar", bound=np.generic)
LAYOUTS = ("OIHW", "OI", "IO", "vector")
"""Weights of a convolution, of a fully connected layer by rows of outputs or of inputs, and biases."""


@dataclass(frozen=True)
class Origin:
    """A tensor of the imported model: its ``name``, ``shape`` and ``layout`` there.

    ``order`` is of every input feature there its place in hwgen's vector, None where both are the same: a Linear layer
    behind an image takes it channels last in hwgen.
    """

    name: str
    shape: tuple[int, ...]
    layout: str
    order: tuple[int, ...] | None = None

    def restore(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Parameters of hwgen, [kh, kw, Cin/groups, Cout] or [Cout], as the imported model has them."""
        if self.layout == "vector":
            return values.reshape(self.shape)
        if self.layout == "OIHW":
            return values.transpose(3, 2, 0, 1)
        matrix = values.reshape(values.shape[2:])
        if self.order is not None:
            matrix = matrix[np.asarray(self.order)]
        return matrix.T if self.layout == "OI" else matrix
