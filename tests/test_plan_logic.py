"""The estimate of logic: its coefficients are the recorded fit, a device has those of its family, more is more."""

import dataclasses
import itertools
import json
import math
import random
from pathlib import Path

import pytest

from benchmarks import bench_logic, logic_fit, logic_parts, logic_rows
from benchmarks.synthesis import FAMILIES
from hwgen import Cluster, Formats, Model, nn
from hwgen.backend.convert import convert
from hwgen.gateware.serial.frames import RING
from hwgen.gateware.tile import Tile
from hwgen.plan import fixed, logic
from hwgen.plan.fold import Folding, legal_u
from hwgen.plan.layout import Storage
from hwgen.plan.plan import Depths, StagePlan
from hwgen.plan.planner import plan_network
from hwgen.target_files import built_in, known_boards

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "benchmarks" / "results" / "logic.json").read_text(encoding="utf-8"))
OF_BOARDS = {
    "xc7": {"arty_a7_100t", "genesys2", "kc705", "pynq_z2", "vc709"},
    "xcup": {"alveo_u250", "alveo_u280", "alveo_u55c", "vcu118", "zcu102"},
    "ecp5": {"ecpix5_85f", "ulx3s_85f", "versa_ecp5_5g", "tang_mega_138k"},
    "alm": {"de10_nano", "stratix10_mx"},
}
NOT_MEASURED = {"tang_mega_138k": "four inputs", "stratix10_mx": "two tables"}


def test_every_board_has_a_family():
    found = {family: set() for family in logic.FAMILIES}
    for name in known_boards():
        found[logic.family_of(built_in(name).device)].add(name)
    assert found == OF_BOARDS
    assert tuple(sorted(logic.FAMILIES)) == tuple(sorted(FAMILIES))


def test_what_is_not_measured_is_told_with_the_reason():
    told = {name: why for name in known_boards() if (why := logic.nearest(built_in(name).device)) is not None}
    assert told.keys() == NOT_MEASURED.keys()
    for name, reason in NOT_MEASURED.items():
        family = logic.family_of(built_in(name).device)
        assert f"is not measured; {family} is nearest: " in told[name]
        assert reason in told[name]
    strange = dataclasses.replace(built_in("vc709").device, vendor="acme", family="A1")
    assert logic.nearest(strange).startswith("A1 is not measured; xc7 is nearest: nothing is known")


def test_every_table_has_every_feature():
    """Kinds and features are those of the engines, in every family; no coefficient is negative, some are not 0."""
    kinds = {}
    for sample in logic_fit.samples(RECORD["rows"], "ecp5"):
        for kind, features in sample.parts:
            assert kinds.setdefault(kind, [*features]) == [*features]
            assert min(features.values()) >= 0
    assert len(kinds) == 18
    assert logic.COEFFICIENTS.keys() == {*logic.FAMILIES}
    for table in logic.COEFFICIENTS.values():
        assert table.keys() == kinds.keys()
        for kind, by_what in table.items():
            assert by_what.keys() == {"lut", "ff"}
            for numbers in by_what.values():
                assert [*numbers] == kinds[kind]
                assert min(numbers.values()) >= 0
                assert max(numbers.values()) > 0


