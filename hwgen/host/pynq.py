"""A PYNQ board: frames over the AXI DMA of an overlay."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .errors import HostError
from .transport import Transport

__all__ = ["BUFFER", "Pynq"]

BUFFER = 4096
CONTROL, RESET = 0, 4
"""Register of the DMA's send channel, and the bit that resets both channels (PG021)."""


class Pynq(Transport):
    """The DMA named ``dma`` of an overlay's bitstream, without scatter-gather: its send channel goes to the device's
    ``i``, its receive channel comes from ``o``, whose ``last`` is TLAST and ends a transfer."""

    def __init__(self, bitstream: str, dma: str = "axi_dma_0", seconds: float = 5.0):
        try:
            from pynq import Overlay, allocate
        except ImportError:
            raise HostError(f"{bitstream}: needs the package pynq, which PYNQ boards have") from None
        self.name, self.seconds = bitstream, seconds
        try:
            self._dma: Any = getattr(Overlay(bitstream), dma)
            self._to, self._from = self._dma.sendchannel, self._dma.recvchannel
        except (OSError, AttributeError, RuntimeError) as error:
            raise HostError(f"{bitstream}: no overlay with a DMA {dma} of both channels ({error})") from None
        if hasattr(self._to, "halted"):
            raise HostError(f"{bitstream}: {dma} has scatter-gather; switch it off in the block design")
        self._out = allocate(shape=(BUFFER,), dtype=np.uint8)
        self._in = allocate(shape=(BUFFER,), dtype=np.uint8)
        self._rest = b""
        self._start(self._from, self._in, BUFFER)

    def _start(self, channel: Any, buffer: Any, count: int) -> None:
        try:
            channel.transfer(buffer, nbytes=count)
        except (RuntimeError, ValueError) as error:
            raise HostError(f"{self.name}: the DMA refuses a transfer ({error})") from None

    def _ended(self, channel: Any) -> bool:
        """Whether a transfer is over; its memory then is what the DMA left there."""
        if not (channel.idle or channel.error):
            return False
        try:
            channel.wait()  # does not wait any more, but tells errors, and looks past the cache
        except RuntimeError as error:
            raise HostError(f"{self.name}: {error}; load the overlay again") from None
        return True

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        for start in range(0, len(data), BUFFER):
            part = data[start : start + BUFFER]
            self._out[: len(part)] = np.frombuffer(part, np.uint8)
            self._start(self._to, self._out, len(part))
            deadline = time.monotonic() + self.seconds
            while not self._ended(self._to):
                if time.monotonic() > deadline:
                    raise HostError(f"{self.name}: took no bytes for {self.seconds:g} s")

    def read(self, most: int, timeout: float) -> bytes:
        """See Transport."""
        deadline = time.monotonic() + timeout
        while not self._rest:
            if self._ended(self._from):
                self._rest = bytes(self._in[: int(self._from.transferred)])
                self._start(self._from, self._in, BUFFER)
            elif time.monotonic() >= deadline:
                return b""
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    def close(self) -> None:
        """Stops the DMA and gives the buffers back; those of a DMA that does not stop are left alone, for it may still
        write there."""
        self._dma.mmio.write(CONTROL, RESET)
        deadline = time.monotonic() + self.seconds
        while self._dma.mmio.read(CONTROL) & RESET:
            if time.monotonic() > deadline:
                return
        for buffer in (self._in, self._out):
            buffer.freebuffer()
