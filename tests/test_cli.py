"""The command line: exit codes, one-line messages, JSON alone on standard output, result.json."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from cli_bench import *
from sample_model import SOURCE, write_model

import hwgen
from hwgen import cli
from hwgen.commands.report import Progress, table

# --- The command line itself


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"hwgen: the following arguments are required: COMMAND; see hwgen --help"),
        (
            ["bild"],
            r"hwgen: argument COMMAND: invalid choice: 'bild' \(choose from .*build.*\); see hwgen --help",
        ),
        (["build"], r"hwgen: the following arguments are required: SOURCE, -o; see hwgen build --help"),
        (["build", "x.py"], r"hwgen: the following arguments are required: -o; see hwgen build --help"),
        (["sim", "d", "--turbo"], r"hwgen: unrecognized arguments: --turbo; see hwgen --help"),
        (["sim", "d", "--images", "3"], r"hwgen: unrecognized arguments: --images 3; see hwgen --help"),
        (
            ["sim", "d", "--batches", "1", "--epochs", "1"],
            r"hwgen: argument --epochs: not allowed with argument --batches; see hwgen sim --help",
        ),
        (
            ["sim", "d", "--simulator", "vcs"],
            r"hwgen: argument --simulator: invalid choice: 'vcs' \(choose from .*verilator.*icarus.*\); "
            r"see hwgen sim --help",
        ),
        (["train", "x.py"], r"hwgen: the following arguments are required: --epochs; see hwgen train --help"),
        *(
            (
                ["sim", "d", f"{option}={value}"],
                rf"hwgen: argument {option}: '{value}'; give a whole number from 1{limit}; "
                r"see hwgen sim --help",
            )
            for option, limit in zip(
                ("--batches", "--epochs", "--watchdog"), (" to 1000000", " to 1000000", ""), strict=True
            )
            for value in ("0", "-1", "1.5", "x", "9" * 30)
        ),
        *(
            (
                ["build", "x.py", "-o", "d", f"--seed={value}"],
                rf"hwgen: argument --seed: '{value}'; give a whole number from 0 to 4294967295; "
                r"see hwgen build --help",
            )
            for value in ("-1", "4294967296", "x")
        ),
        *(
            (
                ["sim", "d", f"--stall={value}"],
                rf"hwgen: argument --stall: '{value}'; give a number of at least 0 and below 1; "
                r"see hwgen sim --help",
            )
            for value in ("1", "-0.1", "nan", "half")
        ),
        *(
            (
                ["sim", "d", f"--{option}={value}"],
                rf"hwgen: argument --{option}: '{value}'; give a whole number from 0 to {most}; see hwgen sim --help",
            )
            for option, most in (("jitter", 60000), ("reset-skew", 10000000))
            for value in ("-1", str(most + 1), "x")
        ),
    ],
)
def test_wrong_command_lines(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(message, err)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["build", "--help"], ["sim", "-h"], ["train", "-h"], ["doctor", "-h"]]
)
def test_help(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("usage: hwgen")


def test_version(run):
    assert run("--version") == (0, f"hwgen {hwgen.__version__}\n", "")


@pytest.mark.parametrize("module", ["hwgen", "hwgen.cli"])
def test_as_a_module(module):
    done = subprocess.run([sys.executable, "-m", module, "bild"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_closed_standard_output():
    script = f"{sys.executable} -m hwgen doctor --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout in ("0\n", "2\n", "3\n")
    assert done.stderr == ""


def test_an_operating_system_error_is_one_line(run, monkeypatch, source):
    def broken(*_, **__):
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr("hwgen.backend.build.build", broken)
    assert run("build", source, "-o", "x") == (2, "", "hwgen: /somewhere: Permission denied")


def test_a_fault_of_hwgen_is_no_mismatch(run, monkeypatch, source):
    def broken(*_, **__):
        raise KeyError("conv1")

    monkeypatch.setattr("hwgen.backend.build.build", broken)
    expected = "hwgen: this is a fault of hwgen itself; please report the lines above"
    assert run("build", source, "-o", "x") == (70, "", expected)


def test_too_little_memory(run, monkeypatch, source):
    def broken(*_, **__):
        raise MemoryError("Unable to allocate 30 GiB")

    monkeypatch.setattr("hwgen.backend.build.build", broken)
    expected = "hwgen: not enough memory (Unable to allocate 30 GiB); make the network or its data smaller"
    assert run("build", source, "-o", "x") == (2, "", expected)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_end_a_command_as_ctrl_c_does(run, monkeypatch, source, number, code):
    monkeypatch.setattr("hwgen.backend.build.build", lambda *_, **__: signal.raise_signal(number))
    assert run("build", source, "-o", "x") == (code, "", "hwgen: interrupted")
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(redirection):
    script = f"{sys.executable} -m hwgen doctor {redirection}; echo $?"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] in ("0", "3")
    assert done.stderr == ""


def test_a_terminal_without_unicode(tmp_path, source):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    script = f"from hwgen.cli import main; main(['train', {str(tmp_path / 'ü.py')!r}, '--epochs', '1'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stderr.splitlines()[-1].startswith(f"hwgen: {tmp_path}/\\xfc.py: no such file")


# --- build


def test_build(run, tmp_path, source):
    code, out, err = run("build", source, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert re.search(r"^conv1 +9×1 +18 +576$", out, re.MULTILINE)
    assert re.search(
        r"^predicted: 32\.0 cycles a sample, 100 a batch of 2, occupancy 30\.0%$", out, re.MULTILINE
    )
    assert (tmp_path / "out" / "verilog" / "hwgen_core.v").exists()


def test_build_json(run, tmp_path, source):
    code, out, _ = run("build", source, "-o", tmp_path / "out", "--json", "--seed", 7)
    result = json.loads(out)
    assert code == 0
    assert result == read_result(tmp_path / "out")
    assert (result["command"], result["seed"]) == ("build", 7)


def test_all_mistakes_of_a_model_are_shown(run, tmp_path):
    text = SOURCE.replace("Linear(8, 3)", "Linear(9, 3)").replace("lr=0.1", "lr=-1")
    code, out, err = run("build", write_model(tmp_path, text), "-o", tmp_path / "out", "--json")
    assert code == 2
    assert len(err.splitlines()) > 1
    assert all(re.fullmatch(r"hwgen: .+: .+; .+", line) for line in err.splitlines())
    failure = json.loads(out)
    assert failure == {"error": err.replace("hwgen: ", ""), "exit_code": 2}
    assert not (tmp_path / "out").exists()


def test_missing_source(run, tmp_path):
    code, out, err = run("build", tmp_path / "none.py", "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"hwgen: .+/none\.py: no such file or directory; .+", err)


def test_build_onto_a_file(run, tmp_path, source):
    code, _, err = run("build", source, "-o", source)
    assert code == 2
    assert re.fullmatch(
        r"hwgen: .+/model\.py: cannot be written \(Not a directory\); nothing was changed", err
    )
    assert source.read_text() == SOURCE


def test_ctrl_c_during_build(run, tmp_path, source, monkeypatch):
    """In the middle of writing, the worst moment."""
    monkeypatch.setattr("os.fsync", lambda _: signal.raise_signal(signal.SIGINT))
    assert run("build", source, "-o", tmp_path / "out") == (130, "", "hwgen: interrupted")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.py"]


def test_ctrl_c_to_the_process(tmp_path):
    """A real one, while the user's file runs."""
    source = write_model(tmp_path, "import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    command = [
        sys.executable,
        "-m",
        "hwgen",
        "train",
        str(source),
        "--epochs",
        "1",
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            before = [process.stderr.readline(), process.stderr.readline()]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert before == [f"loading {source}\n", "here\n"]
    assert (process.returncode, out, err) == (130, "", "hwgen: interrupted\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["build", "train"])
def test_what_a_model_file_prints_is_not_in_the_json(capsys, tmp_path, command):
    source = write_model(tmp_path, SOURCE + "print('hello')\n")
    options = ["-o", str(tmp_path / "out")] if command == "build" else ["--epochs", "1"]
    assert cli.main([command, str(source), *options, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["command"] == command
    assert "hello\n" in err


# --- doctor


def test_doctor(run):
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert re.search(
        r"^verilator +required +5\.\d+ +simulates the generated Verilog +/.+$", out, re.MULTILINE
    )


def test_doctor_names_what_is_missing(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = run("doctor")
    assert code == 3
    assert re.search(
        r"^g\+\+ +required +not found +compiles the simulation +install it with: apt-get install g\+\+$",
        out,
        re.MULTILINE,
    )


def test_doctor_json(run, monkeypatch, tmp_path):
    for name in ("verilator", "g++", "make", "perl"):
        (tmp_path / name).write_text("#!/bin/sh\necho 5.052\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("hwgen.toolchain._site_tools", lambda: tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = run("doctor", "--json")
    result = json.loads(out)
    assert (code, result["ok"]) == (0, True)  # the optional ones may be missing
    assert {tool["name"]: tool["problem"] for tool in result["tools"] if not tool["required"]} == {
        "iverilog": "not found",
        "vvp": "not found",
        "ccache": "not found",
        "yosys": "not found",
        "nextpnr-ecp5": "not found",
        "ecppack": "not found",
        "lz4.h": "not found",
        "zlib.h": "not found",
    }
    (tmp_path / "make").unlink()
    assert cli.main(["doctor", "--json"]) == 3


# --- Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal(monkeypatch):
    now = iter([1.0, 1.05, 1.2, 1.21])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    stream = Terminal()
    with Progress(stream) as progress:
        progress("results", 1, 9)
        progress("results", 2, 9)  # too soon
        progress("results", 3, 9)
        progress("writing")  # a new step is always shown
    assert stream.getvalue().split("\r\x1b[K") == ["", "results 1/9", "results 3/9", "writing", ""]


def test_progress_in_a_file(monkeypatch):
    now = iter([1.0, 1.1, 1.2, 4.0, 6.2, 6.3])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress("reading")
        progress("reading")  # the same step again, too soon
        progress("results", 1)
        progress("results", 2, 9)
        progress("results", 3, 9)
        progress("writing")
    assert stream.getvalue() == "reading\nresults 3/9\nwriting\n"


def test_progress_goes_to_standard_error(capsys, source):
    cli.main(["train", str(source), "--epochs", "2", "--json"])
    out, err = capsys.readouterr()
    json.loads(out)
    assert "training\n" in err


def test_table():
    assert table([("a", "bb", "c"), ("ddd", "", "e")]) == "a    bb  c\nddd      e"
