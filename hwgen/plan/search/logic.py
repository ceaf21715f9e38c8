"""Look-up tables and flip-flops of a part: an estimate."""

from __future__ import annotations

from .layer import Layer
from .options import Choice

__all__ = ["BOARD_LOGIC", "part_logic"]

PE_LUTS, PE_FFS = 60, 200
STAGE_LUTS, STAGE_FFS = 3000, 4000
BOARD_LOGIC = (4000, 6000)


def part_logic(layer: Layer, choice: Choice) -> tuple[int, int]:
    """(LUTs, flip-flops) of a part."""
    return PE_LUTS * choice.pes + STAGE_LUTS, PE_FFS * choice.pes + STAGE_FFS
