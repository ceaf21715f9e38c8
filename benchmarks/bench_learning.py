"""Digits learnt in RTL against float32 PyTorch: same initial weights, batches and learning rate, three
seeds."""

from __future__ import annotations

from typing import Any

from .command import EXAMPLES, hwgen, scratch
from .digits_torch import train_float

__all__ = ["run"]

EPOCHS = 8


def run() -> dict[str, Any]:
    """Held-out accuracy of both after 8 epochs, for seeds 0, 1, 2."""
    rows = []
    for seed in range(3):
        with scratch() as directory:
            hwgen("build", EXAMPLES / "digits.py", "-o", directory, "--seed", seed)
            result, seconds, _ = hwgen("sim", directory, "--epochs", EPOCHS, "--eval", "--seed", seed)
        float_accuracy = train_float(seed, EPOCHS)
        rows.append(
            {
                "seed": seed,
                "rtl_accuracy": result["accuracy"],
                "float32_accuracy": float_accuracy,
                "mismatched": result["mismatched"],
                "compared": result["compared"],
                "rtl_cycles": result["cycles"],
                "seconds": round(seconds, 1),
            }
        )
    return {"epochs": EPOCHS, "runs": rows}
