"""What a link end costs: LUT, FF and block RAM of Yosys for two FPGA families."""

from __future__ import annotations

import importlib.metadata
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
from .synthesis import FAMILIES, synthesise

__all__ = ["run"]

MEASURED = ("xc7", "ecp5")
BOARDS = 3
WIDE = (512,) * 5
"""Depths of five channels, in either direction."""


def _cost(end: LinkEnd, family: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hwgen-cost-") as name:
        (Path(name) / "link_end.v").write_text(convert(end, "link_end"))
        cells = synthesise(Path(name), "link_end", family)
    cost = FAMILIES[family].cost(cells)
    return {**cost, "lut": cost["lut"] + cost["lut_ram"], "cells": dict(sorted(cells.items()))}


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
            for family in MEASURED:
                rows.append({"width": width, "channels": channels, "family": family, **_cost(end(), family)})
    return {
        "yosys": importlib.metadata.version("pyosys"),
        "passes": {family: FAMILIES[family].passes for family in MEASURED},
        "rows": rows,
    }
