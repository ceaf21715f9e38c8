"""The cut changes no bit: boards joined without links, cut in every way, against the reference; every join broken."""

import random
from unittest import mock

import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from chain_cases import chain_device, random_chain
from chain_networks import (
    cut_plan,
    digits,
    grouped,
    mlp,
    more_groups,
    refolded,
    run_direct,
    six_layers,
    tall,
    two_groups,
    two_layers,
)
from device_cases import doubled, with_depths
from hwgen.sim.run import SimOptions, simulate

from hwgen.backend.verilog import emit
from hwgen.errors import MismatchError, WatchdogError
from hwgen.gateware import chains, channels, flow
from hwgen.gateware.rows import RowDeal
from hwgen.gateware.stream import Fork
from hwgen.plan.fold import legal_pc, legal_u
from hwgen.plan.part import Part
from hwgen.target import Link

FAST = {"gradients": False, "batches": 3}
"""All of y, dy and dx of three batches, and the weights behind them."""

CASES = {
    "between stages": (digits, {}, "0 1 2", {}),
    "first layer by outputs, last by inputs": (digits, {}, "0o1,3 1 1i3,4", {"gradients": True, "batches": 1}),
    "stochastic, by inputs and by outputs": (digits, {"rounding": "stochastic"}, "0i1,2 1o1,4 2", {}),
    "a frozen first layer by inputs": (digits, {"frozen": True}, "0i1,2 1i1,3 2", {"stall": 0.3}),
    "six layers, mixed": (six_layers, {}, "0o2,3 1i2,3 2 2o1,2 3 3i1,3", {}),
    "a perceptron, layer by layer": (mlp, {}, "0i1,6 1o1,4 2i3,4", {"stall": 0.3}),
    "one layer over four boards": (mlp, {}, "0 0o1,2,3,4 3", {"extreme": True}),
    "groups": (grouped, {}, "0g1,4 1g5,8 2", {}),
    "inside groups": (two_groups, {}, "0 0o1,3,5,6 3", {"stall": 0.3}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cut_changes_no_bit(name):
    network, arguments, text, options = CASES[name]
    result = run_direct(cut_plan(network(**arguments), text), **FAST | options)
    assert result["mismatched"] == 0
    assert result["compared"] > 300


@pytest.mark.parametrize(
    "lanes", [5, pytest.param(3, marks=pytest.mark.soak), pytest.param(8, marks=pytest.mark.soak)]
)
def test_beats_of_several_pixels(lanes):
    """A row of an image in 5 + 3, 3 + 3 + 2 and 8 elements; behind the first board in link words of whole rows."""
    plan = cut_plan(digits(), "0o1,3 1i1,3 2", image_lanes=lanes)
    assert any(c.kind == "x" and c.run > c.high - c.low for link in plan.links for c in link.down)
    assert run_direct(plan, stall=0.2, **FAST)["mismatched"] == 0


SOAKED = [
    (digits, {}, "0o1,2,3 2o1,2,3,4 5o1,2,3"),
    (digits, {}, "0i1,2 1i1,2,3 3i1,2,3,4"),
    (digits, {"rounding": "stochastic", "frozen": True}, "0 0o1,4 1i1,4"),
    (six_layers, {}, "0 1 2 3 4 5"),
    (six_layers, {}, "0o1,2,3 2o1,3 3i1,3 4i1,4 5o2,3 6i1,3"),
    (mlp, {}, "0 1i1,2,5 3"),
    (mlp, {}, "0i1,4,6 2o1,4 3i3,4"),
    (grouped, {}, "0g1,2,3,4 3g1,7,8 5i1,8"),
    (grouped, {}, "0o2,3,4,8 3o1,7,8 5"),
    (more_groups, {}, "0 0o1,4,6,7,8 4 4o1,3,6,9 7"),
    (more_groups, {}, "0 0o3,4,8 2 2o3,4,5,6,8,9 7"),
    (more_groups, {"rounding": "stochastic"}, "0 0o2,3,4,6,8 4i1,8 5o6,7,9 7"),
    (more_groups, {}, "0 0o4,5,7,8 3 3o2,3,9 5"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("network", "arguments", "text"), SOAKED)
def test_more_cuts(network, arguments, text):
    assert run_direct(cut_plan(network(**arguments), text), stall=0.2, poison=True)["mismatched"] == 0


# --- With links, boards alone


@pytest.mark.parametrize(
    "board", [pytest.param(0, marks=pytest.mark.soak), 1, pytest.param(2, marks=pytest.mark.soak)]
)
def test_a_board_with_a_piece_of_a_group_alone(board):
    """What crosses beside a group that is cut, recorded and compared over real links, in training and evaluation."""
    device = chain_device(cut_plan(two_groups(), "0 0o1,3,5,6 3"), emit, seed=4)
    wanted = SimOptions(
        batches=2, simulator="icarus", watchdog=20_000, device=board, evaluate=True, stall=0.1
    )
    assert simulate(device, wanted)["mismatched"] == 0


# --- Foldings and depths of parts

FOLDINGS = {
    "by outputs": (
        "0o1,3 1o2,4 2",
        {0: {"u": 1, "pn": 1}, 1: {"u": 9, "pn": 2}, 2: {"u": 6, "pc": 1}, 3: {"u": 1, "pc": 3}},
    ),
    "by inputs": (
        "0i1,2 1i1,3 2",
        {0: {"u": 9, "pn": 3}, 1: {"u": 1, "pn": 1}, 2: {"u": 1, "pn": 3}, 3: {"u": 6, "pc": 2, "pn": 1}},
    ),
}


@pytest.mark.parametrize("cut", FOLDINGS)
def test_parts_fold_as_they_like_with_the_least_depths(cut):
    """u, pc and pn of every part its own, one word between the boards, one block of errors and of outputs."""
    text, foldings = FOLDINGS[cut]
    foldings = {k: {"pc": 1} | changes for k, changes in foldings.items()}
    plan = refolded(cut_plan(digits(), text), foldings)
    assert run_direct(plan, depth=1, stall=0.4, **FAST | {"batches": 1})["mismatched"] == 0


@pytest.mark.soak
def test_doubled_depths():
    plan = with_depths(cut_plan(digits(), "0o1,3 1i1,3 2"), doubled)
    assert run_direct(plan, depth=64)["mismatched"] == 0


def test_parts_of_different_blocks_wait_for_each_other():
    """Why all parts of a stage take the same b: the tests above would see a chain that stands."""
    plan = cut_plan(tall(), "0o2,4 1", Link(gbps=100.0, encoding="none", adapter="parallel", latency=20))
    with pytest.raises(WatchdogError):
        run_direct(refolded(plan, {1: {"b": 40}}), depth=1, **FAST | {"batches": 1, "watchdog": 600})


def random_folding(plan, rng):
    """Legal foldings of all parts at random, b one for all parts of a stage."""
    blocks, foldings = {}, {}
    for k, planned in enumerate(plan.stages):
        stage = planned.stage
        b = blocks.setdefault(stage.index, min(rng.choice([1, 1, 2, 3, 5, stage.M]), stage.M))
        foldings[k] = {
            "u": rng.choice(legal_u(stage)), "pc": rng.choice(legal_pc(stage)), "pn": rng.randint(1, stage.N), "b": b,
        }  # fmt: skip
    return foldings


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_random_chains_with_the_least_depths(seed):
    plan = random_chain(seed)
    if plan is None:
        pytest.skip("too few channels to cut")
    plan = refolded(plan, random_folding(plan, random.Random(seed)))
    if sum(planned.fold.pk * planned.fold.pn for planned in plan.stages) > 150:
        pytest.skip("minutes of emission")
    assert run_direct(plan, seed, depth=1, stall=0.3 * (seed % 3), **FAST)["mismatched"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(140, 175))
def test_random_chains(seed):
    plan = random_chain(seed)
    if plan is None:
        pytest.skip("too few channels to cut")
    if sum(planned.fold.pk * planned.fold.pn for planned in plan.stages) > 150:
        pytest.skip("minutes of emission")
    extreme = seed % 4 == 3
    assert run_direct(plan, seed, extreme=extreme, stall=0.3 * (seed % 3), evaluate=True)["mismatched"] == 0


# --- Sabotage: every join broken once


class WrongSums(channels.AddSums):
    """Forgets lane 0 of what comes from the other board."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.a.valid & self.b.valid & (~self.o.valid | self.o.ready)):
            m.d.sync += self.o.payload[0].eq(self.a.payload[0])
        return m


class WrongFork(wiring.Component):
    """Hands negated errors to the other boards."""

    def __init__(self, shape, n):
        self.fork = Fork(shape, n)
        members = {"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)).array(n)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fork = fork = self.fork
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        for inner, port in zip(fork.o, self.o, strict=True):
            m.d.comb += [
                port.valid.eq(inner.valid),
                inner.ready.eq(port.ready),
                port.payload.eq(inner.payload),
            ]
        m.d.comb += self.o[1].payload[0].eq(-self.fork.o[1].payload[0])
        return m


SPLIT, MERGE = flow.Flow._split, flow.Flow._merge


def wrong_split(self, name, width, source, low, high, counts):
    SPLIT(self, name, width, source, high, low, counts[::-1])


def wrong_merge(self, name, width, low, high, counts):
    return MERGE(self, name, width, high, low, counts[::-1])


def wrong_group(shape, words, takers):
    return RowDeal(shape, words, [5 - bits for bits in takers])


SABOTAGE = {
    "forward sums": ("0 0i2,4", chains, "AddSums", WrongSums, r"(second@1\.y|result\.\w+)"),
    "backward sums": ("0 0o2,4", chains, "AddSums", WrongSums, r"second@0\.dx"),
    "order of a split": ("0 0i2,4", flow.Flow, "_split", wrong_split, r"(second@1\.y|result\.\w+)"),
    "order of a merge": ("0 0o2,4", flow.Flow, "_merge", wrong_merge, r"result\.prediction"),
    "masked errors": ("0 0i2,4", chains, "Fork", WrongFork, r"second@0\.dy"),
    "group whose sums are shared": ("0 0o1,3,6 2", flow, "RowDeal", wrong_group, r"two@0\.y"),
    "offset of the random bits": ("0 0o2,4", Part, "offset", lambda *_: 0, r"second@1\.weight"),
}


@pytest.mark.parametrize("join", SABOTAGE)
def test_a_broken_join_is_found(join):
    text, owner, name, broken, tensor = SABOTAGE[join]
    rounding = "stochastic" if name == "offset" else "nearest"
    network = two_groups() if tensor.startswith("two@") else two_layers(rounding)
    plan = cut_plan(network, text)
    with mock.patch.object(owner, name, broken), pytest.raises(MismatchError, match=f"^{tensor}: "):
        run_direct(plan, **FAST | {"batches": 1})


def test_nothing_broken_is_found_there():
    for text in ("0 0i2,4", "0 0o2,4"):
        plan = cut_plan(two_layers("stochastic"), text)
        assert run_direct(plan, **FAST | {"batches": 1})["mismatched"] == 0
