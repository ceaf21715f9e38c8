"""Bytes over two file descriptors: pipes, pseudo terminals, character devices."""

from __future__ import annotations

import os
import select
import time

from .errors import HostError
from .transport import Transport

__all__ = ["Pipe"]


class Pipe(Transport):
    """Reads from descriptor ``source`` and writes to ``sink``, and closes both."""

    def __init__(self, name: str, source: int, sink: int, write_seconds: float = 5.0):
        self.name, self.source, self.sink, self.write_seconds = name, source, sink, write_seconds
        for descriptor in (source, sink):
            os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        """Sends bytes; HostError if the other end takes none in time, or is gone."""
        deadline = time.monotonic() + self.write_seconds
        while data:
            try:
                data = data[os.write(self.sink, data) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HostError(
                        f"{self.name}: took no bytes for {self.write_seconds:g} s; it stopped"
                    ) from None
                select.select([], [self.sink], [], 0.1)
            except OSError as error:
                raise HostError(f"{self.name}: cannot be written ({error.strerror}); it ended") from None

    def read(self, most: int, timeout: float) -> bytes:
        """See Transport."""
        try:
            if not select.select([self.source], [], [], timeout)[0]:
                return b""
            found = os.read(self.source, most)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise HostError(f"{self.name}: cannot be read ({error}); it ended") from None
        if not found:
            raise HostError(f"{self.name}: closed at the other end")
        return found

    def close(self) -> None:
        """Closes both descriptors."""
        for descriptor in {self.source, self.sink}:
            os.close(descriptor)
