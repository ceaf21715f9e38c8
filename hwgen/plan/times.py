"""When the events of a schedule happen, stage by stage and sample by sample."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .repeats import Series

__all__ = ["StageTimes", "Times"]

Ints = NDArray[np.int64]


@dataclass
class StageTimes:
    """Cycles of one stage's events, one array a sample. ``x``: pixel of x written; ``forward``, ``backward``:
    end of each block (the cycle after its last op); ``relu``: pixel behind the ReLU; ``y``: pixel of y given;
    ``dy``: pixel of y's error taken; ``masked``: pixel into the array's replay; ``dx``: pixel of dx given.
    ``first_forward``, ``first_backward``: first op; ``update``: version after each batch.
    """

    x: Series[Ints] = field(default_factory=Series)
    forward: Series[Ints] = field(default_factory=Series)
    relu: Series[Ints] = field(default_factory=Series)
    y: Series[Ints] = field(default_factory=Series)
    dy: Series[Ints] = field(default_factory=Series)
    masked: Series[Ints] = field(default_factory=Series)
    backward: Series[Ints] = field(default_factory=Series)
    dx: Series[Ints] = field(default_factory=Series)
    first_forward: Series[int] = field(default_factory=Series)
    first_backward: Series[int] = field(default_factory=Series)
    update: list[int] = field(default_factory=list)

    @property
    def samples(self) -> tuple[Series[Any], ...]:
        """All that has an item a sample."""
        found = (getattr(self, each.name) for each in fields(self))
        return tuple(each for each in found if isinstance(each, Series))


@dataclass
class Times:
    """All stages, the results, and when the device is idle after the last batch."""

    stages: list[StageTimes]
    results: Series[int]
    idle: int
