"""``hwgen build``: plan a model and write its Verilog."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..toolchain import cache_directory
from . import report
from .cluster import add_cluster_argument
from .training import add_source_argument, add_training_arguments, training

__all__ = ["NAME", "add_arguments", "run"]

NAME = "build"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    add_source_argument(parser)
    parser.add_argument(
        "-o", dest="out", metavar="DIR", type=Path, required=True, help="the build directory to write"
    )
    parser.add_argument(
        "--seed", type=report.seed, default=0, metavar="N", help="draws the first weights (default: 0)"
    )
    add_training_arguments(parser)
    add_cluster_argument(parser)
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="boards, cuts and foldings of a file that hwgen plan wrote"
    )


def run(arguments: argparse.Namespace) -> int:
    """Builds, and shows what was built."""
    from ..backend.build import build

    with report.Progress() as progress, contextlib.redirect_stdout(sys.stderr):  # the model file may print
        result = build(
            arguments.source,
            arguments.out,
            seed=arguments.seed,
            cluster=arguments.cluster,
            plan=arguments.plan,
            training=training(arguments),
            kept=cache_directory() / "modules",
            progress=progress,
        )
    report.show(result, _text(result, arguments.out), arguments.json)
    return 0


def _text(result: Mapping[str, Any], out: Path) -> str:
    chain = len(result["boards"]) > 1
    rows = [["stage", *(["board"] if chain else []), "array", "multipliers", "multiply-accumulates a sample"]]
    for stage in result["stages"]:
        pk, pn = stage["array"]
        place = [f"{stage['board']} {result['boards'][stage['board']]}"] if chain else []
        macs = str(sum(stage["macs"].values()))
        rows.append([stage["name"], *place, f"{pk}×{pn}", str(stage["multipliers"]), macs])
    random = [report.RANDOM_DATA] if result["random_data"] else []
    return "\n".join(
        (
            report.table(rows),
            f"{result['multipliers']} multipliers, slowest: {result['bottleneck']}",
            f"predicted: {result['predicted_cycles_per_sample']:.1f} cycles a sample, "
            f"{result['predicted_cycles_per_batch']:.0f} a batch of {result['batch']}, "
            f"occupancy {result['predicted_occupancy']:.1%}",
            *random,
            f"build {result['build']} written to {out} in {result['seconds']:.1f} s",
            *(f"project: {out}/{folder}" for folder in result["projects"]),
            *result["projects_refused"],
            f"simulate it: hwgen sim {out}",
        )
    )