@pytest.mark.parametrize("family", logic.FAMILIES)
def test_the_coefficients_are_the_recorded_fit(family):
    found = logic_fit.samples(RECORD["rows"], family)
    table = logic_fit.coefficients(found, bench_logic.like_of(family, logic.COEFFICIENTS))
    for kind, by_what in logic.COEFFICIENTS[family].items():
        for what, numbers in by_what.items():
            assert table[kind][what] == pytest.approx(numbers, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("family", logic.FAMILIES)
def test_whole_stages_and_tiles_are_within_a_tenth(family):
    errors = RECORD["errors"][family]
    assert errors["all"]["lut fit"]["designs"] >= 150
    for kind in ("stage", "tile"):
        for what in ("lut", "ff"):
            told = errors[kind][f"{what} fit"]
            assert told["designs"] >= (3 if (family, kind) == ("xcup", "tile") else 9)
            assert told["within"] >= 0.88
            assert told["rms"] <= 0.07


@pytest.mark.parametrize("case", [3, 9])
def test_tiles_on_an_ecp5_are_what_yosys_makes(case):
    """Synthesised here: LUTs and FFs beside the memories within a tenth, multipliers exact."""
    (tk, tn), unlike = logic_parts.TILES[case]
    shape = logic_parts.shape_of(unlike)
    design = logic_parts.Design("tile", case, "tile", {"tile": convert(Tile(shape, tk, tn), "tile")})
    (row,) = logic_rows.rows(design, "ecp5")
    sample = logic_fit.sample_of_tile("ecp5", row)
    told = logic.weigh("ecp5", sample.parts)
    assert told == pytest.approx((sample.lut, sample.ff), rel=0.1)
    assert row["dsp"] == tk * tn * 3


def test_a_loss_has_its_multipliers_and_memories():
    """Counted as Yosys does, for every recorded loss: 3 or 4 multipliers."""
    counted = 0
    for row in RECORD["rows"]:
        if row["kind"] == "loss":
            classes, width, _ = logic_parts.LOSSES[row["case"]]
            plan = logic_parts.plan_of_loss(classes, width)
            device = built_in(logic_fit.BOARDS[row["family"]]).device
            assert row["dsp"] == fixed.loss_dsps(plan.network.loss, device), row
            counted += 1
    assert counted >= 4 * len(logic.FAMILIES)
    assert fixed.RING == RING


def folded(row, column, u, at="here", **formats):
    """A plan by hand of a layer with 8 channels in and out, folded to row·u × column PEs."""
    layers = [nn.Conv2d(1, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = Model(input=(8, 8, 1), layers=[*layers, nn.Linear(128, 2)], formats=Formats(**formats))
    network = model.network()
    folding = Folding(u, row, column)
    tile = (min(u * row, 8), min(column, 8))
    depths = Depths(4, 8, 4, 2, 2, 8, 8)
    return StagePlan(network.stages[1], folding, tile, depths, storage=Storage(master=at)), network


@pytest.mark.parametrize("family", logic.FAMILIES)
def test_more_parallel_is_never_less(family):
    """As long as memories stay of a kind: those of fewer than four words have no register behind them."""
    luts = {}
    for u, row, column in itertools.product((1, 3, 9), range(1, 9), range(1, 9)):
        planned, network = folded(row, column, u)
        if planned.fold.depth >= 4:
            planned = dataclasses.replace(planned, storage=Storage(weights="distributed"))
            luts[u, row, column] = logic.estimate(planned, network, family)
    assert len(luts) > 120
    for u, row, column in luts:
        for more in ((u * 3, row, column), (u, row + 1, column), (u, row, column + 1)):
            if more in luts:
                assert all(a < b for a, b in zip(luts[u, row, column], luts[more], strict=True))


@pytest.mark.parametrize("family", logic.FAMILIES)
@pytest.mark.parametrize("role", ["activation", "weight", "error", "master", "bias"])
def test_wider_is_never_less(role, family):
    base = {"activation": 8, "weight": 8, "error": 8, "master": 16, "bias": 16}
    sizes = [logic.estimate(*folded(4, 4, 1, **{**base, role: base[role] + k}), family) for k in range(9)]
    for less, more in itertools.pairwise(sizes):
        assert all(a <= b for a, b in zip(less, more, strict=True))
    assert sizes[0] < sizes[-1]


def test_masters_elsewhere_save_the_update_in_every_pe():
    here, there = (logic.estimate(*folded(4, 4, 1, at), "xc7") for at in ("here", "memory"))
    assert all(a - b > 16 * 50 for a, b in zip(here, there, strict=True))


def test_nothing_is_free():
    rng = random.Random(3)
    for _ in range(200):
        channels = rng.randint(1, 9), rng.randint(1, 9)
        kernel, side = rng.randint(1, 3), rng.randint(3, 9)
        bits = rng.randint(4, 18)
        layer = nn.Conv2d(*channels, kernel, bias=rng.random() < 0.5, frozen=rng.random() < 0.3)
        rest = (side - kernel + 1) ** 2 * channels[1]
        formats = Formats(activation=bits, weight=bits, error=bits, master=min(32, bits + 8), lr=8)
        layers = [layer, nn.Flatten(), nn.Linear(rest, 2)]
        network = Model(input=(side, side, channels[0]), layers=layers, formats=formats).network()
        stage = network.stages[0]
        folding = Folding(rng.choice(legal_u(stage)), 1, rng.randint(1, channels[1]))
        planned = StagePlan(stage, folding, (1, 1), Depths(2, 2, 0, 0, 0, 0, 0))
        luts, ffs = logic.estimate(planned, network, rng.choice(logic.FAMILIES))
        assert luts >= 100
        assert ffs >= 100
        assert (type(luts), type(ffs)) == (int, int)


@pytest.mark.parametrize("name", ["vc709", "vcu118", "ulx3s_85f", "de10_nano"])
def test_a_board_has_the_loss_and_a_port_besides(name):
    model = Model(input=(8,), layers=[nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)])
    plan = plan_network(model.network(), cluster=Cluster.chain("vc709", 2))
    device = built_in(name).device
    first, last = (logic.board_logic(plan, index, device) for index in (0, 1))
    silent = logic.board_logic(plan, 0, dataclasses.replace(device, vendor="xilinx"))
    assert min(*first, *last, *silent) > 100
    if logic.has_port(device):
        assert all(with_port > without for with_port, without in zip(first, silent, strict=True))


def test_link_ends_grow_with_width_and_channels():
    model = Model(input=(8,), layers=[nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)])
    (link,) = plan_network(model.network(), cluster=Cluster.chain("vc709", 2)).links
    small = logic.link_logic(link, "xc7")
    wide = logic.link_logic(dataclasses.replace(link, width=256), "xc7")
    more = logic.link_logic(dataclasses.replace(link, down=link.down * 2), "xc7")
    assert all(100 < a < b for a, b in zip(small, wide, strict=True))
    assert all(a <= b for a, b in zip(small, more, strict=True))
    assert all(math.isfinite(value) for value in (*wide, *more))
