"""Foldings: every illegal wish with its legal list, the cheapest folding that keeps the pace, tiles."""

import dataclasses
import itertools

import pytest
from ref_networks import digits_model, random_network

from hwgen.errors import ModelError
from hwgen.ir.stage import Loss, Network, Stage, Update, Wish
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.fold import Fold, Folding, legal_pc, legal_u, resolve_array
from hwgen.plan.foldings import (
    DEFAULT_MULTIPLIERS,
    MAX_PES,
    TILE,
    choose_foldings,
    default_b,
    least_pace,
    tile_of,
)

Q8 = Q(8, 4)
KERNEL = Window2d(6, 5, (3, 2))


def make_stage(index=0, window=KERNEL, cin=4, cout=6, groups=1, **settings):
    return Stage(
        f"s{index}", index, window, cin, cout, x=Q8, w=Q8, master=Q(12, 8), bias=None, y=Q8, dy=Q8, dx=Q8,
        groups=groups, **settings,
    )  # fmt: skip


def network_of(*stages):
    return Network("net", Q8, stages, Loss(2, Q8, Q8), Update(Q8, 3, 2, 0.1))


def fold_one(**settings):
    (folding,) = choose_foldings(network_of(make_stage(**settings)))
    return folding


def problems_of(*stages):
    with pytest.raises(ModelError) as caught:
        choose_foldings(network_of(*stages))
    return caught.value.problems


ILLEGAL = [
    ({"wish": Wish(b=0)}, "s0: b = 0 is outside 1..16, the pixels of its output"),
    ({"wish": Wish(b=17)}, "s0: b = 17 is outside 1..16, the pixels of its output"),
    ({"wish": Wish(b=-3)}, "s0: b = -3 is outside 1..16, the pixels of its output"),
    ({"wish": Wish(u=3)}, "s0: u = 3 is not kw, kh·kw or 1; legal u: [1, 2, 6]"),
    ({"wish": Wish(u=0)}, "s0: u = 0 is not kw, kh·kw or 1; legal u: [1, 2, 6]"),
    ({"wish": Wish(pc=5)}, "s0: pc = 5 is outside 1..4"),
    ({"wish": Wish(pc=0)}, "s0: pc = 0 is outside 1..4"),
    ({"wish": Wish(pc=3), "groups": 2}, "s0: pc = 3 is outside 1..2"),
    ({"wish": Wish(pn=7)}, "s0: pn = 7 is outside 1..6"),
    ({"wish": Wish(pn=0)}, "s0: pn = 0 is outside 1..6"),
    ({"wish": Wish(pn=4), "groups": 2}, "s0: pn = 4 is outside 1..3"),
    (
        {"array": (5, 2)},
        "s0: array=(5, 2): Pk = 5 is not u·pc; legal Pk: [1, 2, 3, 4, 6, 8, 12, 18, 24]",
    ),
    ({"array": (6, 7)}, "s0: array=(6, 7): Pn = 7 is outside 1..6"),
    ({"array": (6, 0)}, "s0: array=(6, 0): Pn = 0 is outside 1..6"),
    (
        {"array": (6, 2), "wish": Wish(u=1)},
        "s0: array=(6, 2) with u = 1, pc = None: "
        "Pk = 6 is u·pc for (u, pc) in [(2, 3), (6, 1)]; give one of these, or leave u and pc out",
    ),
    (
        {"array": (4, 2), "wish": Wish(pc=1)},
        "s0: array=(4, 2) with u = None, pc = 1: "
        "Pk = 4 is u·pc for (u, pc) in [(1, 4), (2, 2)]; give one of these, or leave u and pc out",
    ),
    (
        {"array": (4, 2), "wish": Wish(u=2, pc=3)},
        "s0: array=(4, 2) with u = 2, pc = 3: "
        "Pk = 4 is u·pc for (u, pc) in [(1, 4), (2, 2)]; give one of these, or leave u and pc out",
    ),
    (
        {"array": (6, 2), "wish": Wish(pn=3)},
        "s0: array=(6, 2) and pn = 3 disagree; give one of them",
    ),
]


@pytest.mark.parametrize(("settings", "message"), ILLEGAL)
def test_an_illegal_wish_lists_what_is_legal(settings, message):
    assert problems_of(make_stage(**settings)) == [message]


def test_all_illegal_wishes_are_reported_at_once():
    stages = [
        make_stage(0, wish=Wish(u=5, pc=9, pn=8, b=0)),
        make_stage(1),
        make_stage(2, array=(5, 2)),
        make_stage(3, array=(6, 2), wish=Wish(u=1, pn=3)),
    ]
    found = problems_of(*stages)
    assert [line.split(" ")[0] + " " + line.split(" ")[1].split("=")[0] for line in found] == [
        "s0: b", "s0: u", "s0: pc", "s0: pn", "s2: array", "s3: array", "s3: array",
    ]  # fmt: skip


def test_arrays_that_the_host_cannot_number():
    line = Window2d(1, 1)
    deep, wide = MAX_PES + 1, 300
    stages = [
        make_stage(0, line, deep, 1, array=(1, 1)),
        make_stage(1, line, wide, wide, array=(wide, wide)),
        make_stage(2, line, MAX_PES, 1, array=(1, 1)),
        make_stage(3, line, 256, 256, array=(256, 256)),
    ]
    first, second = problems_of(*stages)
    limit = "the host can number 65536 of both; give a larger array"
    assert first == f"s0: a folding of 1 × 1 PEs with {deep} weights each; {limit}"
    assert second == f"s1: a folding of 300 × 300 PEs with 1 weights each; {limit} or a smaller one"


