"""A core file of FuseSoC for a build: its Verilog, lint, and a target for every device that has a project."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ... import __version__
from ...plan.plan import Plan
from ...target import Board, Cluster
from ..render import render
from . import ecp5, quartus, vivado

__all__ = ["CORE", "core_file"]

CORE = "hwgen.core"
"""In the build directory itself: FuseSoC counts paths from its core file."""
FILES = {
    "vivado": {
        "/top.v": "verilogSource",
        "/support.v": "verilogSource",
        ".xdc": "xdc",
        "/project.tcl": "tclSource",
    },
    "ecp5": {"/top.v": "verilogSource", ".lpf": "LPF"},
    "quartus": {"/top.v": "verilogSource", ".sdc": "SDC", "/pins.tcl": "tclSource"},
}
"""What of a project FuseSoC needs, by how names end, and what it calls it; in the order in which tools read them."""
TOOLS = {"vivado": "vivado", "ecp5": "trellis", "quartus": "quartus"}
TOPS = {"vivado": vivado.TOP, "ecp5": ecp5.TOP, "quartus": quartus.TOP}


def core_file(
    plan: Plan, cluster: Cluster | None, number: int, sources: Sequence[str], projects: Mapping[str, str]
) -> str:
    """The core file of a build of this ``number`` with Verilog ``sources`` and these files of ``projects``."""
    devices = []
    for index, board in enumerate(cluster.boards if cluster is not None else ()):
        for flow in TOOLS:
            names = [path for path in projects if path.startswith(f"device{index}/{flow}/")]
            if any(path.endswith("/top.v") for path in names):
                devices.append(_device(index, board, flow, names))
    word = re.sub(r"\W", "_", plan.network.name)
    return render(
        "fusesoc/hwgen.core.j2", name=f"hwgen:build:{word}_{number:08x}:{__version__}",
        description=json.dumps(f"{plan.network.name}, build 0x{number:08x}"), sources=sources, devices=devices,
        tops=_tops(plan),
    )  # fmt: skip


def _tops(plan: Plan) -> list[dict[str, str]]:
    """Lint of every device, the first with its host port."""
    tops = [{"target": "lint", "module": "hwgen_uart"}]
    return tops + [
        {"target": f"lint_board{k}", "module": f"hwgen_board{k}"} for k in range(1, len(plan.boards))
    ]


def _device(index: int, board: Board, flow: str, names: Sequence[str]) -> dict[str, Any]:
    files = [(path, kind) for end, kind in FILES[flow].items() for path in names if path.endswith(end)]
    return {
        "index": index, "board": board.name, "tool": TOOLS[flow], "files": files,
        "top": TOPS[flow], "options": _options(board, flow),
    }  # fmt: skip


def _options(board: Board, flow: str) -> list[tuple[str, str]]:
    if flow == "vivado":
        return [("part", board.device.part)]
    if flow == "quartus":
        return [("family", json.dumps(board.device.family)), ("device", board.device.part)]
    part = ecp5.part_of(board.device.part)
    route = [f"--{part.device}", "--package", part.package, "--speed", part.speed]
    return [("nextpnr_options", json.dumps([*route, "--freq", f"{board.device.clock_mhz:g}"]))]
