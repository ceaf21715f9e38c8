"""Images and registers as bytes of messages."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import HostError
from .protocol import MESSAGE_IMAGE, MESSAGE_LABEL, MESSAGE_READ, MESSAGE_WRITE

__all__ = ["image_messages", "label_message", "quantise", "read_message", "signed", "write_message"]

Ints = NDArray[np.int64]


def read_message(address: int, count: int, board: int) -> bytes:
    """``count`` reads of one register."""
    return struct.pack("<BBHH", MESSAGE_READ, board, address, count)


def write_message(address: int, values: Ints, board: int) -> bytes:
    """Writes to one register, one after the other."""
    words = (np.asarray(values, np.int64) & 0xFFFFFFFF).astype("<u4")
    return struct.pack("<BBHH", MESSAGE_WRITE, board, address, len(words)) + words.tobytes()


def label_message(label: int) -> bytes:
    """A sample's class."""
    return struct.pack("<BH", MESSAGE_LABEL, label)


def image_messages(description: Mapping[str, Any], images: Ints) -> list[bytes]:
    """A message for each of the images [N, H, W, C]: beats of lanes, packed low bits first into whole bytes."""
    run, lanes, width = (int(description[name]) for name in ("run", "lanes", "width"))
    words = -(-run // lanes)
    rows = images.reshape(len(images), -1, run)
    padded = np.zeros((*rows.shape[:2], words * lanes), np.int64)
    padded[..., :run] = rows
    beats = padded.reshape(len(images), -1, lanes, 1)
    bits = (beats >> np.arange(width)) & 1
    flat = bits.astype(np.uint8).reshape(*beats.shape[:2], lanes * width)
    packed = np.packbits(flat, axis=-1, bitorder="little")
    return [bytes([MESSAGE_IMAGE]) + image.tobytes() for image in packed]


def quantise(description: Mapping[str, Any], images: object) -> Ints:
    """Images in the device's input format: real numbers are rounded (ties to even) and saturated, integers are taken
    as they are. Raises HostError if shape or values do not fit."""
    shape, width, frac = tuple(description["shape"]), description["width"], description["frac"]
    array = np.asarray(images)
    if array.dtype.kind not in "fiub":
        raise HostError(f"images: values of type {array.dtype}; give real numbers or integers")
    if array.ndim < 2 or array[0:1].size != np.prod(shape):
        raise HostError(f"images: shape {array.shape}; the device takes (N, {', '.join(map(str, shape))})")
    array = array.reshape(-1, *shape)
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise HostError("images: not all values are finite numbers")
        scaled = np.rint(np.ldexp(array.astype(np.float64), frac))
        rounded: Ints = np.clip(scaled, low, high).astype(np.int64)
        return rounded
    if ((array < low) | (array > high)).any():
        raise HostError(
            f"images: integers from {array.min()} to {array.max()}; the device takes {low} to {high}"
        )
    return array.astype(np.int64)


def signed(words: Ints, bits: int = 32) -> Ints:
    """Words as signed integers."""
    half = 1 << bits - 1
    found: Ints = ((words + half) % (1 << bits)) - half
    return found
