"""What a link end costs: LUT, FF and block RAM of Yosys for two FPGA families."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from hwgen.backend.convert import convert
from hwgen.frontend.loader import load_source
from hwgen.gateware.board import link_end
from hwgen.gateware.link.end import LinkEnd
from hwgen.gateware.link.phy import LANE_BITS
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster, Link

from .command import EXAMPLES

__all__ = ["run"]

FAMILIES = {"xc7": "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf", "ecp5": "synth_ecp5"}
BOARDS = 3
WIDE = (512,) * 5
"""Depths of five channels, in either direction."""
LUTS = {
    "LUT1": 1, "LUT2": 1, "LUT3": 1, "LUT4": 1, "LUT5": 1, "LUT6": 1,
    "RAM32X1D": 2, "RAM32M": 4, "RAM64X1D": 2, "RAM64M": 4, "RAM128X1D": 4,
    "CCU2C": 2, "TRELLIS_DPR16X4": 6,
}  # fmt: skip
"""Look-up tables that a cell takes; INV is part of the one behind it. A DPR16X4 is four, and two that write them."""
KILOBITS = {"RAMB18E1": 18, "RAMB36E1": 36, "DP16KD": 18}
FLIP_FLOPS = re.compile(r"FD[CPRS]E(_1)?|TRELLIS_FF")
_SYNTHESIS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
libyosys.run_pass("read_verilog end.v", design)
libyosys.run_pass(sys.argv[1] + " -top link_end", design)
libyosys.run_pass("tee -q -o stat.txt stat", design)
"""


def _cells(text: str) -> dict[str, int]:
    """Number of cells by type, of the last module of Yosys's ``stat``."""
    last = text[text.rindex("===") :]
    return {name: int(count) for count, name in re.findall(r"^ +(\d+) +([A-Z]\w+)$", last, re.MULTILINE)}


def _cost(end: LinkEnd, family: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hwgen-cost-") as name:
        (Path(name) / "end.v").write_text(convert(end, "link_end"))
        command = [sys.executable, "-c", _SYNTHESIS, FAMILIES[family]]
        subprocess.run(command, cwd=name, check=True, stdout=subprocess.DEVNULL)
        cells = _cells((Path(name) / "stat.txt").read_text())
    memory_luts = sum(
        n * LUTS[cell]
        for cell, n in cells.items()
        if cell.startswith(("RAM3", "RAM6", "RAM1", "TRELLIS_DPR"))
    )
    luts = sum(n * LUTS.get(cell, 0) for cell, n in cells.items())
    return {
        "lut": luts,
        "lut_ram": memory_luts,
        "ff": sum(n for cell, n in cells.items() if FLIP_FLOPS.fullmatch(cell)),
        "bram_kilobits": sum(n * KILOBITS.get(cell, 0) for cell, n in cells.items()),
        "cells": dict(sorted(cells.items())),
    }


def _digits(lanes: int) -> LinkEnd:
    """That of the first board of three that digits is cut over."""
    network = load_source(EXAMPLES / "digits.py").network
    cluster = Cluster.chain("vc709", BOARDS, link=Link(lanes=lanes, gbps=10.3125))
    return link_end(plan_network(network, cluster=cluster).links[0], "down")


def run() -> dict[str, Any]:
    """A row for each width, set of channels and family."""
    rows = []
    for lanes in (1, 4):
        width = LANE_BITS * lanes
        for channels, end in (
            ("digits", partial(_digits, lanes)),
            ("5 of 512", partial(LinkEnd, width, WIDE, WIDE)),
        ):
            for family in FAMILIES:
                rows.append({"width": width, "channels": channels, "family": family, **_cost(end(), family)})
    return {"yosys": importlib.metadata.version("pyosys"), "passes": FAMILIES, "rows": rows}
