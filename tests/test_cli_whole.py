"""The commands on the real planner, emitter and simulator, as a user starts them."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from sample_model import write_model

import hwgen
from hwgen.backend.build import load_build
from hwgen.backend.verilog import build_number, emit
from hwgen.frontend.loader import load_source
from hwgen.plan.describe import describe
from hwgen.plan.planner import plan_network


def command(*arguments, timeout=240):
    done = subprocess.run(
        [sys.executable, "-m", "hwgen", *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    assert command("build", write_model(directory), "-o", directory / "out", "--seed", 2)[0] == 0
    return directory / "out"


def test_build_holds_plan_and_verilog(built):
    loaded = load_build(built)
    plan = plan_network(load_source(built.parent / "model.py", 2).network)
    assert loaded.plan == plan
    assert repr(loaded.plan) == repr(plan)
    assert loaded.manifest["build"] == f"0x{build_number(plan):08x}"
    assert loaded.files == emit(plan)
    assert (built / "plan.txt").read_text() == describe(plan)


def test_another_process_builds_the_same_bytes(built, tmp_path):
    assert command("build", write_model(tmp_path), "-o", tmp_path / "out", "--seed", 2)[0] == 0
    for path in sorted(built.rglob("*")):
        if path.is_file() and path.name != "result.json":
            assert (tmp_path / "out" / path.relative_to(built)).read_bytes() == path.read_bytes(), path.name


def test_sim_compares_and_train_is_its_twin(built, tmp_path):
    code, out, err = command(
        "sim", built, "--epochs", 2, "--eval", "--weights", tmp_path / "sim.npz", "--json"
    )
    assert code == 0, err
    simulated = json.loads(out)
    assert simulated == json.loads((built / "result.json").read_text())
    assert simulated["compared"] > 0
    assert simulated["mismatched"] == 0
    assert (simulated["command"], simulated["hwgen"], simulated["seed"]) == ("sim", hwgen.__version__, 2)
    options = ("--epochs", 2, "--seed", 2, "--weights", tmp_path / "train.npz", "--json")
    code, out, err = command("train", write_model(tmp_path), *options)
    assert code == 0, err
    trained = json.loads(out)
    for key in ("batches", "samples", "accuracy", "seed"):
        assert simulated[key] == trained[key], key
    assert (tmp_path / "sim.npz").read_bytes() == (tmp_path / "train.npz").read_bytes()
    assert (tmp_path / "sim.npz").read_bytes() != (built / "parameters.npz").read_bytes()
    for hardware, reference in zip(simulated["stages"], trained["stages"], strict=True):
        counters = {name: hardware["counters"][name] for name in reference["counters"]}
        assert counters == reference["counters"], reference["name"]


def test_watchdog(built):
    code, out, err = command("sim", built, "--batches", 1, "--watchdog", 1)
    assert (code, out) == (4, "")
    assert re.fullmatch(
        r"hwgen: watchdog: nothing moved for 1 cycles .*; stuck channel: .+", err.splitlines()[-1]
    )
    assert json.loads((built / "result.json").read_text())["exit_code"] == 4


def test_changed_verilog_is_refused(built, tmp_path):
    shutil.copytree(built, tmp_path / "out")
    path = tmp_path / "out" / "verilog" / "hwgen_core.v"
    path.write_text(path.read_text().replace("endmodule", "// mine\nendmodule", 1))
    code, out, err = command("sim", tmp_path / "out")
    assert (code, out) == (2, "")
    expected = r"hwgen: .+/out/verilog/hwgen_core\.v: changed since it was built; build again"
    assert re.fullmatch(expected, err.splitlines()[-1])
