"""What goes wrong between host and device."""

from __future__ import annotations

__all__ = ["HostError"]


class HostError(Exception):
    """Something a user can act on: where, what is wrong, what to do."""
