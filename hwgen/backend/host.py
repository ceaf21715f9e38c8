"""What a build has for its host: devices whose port is bytes, the driver, and the map of registers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from .. import host as driver
from ..gateware.board import Board
from ..gateware.core import Core
from ..gateware.serial.port import BytesDevice, HostPort, UartDevice
from ..plan.links import LINK_STATES
from ..plan.memory import own_region
from ..plan.plan import Plan, StagePlan
from ..plan.registers import (
    DEVICE_ID,
    GLOBAL,
    LINK_BASE,
    LINK_REGISTERS,
    LINK_STRIDE,
    SPACES,
    STAGE_BASE,
    STAGE_COUNTERS,
    STAGE_STRIDE,
)
from .convert import convert
from .kept import Kept
from .requests import TOP, board_top, build_number, lent

__all__ = [
    "BYTES_TOP",
    "UART_TOP",
    "device_description",
    "host_files",
    "register_header",
    "register_table",
    "serial_verilog",
]

BYTES_TOP, UART_TOP, PORT = "hwgen_bytes", "hwgen_uart", "hwgen_host_port"
DRIVER = (
    "__init__", "checkpoint", "device", "errors", "layout", "pipe", "placement", "protocol", "pynq", "serial_port",
    "simulation", "transport", "xdma",
)  # fmt: skip


def host_files(plan: Plan, kept: Kept | None = None) -> dict[str, str]:
    """All files below ``host/`` by path; Verilog found in ``kept`` is not made again."""
    folder = Path(driver.__file__).parent
    files = {f"host/hwgen_host/{name}.py": (folder / f"{name}.py").read_text() for name in DRIVER}
    files["host/train.py"] = (folder / "train.py").read_text().replace("from .", "from hwgen_host.")
    files["host/device.json"] = json.dumps(device_description(plan), indent=1) + "\n"
    files["host/registers.h"] = register_header()
    files["host/registers.md"] = register_table()
    return files | serial_verilog(plan, kept)


def serial_verilog(plan: Plan, kept: Kept | None = None) -> dict[str, str]:
    """Verilog of the host port and of the tops with it, by path."""
    core, number = board_top(0) if plan.links else TOP, build_number(plan)

    def device() -> BytesDevice:
        inner = Board(plan, 0, number) if plan.links else Core(plan, number)
        return BytesDevice(lent(inner), lent(HostPort(plan)), core, PORT)

    makers: dict[str, Callable[[], Any]] = {
        PORT: lambda: HostPort(plan),
        BYTES_TOP: device,
        UART_TOP: lambda: UartDevice(lent(device()), BYTES_TOP),
    }
    files = {}
    for name, make in makers.items():
        key = repr((name, number))
        text = kept.get(key) if kept is not None else None
        if text is None:
            text = convert(make(), name)
            if kept is not None:
                kept.put(key, text)
        files[f"host/verilog/{name}.v"] = text
    return files


def device_description(plan: Plan) -> dict[str, Any]:
    """All that the driver must know of a build."""
    network, update = plan.network, plan.network.update
    run, lanes = plan.image_side
    return {
        "hwgen": __version__,
        "build": build_number(plan),
        "id": DEVICE_ID,
        "boards": list(plan.boards),
        "registers": registers(),
        "image": {
            "shape": list(network.in_shape), "run": run, "lanes": lanes,
            "width": network.input.width, "frac": network.input.frac,
        },
        "classes": network.loss.classes,
        "update": {
            "batch": update.batch, "rate": update.rate, "seed": update.seed, "rounding": update.rounding,
            "lr": {"width": update.lr.width, "frac": update.lr.frac},
        },
        "layers": [
            {
                "name": stage.name, "weights": list(stage.weight_shape), "bias": stage.bias is not None,
                "out_channels": stage.out_channels,
                "master": {"width": stage.master.width, "frac": stage.master.frac},
            }
            for stage in network.stages
        ],
        "parts": [_part(plan, k, planned) for k, planned in enumerate(plan.stages)],
        "links": len(plan.links),
    }  # fmt: skip


def registers() -> dict[str, Any]:
    """The register map."""
    return {
        "global": {
            name: {"address": one.address, "access": one.access, "meaning": one.meaning}
            for name, one in GLOBAL.items()
        },
        "spaces": dict(SPACES),
        "stage": {"base": STAGE_BASE, "stride": STAGE_STRIDE, "counters": list(STAGE_COUNTERS)},
        "link": {
            "base": LINK_BASE, "stride": LINK_STRIDE, "registers": list(LINK_REGISTERS), "states": list(LINK_STATES),
        },
    }  # fmt: skip


def _part(plan: Plan, number: int, planned: StagePlan) -> dict[str, Any]:
    inputs, outputs = planned.part.weights(plan.whole(planned))
    fold, stage = planned.fold, planned.stage
    found = own_region(plan, number)
    region = None
    if found is not None:
        where, index = found
        region = {"board": where.board, "space": len(plan.on(where.board)) + index << 4}
    return {
        "name": stage.name,
        "layer": stage.index,
        "board": planned.board,
        "number": plan.on(planned.board).index(planned),
        "inputs": [inputs.start, inputs.stop],
        "outputs": [outputs.start, outputs.stop],
        "fold": fold.numbers,
        "drop": stage.master.width - stage.w.width if region is not None else 0,
        "bias": stage.bias is not None,
        "region": region,
    }


def register_header() -> str:
    """The register map as a C header."""
    lines = [
        f"/* generated by hwgen {__version__}: word addresses of 32-bit registers */",
        "#ifndef HWGEN_REGISTERS_H",
        "#define HWGEN_REGISTERS_H",
        "",
        f"#define HWGEN_DEVICE_ID 0x{DEVICE_ID:08X}u",
        "",
    ]
    for name, one in GLOBAL.items():
        lines.append(f"#define HWGEN_{name.upper()} 0x{one.address:04X}u /* {one.access}: {one.meaning} */")
    lines += ["", "/* low four bits of HWGEN_SPACE; the stage stands above them */"]
    lines += [f"#define HWGEN_SPACE_{name.upper()} {value}u" for name, value in SPACES.items()]
    lines += ["", "/* counters of a stage */"]
    lines += _header_block("STAGE", STAGE_BASE, STAGE_STRIDE, STAGE_COUNTERS)
    lines += ["", "/* registers of a link; side 0 towards the host, 1 away from it */"]
    lines += _header_block("LINK", LINK_BASE, LINK_STRIDE, LINK_REGISTERS)
    return "\n".join([*lines, "", "#endif", ""])


def _header_block(kind: str, base: int, stride: int, names: tuple[str, ...]) -> list[str]:
    lines = [f"#define HWGEN_{kind}(k) (0x{base:04X}u + {stride}u * (k))"]
    return lines + [f"#define HWGEN_{kind}_{name.upper()} {k}u" for k, name in enumerate(names)]


def register_table() -> str:
    """The register map as Markdown."""
    lines = [
        f"<!-- generated by hwgen {__version__} -->",
        "# Registers",
        "",
        "Word addresses of 32-bit registers, on every board of a chain.",
        "",
        "| address | name | access | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| 0x{one.address:04X} | `{name}` | {one.access} | {one.meaning} |" for name, one in GLOBAL.items()
    ]
    lines += ["", "Spaces:", "", "| number | space |", "|---|---|"]
    lines += [f"| {value} | `{name}` |" for name, value in SPACES.items()]
    blocks: Mapping[str, tuple[int, int, tuple[str, ...]]] = {
        "stage k": (STAGE_BASE, STAGE_STRIDE, STAGE_COUNTERS),
        "link on side k (0: towards the host)": (LINK_BASE, LINK_STRIDE, LINK_REGISTERS),
    }
    for title, (base, stride, names) in blocks.items():
        lines += ["", f"Of {title}, at 0x{base:04X} + {stride}·k:", "", "| offset | name |", "|---|---|"]
        lines += [f"| {k} | `{name}` |" for k, name in enumerate(names)]
    return "\n".join([*lines, ""])
