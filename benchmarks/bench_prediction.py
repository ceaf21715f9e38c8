"""Predicted against simulated cycles, a sample and a batch, for digits and the 1X CIFAR-10 network."""

from __future__ import annotations

from typing import Any

from .command import EXAMPLES, build_and_simulate, scratch

__all__ = ["run"]

BATCHES = {"digits": 3, "cifar_1x": 1}
"""Batches simulated of each example before the two that are timed."""


def run() -> dict[str, Any]:
    """For each example: what the plan predicts, what the simulation counts, the error in percent."""
    rows = []
    for name, batches in BATCHES.items():
        with scratch() as directory:
            result = build_and_simulate(
                EXAMPLES / f"{name}.py", directory, "--batches", batches, "--no-gradients"
            )
        row: dict[str, Any] = {"example": name, "batches": batches, "mismatched": result["mismatched"]}
        for unit in ("sample", "batch"):
            predicted = result[f"predicted_cycles_per_{unit}"]
            measured = result[f"cycles_per_{unit}"]
            row |= {
                f"predicted_cycles_per_{unit}": predicted,
                f"cycles_per_{unit}": measured,
                f"error_percent_{unit}": round(100 * (predicted / measured - 1), 3),
            }
        rows.append(row)
    return {"examples": rows}
