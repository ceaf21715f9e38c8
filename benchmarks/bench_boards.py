"""Boards of VGG-16 over 83 VC709, each alone with rolled arrays: one image forward, backward and gradient."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .command import EXAMPLES, hwgen, scratch

__all__ = ["run"]

CLUSTER = Path(__file__).parent / "vgg16_83.toml"
BOARDS = (0, 34, 82)
"""The first, one inside a cut layer, the last."""
ONE_IMAGE = ("--rolled", "--batch", 1, "--batches", 1, "--no-timing", "--watchdog", 3_000_000)
NAMES = ("multipliers", "compared", "mismatched", "samples", "cycles", "build")


def run() -> dict[str, Any]:
    """Plan, build (with modules kept from before) and simulate the boards; a bit that differs fails the run.

    What commands take as a whole depends on what compilers keep, and is left out.
    """
    source, boards = EXAMPLES / "vgg16.py", {}
    with scratch() as directory:
        plan, out = Path(directory, "plan.json"), Path(directory, "build")
        report = hwgen("plan", source, "--cluster", CLUSTER, "--masters", "memory", "-o", plan)[0]["report"]
        built, seconds, memory = hwgen("build", source, "--plan", plan, "-o", out)
        for board in BOARDS:
            result, _, peak = hwgen("sim", out, "--device", board, *ONE_IMAGE)
            boards[str(board)] = {
                "layers": [stage["name"] for stage in result["stages"]],
                **{name: result[name] for name in NAMES},
                "simulation_seconds": round(result["seconds"], 2),
                "memory": peak,
            }
    return {
        "example": "vgg16",
        "cluster": CLUSTER.name,
        "processors": os.cpu_count(),
        "cycles_per_sample": report["cycles_per_sample"],
        "build": {
            "seconds": round(seconds, 1),
            "memory": memory,
            "modules_made": built["modules_made"],
            "modules_kept": built["modules_kept"],
        },
        "boards": boards,
    }
