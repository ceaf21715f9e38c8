"""The estimate of logic: its coefficients are the recorded fit, the recorded designs come out as told, more is more."""

import dataclasses
import itertools
import json
import math
import random
from pathlib import Path

import pytest

from hwgen import Cluster, Formats, Model, nn
from hwgen.frontend.loader import load_source
from hwgen.plan import logic
from hwgen.plan.fold import Folding, legal_u
from hwgen.plan.layout import Storage
from hwgen.plan.plan import Depths, StagePlan
from hwgen.plan.planner import plan_network

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "benchmarks" / "results" / "logic.json").read_text(encoding="utf-8"))


def test_the_coefficients_are_the_recorded_ones():
    assert RECORD["coefficients"] == logic.COEFFICIENTS
    numbers = [v for kind in logic.COEFFICIENTS.values() for what in kind.values() for v in what.values()]
    assert min(numbers) >= 0


def test_errors_are_recorded_for_what_is_fitted():
    for kind, what in itertools.product(("tile", "stage"), ("lut", "ff")):
        errors = RECORD["errors"][kind][what]
        assert 0 < errors["fit"]["rms"] <= errors["unseen"]["rms"] < 0.35


@pytest.mark.parametrize("what", ["lut", "ff"])
@pytest.mark.parametrize("kind", ["tile", "stage"])
def test_the_recorded_designs_come_out_as_told(kind, what):
    told = RECORD["errors"][kind][what]["fit"]
    errors = []
    for row in RECORD["rows"]:
        if row["kind"] == kind:
            coefficients = logic.COEFFICIENTS[kind][what]
            assert coefficients.keys() == row["features"].keys()
            errors.append(sum(coefficients[n] * v for n, v in row["features"].items()) / row[what] - 1)
    assert len(errors) >= 8
    assert (min(errors), max(errors)) == pytest.approx((told["least"], told["most"]), abs=0.002)


def test_a_whole_stage_that_the_fit_has_not_seen():
    """The second convolution of the digits example, 36 PEs: 18,208 LUTs and 15,744 FFs by Yosys."""
    network = load_source(ROOT / "examples" / "digits.py").network
    planned = plan_network(network).stages[1]
    assert planned.fold.pk * planned.fold.pn == 36
    assert logic.estimate(planned, network) == pytest.approx((18_208, 15_744), rel=0.1)


def folded(row, column, u, at="here", **formats):
    """A plan by hand of a layer with 8 channels in and out, folded to row·u × column PEs."""
    layers = [nn.Conv2d(1, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = Model(input=(8, 8, 1), layers=[*layers, nn.Linear(128, 2)], formats=Formats(**formats))
    network = model.network()
    folding = Folding(u, row, column)
    tile = (min(u * row, 8), min(column, 8))
    depths = Depths(4, 8, 4, 2, 2, 8, 8)
    return StagePlan(network.stages[1], folding, tile, depths, storage=Storage(master=at)), network


def test_more_parallel_is_never_less():
    luts = {}
    for u, row, column in itertools.product((1, 3, 9), range(1, 9), range(1, 9)):
        luts[u, row, column] = logic.estimate(*folded(row, column, u))
    for u, row, column in luts:
        for more in ((u * 3, row, column), (u, row + 1, column), (u, row, column + 1)):
            if more in luts:
                assert all(a < b for a, b in zip(luts[u, row, column], luts[more], strict=True))


@pytest.mark.parametrize("role", ["activation", "weight", "error", "master", "bias"])
def test_wider_is_never_less(role):
    base = {"activation": 8, "weight": 8, "error": 8, "master": 16, "bias": 16}
    sizes = [logic.estimate(*folded(4, 4, 1, **{**base, role: base[role] + k})) for k in range(9)]
    for less, more in itertools.pairwise(sizes):
        assert all(a <= b for a, b in zip(less, more, strict=True))
    assert sizes[0] < sizes[-1]


def test_masters_elsewhere_save_the_update_in_every_pe():
    here, there = (logic.estimate(*folded(4, 4, 1, at)) for at in ("here", "memory"))
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
        luts, ffs = logic.estimate(planned, network)
        assert luts >= 100
        assert ffs >= 100
        assert (type(luts), type(ffs)) == (int, int)
    assert all(value > 100 for loss in (False, True) for value in logic.board_logic(loss))


def test_link_ends_grow_with_width_and_channels():
    model = Model(input=(8,), layers=[nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)])
    (link,) = plan_network(model.network(), cluster=Cluster.chain("vc709", 2)).links
    small = logic.link_logic(link)
    wide = logic.link_logic(dataclasses.replace(link, width=256))
    more = logic.link_logic(dataclasses.replace(link, down=link.down * 2))
    assert all(100 < a < b for a, b in zip(small, wide, strict=True))
    assert all(a <= b for a, b in zip(small, more, strict=True))
    assert all(math.isfinite(value) for value in (*wide, *more))


def test_recorded_link_ends_come_out():
    for row in RECORD["rows"]:
        if row["kind"] == "link":
            features = logic.link_features(row["width"], row["channels"])
            for what in ("lut", "ff"):
                found = sum(logic.COEFFICIENTS["link"][what][n] * v for n, v in features.items())
                assert found == pytest.approx(row[what], rel=0.1)
