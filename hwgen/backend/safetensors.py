"""Tensors as the bytes of a .safetensors file: a header in JSON, then the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["safetensors_bytes"]

ALIGNMENT = 8
"""The numbers begin at a multiple of this; the header is filled with spaces."""


def safetensors_bytes(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """A file of float32 ``tensors`` in their order."""
    header: dict[str, object] = {"__metadata__": {"producer": "hwgen"}}
    parts, place = [], 0
    for name, array in tensors.items():
        content = np.ascontiguousarray(array, dtype="<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [place, place + len(content)],
        }
        parts.append(content)
        place += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))
