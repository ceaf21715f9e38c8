"""Whether a board holds parts: multipliers, logic, and memories dealt to block, ultra and distributed RAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from operator import itemgetter

from ..target import Board, Device
from .blocks import Rams, rams_of

__all__ = ["NEVER", "Dealt", "Load", "Memories", "Memory", "Room", "deal", "load_of", "room_of"]

SHALLOW = 2048
"""Words beyond which a memory never goes to distributed RAM."""
CHEAP = 40.0
"""LUTs for which a block RAM is given up without need."""
NEVER = 1e9
"""Stands for what a kind of memory that is not there would take."""
Memory = tuple[str, int, int, int, int, bool]
"""(name, how many, depth in words, width in bits, read ports, read without a clock)."""
Memories = tuple[Memory, ...]


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
    the kind that would hold it; NEVER where the device has none. ``tables``: LUTs of memories that are read without a
    clock, which nothing else can hold.

    ``floor``: block RAMs of the memories of which distributed RAM holds none and that have no ultra RAM to go to.
    """

    dsp: int
    luts: int
    ffs: int
    memories: Memories
    mems: tuple[tuple[int, float, float, float], ...]
    floor: float
    tables: int

    @cached_property
    def by_saving(self) -> list[tuple[float, int, float, float, float]]:
        """``mems`` behind the LUTs of each for a block RAM that it saves, those with the fewest first."""
        return sorted(((mem[3] / mem[1], *mem) for mem in self.mems), key=itemgetter(0))

    @cached_property
    def blocks(self) -> float:
        """Block RAMs of all ``mems``."""
        return sum(mem[0] * mem[1] for mem in self.mems)

    def with_memories(self, device: Device, memories: Memories) -> Load:
        """The same load with more memories."""
        kinds = _kinds(device)
        mems, floor, tables = [*self.mems], self.floor, self.tables
        for _, count, depth, width, reads, asynchronous in memories:
            if asynchronous:
                tables += count * kinds.asynchronous(depth, width, reads)
                continue
            blocks, ultra, luts, stays = kinds.of(depth, width, reads)
            mems.append((count, blocks, ultra, luts))
            floor += count * blocks if stays else 0.0
        listed = (*self.memories, *memories)
        return Load(self.dsp, self.luts, self.ffs, listed, tuple(mems), floor, tables)


@dataclass(frozen=True)
class Dealt:
    """What loads take of a board: memory by kind, LUTs and flip-flops of logic."""

    bram: float
    uram: float
    lut_ram: int
    luts: int
    ffs: int

    def fits(self, room: Room) -> bool:
        """Whether there is room for it."""
        return (
            self.bram <= room.bram
            and self.lut_ram <= min(room.lut_ram, room.lut - self.luts)
            and self.ffs <= room.ff
        )


def room_of(board: Board) -> Room:
    """The room of a board by its fill limits."""
    names = ("dsp", "bram", "uram", "lut", "ff", "lut_ram")
    return Room(board.device, *(board.available(name) for name in names))


class _Kinds:
    """What a memory takes of every kind of a device's memories, kept for later."""

    def __init__(self, rams: Rams, blocks: bool, ultra: bool, lut_ram: int):
        self.rams, self.blocks, self.ultra, self.lut_ram = rams, blocks, ultra, lut_ram
        self._known: dict[tuple[int, int, int], tuple[float, float, float, bool]] = {}

    def asynchronous(self, depth: int, width: int, reads: int) -> int:
        """Look-up tables of one that is read without a clock."""
        taken = self.rams.taken(depth, width, "distributed", reads, True)
        return taken.tables + taken.lut

    def of(self, depth: int, width: int, reads: int) -> tuple[float, float, float, bool]:
        """Block RAMs, ultra RAMs, LUTs; whether nothing but block RAM holds it."""
        key = depth, width, reads
        if key not in self._known:
            blocks = ultra = luts = NEVER
            if self.blocks:
                blocks = self.rams.taken(depth, width, "block", reads).bram
            if self.ultra:
                ultra = float(self.rams.taken(depth, width, "ultra", reads).uram)
            if depth <= SHALLOW:
                taken = self.rams.taken(depth, width, "distributed", reads)
                luts = float(taken.tables + taken.lut)
            self._known[key] = blocks, ultra, luts, luts > self.lut_ram and not self.ultra
        return self._known[key]


@cache
def _kinds(device: Device) -> _Kinds:
    return _Kinds(rams_of(device), bool(device.bram), bool(device.uram), device.lut_ram)


def load_of(device: Device, dsp: int, logic: tuple[int, int], memories: Memories) -> Load:
    """A load from its DSPs, its LUTs and flip-flops, and its memories."""
    return Load(dsp, *logic, (), (), 0.0, 0).with_memories(device, memories)


def deal(room: Room, loads: Sequence[Load]) -> Dealt:
    """Deals all memories to block, ultra and distributed RAM; if there is no room, more block RAM than there is.

    To distributed RAM go those that save a block RAM with the fewest look-up tables, to ultra RAM then those of which
    one saves the most block RAMs; no more than needed, but for the very shallow.
    """
    luts, ffs = sum(load.luts for load in loads), sum(load.ffs for load in loads)
    left = min(room.lut_ram, room.lut - luts)
    mems = sorted(chain.from_iterable(load.by_saving for load in loads), key=itemgetter(0))
    bram, tables = sum(load.blocks for load in loads), float(sum(load.tables for load in loads))
    rest = []
    for _, count, blocks, ultra, each in mems:
        moved = 0
        if each <= left - tables and (bram > room.bram or each < CHEAP * blocks):
            moved = min(count, int((left - tables) // each))
            tables += moved * each
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
    return Dealt(bram, uram, int(tables), luts, ffs)
