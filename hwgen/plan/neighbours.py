"""Masters that lie with a neighbour: what they take of its chip, and of the link to it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..target import Cluster
from .columns import load_pace
from .errors import CapacityError
from .links import MAX_CHANNELS, Channel, LinkPlan
from .memory import Region, board_regions
from .plan import Plan
from .rooms import Memory

__all__ = ["LINK_SHARE", "check_channels", "lent", "lent_memories", "link_cycles", "master_channels"]

LINK_SHARE = 0.96
"""Share of a link's words that carry payload, frames of full length: header, trailer, acknowledgements."""
OUT_DEPTH = 4
"""Words that wait for the link: gateware.neighbour."""


def lent(plan: Plan, board: int) -> tuple[Region, ...]:
    """Regions on the chip of a board for parts beside it."""
    return tuple(region for region in board_regions(plan, board) if not region.external)


def lent_memories(plan: Plan, board: int) -> Iterator[Memory]:
    """Memories of a board that hold masters of others."""
    for region in lent(plan, board):
        yield "masters of others", region.lanes, max(2, region.words), region.bits, 1, False
        yield "masters on their way", 1, OUT_DEPTH, region.lanes * region.bits, 1, True


def master_channels(channels: tuple[Channel, ...]) -> list[Channel]:
    """Those of a link's way that carry masters, or new ones."""
    return [channel for channel in channels if channel.kind.startswith(("masters_", "updates_"))]


def _part(channel: Channel) -> int:
    """Whose masters a channel carries: the number in plan.stages."""
    return int(channel.kind.split("_")[1])


def link_cycles(plan: Plan, cluster: Cluster) -> int:
    """Cycles by which the update takes longer where a link carries fewer masters than it walks over; of the way that
    loses most, its parts one after the other."""
    late = [0]
    for link, cable in zip(plan.links, cluster.links, strict=True):
        clock = min(board.device.clock_mhz for board in cluster.boards[link.index : link.index + 2])
        rate = cable.payload_gbps * LINK_SHARE * 1e3 / (link.width * clock)
        for channels in (link.down, link.up):
            own = master_channels(channels)
            words = sum(channel.words(link.width) for channel in own)
            walked = sum(channel.run * load_pace(plan.stages[_part(channel)]) for channel in own)
            late.append(math.ceil(words / rate) - walked)
    return max(late)


def check_channels(plan: Plan) -> None:
    """Raises CapacityError naming every link that would carry more channels than a link end has."""
    problems = []
    for link in plan.links:
        for way, channels in (("away from the host", link.down), ("towards the host", link.up)):
            if len(channels) > MAX_CHANNELS:
                problems.append(
                    f"link {link.index} (board {link.index} to {link.index + 1}): {len(channels)} channels {way}, "
                    f"{len(master_channels(channels))} of them with {_masters(plan, link)}; a link end has "
                    f'{MAX_CHANNELS}; give some of these layers master="here" or "memory"'
                )
    if problems:
        raise CapacityError(problems)


def _masters(plan: Plan, link: LinkPlan) -> str:
    numbers = {_part(channel) for channel in master_channels((*link.down, *link.up))}
    return "masters of " + ", ".join(plan.stages[number].stage.name for number in sorted(numbers))
