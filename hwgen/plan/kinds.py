"""Which kind of memory a board's memories lie in: what a project asks its tools for, and what they then take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..target import Board
from .blocks import NOTHING, Taken, rams_of
from .budget import board_load
from .memories import memories
from .plan import Plan
from .rooms import CHEAP, SHALLOW, Room, room_of

__all__ = ["Kinds", "Shape", "memory_kinds"]

Shape = tuple[int, int, int]
"""Words, bits, read ports of memories that are read with a clock."""


@dataclass(frozen=True)
class Kinds:
    """``of``: "block", "ultra" or "distributed" for every shape that the plan leaves open; ``taken`` by all memories,
    those told by the plan and those read without a clock with them."""

    of: Mapping[Shape, str]
    taken: Taken


def memory_kinds(plan: Plan, index: int, board: Board) -> Kinds:
    """The kinds of board ``index``, which is ``board``: as ``rooms.deal`` deals them, but memories of a shape together.

    Block RAM holds all but those of which distributed RAM is cheap for the block RAMs that it saves; where that is more
    block RAM than there is, distributed RAM and then ultra RAM take more.
    """
    load, room, rams = board_load(plan, index, board.device), room_of(board), rams_of(board.device)
    fixed: Counter[tuple[Shape, str]] = Counter()
    for planned in plan.on(index):
        for memory in memories(plan.network, planned):
            if memory.kind != "auto" and not memory.asynchronous:
                fixed[(memory.depth, memory.width, memory.reads), memory.kind] += memory.count
    open_: Counter[Shape] = Counter()
    taken = NOTHING
    for _, count, depth, width, reads, asynchronous in load.memories:
        if asynchronous:
            taken += rams.taken(depth, width, "distributed", reads, True) * count
        else:
            open_[depth, width, reads] += count
    for (shape, kind), count in fixed.items():
        open_[shape] -= count
        taken += rams.taken(shape[0], shape[1], kind, shape[2]) * count
    costs = [
        {
            kind: rams.taken(shape[0], shape[1], kind, shape[2]) * count
            for kind, there in (
                ("block", board.device.bram),
                ("ultra", board.device.uram),
                ("distributed", shape[0] <= SHALLOW),
            )
            if there
        }
        for shape, count in open_.items()
        if count > 0
    ]
    shapes = [shape for shape, count in open_.items() if count > 0]
    chosen = _deal(costs, taken, room, load.luts)
    total = sum((cost[kind] for cost, kind in zip(costs, chosen, strict=True)), taken)
    return Kinds(dict(zip(shapes, chosen, strict=True)), total)


def _deal(costs: list[dict[str, Taken]], taken: Taken, room: Room, logic: int) -> list[str]:
    """The kind of every shape, from what all memories of it take in each kind that can hold them."""
    chosen = ["block" if "block" in cost else next(iter(cost)) for cost in costs]
    bram = taken.bram + sum(cost[kind].bram for cost, kind in zip(costs, chosen, strict=True))
    left = min(room.lut_ram, room.lut - logic) - taken.tables - taken.lut
    both = [k for k, cost in enumerate(costs) if {"block", "distributed"} <= cost.keys()]
    for k in sorted(both, key=lambda k: _tables(costs[k]) / costs[k]["block"].bram):
        tables, blocks = _tables(costs[k]), costs[k]["block"].bram
        if tables <= left and (bram > room.bram or tables < CHEAP * blocks):
            chosen[k] = "distributed"
            left, bram = left - tables, bram - blocks
    uram = room.uram - taken.uram
    rest = [k for k, cost in enumerate(costs) if chosen[k] == "block" and "ultra" in cost]
    for k in sorted(rest, key=lambda k: costs[k]["ultra"].uram / costs[k]["block"].bram):
        if bram > room.bram and costs[k]["ultra"].uram <= uram:
            chosen[k] = "ultra"
            uram, bram = uram - costs[k]["ultra"].uram, bram - costs[k]["block"].bram
    return chosen


def _tables(cost: Mapping[str, Taken]) -> int:
    """Look-up tables of a shape's memories in distributed RAM, with those around it."""
    return cost["distributed"].tables + cost["distributed"].lut
