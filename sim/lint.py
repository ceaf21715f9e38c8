"""Checks emitted Verilog with Verilator's lint and with Yosys, which finds modules that do not exist."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import BuildError, ToolError
from ..toolchain import require
from .verilate import run_tool, write_sources

__all__ = ["WAIVERS", "Waiver", "lint", "read_waivers"]

TOP = "hwgen_core"
WAIVERS = Path(__file__).parent / "waivers.txt"
_WARNING = re.compile(r"^%(?:Warning|Error)-(\w+): (\S+?:\d+:\d+): (.*)$", re.MULTILINE)
_HIERARCHY = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for name in sys.argv[2:]:
    libyosys.run_pass("read_verilog -sv " + name, design)
libyosys.run_pass("hierarchy -check -top " + sys.argv[1], design)
"""


@dataclass(frozen=True)
class Waiver:
    """An expected warning: Verilator's rule, a regular expression for its message's start, the reason."""

    rule: str
    message: str
    reason: str

    def covers(self, rule: str, message: str) -> bool:
        """This waiver is about that warning."""
        return rule == self.rule and re.match(self.message, message) is not None


def read_waivers(path: Path = WAIVERS) -> list[Waiver]:
    """Reads a list of waivers. Raises BuildError for a line that is not ``rule | expression | reason``."""
    waivers = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts):
            raise BuildError(f"{path.name}:{number}: {line!r}; write rule | regular expression | reason")
        waivers.append(Waiver(*parts))
    return waivers


def lint(files: Mapping[str, str], top: str = TOP, waivers: list[Waiver] | None = None) -> list[str]:
    """Warnings of ``verilator --lint-only -Wall`` that no waiver covers: ``RULE: file:line:column: message``.

    ``files`` are Verilog texts by path, ``waivers`` those of waivers.txt unless given. Raises BuildError if
    Verilator finds errors or a module is missing (``hierarchy -check`` of Yosys), ToolError if a tool is not
    there.
    """
    known = read_waivers() if waivers is None else waivers
    with tempfile.TemporaryDirectory(prefix="hwgen-lint-") as name:
        directory = Path(name)
        names = write_sources(directory, files)
        output = _verilator(directory, names, top)
        _hierarchy(directory, names, top)
    found = [(match[1], match[2], match[3]) for match in _WARNING.finditer(output)]
    return [
        f"{rule}: {place}: {message}"
        for rule, place, message in found
        if not any(waiver.covers(rule, message) for waiver in known)
    ]


def _verilator(directory: Path, names: list[str], top: str) -> str:
    """What Verilator says."""
    command = [str(require("verilator")), "--lint-only", "-Wall", "-Wno-fatal", "--top-module", top, *names]
    try:
        return run_tool(command, directory, "verilator --lint-only")
    except ToolError as error:
        raise BuildError(f"verilog: {error}") from None


def _hierarchy(directory: Path, names: list[str], top: str) -> None:
    """Runs apart: an error of Yosys ends its process."""
    if importlib.util.find_spec("pyosys") is None:
        raise ToolError("pyosys: not found; install it with pip install pyosys==0.70")
    try:
        run_tool([sys.executable, "-c", _HIERARCHY, top, *names], directory, "yosys hierarchy -check")
    except ToolError as error:
        raise BuildError(f"verilog: {error}") from None
