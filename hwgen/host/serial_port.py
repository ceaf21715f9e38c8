"""A serial port (UART), by pyserial."""

from __future__ import annotations

from typing import Any

from .errors import HostError
from .transport import Transport

__all__ = ["SerialPort"]

WRITE_SECONDS = 5.0


class SerialPort(Transport):
    """The port ``name`` (/dev/ttyUSB0, COM3, a pseudo terminal) at ``baud``, 8 bits, no parity, one stop bit."""

    def __init__(self, name: str, baud: int):
        try:
            import serial
        except ImportError:
            raise HostError(f"{name}: serial ports need pyserial; pip install pyserial") from None
        self.name = name
        try:
            self._port: Any = serial.Serial(name, baud, timeout=0, write_timeout=WRITE_SECONDS)
        except (OSError, ValueError) as error:
            raise HostError(
                f"{name}: cannot be opened ({error}); check its name and your rights on it"
            ) from None

    def write(self, data: bytes) -> None:
        """Sends bytes; HostError if the port takes none for WRITE_SECONDS."""
        try:
            self._port.write(data)
        except OSError as error:
            raise HostError(f"{self.name}: cannot be written ({error}); was it unplugged?") from None

    def read(self, most: int, timeout: float) -> bytes:
        """See Transport."""
        try:
            waiting = min(most, self._port.in_waiting)
            self._port.timeout = 0 if waiting else timeout
            return bytes(self._port.read(max(1, waiting)))
        except (OSError, TypeError) as error:
            raise HostError(f"{self.name}: cannot be read ({error}); was it unplugged?") from None

    def close(self) -> None:
        """Gives the port back."""
        self._port.close()
