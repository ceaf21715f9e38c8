"""1X CIFAR-10 CNN on one FPGA: busy multipliers in steady state, cycles a sample, speed of the simulation."""

from __future__ import annotations

from typing import Any

from .command import EXAMPLES, build_and_simulate, scratch

__all__ = ["run"]


def run() -> dict[str, Any]:
    """Two batches of 8 random images; every result and the trained weights are compared with the
    reference."""
    with scratch() as directory:
        return build_and_simulate(EXAMPLES / "cifar_1x.py", directory, "--batches", 2)
