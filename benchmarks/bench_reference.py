"""Speed of the integer reference against float32 PyTorch on digits: same epochs, alternating runs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

__all__ = ["run"]

EPOCHS = 4
REPEATS = 5
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run() -> dict[str, Any]:
    """Median seconds of both, with one thread and with each library's own number, and their ratio."""
    rows = []
    for threads, environment in (("one", ONE_THREAD), ("default", {})):
        seconds: dict[str, list[float]] = {"hwgen": [], "torch": []}
        accuracy: dict[str, float] = {}
        for _ in range(REPEATS):
            for who in seconds:
                result = _timed(who, environment)
                seconds[who].append(result["seconds"])
                accuracy[who] = result["accuracy"]
        hwgen, torch = (statistics.median(seconds[who]) for who in ("hwgen", "torch"))
        rows.append(
            {
                "threads": threads,
                "hwgen_seconds": round(hwgen, 3),
                "torch_seconds": round(torch, 3),
                "ratio": round(hwgen / torch, 3),
                "pair_ratios": [
                    round(a / b, 3) for a, b in zip(seconds["hwgen"], seconds["torch"], strict=True)
                ],
                "hwgen_accuracy": accuracy["hwgen"],
                "torch_accuracy": accuracy["torch"],
            }
        )
    return {"epochs": EPOCHS, "repeats": REPEATS, "runs": rows}


def _timed(who: str, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.timed_training", who, str(EPOCHS)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result
