"""Models of external memory in simulation tops: their pins and settings, and the top of a single device with one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..backend.render import render
from ..plan.latency import MEMORY
from ..plan.memory import AXI_ADDRESS, AXI_BITS, board_bytes
from ..plan.plan import Plan
from .ports import Ports, read_ports
from .surroundings import Setting, Surroundings

__all__ = [
    "KNOBS",
    "MODEL",
    "bus_pins",
    "device_simulation",
    "memory_settings",
    "memory_values",
    "model_text",
]

MODEL = "hwgen_memory.sv"
"""File of the model of an external memory."""
DEVICE = "hwgen_device"
KNOBS = {"stall": 16, "latency": 16, "seed": 64}
"""Inputs of the models (sim/verilog/hwgen_memory.sv) and their bits; a top has them as ``memory_<name>``, once for
all its boards."""
_PREFIX = "memory__"


def model_text() -> str:
    """Verilog of the model."""
    return (Path(__file__).parent / "verilog" / MODEL).read_text()


def bus_pins(ports: Ports) -> list[dict[str, object]]:
    """Pins of a board's memory port; none: no memory."""
    return [
        {"name": name.removeprefix(_PREFIX), "width": width}
        for name, width in ports.widths.items()
        if name.startswith(_PREFIX)
    ]


def memory_values(plan: Plan, board: int, ports: Ports) -> dict[str, object]:
    """What the macros of memory.sv.j2 are told of a board's memory: as large as the plan uses it."""
    words = -(-board_bytes(plan, board) // (AXI_BITS // 8))
    return {"bus": bus_pins(ports), "words": max(1, words), "address": AXI_ADDRESS}


def memory_settings(stall: float, seed: int) -> list[Setting]:
    """Settings of the models: handshakes that wait with a chance of ``stall``, latencies as the plan expects them."""
    values = {"stall": min(int(stall * 2**16), 2**16 - 1), "latency": MEMORY, "seed": seed & (1 << 64) - 1}
    return [Setting(f"memory_{name}", 0, KNOBS[name], value) for name, value in values.items()]


def device_simulation(
    plan: Plan, files: Mapping[str, str], stall: float, seed: int
) -> tuple[dict[str, str], Ports, Surroundings | None]:
    """All Verilog, the ports of the top and its surroundings, of a single device; with its memory if it has one."""
    ports = read_ports(files)
    values = memory_values(plan, 0, ports)
    if not values["bus"]:
        return dict(files), ports, None
    own = {name: width for name, width in ports.widths.items() if not name.startswith(_PREFIX)}
    pins = [
        {"way": "input" if name in ports.inputs else "output", "name": name, "width": width}
        for name, width in own.items()
    ]
    pins += [{"way": "input", "name": f"memory_{name}", "width": width} for name, width in KNOBS.items()]
    top = render("device.sv.j2", pins=pins, module=ports.module, own=list(own), **values)
    whole = {**files, "device.sv": top, MODEL: model_text()}
    return whole, read_ports(whole, DEVICE), Surroundings(settings=memory_settings(stall, seed))
