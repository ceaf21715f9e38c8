"""What carries bytes to a device and back."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Transport"]


class Transport(ABC):
    """Bytes both ways, which may be damaged or lost on the way, but not swapped.

    ``name`` is what messages call it. Everything that the operating system refuses is a HostError.
    """

    name: str

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Sends bytes; a wait is bounded."""

    @abstractmethod
    def read(self, most: int, timeout: float) -> bytes:
        """What has come, at most ``most`` bytes; waits for the first up to ``timeout`` seconds, then b""."""

    @abstractmethod
    def close(self) -> None:
        """Gives the port back."""
