"""Integer tensors as the bytes of an .npz file: the same tensors give the same bytes, on every machine."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

Ints = NDArray[np.int64]
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time stamp of every member: a zip file can hold no earlier one."""


def pack(tensors: Mapping[str, Ints]) -> bytes:
    """An .npz file of ``tensors`` in their order, each in the narrowest signed type that holds its values.

    Not compressed: compressed bytes depend on the version of zlib.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, tensor in tensors.items():
            info = zipfile.ZipInfo(f"{name}.npy", EARLIEST)
            info.create_system = 3  # else it names the operating system
            member = io.BytesIO()
            np.lib.format.write_array(member, _narrow(tensor), version=(1, 0), allow_pickle=False)
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, Ints]:
    """The tensors of :func:`pack` as int64, in the same order."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name].astype(np.int64) for name in archive.files}


def _narrow(tensor: Ints) -> NDArray[np.signedinteger]:
    low, high = (int(tensor.min()), int(tensor.max())) if tensor.size else (0, 0)
    width = next(w for w in (8, 16, 32, 64) if -(1 << w - 1) <= low and high < 1 << w - 1)
    return np.ascontiguousarray(tensor, dtype=f"<i{width // 8}")
