"""How many multipliers of a device a product takes."""

from __future__ import annotations

import math

from ..ir.stage import Stage

__all__ = ["pe_dsps", "tiles"]


def tiles(a: int, b: int, widths: tuple[int, int]) -> int:
    """DSP multipliers of ``widths`` bits for one signed product of a × b bits; either way round."""

    def count(first: int, second: int) -> int:
        return math.ceil((a - 1) / (first - 1)) * math.ceil((b - 1) / (second - 1))

    return min(count(*widths), count(*reversed(widths)))


def pe_dsps(stage: Stage, widths: tuple[int, int]) -> int:
    """DSPs of one PE."""
    forward = tiles(stage.x.width, stage.w.width, widths)
    backward = tiles(stage.dy.width, stage.w.width, widths) if stage.dx is not None else 0
    return forward + backward + (0 if stage.frozen else tiles(stage.x.width, stage.dy.width, widths))
