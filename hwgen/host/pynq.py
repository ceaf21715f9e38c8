"""A PYNQ board: frames over the AXI DMA of an overlay."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .errors import HostError
from .transport import Transport

__all__ = ["Pynq"]

BUFFER = 4096


class Pynq(Transport):
    """The DMA named ``dma`` of an overlay's bitstream: its send channel to the device's ``i``, its receive channel from
    ``o``, whose ``last`` is TLAST and ends a transfer."""

    def __init__(self, bitstream: str, dma: str = "axi_dma_0", seconds: float = 5.0):
        try:
            from pynq import Overlay, allocate
        except ImportError:
            raise HostError(f"{bitstream}: needs the package pynq, which PYNQ boards have") from None
        self.name, self.seconds = bitstream, seconds
        try:
            found: Any = getattr(Overlay(bitstream), dma)
        except (OSError, AttributeError, RuntimeError) as error:
            raise HostError(f"{bitstream}: no overlay with a DMA {dma} ({error})") from None
        self._to, self._from = found.sendchannel, found.recvchannel
        self._out = allocate(shape=(BUFFER,), dtype=np.uint8)
        self._in = allocate(shape=(BUFFER,), dtype=np.uint8)
        self._rest = b""
        self._from.transfer(self._in)

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        for start in range(0, len(data), BUFFER):
            part = data[start : start + BUFFER]
            self._out[: len(part)] = np.frombuffer(part, np.uint8)
            self._to.transfer(self._out, nbytes=len(part))
            deadline = time.monotonic() + self.seconds
            while not self._to.idle:
                if time.monotonic() > deadline:
                    raise HostError(f"{self.name}: took no bytes for {self.seconds:g} s")

    def read(self, most: int, timeout: float) -> bytes:
        """See Transport."""
        deadline = time.monotonic() + timeout
        while not self._rest:
            if self._from.idle:
                count = int(self._from.transferred)
                self._rest = bytes(self._in[:count])
                self._from.transfer(self._in)
            elif time.monotonic() >= deadline:
                return b""
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    def close(self) -> None:
        """Gives the buffers back."""
        for buffer in (self._in, self._out):
            buffer.freebuffer()
