"""Fixtures of the tests of the command line: planner, emitter and simulator are stood in for."""

import json

import build_stubs
import pytest
from hwgen.sim import run as sim_run
from sample_model import write_model

from hwgen import cli

__all__ = ["SIMULATED", "_stubs", "built", "read_result", "run", "simulate", "source"]


@pytest.fixture(autouse=True)
def _stubs(monkeypatch):
    build_stubs.install(monkeypatch)


@pytest.fixture
def source(tmp_path):
    return write_model(tmp_path)


@pytest.fixture
def built(tmp_path, source, capsys):
    assert cli.main(["build", str(source), "-o", str(tmp_path / "out"), "--seed", "5"]) == 0
    capsys.readouterr()
    return tmp_path / "out"


@pytest.fixture
def run(capsys):
    """Runs a command: exit code, standard output, and the lines of standard error that are no progress."""

    def command(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, "\n".join(line for line in err.splitlines() if line.startswith("hwgen"))

    return command


SIMULATED = {
    "compared": 1000,
    "mismatched": 0,
    "batches": 3,
    "samples": 6,
    "cycles": 1234,
    "cycles_per_sample": 32.5,
    "predicted_cycles_per_sample": 32.0,
    "cycles_per_batch": None,
    "predicted_cycles_per_batch": 100.25,
    "occupancy": {"forward": 0.5, "backward": 0.25, "gradient": 0.75, "total": 0.5},
    "multipliers": 21,
    "macs_per_second": 1.5e6,
    "stages": [{"name": "conv1", "occupancy": {"forward": 1.0, "backward": None, "gradient": 0.125}}],
    "seconds": 0.5,
    "simulator": "verilator",
    "rolled": False,
    "accuracy": None,
    "links": [],
}


@pytest.fixture
def simulate(monkeypatch, built):
    """Replaces the simulation by one that returns or raises what is given; the options that it got."""
    options = []

    def install(outcome=None, **changes):
        def fake(build, given, progress):
            options.append(given)
            progress(1, 6)
            if outcome is not None:
                raise outcome
            return {**SIMULATED, "seed": given.seed, "build": int(build.manifest["build"], 16), **changes}

        monkeypatch.setattr(sim_run, "simulate", fake)
        return options

    return install


def read_result(directory):
    return json.loads((directory / "result.json").read_text())
