"""``python -m benchmarks [NAME ...]``: run benchmarks (all by default), write
benchmarks/results/NAME.json."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

__all__ = ["NAMES", "main"]

NAMES = (
    "reference",
    "learning",
    "occupancy",
    "layers",
    "prediction",
    "truth",
    "emission",
    "links",
    "chain",
    "link_cost",
    "logic",
    "fmax",
    "planner",
    "scale",
    "boards",
    "board_synthesis",
)
"""One module bench_NAME each, with ``run() -> dict``."""


def main(argv: list[str] | None = None) -> int:
    """Run the named benchmarks; a failing one fails the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    names = parser.parse_args(argv).names or list(NAMES)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    for name in names:
        if name not in NAMES:
            parser.error(f"no benchmark {name}; there are {', '.join(NAMES)}")
        figures = importlib.import_module(f"benchmarks.bench_{name}").run()
        figures = {
            "benchmark": name,
            "machine": platform.machine(),
            "python": platform.python_version(),
            **figures,
        }
        text = json.dumps(figures, indent=2)
        (results / f"{name}.json").write_text(text + "\n")
        print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
