"""Rows dealt to boards change no bit: whole batches of training against the reference, without links and with them; no
order of rows stands still, and every join broken is found."""

import dataclasses
import itertools
import random
from unittest import mock

import numpy as np
import pytest
from chain_cases import chain_device, chain_plan
from chain_networks import cut_plan, refolded, row_groups, row_pools, run_direct, tall_rows
from device_cases import doubled, with_depths
from hwgen.sim.cables import CableOptions
from hwgen.sim.run import SimOptions, simulate
from ref_networks import random_network

from hwgen.backend.verilog import emit
from hwgen.errors import MismatchError, WatchdogError
from hwgen.gateware import chains, flow, pool_rows
from hwgen.gateware.rows import AddRows
from hwgen.ir.stage import Place, Wish
from hwgen.plan.columns import load_pace
from hwgen.plan.cuts import Cut, axis_channels, legal_axes, within_groups
from hwgen.plan.rows import row_problems
from hwgen.target import Link

WIDE = Link(gbps=100.0, encoding="none", adapter="parallel", latency=20)
ROUGH = CableOptions(
    latency=(0, 40), jitter=5, ber=1e-5, loss=0.02, repeat=0.02, reset_skew=500, stutter=True, clocks=True
)
FAST = {"gradients": False, "batches": 1}
"""All of y, dy and dx of a batch, two free ones, and the weights behind them."""

CASES = {
    "uneven turns of the first layer, of the third on the same board": (
        tall_rows, {}, "0r2:1,1,1,2 1 1r2:2,1 2", {"stall": 0.3},
    ),
    "turns of one row behind a cut by outputs": (tall_rows, {}, "0 0o1,2 1r2:1,1,1 2", {}),
    "windows of a pool on two boards": (row_pools, {}, "0r2:1,2,1 1r2:3,2 2 2", {"stall": 0.3}),
}  # fmt: skip


def check(network, arguments, text, **options):
    result = run_direct(cut_plan(network(**arguments), text, WIDE), **FAST | options)
    assert result["mismatched"] == 0
    assert result["compared"] > 300


@pytest.mark.parametrize("name", CASES)
def test_dealt_rows_change_no_bit(name):
    network, arguments, text, options = CASES[name]
    check(network, arguments, text, **options)


@pytest.mark.parametrize("stall", [pytest.param(0.0, marks=pytest.mark.soak), 0.3])
def test_totals_are_loaded_into_the_words_of_columns(stall):
    """Peeks and loads of the same memory, an element each in two cycles."""
    network, arguments, text, _ = CASES["uneven turns of the first layer, of the third on the same board"]
    plan = cut_plan(network(**arguments), text, WIDE)
    stages = [
        dataclasses.replace(p, storage=dataclasses.replace(p.storage, weights="block")) for p in plan.stages
    ]
    plan = dataclasses.replace(plan, stages=tuple(stages))
    assert all(load_pace(planned) == 2 for planned in plan.stages if planned.part.shares_weights)
    assert run_direct(plan, stall=stall, **FAST)["mismatched"] == 0


SOAKED = [
    (row_groups, {}, "0r3:1,2,1,1 2r2:1,1 3"),  # the pool leaves a row over
    (tall_rows, {"rounding": "stochastic"}, "0r3:1,1,1,1,1 2r3:1,1,1 4r2:1,2 5"),
    (tall_rows, {"frozen": True}, "0r2:3,2 1r2:2,1 2r3:1,1,1 4"),
    (tall_rows, {}, "0r2:0,2,3,0 1 1 1"),
    (tall_rows, {}, "0 0r3:1,1,1 2i1,2 3"),
    (row_groups, {}, "0r2:2,2,1 1g1,4 2"),
    (row_groups, {}, "0g1,2 1r2:1,1 2"),
    (row_pools, {}, "0r3:1,1,1,1 2r3:2,1,2 4r2:1,1,1 5"),
    (row_pools, {"frozen": True}, "0r2:2,2 1r2:2,3 2r3:1,1,1 4"),
    (row_pools, {}, "0 0r2:3,2 1 1"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("network", "arguments", "text"), SOAKED)
def test_more_deals(network, arguments, text):
    check(network, arguments, text, stall=0.2, poison=True, gradients=True, evaluate=True, batches=2)


# --- Order of rows: no buffer for a turn, one word between the boards, both ends stall


def test_no_order_of_rows_stands_still():
    """Least depths, nothing that waits for its turn, other foldings of the parts, one word between the boards."""
    plan = cut_plan(tall_rows(), "0 0r3:1,1,1 2 2", WIDE)
    plan = refolded(plan, {1: {"u": 1, "pc": 1}, 2: {"pc": 1, "pn": 2}, 3: {"u": 1, "b": 2}})
    assert all(planned.depths.turn_x == planned.depths.turn_sums == 0 for planned in plan.stages)
    assert run_direct(plan, depth=1, stall=0.4, **FAST)["mismatched"] == 0


@pytest.mark.soak
def test_doubled_depths():
    plan = with_depths(cut_plan(tall_rows(), "0r2:1,1,1,2 1 1r2:2,1 2", WIDE), doubled)
    assert run_direct(plan, depth=64)["mismatched"] == 0


def random_row_cuts(network, rng):
    """One cut a stage: rows at random where they can be, else channels or none."""
    cuts, board = [], 0
    for stage in network.stages:
        count, height = rng.choice([2, 2, 3]), stage.out_shape[0]
        deal = []
        while sum(deal) < height:
            deal.append(min(rng.randint(0, 3), height - sum(deal)))
        if not row_problems(stage, deal, count):
            totals = np.cumsum([0, *(sum(deal[p::count]) for p in range(count))])
            cuts.append(Cut(board, "rows", tuple(totals.tolist()), tuple(deal)))
            board += count - 1
        elif legal_axes(stage) and rng.random() < 0.3:
            axis = rng.choice(legal_axes(stage))
            channels = axis_channels(stage, axis)
            middle = rng.randint(1, channels - 1)
            if axis == "output_channels" and not within_groups(stage, 0, middle):
                middle -= middle % stage.N
            cuts.append(Cut(board, axis, (0, middle, channels)))
            board += 1
        else:
            cuts.append(Cut(board))
    return tuple(cuts) if any(cut.axis == "rows" for cut in cuts) and board < 6 else None


def random_rows(seed):
    """The plan of the first of many random networks that can be cut by rows and is not large; blocks within rows."""
    return next(plan for k in itertools.count() if (plan := some_rows(seed + 1000 * k)) is not None)


def some_rows(seed):
    """The plan of one random network whose layers are cut by rows where they can be; None if nothing is."""
    rng, network = random.Random(seed), random_network(seed)
    cuts = random_row_cuts(network, rng)
    if cuts is None:
        return None
    stages = []
    for stage, cut in zip(network.stages, cuts, strict=True):
        place = Place(split="rows") if cut.axis == "rows" else stage.place
        stages.append(dataclasses.replace(stage, place=place, array=None, wish=Wish()))
    network = dataclasses.replace(network, stages=tuple(stages))
    boards = cuts[-1].board + cuts[-1].count
    plan = chain_plan(network, boards, lambda *_: cuts, WIDE, rng.randint(1, network.in_shape[2]))
    return plan if sum(planned.fold.pk * planned.fold.pn for planned in plan.stages) <= 150 else None


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 370))
def test_random_deals(seed):
    plan = random_rows(seed)
    if seed % 2:
        plan = refolded(plan, {})
    options = {"stall": 0.3 * (seed % 3), "depth": 1 + seed % 2 * 3, "extreme": seed % 4 == 3}
    assert run_direct(plan, seed, evaluate=True, **options)["mismatched"] == 0


