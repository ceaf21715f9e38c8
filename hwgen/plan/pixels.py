"""Which pixels of a window's input its outputs need, and which outputs touch an input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir.window import Window2d
from .geometry import Geometry
from .plan import StagePlan

__all__ = ["needed_pixels", "pool_geometry", "touching_pixels"]

Ints = NDArray[np.int64]


def needed_pixels(geometry: Geometry) -> Ints:
    """For every output pixel, how many input pixels must be there: 1 + its last one, in raster order; at
    least 1."""
    y, x = geometry.vertical, geometry.horizontal
    oy, ox = np.divmod(np.arange(geometry.M), x.outputs)
    row = np.minimum(y.first(oy) + y.span, y.size - 1)
    column = np.clip(x.first(ox) + x.span + 1, 0, x.size)
    return np.maximum(np.where(row < 0, 0, row * x.size + column), 1)


def touching_pixels(geometry: Geometry) -> Ints:
    """For every input pixel, the last output pixel that may touch it."""
    y, x = geometry.vertical, geometry.horizontal
    iy, ix = np.divmod(np.arange(geometry.window.pixels_in), x.size)
    last: Ints = y.touching(iy) * x.outputs + x.touching(ix)
    return last


def pool_geometry(planned: StagePlan, pool: Window2d) -> Geometry:
    """The pool of a stage as a depthwise window over words of Pn lanes."""
    return Geometry(pool, 1, planned.fold.pn, planned.fold.y_words)
