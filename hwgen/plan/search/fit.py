"""Whether a board holds parts: multipliers, logic, and memories dealt to block, ultra and distributed RAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...target import Board, Device

__all__ = ["Load", "Room", "deal", "room_of"]


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
    """What one part takes in one of its foldings. ``mems``: (count, block RAMs, ultra RAMs, LUTs) each takes in
    the kind that would hold it."""

    dsp: int
    luts: int
    ffs: int
    mems: tuple[tuple[int, float, float, int], ...]
    floor: float
    """Fewest block RAMs if there were distributed RAM without end: none of what it can hold."""


def room_of(board: Board) -> Room:
    """The room of a board by its fill limits."""
    names = ("dsp", "bram", "uram", "lut", "ff")
    ram = int(board.device.lut_ram * board.fill.lut)
    return Room(board.device, *(board.available(name) for name in names), ram)


def deal(room: Room, loads: Sequence[Load]) -> tuple[float, float, int] | None:
    """Block RAMs, ultra RAMs and LUTs of distributed RAM that all memories together take; None if there is no room.

    Memories go to distributed RAM by how few look-up tables save a block RAM, then to ultra RAM by how many block RAMs one saves.
    """
    logic = sum(load.luts for load in loads)
    mems = [mem for load in loads for mem in load.mems]
    bram = sum(count * blocks for count, blocks, _, _ in mems)
    luts, left = 0, min(room.lut_ram, room.lut - logic)
    if left < 0:
        return None
    rest = []
    for count, blocks, ultra, each in sorted(mems, key=lambda mem: mem[3] / mem[1]):
        moved = 0
        if bram > room.bram or each < 40 * blocks:
            moved = min(count, (left - luts) // each)
            luts += moved * each
            bram -= moved * blocks
        if count > moved:
            rest.append((count - moved, blocks, ultra))
    uram = 0.0
    if bram > room.bram and room.uram:
        for count, blocks, ultra in sorted(rest, key=lambda mem: mem[2] / mem[1]):
            moved = min(count, int((room.uram - uram) // ultra), -int(-(bram - room.bram) // blocks))
            if moved > 0:
                uram += moved * ultra
                bram -= moved * blocks
    return (bram, uram, luts) if bram <= room.bram else None