# --- With links, and boards alone


def row_chain():
    return chain_device(cut_plan(row_groups(), "0r2:2,2,1 1 1", WIDE), emit, seed=2)


@pytest.mark.soak
def test_over_rough_cables():
    wanted = SimOptions(
        batches=1, simulator="icarus", watchdog=20_000, gradients=False, cables=ROUGH, stall=0.1
    )
    assert simulate(row_chain(), wanted)["mismatched"] == 0


@pytest.mark.parametrize("board", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_a_board_alone_over_rough_cables(board):
    wanted = SimOptions(
        batches=1, simulator="icarus", watchdog=20_000, device=board, evaluate=True, cables=ROUGH
    )
    assert simulate(row_chain(), wanted)["mismatched"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("board", range(4))
def test_every_board_of_a_mixed_chain_alone(board):
    device = chain_device(cut_plan(tall_rows(), "0r2:1,1,1,2 1r2:1,1,1 2r2:2,1 3", WIDE), emit, seed=3)
    wanted = SimOptions(batches=2, simulator="icarus", watchdog=20_000, device=board, evaluate=True)
    assert simulate(device, wanted)["mismatched"] == 0


@pytest.mark.parametrize("board", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_a_board_with_windows_of_two_alone(board):
    """Rows before the pool and sums of their errors, recorded and compared over real links."""
    device = chain_device(cut_plan(row_pools(), "0r2:1,2,1 1 1 1", WIDE), emit, seed=6)
    wanted = SimOptions(
        batches=1, simulator="icarus", watchdog=20_000, device=board, evaluate=True, stall=0.1
    )
    assert simulate(device, wanted)["mismatched"] == 0


# --- Sabotage


class Forgets(AddRows):
    """Leaves out lane 0 of what comes from the other board."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        if "back" in self.signature.members:
            with m.If(self.own.valid & self.own.ready & self.back.valid & self.back.ready):
                m.d.sync += self.done.payload[0].eq(self.own.payload[0])
        return m


DEAL, GATHER = flow.Flow._deal, flow.Flow._gather


def wrong_deal(self, name, width, source, own, onward, takers, *rest):
    DEAL(self, name, width, source, own, onward, [3 - t if t < 3 else 3 for t in takers], *rest)


def wrong_gather(self, name, width, sources, givers, size):
    return GATHER(self, name, width, sources[::-1], givers, size)


SABOTAGE = {
    "sums of a row that two boards share": (chains, "AddRows", Forgets),
    "rows put together": (flow.Flow, "_gather", wrong_gather),
    "rows dealt": (flow.Flow, "_deal", wrong_deal),
}
"""Rows out of order are wrong, or wait for what never comes."""
FOUND = r"(depthwise@\d|two|linear)\.\w+: |result\.\w+: |watchdog: nothing moved"


@pytest.mark.parametrize(
    "join", [next(iter(SABOTAGE)), *(pytest.param(k, marks=pytest.mark.soak) for k in list(SABOTAGE)[1:])]
)
def test_a_broken_join_is_found(join):
    owner, name, broken = SABOTAGE[join]
    plan = cut_plan(row_groups(), "0 0r2:1,1 1", WIDE)
    with (
        mock.patch.object(owner, name, broken),
        pytest.raises((MismatchError, WatchdogError), match=f"^({FOUND})"),
    ):
        run_direct(plan, **FAST)


def test_a_forgotten_error_of_a_window_on_two_boards_is_found():
    plan = cut_plan(row_pools(), "0r2:1,2,1 1 1 1", WIDE)
    with (
        mock.patch.object(pool_rows, "AddRows", Forgets),
        pytest.raises(MismatchError, match=r"^first@0\.dy: "),
    ):
        run_direct(plan, **FAST)
