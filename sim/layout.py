"""Tensors as the words of a stream, and back: the order and lanes of docs/gateware.md as numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..plan.plan import Plan

__all__ = ["Layout", "image_layout", "pack_lanes", "unpack_lanes"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint32]


def pack_lanes(values: Ints, width: int, words: int) -> Words:
    """[beats, lanes] signed integers of ``width`` bits, up to 62 → [beats, words] of 32 bits, lane 0 lowest."""
    beats, lanes = values.shape
    out = np.zeros((beats, words + 2), dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    masked = (values & ((1 << width) - 1)).astype(np.uint64)
    for lane in range(lanes):
        word, shift = divmod(lane * width, 32)
        out[:, word] |= (masked[:, lane] << np.uint64(shift)) & low
        for further in range(1, -(-(shift + width) // 32)):
            out[:, word + further] |= (masked[:, lane] >> np.uint64(32 * further - shift)) & low
    return out[:, :words].astype(np.uint32)


def unpack_lanes(words: Words, lanes: int, width: int) -> Ints:
    """Inverse of :func:`pack_lanes`."""
    wide = words.astype(np.uint64)
    out = np.empty((len(words), lanes), dtype=np.int64)
    sign = np.int64(1 << (width - 1))
    for lane in range(lanes):
        word, shift = divmod(lane * width, 32)
        bits = wide[:, word] >> np.uint64(shift)
        for further in range(1, -(-(shift + width) // 32)):
            bits |= wide[:, word + further] << np.uint64(32 * further - shift)
        value = (bits & np.uint64((1 << width) - 1)).astype(np.int64)
        out[:, lane] = (value ^ sign) - sign
    return out


@dataclass(frozen=True)
class Layout:
    """How a tensor (H, W, C) travels: groups · ceil((C/groups)/lanes) words a pixel of lanes · width bits."""

    shape: tuple[int, int, int]
    groups: int
    lanes: int
    width: int

    @property
    def words_per_group(self) -> int:
        """Words of one group of a pixel."""
        return -(-(self.shape[2] // self.groups) // self.lanes)

    @property
    def beats(self) -> int:
        """Words of one sample."""
        return self.shape[0] * self.shape[1] * self.groups * self.words_per_group

    def to_lanes(self, tensors: Ints) -> Ints:
        """[samples, H, W, C] → [samples, beats, lanes], zero in the lanes past the end."""
        height, width, channels = self.shape
        cpg = channels // self.groups
        padded = np.zeros(
            (len(tensors), height, width, self.groups, self.words_per_group * self.lanes), np.int64
        )
        padded[..., :cpg] = tensors.reshape(len(tensors), height, width, self.groups, cpg)
        return padded.reshape(len(tensors), self.beats, self.lanes)

    def to_tensors(self, lanes: Ints) -> Ints:
        """[samples · beats, lanes] → [samples, H, W, C]; lanes past the end are left to :meth:`padding`."""
        height, width, channels = self.shape
        cpg = channels // self.groups
        spread = lanes.reshape(-1, height, width, self.groups, self.words_per_group * self.lanes)
        return np.ascontiguousarray(spread[..., :cpg]).reshape(-1, height, width, channels)

    def padding(self, lanes: Ints) -> Ints:
        """The values in the lanes past the end, all of which must be zero."""
        cpg = self.shape[2] // self.groups
        return lanes.reshape(-1, self.groups, self.words_per_group * self.lanes)[..., cpg:]


def image_layout(plan: Plan) -> Layout:
    """How images travel to the device."""
    height, width, channels = plan.network.in_shape
    run, lanes = plan.image_side
    return Layout((height, width * channels // run, run), 1, lanes, plan.network.input.width)
