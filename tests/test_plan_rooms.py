"""Memories dealt to block, ultra and distributed RAM: never more than there is, against every way to deal them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hwgen.plan.rooms import NEVER, Load, Room, deal, load_of
from hwgen.target import Cluster


def random_case(seed):
    """A board with little memory, and up to four kinds of memories, up to three of each."""
    rng = np.random.default_rng(seed)
    device = Cluster.parse("vc709").boards[0].device
    room = Room(
        device,
        0,
        int(rng.integers(0, 8)),
        int(rng.choice([0, 0, 2])),
        int(rng.integers(50, 900)),
        100,
        int(rng.integers(0, 600)),
    )
    mems = tuple(
        (
            int(rng.integers(1, 4)),
            float(rng.integers(1, 6)) / 2,
            float(rng.integers(1, 3)) if room.uram else NEVER,
            float(rng.integers(5, 400)),
        )
        for _ in range(int(rng.integers(1, 5)))
    )
    return room, Load(0, int(rng.integers(0, 100)), 10, (), mems, 0.0, int(rng.integers(0, 60)))


def can_hold(room, load):
    """Whether any way to deal the memories fits."""
    single = [mem[1:] for mem in load.mems for _ in range(mem[0])]
    for kinds in product(range(3), repeat=len(single)):
        used = [sum(mem[k] for mem, kind in zip(single, kinds, strict=True) if kind == k) for k in range(3)]
        tables = used[2] + load.tables
        if (
            used[0] <= room.bram
            and used[1] <= room.uram
            and tables <= min(room.lut_ram, room.lut - load.luts)
        ):
            return True
    return False


def test_what_is_said_to_fit_fits():
    verdicts = set()
    for seed in range(400):
        room, load = random_case(seed)
        if sum(mem[0] for mem in load.mems) <= 8:
            fits = deal(room, [load]).fits(room)
            assert not fits or can_hold(room, load), seed
            verdicts.add((fits, can_hold(room, load)))
    assert verdicts >= {(True, True), (False, False)}


def test_most_of_what_can_fit_is_found():
    """One memory after the other is not every way: the share that is missed is known."""
    cases = [random_case(seed) for seed in range(400)]
    small = [(room, load) for room, load in cases if sum(mem[0] for mem in load.mems) <= 8]
    holds = [(room, load) for room, load in small if can_hold(room, load)]
    missed = sum(not deal(room, [load]).fits(room) for room, load in holds)
    assert len(holds) > 50
    assert missed <= len(holds) // 10


@pytest.mark.parametrize(
    ("name", "what", "fits"),
    [("bram", {"bram": 3}, False), ("bram", {"bram": 4}, True), ("lut", {"bram": 0, "lut": 20_000}, True)],
)
def test_a_board_by_hand(name, what, fits):
    """Four memories of 512 × 72, a block RAM of Virtex-7 each; in tables 1,152 LUTs each at most."""
    board = Cluster.parse("vc709").boards[0]
    figures = {"dsp": 0, "bram": 0, "uram": 0, "lut": 100, "ff": 100, "lut_ram": 20_000} | what
    room = Room(board.device, **figures)
    load = load_of(board.device, 0, (10, 10), (("weights", 4, 512, 72, 1, False),))
    dealt = deal(room, [load])
    assert dealt.fits(room) == fits, (name, dealt)
    assert fits or dealt.bram == 4


def test_asynchronous_memories_take_tables_only():
    board = Cluster.parse("vc709").boards[0]
    load = load_of(board.device, 0, (0, 0), (("sums", 3, 8, 43, 1, True),))
    assert not load.mems
    assert load.tables == 3 * (7 * 4 + 2)  # 43 bits: RAM32M holds six, RAM32X1D one
    for lut_ram, fits in ((89, False), (90, True)):
        room = Room(board.device, 0, 99, 0, 999, 999, lut_ram)
        assert deal(room, [load]).fits(room) == fits
