"""Simulation of a build as its host sees it: a program with the host port's bytes on standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..backend.build import load_build
from ..backend.convert import convert
from ..backend.host import BYTES_TOP, UART_TOP
from ..backend.render import render
from ..backend.verilog import board_top
from ..errors import BuildError, HwgenError
from ..gateware.serial.beats import ByteBeats
from ..gateware.serial.uart import DIVIDER_BITS
from ..plan.latency import MEMORY
from ..plan.plan import Plan
from .chain_top import CHANNEL, COUNTERS, KNOBS, Cable, channel_text
from .memory_top import MODEL, bus_pins, memory_values, model_text
from .ports import Ports, read_ports
from .verilate import CPP, BuildOptions, build_program

__all__ = ["SIDES", "device_program", "main", "serial_files", "serial_program"]

SIDES = ("bytes", "pins", "beats")
"""Forms of the host port: a stream each way, the wires of a UART, beats of a DMA engine. Numbers in the C++."""
TOP, BEATS = "hwgen_serial", 8
SLACK = 64
"""Words that a cable's ring holds beside those under way."""


def device_program(directory: Path, side: str = "bytes") -> Path:
    """The program (sim/cpp/serial/device.cpp) for the build in ``directory``, from the cache or newly built."""
    build = load_build(directory)
    extra = [name for name in build.manifest["files"] if name.startswith("host/verilog/")]
    files = {**build.files, **{name: (directory / name).read_text() for name in extra}}
    return serial_program(build.plan, files, side)


def serial_program(plan: Plan, files: Mapping[str, str], side: str = "bytes") -> Path:
    """The program for these Verilog files of a plan."""
    drivers = {path.name: path.read_text() for path in sorted((CPP / "serial").iterdir())}
    flags = [f"-DHWGEN_SIDE={SIDES.index(side)}"]
    return build_program(
        "serial",
        serial_files(plan, files, side),
        drivers,
        "device.cpp",
        TOP,
        BuildOptions(fast=False),
        "",
        flags,
    )


def serial_files(plan: Plan, files: Mapping[str, str], side: str = "bytes") -> dict[str, str]:
    """``files`` with the module ``hwgen_serial``: all boards, their cables and memories, and the host port.

    Raises BuildError if a module is missing.
    """
    first = UART_TOP if side == "pins" else BYTES_TOP
    names = [first, *(board_top(k) for k in range(1, len(plan.boards)))]
    boards = [read_ports(files, name, streams=(), channels=False) for name in names]
    pins = _pins(side)
    text = render(
        "serial.sv.j2", top=TOP, pins=pins, beats=side == "beats", latency=MEMORY, counters=[*COUNTERS],
        boards=[_board(plan, k, ports, pins if side != "beats" else None) for k, ports in enumerate(boards)],
        cables=[_cable(plan, k) for k in range(len(plan.links))],
    )  # fmt: skip
    found = {**files, "serial.sv": text}
    if plan.links:
        found[CHANNEL] = channel_text()
    if any(bus_pins(ports) for ports in boards):
        found[MODEL] = model_text()
    if side == "beats":
        found["beats.v"] = convert(ByteBeats(BEATS), "hwgen_byte_beats")
    return found


def _pins(side: str) -> list[dict[str, object]]:
    """Pins of the host port."""
    inputs: dict[str, int] = {"i__payload": 8, "i__valid": 1, "o__ready": 1}
    outputs: dict[str, int] = {"o__payload": 9, "o__valid": 1, "i__ready": 1}
    if side == "pins":
        inputs, outputs = {"rx": 1, "divider": DIVIDER_BITS}, {"tx": 1}
    elif side == "beats":
        beat = {"tdata": 8 * BEATS, "tkeep": BEATS, "tvalid": 1}
        inputs = {**{f"h2c_{name}": width for name, width in beat.items()}, "c2h_tready": 1}
        outputs = {**{f"c2h_{name}": width for name, width in beat.items()}, "c2h_tlast": 1, "h2c_tready": 1}
    ways = (("input", inputs), ("output", outputs))
    return [{"way": way, "name": name, "width": width} for way, some in ways for name, width in some.items()]


def _board(plan: Plan, number: int, ports: Ports, pins: list[dict[str, object]] | None) -> dict[str, Any]:
    """``pins``: those of the host port as they are; None: they go through the beats' adapter."""
    ends = [("up", 2 * number - 1)] if number else []
    ends += [("down", 2 * number)] if number < len(plan.boards) - 1 else []
    streams = [f"{stream}__{part}" for stream in "io" for part in ("payload", "valid", "ready")]
    host = [(name, name.replace("__", "_")) for name in streams]
    if pins is not None:
        host = [(str(pin["name"]), str(pin["name"])) for pin in pins]
    return {
        "number": number,
        "module": ports.module,
        "host": host if number == 0 else [],
        "ends": ends,
        "widths": {side: ports.widths[f"{side}__tx__payload"] - 1 for side, _ in ends},
        "memory": memory_values(plan, number, ports) if bus_pins(ports) else None,
    }


def _cable(plan: Plan, index: int) -> dict[str, Any]:
    """A cable as long as the plan was made for, without faults."""
    link = plan.links[index]
    values = {name: getattr(Cable(latency=link.latency, seed=1), name, 0) for name in KNOBS}
    inside = {"repeat": "repeat_"}
    return {
        "end": 2 * index,
        "width": link.width,
        "depth_bits": (link.latency + SLACK).bit_length(),
        "settings": [(inside.get(name, name), KNOBS[name], value) for name, value in values.items()],
    }


def main(arguments: list[str]) -> int:
    """Prints the path of the program for a build directory and, if given, a form of SIDES."""
    try:
        if len(arguments) != 2 or arguments[1] not in SIDES:
            raise BuildError(
                f"arguments: {' '.join(arguments)}; a build directory and one of {', '.join(SIDES)}"
            )
        found = device_program(Path(arguments[0]), arguments[1])
    except HwgenError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
