"""The host's port as bytes: UART, frames that survive bad cables, messages for the core's streams."""

__all__: list[str] = []
