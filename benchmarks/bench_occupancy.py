"""1X CIFAR-10 CNN on one FPGA: busy multipliers in steady state, cycles a sample, speed of the simulation."""

from __future__ import annotations

from typing import Any

from .command import EXAMPLES, build_and_simulate, scratch

__all__ = ["run"]


def run() -> dict[str, Any]:
    """Three batches of 8 random images, the last two without a stop.

    Compared with the reference: every result, y, dy and dx of the first batch, all weights and biases at the end.
    """
    with scratch() as directory:
        return build_and_simulate(EXAMPLES / "cifar_1x.py", directory, "--batches", 1, "--no-gradients")
