"""``hwgen synth``: make the bitstream of a board with Yosys and nextpnr."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "synth"
MOST_MINUTES = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="a directory that hwgen build made")
    parser.add_argument(
        "--board",
        type=report.natural,
        metavar="K",
        help="board K of the build (default: the first with a project)",
    )
    parser.add_argument(
        "--seed", type=report.seed, default=1, metavar="N", help="of place and route (default: 1)"
    )
    parser.add_argument(
        "--freq",
        type=report.above_zero("a number of MHz", 1e4),
        metavar="MHZ",
        help="another clock than the board's",
    )
    parser.add_argument(
        "--minutes",
        type=report.positive,
        default=180,
        metavar="N",
        help="that one tool may take (default: 180)",
    )
    parser.add_argument(
        "--no-pack",
        action="store_false",
        dest="pack",
        help="leave registers outside of multipliers (to find faults)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Makes the bitstream, and shows what it takes and how fast it is."""
    from ..backend.synth import SynthOptions, synthesize

    options = SynthOptions(arguments.board, arguments.seed, arguments.freq, arguments.pack, arguments.minutes)
    with report.Progress() as progress:
        result = synthesize(arguments.directory, options, progress)
    report.show(result, _text(result, arguments.directory), arguments.json)
    return 0


def _text(result: Mapping[str, Any], directory: Path) -> str:
    from ..backend.projects.ecp5_report import CELLS

    rows = [["resource", "used", "of", "", "plan"]]
    for name, cell in CELLS.items():
        used, available = result["used"][name], result["available"][name]
        rows.append(
            [cell, f"{used:,}", f"{available:,}", f"{used / available:.0%}", f"{result['expected'][name]:,}"]
        )
    clocks = [
        f"clock {name}: {clock['fmax_mhz']:.2f} MHz, asked {clock['asked_mhz']:g}"
        for name, clock in result["clocks"].items()
    ]
    steps = ", ".join(f"{step['tool']} {step['seconds']:.0f} s" for step in result["steps"])
    return "\n".join(
        (
            report.table(rows),
            *clocks,
            f"{steps}; peak memory {result['peak_bytes'] / 2**30:.2f} GiB",
            f"bitstream: {directory}/{result['bitstream']} ({result['bitstream_bytes']:,} bytes)",
        )
    )
