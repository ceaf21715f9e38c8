"""Whether a board holds parts: multipliers, logic, and memories dealt to block, ultra and distributed RAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...target import Board, Device
from .memory import Memories

__all__ = ["Dealt", "Load", "Room", "deal", "room_of"]


@dataclass(frozen=True)
class Room:
    """What a plan may use of a board."""

    device: Device
    dsp: int
    bram: int
    uram: int
    lut: int
    ff: int
    lut_ram: int


@dataclass(frozen=True)
class Load:
    """What one part takes in one of its foldings. ``mems``: (how many, block RAMs, ultra RAMs, LUTs) of every memory in
    the kind that would hold it; infinite where the device has none.

    ``floor``: block RAMs of the memories that are too deep for distributed RAM and have no ultra RAM to go to.
    """

    dsp: int
    luts: int
    ffs: int
    memories: Memories
    mems: tuple[tuple[int, float, float, float], ...]
    floor: float
    tables: int = 0
    """LUTs of memories that are read without a clock: nothing else can hold them."""


@dataclass(frozen=True)
class Dealt:
    """Memory of a board by kind, and which memories (by their place in the loads) went to which kind."""

    bram: float
    uram: float
    lut_ram: int


def room_of(board: Board) -> Room:
    """The room of a board by its fill limits."""
    names = ("dsp", "bram", "uram", "lut", "ff", "lut_ram")
    return Room(board.device, *(board.available(name) for name in names))


CHEAP = 40.0
"""LUTs for which a block RAM is given up without need."""


def deal(room: Room, loads: Sequence[Load]) -> Dealt | None:
    """Deals all memories to block, ultra and distributed RAM; None if there is no room.

    To distributed RAM go those that save a block RAM with the fewest look-up tables, to ultra RAM then those of which
    one saves the most block RAMs; no more than needed, but for the very shallow.
    """
    if sum(load.ffs for load in loads) > room.ff:
        return None
    left = min(room.lut_ram, room.lut - sum(load.luts for load in loads))
    if left < 0:
        return None
    mems = sorted((mem for load in loads for mem in load.mems), key=lambda mem: mem[3] / mem[1])
    bram, luts = sum(mem[0] * mem[1] for mem in mems), float(sum(load.tables for load in loads))
    if luts > left:
        return None
    rest = []
    for count, blocks, ultra, each in mems:
        moved = 0
        if each <= left - luts and (bram > room.bram or each < CHEAP * blocks):
            moved = min(count, int((left - luts) // each))
            luts += moved * each
            bram -= moved * blocks
        if count > moved:
            rest.append((count - moved, blocks, ultra))
    uram = 0.0
    if bram > room.bram and room.uram:
        for count, blocks, ultra in sorted(rest, key=lambda mem: mem[2] / mem[1]):
            moved = min(count, int((room.uram - uram) // ultra), int(-((room.bram - bram) // blocks)))
            if moved > 0:
                uram += moved * ultra
                bram -= moved * blocks
    return Dealt(bram, uram, int(luts)) if bram <= room.bram else None
