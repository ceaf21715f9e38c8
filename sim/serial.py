"""Simulation of a device with its host port as bytes: a program that speaks them on standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path

from ..backend.build import load_build
from ..backend.host import BYTES_TOP, UART_TOP
from ..errors import BuildError, HwgenError
from .verilate import CPP, BuildOptions, build_program

__all__ = ["device_program", "main"]


def device_program(directory: Path, pins: bool = False) -> Path:
    """The program (sim/cpp/serial/device.cpp) for the build in ``directory``, from the cache or newly built.

    Raises BuildError where the build has several boards or external memory.
    """
    build = load_build(directory)
    plan = build.plan
    if plan.links:
        raise BuildError(
            f"{directory}: {len(plan.boards)} boards; the host's bytes are simulated for a single device only, "
            "hwgen sim simulates the chain"
        )
    if any(planned.storage.master != "here" for planned in plan.stages):
        raise BuildError(
            f"{directory}: masters in external memory; the host's bytes are simulated without one, hwgen sim has it"
        )
    extra = [name for name in build.manifest["files"] if name.startswith("host/verilog/")]
    files = {**build.files, **{name: (directory / name).read_text() for name in extra}}
    return serial_program(files, pins)


def serial_program(files: dict[str, str], pins: bool) -> Path:
    """The program for these Verilog files."""
    drivers = {"device.cpp": (CPP / "serial" / "device.cpp").read_text()}
    top, flags = UART_TOP if pins else BYTES_TOP, [f"-DHWGEN_PINS={int(pins)}"]
    options = BuildOptions(fast=False)
    return build_program("serial", files, drivers, "device.cpp", top, options, "Vhwgen_serial", flags)


def main(arguments: list[str]) -> int:
    """Prints the path of the program for a build directory (``--pins``: bytes on the wires of its UART)."""
    try:
        found = device_program(Path(arguments[0]), "--pins" in arguments)
    except HwgenError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
