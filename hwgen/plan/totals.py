"""When parts that share their weights have the total of their gradients: the sums go from part to part and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import latency as L
from .columns import load_pace
from .crossing import batch_crossing
from .links import channel_of
from .plan import Plan, StagePlan

__all__ = ["totals_placed"]


def totals_placed(plan: Plan, parts: Sequence[StagePlan], done: Sequence[int]) -> list[int]:
    """When the total of the last element is in its place, of every part, from the ends of their gradients; first and
    last elements on their way."""
    whole = plan.whole(parts[0])
    count = math.prod(whole.weight_shape) + (whole.out_channels if whole.bias is not None else 0)
    first = last = 0
    for at, planned in zip(done, parts, strict=True):
        own = at + L.settle(planned) + L.sums_latency(planned)
        if not planned.part.first:
            first, last = _cross(plan, first, last, planned.board - 1, "grads")
        first = max(first, own) + 1
        last = max(last + 1, first + load_pace(planned) * (count - 1))
    placed = [last + 1 + load_pace(parts[-1])]
    for planned in parts[:0:-1]:
        first, last = _cross(plan, first, last, planned.board - 1, "totals")
        placed.append(last + 1 + load_pace(planned))
    return placed[::-1]


def _cross(plan: Plan, first: int, last: int, index: int, kind: str) -> tuple[int, int]:
    """First and last elements of a channel on the other side of a link."""
    link, channel = plan.links[index], channel_of(plan.links[index], kind)
    beats = channel.beats(link.width)
    last = max(last, first + beats * (channel.pixels - 1))
    way = beats - 1 + batch_crossing(link, channel, last - first + beats)
    return first + way, last + way
