"""A plan that its boards and links cannot hold."""

from __future__ import annotations

from ..errors import ModelError

__all__ = ["BudgetError", "CapacityError"]


class BudgetError(ModelError):
    """A board or a link cannot hold its part of a plan. Holds every one."""


class CapacityError(BudgetError):
    """What is missing does not come with smaller arrays."""
