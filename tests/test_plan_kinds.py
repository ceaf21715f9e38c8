"""Kinds of a board's memories: every shape has one, together they take what is told, and none goes where it cannot."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from hwgen.frontend.loader import load_source
from hwgen.plan.blocks import rams_of
from hwgen.plan.budget import board_load
from hwgen.plan.kinds import memory_kinds
from hwgen.plan.memories import memories
from hwgen.plan.planner import plan_network
from hwgen.plan.rooms import deal, room_of
from hwgen.target import Cluster
from hwgen.target_files import built_in

ULX3S = built_in("ulx3s_85f")


@pytest.fixture(scope="module")
def plan():
    digits = Path(__file__).parent.parent / "examples" / "digits.py"
    return plan_network(load_source(digits).network, cluster=Cluster((ULX3S,)))


def board(**fields):
    return dataclasses.replace(ULX3S, device=dataclasses.replace(ULX3S.device, **fields))


def clocked(plan, device):
    """How many memories of each shape there are, and what those read without a clock take."""
    shapes, tables = Counter(), 0
    for _, count, depth, width, reads, asynchronous in board_load(plan, 0, device).memories:
        if asynchronous:
            taken = rams_of(device).taken(depth, width, "distributed", reads, True)
            tables += count * (taken.tables + taken.lut)
        else:
            shapes[depth, width, reads] += count
    return shapes, tables


def check(plan, board):
    """Every shape has a kind, and what they take is their sum; how many shapes are of each kind."""
    kinds, rams = memory_kinds(plan, 0, board), rams_of(board.device)
    shapes, tables = clocked(plan, board.device)
    assert kinds.of.keys() == shapes.keys()
    each = [rams.taken(d, w, kinds.of[d, w, r], r) * count for (d, w, r), count in shapes.items()]
    assert kinds.taken.bram == sum(taken.bram for taken in each)
    assert kinds.taken.uram == sum(taken.uram for taken in each)
    assert kinds.taken.tables + kinds.taken.lut == tables + sum(t.tables + t.lut for t in each)
    return Counter(kinds.of.values())


def test_the_usual_board(plan):
    counts = check(plan, ULX3S)
    assert counts.keys() == {"block", "distributed"}
    assert (
        memory_kinds(plan, 0, ULX3S).taken.bram
        == deal(room_of(ULX3S), [board_load(plan, 0, ULX3S.device)]).bram
    )


def test_less_block_memory_makes_more_distributed(plan):
    before, tables = 1000, 0
    for bram in (1000, 208, 160, 120, 80, 40):
        assert check(plan, board(bram=bram))
        taken = memory_kinds(plan, 0, board(bram=bram)).taken
        assert taken.bram <= before
        assert taken.tables + taken.lut >= tables
        before, tables = taken.bram, taken.tables + taken.lut
        if bram >= 80:
            assert taken.bram <= room_of(board(bram=bram)).bram


def test_a_board_without_block_memory_has_all_in_tables(plan):
    assert check(plan, board(bram=0)).keys() == {"distributed"}


def test_no_room_in_tables(plan):
    assert check(plan, board(lut_ram=0, bram=1000)).keys() == {"block"}


def test_ultra_takes_what_block_memory_cannot(plan):
    few = dataclasses.replace(
        built_in("vcu118"), device=dataclasses.replace(built_in("vcu118").device, bram=20, lut_ram=1000)
    )
    assert "ultra" in check(plan, few)
    assert "ultra" not in check(plan, built_in("vcu118"))


def test_what_the_plan_says_itself_is_not_asked_for(plan):
    first = plan.stages[0]
    storage = dataclasses.replace(first.storage, samples="distributed", weights="block")
    told = dataclasses.replace(plan, stages=(dataclasses.replace(first, storage=storage), *plan.stages[1:]))
    before, after = (memory_kinds(each, 0, ULX3S) for each in (plan, told))
    own = {(m.depth, m.width, m.reads) for m in memories(plan.network, told.stages[0]) if m.kind != "auto"}
    others = {
        (m.depth, m.width, m.reads)
        for planned in told.stages
        for m in memories(plan.network, planned)
        if m.kind == "auto"
    }
    assert own - others
    assert not (own - others) & after.of.keys()
    assert after.taken.bram != before.taken.bram
