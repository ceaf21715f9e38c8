"""3×3 layers at 18, 72 and 144 forward multipliers: how busy they are while backward and gradient run beside
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .command import build_and_simulate, scratch

__all__ = ["LAYERS", "run"]

LAYERS = ((16, 32), (32, 16), (64, 8))
"""(channels in and out, height and width)."""

ARRAYS = ((18, (9, 2)), (72, (9, 8)), (144, (9, 16)))
"""(forward multipliers, (Pk, Pn))."""

MODEL = """
from hwgen import Model, nn

# The layer stands between a 1x1 layer (so that it has a backward-data pass) and a small classifier.
model = Model(
    input=({size}, {size}, 4),
    layers=[
        nn.Conv2d(4, {channels}, 1, array=(4, {feed}), name="feed"),
        nn.Conv2d({channels}, {channels}, 3, padding=1, array=({pk}, {pn}), b={block}, name="layer"),
        nn.ReLU(),
        nn.MaxPool2d({size} // 2),
        nn.Flatten(),
        nn.Linear(4 * {channels}, 10, array=(4, 2), name="head"),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.01, batch=8),
)
"""


def run() -> dict[str, Any]:
    """For every layer and array: forward occupancy of that layer in steady state, from the device's
    counters."""
    rows = []
    for channels, size in LAYERS:
        for forward, (pk, pn) in ARRAYS:
            with scratch() as directory:
                model = Path(directory) / "layer.py"
                model.write_text(
                    MODEL.format(size=size, channels=channels, pk=pk, pn=pn, feed=min(16, channels), block=8)
                )
                result = build_and_simulate(model, f"{directory}/build", "--batches", 1, "--no-gradients")
            busy = next(stage for stage in result["stages"] if stage["name"] == "layer")["occupancy"]
            rows.append(
                {
                    "layer": f"3x3 {channels}-{channels} on {size}x{size}",
                    "forward_multipliers": forward,
                    "bound_cycles": size * size * channels * channels * 9 // forward,
                    "cycles_per_sample": result["cycles_per_sample"],
                    "forward_occupancy": busy["forward"],
                    "backward_occupancy": busy["backward"],
                    "gradient_occupancy": busy["gradient"],
                    "mismatched": result["mismatched"],
                }
            )
    return {"layers": rows}
