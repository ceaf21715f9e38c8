"""Time and memory of ``hwgen build`` for the 1X CIFAR-10 CNN at 256, 512, 1024 and 2048 multipliers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .command import EXAMPLES, hwgen, scratch

__all__ = ["run"]

ARRAYS = {
    256: ((3, 1), (9, 2), (9, 1), (9, 2), (9, 1), (9, 2)),
    512: ((9, 1), (9, 5), (9, 2), (9, 4), (9, 2), (9, 4)),
    1024: ((1, 16), (9, 8), (9, 4), (9, 8), (9, 5), (9, 9)),
    2048: ((9, 4), (9, 16), (9, 8), (9, 16), (9, 8), (9, 16)),
}
"""(Pk, Pn) of the six convolutions for about that many multipliers."""


def run() -> dict[str, Any]:
    """A build each; the example's own arrays are replaced through the HWGEN_CIFAR_ARRAYS it reads."""
    rows = []
    for target, arrays in ARRAYS.items():
        with scratch() as directory:
            model = Path(directory) / "model.py"
            source = (EXAMPLES / "cifar_1x.py").read_text()
            marker = "ARRAYS = "
            lines = [
                f"{marker}{arrays!r}" if line.startswith(marker) else line for line in source.splitlines()
            ]
            assert any(line.startswith(marker) for line in lines), "the example names its arrays ARRAYS"
            model.write_text("\n".join(lines) + "\n")
            result, seconds, memory = hwgen("build", model, "-o", f"{directory}/build")
            size = sum(path.stat().st_size for path in Path(directory, "build").rglob("*.v"))
        rows.append(
            {
                "target": target,
                "multipliers": result["multipliers"],
                "seconds": round(seconds, 2),
                "peak_memory": memory,
                "verilog_bytes": size,
            }
        )
    return {"builds": rows}
