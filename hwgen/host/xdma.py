"""PCIe by AMD's XDMA driver: frames as AXI4-Stream over its character devices.

What the driver does decides how this is written: it knows no waiting with select; a read waits for data up to the
driver's own limit (10 s), then fails with errno 512; it ends at TLAST only if the device was opened with O_TRUNC; only
one program may have it open; and buffers must lie as the engine's alignment says.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import queue
import threading
import time
from contextlib import suppress

from .errors import HostError
from .transport import Transport

__all__ = ["BUFFER", "Xdma"]

BUFFER = 4096
"""Bytes of a transfer at most; a page, which is aligned for every engine."""
TIMED_OUT = 512
"""The errno of a transfer in which nothing moved in time: ERESTARTSYS of the kernel, which has no name outside."""
BUSY_SECONDS = 12.0
"""A read of a program that ended is over, and with it the device free, after the driver's 10 s."""


class Xdma(Transport):
    """The channels 0 of ``name`` (/dev/xdma0): ``<name>_h2c_0`` carries bytes to the device, ``<name>_c2h_0`` its
    answers, each up to TLAST. Registers go in frames, so that ``<name>_user`` is not needed."""

    def __init__(self, name: str = "/dev/xdma0"):
        self.name = name
        self._from = _opened(f"{name}_c2h_0", os.O_RDONLY | os.O_TRUNC)
        try:
            self._to = _opened(f"{name}_h2c_0", os.O_WRONLY)
        except HostError:
            self._from.close()
            raise
        self._page = mmap.mmap(-1, BUFFER)
        self._came: queue.SimpleQueue[bytes | OSError] = queue.SimpleQueue()
        self._rest = b""
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        """Passes on what comes, until the device is closed or fails."""
        page = mmap.mmap(-1, BUFFER)
        while not self._from.closed:
            try:
                count = self._from.readinto(page)
                self._came.put(page[: count or 0])
            except OSError as error:
                if error.errno != TIMED_OUT:
                    self._came.put(error)
                    return
            except ValueError:  # closed meanwhile
                return

    def write(self, data: bytes) -> None:
        """Sends bytes; HostError if the device takes none for as long as the driver waits."""
        for start in range(0, len(data), BUFFER):
            part = data[start : start + BUFFER]
            self._page[: len(part)] = part
            with memoryview(self._page) as page:
                try:
                    count = self._to.write(page[: len(part)])
                except OSError as error:
                    raise HostError(f"{self.name}: cannot be written: {_told(error)}") from None
            if count != len(part):
                raise HostError(f"{self.name}: took {count} of {len(part)} bytes; it stopped")

    def read(self, most: int, timeout: float) -> bytes:
        """See Transport."""
        if not self._rest:
            try:
                came = self._came.get(timeout > 0, timeout or None)
            except queue.Empty:
                return b""
            if isinstance(came, OSError):
                self._came.put(came)
                raise HostError(f"{self.name}: cannot be read: {_told(came)}")
            self._rest = came
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    def close(self) -> None:
        """Gives the devices back; the driver keeps ``<name>_c2h_0`` until the read under way ends."""
        for device in (self._from, self._to):
            with suppress(OSError):
                device.close()


def _opened(path: str, way: int) -> io.FileIO:
    """An unbuffered file, waited for while another program has it."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return io.FileIO(os.open(path, way), "r" if way & os.O_ACCMODE == os.O_RDONLY else "w")
        except OSError as error:
            if error.errno != errno.EBUSY:
                advice = "load the xdma driver, check your rights, and that the board is there"
                raise HostError(f"{path}: cannot be opened ({error.strerror}); {advice}") from None
            if time.monotonic() > deadline:
                raise HostError(f"{path}: another program has it open; end that one") from None
        time.sleep(0.2)


def _told(error: OSError) -> str:
    if error.errno == TIMED_OUT:
        return "no byte moved within the driver's time; is the bitstream loaded, and its clock there?"
    return f"{error.strerror}; was the board reset? Load its bitstream, and the driver again"