@pytest.mark.parametrize(
    ("settings", "folding"),
    [
        ({"array": (6, 2)}, Folding(6, 1, 2, 4)),
        ({"array": (4, 3)}, Folding(1, 4, 3, 4)),
        ({"array": (12, 1)}, Folding(6, 2, 1, 4)),
        ({"array": (6, 2), "wish": Wish(u=2)}, Folding(2, 3, 2, 4)),
        ({"array": (4, 2), "wish": Wish(pc=2, pn=2, b=7)}, Folding(2, 2, 2, 7)),
        ({"wish": Wish(u=6, pc=2, pn=3, b=1)}, Folding(6, 2, 3, 1)),
        ({"wish": Wish(pc=4)}, Folding(2, 4, 1, 4)),
        ({"wish": Wish(pn=5)}, Folding(2, 1, 5, 4)),
        ({"wish": Wish(u=1)}, Folding(1, 1, 1, 4)),
        ({"window": Window2d(1, 1), "array": (4, 6)}, Folding(1, 4, 6, 1)),
    ],
)
def test_a_legal_wish_is_followed(settings, folding):
    assert fold_one(**settings) == folding


@pytest.mark.parametrize("pk", [1, 2, 3, 4, 6, 8, 12, 18, 24])
def test_an_array_has_the_fewest_folds(pk):
    stage = make_stage()
    got = Fold(stage, resolve_array(stage, (pk, 2)))
    others = [
        Fold(stage, Folding(u, pc, 2)).fk for u in legal_u(stage) for pc in legal_pc(stage) if u * pc == pk
    ]
    assert (got.pk, got.fk) == (pk, min(others))


def all_folds(stage):
    columns = range(1, stage.N + 1)
    choices = itertools.product(legal_u(stage), legal_pc(stage), columns)
    return [Fold(stage, Folding(*choice, default_b(stage))) for choice in choices]


@pytest.mark.parametrize("seed", range(12))
def test_a_free_stage_is_the_cheapest_that_keeps_the_pace(seed):
    """Against all legal foldings of the stage; the pace is that of the slowest array asked for."""
    network = random_network(seed)
    first, *rest = network.stages
    first = dataclasses.replace(first, wish=Wish(1, 1, 1, 1))
    network = dataclasses.replace(network, stages=(first, *rest))
    chosen = choose_foldings(network)
    pace = max(Fold(first, chosen[0]).cycles, least_pace(network))
    for stage, folding in zip(rest, chosen[1:], strict=True):
        folds = all_folds(stage)
        cheap = [fold.multipliers for fold in folds if fold.cycles <= pace]
        got = Fold(stage, folding)
        if cheap:
            assert got.cycles <= pace
            assert got.multipliers == min(cheap)
            assert got.cycles == min(fold.cycles for fold in folds if fold.multipliers == min(cheap))
        else:
            assert got.cycles == min(fold.cycles for fold in folds)


def test_the_slowest_array_sets_the_pace():
    stages = [make_stage(0, array=(24, 6)), make_stage(1, array=(4, 1)), make_stage(2)]
    fast, slow, free = (
        Fold(*pair) for pair in zip(stages, choose_foldings(network_of(*stages)), strict=True)
    )
    assert fast.cycles < slow.cycles
    assert free.multipliers == min(
        fold.multipliers for fold in all_folds(stages[2]) if fold.cycles <= slow.cycles
    )


@pytest.mark.parametrize("seed", range(12))
def test_without_arrays_the_multipliers_are_used_up(seed):
    """A pace one cycle faster would take more than DEFAULT_MULTIPLIERS, or there is no faster one."""
    network = digits_model().network() if seed == 0 else random_network(seed)
    folds = [Fold(*pair) for pair in zip(network.stages, choose_foldings(network), strict=True)]
    floor = least_pace(network)
    pace = max(fold.cycles for fold in folds)
    if pace <= floor:
        for stage, fold in zip(network.stages, folds, strict=True):
            assert fold.multipliers == min(f.multipliers for f in all_folds(stage) if f.cycles <= floor)
        return
    need = 0
    for stage in network.stages:
        faster = [fold.multipliers for fold in all_folds(stage) if fold.cycles < pace]
        need += min(faster, default=DEFAULT_MULTIPLIERS + 1)
    assert need > DEFAULT_MULTIPLIERS
    assert sum(fold.multipliers for fold in folds) <= DEFAULT_MULTIPLIERS or all(
        fold.multipliers == min(other.multipliers for other in all_folds(stage))
        for fold, stage in zip(folds, network.stages, strict=True)
    )


@pytest.mark.parametrize(("pk", "pn"), [(1, 1), (9, 8), (18, 16), (17, 13), (10, 9), (100, 30), (12, 7)])
def test_a_tile_is_the_largest_that_divides(pk, pn):
    stage = make_stage(0, Window2d(1, 1), pk, pn, array=(pk, pn))
    tk, tn = tile_of(Fold(stage, Folding(1, pk, pn)))
    assert pk % tk == pn % tn == 0
    assert tk <= TILE[0]
    assert tn <= TILE[1]
    assert not any(pk % k == 0 for k in range(tk + 1, TILE[0] + 1))
    assert not any(pn % n == 0 for n in range(tn + 1, TILE[1] + 1))
