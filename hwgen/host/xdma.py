"""PCIe by Xilinx's XDMA driver: frames as AXI4-Stream over its character devices."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .errors import HostError
from .pipe import Pipe

__all__ = ["open_xdma"]


def open_xdma(device: str = "/dev/xdma0") -> Pipe:
    """The channels 0 of ``device``: ``<device>_h2c_0`` carries bytes to the device's ``i``, ``<device>_c2h_0`` those of
    ``o``, whose ``last`` is TLAST. Registers go in frames, so that ``<device>_user`` is not needed."""
    opened: list[int] = []
    for path, way in ((f"{device}_c2h_0", os.O_RDONLY), (f"{device}_h2c_0", os.O_WRONLY)):
        try:
            opened.append(os.open(Path(path), way | os.O_NONBLOCK))
        except OSError as error:
            for descriptor in opened:
                with suppress(OSError):
                    os.close(descriptor)
            raise HostError(
                f"{path}: cannot be opened ({error.strerror}); load the xdma driver, and check your rights"
            ) from None
    return Pipe(device, *opened)
