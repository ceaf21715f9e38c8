"""Runs a long program: how long it took, how much memory, what it said; it ends when hwgen does or its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolError
from ..toolchain import tool_environment

__all__ = ["Limits", "Ran", "run_step"]

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Limits:
    """``seconds`` that a program may take; ``progress`` is told the seconds that it has taken."""

    seconds: float
    progress: Callable[[int], None]


@dataclass(frozen=True)
class Ran:
    """A program's exit code, None if its time was over; its time, the most memory it had, what it wrote."""

    code: int | None
    seconds: float
    peak_bytes: int
    output: str


def run_step(command: Sequence[str], cwd: Path, limits: Limits) -> Ran:
    """Runs a program to its end, in a group of its own that is killed with whatever stops this."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                command, cwd=cwd, env=tool_environment(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{command[0]}: does not run: {error.strerror}") from None
        over = False
        try:
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                seconds = time.monotonic() - start
                if seconds > limits.seconds and not over:
                    over = True
                    os.killpg(child.pid, signal.SIGKILL)
                limits.progress(int(seconds))
                time.sleep(POLL_SECONDS)
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            raise
        output.seek(0)
        text = output.read().decode(errors="replace")
    code = None if over else child.returncode
    return Ran(code, round(time.monotonic() - start, 3), usage.ru_maxrss << 10, text)
