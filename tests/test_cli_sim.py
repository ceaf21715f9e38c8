"""`hwgen sim` on a simulation that is stood in for: its text, JSON, options, failures; and docs/result.md."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_bench import *
from hwgen.sim import run as sim_run

import hwgen
from hwgen.errors import MismatchError, ToolError, WatchdogError
from hwgen.plan.links import LINK_COUNTERS


def test_sim(run, built, simulate):
    simulate()
    code, out, err = run("sim", built)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "3 training batches, 6 samples",
        "1000 integers compared with the reference, all equal",
        "1234 cycles in 0.5 s under verilator",
        "1.5 million multiply-accumulates a second",
        "21 multipliers, 50.0% busy in steady state",
        "busy   forward  backward  gradient",
        "conv1  100.0%   -         12.5%",
        "all    50.0%    25.0%     75.0%",
        "cycles a sample: 32.5, predicted 32.0",
    ]


def test_sim_of_little_shows_what_there_is(run, built, simulate):
    nothing = dict.fromkeys(("forward", "backward", "gradient", "total"))
    simulate(
        cycles_per_sample=None, occupancy=nothing, macs_per_second=None, batches=0, samples=0, accuracy=0.5
    )
    code, out, _ = run("sim", built, "--eval")
    assert code == 0
    assert out.splitlines()[-2:] == [
        "1234 cycles in 0.5 s under verilator",
        "accuracy on held-out samples: 50.00%",
    ]


def test_short_batches_and_slow_simulators(run, built, simulate):
    nothing = dict.fromkeys(("forward", "backward", "gradient", "total"))
    simulate(cycles_per_sample=None, cycles_per_batch=181.0, occupancy=nothing, macs_per_second=4321.0)
    assert run("sim", built)[1].splitlines()[-3:] == [
        "4.3 thousand multiply-accumulates a second",
        "batches too short for a steady state: occupancy not measured",
        "cycles a batch: 181.0, predicted 100.2",
    ]


def test_a_waveform_that_cannot_be_written(run, built, simulate, tmp_path):
    options = simulate()
    expected = f"hwgen: {tmp_path}: is a directory; give the name of a file"
    assert run("sim", built, "--trace", tmp_path) == (2, "", expected)
    source = tmp_path / "out" / "manifest.json"
    expected = f"hwgen: {source}: cannot be written (Not a directory); nothing was changed"
    assert run("sim", built, "--trace", source / "wave.fst") == (2, "", expected)
    assert options == []


@pytest.mark.parametrize("variable", ["TMPDIR", "HWGEN_CACHE"])
def test_the_full_disk_is_named(run, built, simulate, monkeypatch, tmp_path, variable):
    simulate(ToolError("iverilog failed"))
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    usage = lambda path: SimpleNamespace(free=0 if Path(path) == tmp_path else 1 << 30)  # noqa: E731
    monkeypatch.setattr("shutil.disk_usage", usage)
    expected = f"hwgen: {tmp_path}/there: no space left on its disk; make room"
    assert run("sim", built) == (2, "", expected)


def test_an_old_waveform_is_not_taken_for_a_new_one(run, built, simulate, tmp_path):
    simulate()
    (tmp_path / "wave.fst").write_text("old")
    assert run("sim", built, "--trace", tmp_path / "wave.fst")[0] == 0
    assert not (tmp_path / "wave.fst").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ToolError("make failed")])
def test_a_full_disk_is_told_from_a_broken_tool(run, built, simulate, monkeypatch, tmp_path, error):
    simulate(error)
    monkeypatch.setenv("HWGEN_CACHE", str(tmp_path / "cache"))
    assert "no space left on its disk" not in run("sim", built)[2]
    usage = lambda path: SimpleNamespace(free=0 if Path(path) == tmp_path else 1 << 30)  # noqa: E731
    monkeypatch.setattr("shutil.disk_usage", usage)
    expected = f"hwgen: {tmp_path}/cache: no space left on its disk; make room"
    assert run("sim", built) == (2, "", expected)


def test_sim_json(run, built, simulate):
    simulate()
    code, out, _ = run("sim", built, "--json", "--seed", 9)
    result = json.loads(out)
    assert code == 0
    assert result == read_result(built)
    manifest = json.loads((built / "manifest.json").read_text())
    head = {
        "command": "sim",
        "hwgen": hwgen.__version__,
        "build": manifest["build"],
        "seed": 9,
        "device": None,
    }
    assert result == {**SIMULATED, **head}


def test_sim_options(run, built, simulate, tmp_path):
    options = simulate()
    run("sim", built)
    run("sim", built, "--eval")
    run(
        "sim", built, "--epochs", 4, "--simulator", "icarus", "--seed", 1, "--stall", 0.25, "--watchdog", 50,
        "--trace", "x.fst", "--dump-tensors", tmp_path / "d", "--no-gradients",
    )  # fmt: skip
    one = sim_run.SimOptions(batches=1, seed=5)
    assert options[0] == one
    assert options[1] == sim_run.SimOptions(evaluate=True, seed=5)
    assert options[2] == sim_run.SimOptions(
        epochs=4, simulator="icarus", seed=1, stall=0.25, trace=Path("x.fst"), dump=tmp_path / "d",
        watchdog=50, gradients=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MismatchError("conv1.dw: batch 2, index [0, 1, 0, 3]: hardware 5, reference 6 (1 of 72 differ)"), 1),
        (WatchdogError("watchdog: nothing moved for 50 cycles (cycle 70); stuck channel: conv1.x"), 4),
    ],
)
def test_a_failed_run_replaces_the_result(run, built, simulate, error, code):
    simulate(error)
    failed, out, err = run("sim", built, "--json")
    assert (failed, err) == (code, f"hwgen: {error}")
    assert json.loads(out) == {"error": str(error), "exit_code": code}
    result = read_result(built)
    assert result["command"] == "sim"
    assert (result["error"], result["exit_code"]) == (str(error), code)


def test_a_missing_tool_leaves_the_result(run, built, simulate):
    simulate(ToolError("vvp: not found; install it with apt-get install iverilog"))
    before = read_result(built)
    code, out, err = run("sim", built)
    assert (code, out, err) == (3, "", "hwgen: vvp: not found; install it with apt-get install iverilog")
    assert read_result(built) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"compared": 0},
            r"hwgen: simulation: nothing was compared; ask for at least one batch, epoch or --eval",
        ),
        ({"mismatched": 7}, r"hwgen: simulation: 7 of 1000 compared integers differ"),
        (
            {"build": 1},
            r"hwgen: device: register build reads 0x00000001, the plan's is 0x[0-9a-f]{8}; build again",
        ),
    ],
)
def test_success_needs_equality(run, built, simulate, changes, message):
    simulate(**changes)
    code, out, err = run("sim", built)
    assert (code, out) == (1, "")
    assert re.fullmatch(message, err)
    assert read_result(built)["exit_code"] == 1


def test_sim_of_another_version(run, built):
    path = built / "manifest.json"
    path.write_text(path.read_text().replace(f'"hwgen": "{hwgen.__version__}"', '"hwgen": "0.0.1"'))
    code, out, err = run("sim", built)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"hwgen: .+/out: built by hwgen 0\.0\.1, this is [0-9.]+; build again", err)


def test_sim_of_nothing(run, tmp_path):
    code, _, err = run("sim", tmp_path / "none")
    assert code == 2
    assert re.fullmatch(
        r"hwgen: .+/none: no build directory \(no manifest\.json\); make one with hwgen build .+", err
    )


def test_ctrl_c_during_simulation(run, built, simulate):
    simulate(KeyboardInterrupt())
    before = read_result(built)
    assert run("sim", built) == (130, "", "hwgen: interrupted")
    assert read_result(built) == before


def test_full_disk_after_a_simulation(run, built, simulate, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    simulate()
    before = read_result(built)
    monkeypatch.setattr("os.fsync", full)
    code, out, err = run("sim", built)
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"hwgen: .+/out: cannot be written \(No space left on device\); nothing was changed", err
    )
    assert read_result(built) == before


# --- docs/result.md


def documented(command):
    """Keys in the tables of docs/result.md that hold for a command."""
    text = (Path(__file__).parents[1] / "docs" / "result.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    rows = re.findall(r"^\| (`.+?) \|", parts[0] + parts[parts.index(command) + 1], re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", " ".join(rows)))


def keys(result):
    found = set(result)
    for stage in result["stages"]:
        found |= {f"stages[].{key}" for key in stage}
    for end in result.get("links", ()):
        found |= {f"links[].{key}" for key in end}
    return found


def test_every_key_of_build_and_train_is_documented(run, source, tmp_path):
    built = json.loads(run("build", source, "-o", tmp_path / "out", "--json")[1])
    assert keys(built) == documented("build")
    trained = json.loads(run("train", source, "--epochs", 1, "--json")[1])
    assert keys(trained) == documented("train")


def test_every_key_of_sim_is_documented(run, built, simulate):
    stage = {
        "name": "conv1",
        "board": 0,
        "multipliers": 9,
        "occupancy": SIMULATED["occupancy"],
        "counters": {},
        "depths": {},
    }
    counters = dict.fromkeys(LINK_COUNTERS, 0)
    end = {"link": 0, "board": 0, "state": "up", "counters": counters, "words": {"x": 4}}
    simulate(stages=[stage], links=[end])
    result = json.loads(run("sim", built, "--json")[1])
    assert keys(result) | {"error", "exit_code"} == documented("sim")
