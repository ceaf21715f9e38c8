"""Runs hwgen as a user does and times it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "build_and_simulate", "hwgen", "scratch"]

EXAMPLES = Path(__file__).parent.parent / "examples"


def hwgen(*arguments: object) -> tuple[dict[str, Any], float, int]:
    """``hwgen ARGUMENTS --json``: its result, seconds, and peak memory in bytes. Raises
    CalledProcessError."""
    command = [sys.executable, "-m", "hwgen.cli", *map(str, arguments), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return json.loads(output), seconds, usage.ru_maxrss * 1024


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for builds that goes away."""
    return tempfile.TemporaryDirectory(prefix="hwgen-bench-")


def build_and_simulate(model: Path, directory: str, *options: object) -> dict[str, Any]:
    """Build a model file and simulate it; the simulation's result with ``build_seconds`` and
    ``build_memory``."""
    _, seconds, memory = hwgen("build", model, "-o", directory)
    result, simulated, _ = hwgen("sim", directory, *options)
    return {
        **result,
        "build_seconds": round(seconds, 2),
        "build_memory": memory,
        "sim_command_seconds": round(simulated, 2),
    }
