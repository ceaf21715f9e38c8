"""The emitted Verilog in place of a device; needs hwgen and Verilator where it runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from .errors import HostError
from .pipe import Pipe

__all__ = ["Simulation"]


class Simulation(Pipe):
    """A simulation of the build in ``directory``, all boards of it: ``side`` is "bytes" on its streams, "pins" on the
    wires of its UART, "beats" of a DMA engine.

    ``faults`` are chances in a million that a byte is changed, lost, or the rest of its frame is.
    """

    def __init__(
        self, directory: Path, side: str = "bytes", faults: tuple[int, int, int] = (0, 0, 0), seed: int = 0
    ):
        program = _program(directory, side)
        arguments = [program, *map(str, faults), str(seed)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        source, sink = (os.dup(one.fileno()) for one in (self.process.stdout, self.process.stdin))
        self.process.stdin.close()
        self.process.stdout.close()
        super().__init__("simulation", source, sink, write_seconds=60.0)

    def close(self) -> None:
        """Ends the simulation."""
        super().close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _program(directory: Path, side: str) -> str:
    """Path of the simulation's program, which hwgen makes if it is not there yet."""
    if importlib.util.find_spec("hwgen") is None:
        raise HostError("--sim needs hwgen, which is not installed here; pip install hwgen, or give --port")
    command = [sys.executable, "-m", "hwgen.sim.serial", str(directory), side]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        lines = made.stderr.strip().splitlines() or [f"exit code {made.returncode}"]
        raise HostError(" ".join(lines[-8:]))
    return made.stdout.strip()
