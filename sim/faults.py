"""Runs the cocotb bench of faults on a device: bad frames, bad labels, and manners of the command port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..plan.plan import Plan, StagePlan
from ..plan.registers import SPACES
from .cocotb_driver import run_bench
from .layout import image_layout, pack_lanes
from .ports import read_ports

__all__ = ["run_faults"]


def run_faults(
    plan: Plan, files: Mapping[str, str], directory: Path, simulator: str, tests: str | None = None
) -> int:
    """Runs hwgen.sim.bench.faults (or those tests whose names match ``tests``); how many ran.

    Raises ToolError if one fails or none runs.
    """
    ports, network = read_ports(files), plan.network
    layout = image_layout(plan)
    image = np.arange(np.prod(network.in_shape), dtype=np.int64).reshape(1, *network.in_shape) % (
        network.input.max + 1
    )
    words = pack_lanes(
        layout.to_lanes(image.reshape(1, *layout.shape))[0], layout.width, ports.words("image")
    )
    setting = {
        "image": [int.from_bytes(beat.tobytes(), "little") for beat in words],
        "last": layout.lanes * layout.width,
        "classes": network.loss.classes,
        "patience": 4 * plan.prediction.latency + 4 * round(plan.prediction.cycles_per_batch) + 1000,
        "depths": [planned.fold.depth for planned in plan.stages],
        "memories": [memory for planned in plan.stages for memory in _memories(planned)],
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "faults.json").write_text(json.dumps(setting))
    return run_bench(files, ports.module, "faults", directory, simulator, tests=tests)


def _memories(planned: StagePlan) -> list[tuple[int, int]]:
    """(what to write to the register ``space``, number of elements) of a stage's parameters."""
    stage, fold = planned.stage, planned.fold
    found = [(stage.index * 16 + SPACES["master"], fold.pk * fold.pn * fold.depth)]
    if stage.bias is not None:
        found.append((stage.index * 16 + SPACES["bias"], fold.pn * fold.y_words))
    return found
