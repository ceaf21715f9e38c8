"""VGG-16 over 83 VC709 boards: seconds and memory to plan it, and to write the Verilog of all boards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .command import EXAMPLES, hwgen, scratch

__all__ = ["run"]

CLUSTER = "vc709*83"
NAMES = ("modules_made", "modules_kept", "verilog_files", "verilog_bytes", "multipliers")


def run() -> dict[str, Any]:
    """Plan and build with no module kept from before, and build again with all of them."""
    source = EXAMPLES / "vgg16.py"
    found: dict[str, Any] = {"example": "vgg16", "cluster": CLUSTER, "processors": os.cpu_count()}
    kept = os.environ.get("HWGEN_CACHE")
    with scratch() as directory:
        plan, out = Path(directory, "plan.json"), Path(directory, "build")
        os.environ["HWGEN_CACHE"] = str(Path(directory, "cache"))
        try:
            result, seconds, memory = hwgen("plan", source, "--cluster", CLUSTER, "-o", plan)
            report = result["report"]
            found["plan"] = {
                "seconds": round(seconds, 1),
                "memory": memory,
                "cycles_per_sample": report["cycles_per_sample"],
                "boards": len(report["boards"]),
            }
            for what in ("build", "build_again"):
                result, seconds, memory = hwgen("build", source, "--plan", plan, "-o", out)
                figures = {name: result[name] for name in NAMES}
                found[what] = {"seconds": round(seconds, 1), "memory": memory, **figures}
        finally:
            os.environ.pop("HWGEN_CACHE")
            if kept is not None:
                os.environ["HWGEN_CACHE"] = kept
    return found
