"""Plans survive JSON unchanged, and damaged JSON is refused with its place."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from sample_model import hand_plan, write_model

from hwgen.backend.verilog import build_number
from hwgen.errors import BuildError
from hwgen.frontend.loader import load_source
from hwgen.ir.stage import Wish
from hwgen.plan.plan import Plan
from hwgen.plan.serial import plan_from_json, plan_to_json


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return hand_plan(load_source(write_model(tmp_path_factory.mktemp("model"))).network)


def stage_with(plan, **changes):
    """The plan with its last stage changed, in both places where it stands."""
    stages = (*plan.network.stages[:-1], replace(plan.network.stages[-1], **changes))
    planned = tuple(replace(p, stage=s) for p, s in zip(plan.stages, stages, strict=True))
    return replace(plan, network=replace(plan.network, stages=stages), stages=planned)


def test_round_trip_keeps_everything(plan):
    back = plan_from_json(plan_to_json(plan))
    assert back == plan
    assert repr(back) == repr(plan)
    assert build_number(back) == build_number(plan)
    assert plan_to_json(back) == plan_to_json(plan)


@pytest.mark.parametrize(
    "changes",
    [
        {"wish": Wish(u=1, b=3)},
        {"array": (3, 2)},
        {"bias": None},
        {"dx": None},
        {"frozen": True},
        {"name": "größe"},
    ],
)
def test_round_trip_of_optional_fields(plan, changes):
    changed = stage_with(plan, **changes)
    assert changed != plan
    assert repr(plan_from_json(plan_to_json(changed))) == repr(changed)


@pytest.mark.parametrize("rate", [0.1, 1e-300, 1 / 3, 2**53 + 2.0, 1, 0])
def test_real_numbers_keep_every_bit(plan, rate):
    changed = replace(
        plan, network=replace(plan.network, update=replace(plan.network.update, learning_rate=rate))
    )
    assert repr(plan_from_json(plan_to_json(changed))) == repr(changed)


def test_the_text_has_every_field(plan):
    data = json.loads(plan_to_json(plan))
    assert list(data) == [f.name for f in fields(Plan)]
    assert data["network"]["stages"][0]["x"] == {"width": 16, "frac": 14}
    assert data["network"]["stages"][0]["bias"] is None
    assert data["prediction"]["cycles_per_batch"] == 100.25


@pytest.mark.parametrize("lanes", [np.int64(1), 1.0, True, "1", None])
def test_a_plan_of_other_types_is_not_written(plan, lanes):
    with pytest.raises(TypeError, match=r"plan\.image_lanes: .* declared int"):
        plan_to_json(replace(plan, image_lanes=lanes))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_written(plan, value):
    with pytest.raises(ValueError, match="Out of range float"):
        plan_to_json(replace(plan, prediction=replace(plan.prediction, occupancy=value)))


def damage(data, path, value):
    *steps, last = path
    for step in steps:
        data = data[step]
    if value is KeyError:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["image_lanes"], KeyError, r"plan: keys missing: image_lanes; build again"),
        (["colour"], 3, r"plan: keys unknown: colour; build again"),
        (["image_lanes"], 1.5, r"plan\.image_lanes: 1\.5, which is no int; build again"),
        (["image_lanes"], True, r"plan\.image_lanes: true, which is no int; build again"),
        (["network", "name"], 3, r"plan\.network\.name: 3, which is no str; build again"),
        (["network"], [], r"plan\.network: \[\], which is no Network; build again"),
        (
            ["network", "stages"],
            "x" * 99,
            r'plan\.network\.stages: "x{36}\.\.\., which is no list; build again',
        ),
        (
            ["network", "stages", 1, "frozen"],
            0,
            r"plan\.network\.stages\[1\]\.frozen: 0, which is no bool; build again",
        ),
        (
            ["network", "stages", 0, "window", "kernel"],
            [3, 3, 3],
            r"plan\.network\.stages\[0\]\.window\.kernel: \[3, 3, 3\], which is no list of 2; build again",
        ),
        (
            ["stages", 0, "depths", "col_rows"],
            None,
            r"plan\.stages\[0\]\.depths\.col_rows: null, which is no int; build again",
        ),
        (["stages", 0, "stage", "index"], 5, r"plan\.stages\[0\]: stage 5 on board 0; build again"),
    ],
)
def test_damage_is_named(plan, path, value, message):
    data = json.loads(plan_to_json(plan))
    damage(data, path, value)
    with pytest.raises(BuildError) as error:
        plan_from_json(json.dumps(data))
    assert re.fullmatch(message, str(error.value))


@pytest.mark.parametrize("text", ["", "{", "[1,"])
def test_no_json(text):
    with pytest.raises(BuildError) as error:
        plan_from_json(text)
    assert re.fullmatch(r"plan: no JSON \(.+\); build again", str(error.value))


@pytest.mark.parametrize("text", ["null", "[]", "3"])
def test_json_of_something_else(text):
    with pytest.raises(BuildError, match=r"^plan: .+, which is no Plan; build again$"):
        plan_from_json(text)
