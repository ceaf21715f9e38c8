"""Where the elements of another framework's tensor, channels first, lie in hwgen's raster order, channels last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..ir.ops import Shape

__all__ = ["Dims", "View", "spell_dims"]

Dims = tuple[int, ...]
Ints = NDArray[np.int64]


def spell_dims(dims: Dims) -> str:
    """Dimensions with their batch, for messages: "[N, 3, 8, 8]"."""
    return f"[{', '.join(['N', *map(str, dims)])}]"


@dataclass(frozen=True, eq=False)
class View:
    """A tensor between two layers. ``dims`` are its dimensions there, without the batch.

    ``image`` is the same tensor in hwgen, (H, W, C) or (features,); () before the first layer, where the model's input
    still may be taken as [N, C, H, W] or [N, H, W, C]. ``places`` is of every element its place in ``image``, or in the
    raster order of ``source``, the dimensions of the input, while ``image`` is (); None stands for an image
    [C, H, W] that is (H, W, C) in hwgen, or a vector in its own order.
    """

    source: Dims
    dims: Dims
    image: Shape = ()
    places: Ints | None = None

    @classmethod
    def of_input(cls, dims: Dims) -> View:
        """The model's input before the first layer."""
        return cls(dims, dims)

    @classmethod
    def of_output(cls, image: Shape) -> View:
        """What a layer of hwgen gives."""
        dims = image if len(image) == 1 else (image[2], *image[:2])
        return cls(dims, dims, image)

    def reshape(self, dims: Dims) -> View:
        """The same elements in the same order, with other dimensions of the same product."""
        return self._with(self._all_places().reshape(dims)) if dims != self.dims else self

    def transpose(self, axes: Sequence[int]) -> View:
        """Dimensions in another order."""
        return self._with(self._all_places().transpose(axes))

    def settle(self) -> View:
        """Before the first layer: fix how hwgen takes the input.

        An image that the first layer sees as [C, H, W] is (H, W, C) if the input came as [N, C, H, W], [N, H, W, C] or
        a vector of either; other inputs are [N, C, H, W], [N, H, W] and vectors as they stand.
        """
        if self.image:
            return self
        raster = np.arange(math.prod(self.source), dtype=np.int64)
        places = self._all_places()
        if len(self.dims) == 3:
            channels, height, width = self.dims
            first = raster.reshape(self.dims)
            last = raster.reshape(height, width, channels).transpose(2, 0, 1)
            if any(np.array_equal(places, known) for known in (first, last)):
                return replace(self, image=(height, width, channels), places=None)
        image = _taken(self.source)
        here = _standard(image, len(self.source)).reshape(-1)
        return replace(self, image=image)._with(here[places])

    def vector(self) -> Ints | None:
        """Of every element of a settled vector its place in hwgen's Flatten of the image; None if it is its own."""
        places = self._all_places().reshape(-1)
        return None if np.array_equal(places, np.arange(places.size)) else places

    def _all_places(self) -> Ints:
        if self.places is not None:
            return self.places
        if self.image:
            return _standard(self.image, len(self.dims))
        return np.arange(math.prod(self.dims), dtype=np.int64).reshape(self.dims)

    def _with(self, places: Ints) -> View:
        dims: Dims = tuple(places.shape)
        plain = (
            bool(self.image)
            and len(dims) == len(self.image)
            and np.array_equal(places, _standard(self.image, len(dims)))
        )
        return replace(self, dims=dims, places=None if plain else places)


def _taken(source: Dims) -> Shape:
    """The input as hwgen takes it: a vector, or (H, W, C) of [N, C, H, W] or [N, H, W]."""
    if len(source) == 3:
        return (*source[1:], source[0])
    return (*source, 1) if len(source) == 2 else (math.prod(source),)


def _standard(image: Shape, rank: int) -> Ints:
    """Of every element of [C, H, W] its place in (H, W, C); of [H, W] in (H, W, 1); of a vector its own."""
    raster = np.arange(math.prod(image), dtype=np.int64)
    if rank == 3 and len(image) == 3:
        return raster.reshape(image).transpose(2, 0, 1)
    return raster.reshape(image[:2]) if rank == 2 else raster
