"""Runs the C++ driver on a prepared directory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolError
from .program import Outcome, read_outcome

__all__ = ["Conditions", "run_cpp"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Conditions:
    """How a program is run: ``stall`` is the probability that image, label or result waits a cycle, drawn
    from ``seed``.

    ``watchdog`` counts cycles without progress, ``max_cycles`` ends a run whatever it does. ``trace`` is an
    FST file.
    """

    stall: float = 0.0
    seed: int = 0
    watchdog: int = 100_000
    max_cycles: int = 1 << 62
    trace: Path | None = None
    poison: bool = False


def run_cpp(
    executable: Path, directory: Path, conditions: Conditions, progress: Progress | None = None
) -> Outcome:
    """Runs the program in ``directory``; ``progress`` is told (results, cycles) about once a second.

    Raises ToolError if the driver breaks off.
    """
    (directory / "outcome.txt").unlink(missing_ok=True)
    command = [
        str(executable),
        str(directory),
        "--stall",
        repr(conditions.stall),
        "--seed",
        str(conditions.seed),
    ]
    command += ["--watchdog", str(conditions.watchdog), "--max-cycles", str(conditions.max_cycles)]
    if conditions.trace is not None:
        command += ["--trace", str(conditions.trace)]
    if conditions.poison:
        command += ["+verilator+rand+reset+2", f"+verilator+seed+{conditions.seed % 2147483646 + 1}"]
    with (
        (directory / "driver.log").open("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as child,
    ):
        try:
            assert child.stdout is not None
            for line in child.stdout:
                words = line.split()
                if progress is not None and len(words) == 3 and words[0] == "progress":
                    progress(int(words[1]), int(words[2]))
            code = child.wait()
        finally:
            child.kill()  # does nothing to one that has ended
        log.seek(0)
        message = log.read().strip()
    if code not in (0, 4):
        raise ToolError(f"simulation: the driver ended with code {code}: {message or 'no message'}")
    return read_outcome(directory)
