"""An array as counts of what its logic is made of: its tiles, and what joins them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .engines import Features
from .latency import CHUNK_BITS, REGISTERED
from .layout import Storage

__all__ = ["Cells", "array_features", "tile_features"]

CONTROL = 6
"""Bits that control has beside numbers: gateware.shape.control_layout."""


@dataclass(frozen=True)
class Cells:
    """What the PEs of an array have in common, and how many there are: ``array`` (Pk, Pn) in tiles of ``tile``.

    Bits of ``x``, ``w``, ``dy``, ``master`` (as the PEs have it), forward and backward sums, ``grad`` (0: no
    gradient), ``rate`` and ``step`` of an update; ``depth`` words a PE; memories of ``columns``; units that update
    ``rows`` one after the other (0: none updates); sums ``shared`` with others.
    """

    array: tuple[int, int]
    tile: tuple[int, int]
    depth: int
    x: int
    w: int
    dy: int
    master: int
    psum: int
    back: int
    grad: int
    rate: int
    step: int
    backward: bool
    columns: bool
    rows: int
    shared: bool
    storage: Storage

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        (pk, pn), (tk, tn) = self.array, self.tile
        return math.ceil(pk / tk) * math.ceil(pn / tn)

    @property
    def control(self) -> int:
        """Bits that travel with an op of the backward side."""
        chunks = max(1, math.ceil((self.grad - 1) / CHUNK_BITS))
        rows = (self.rows - 1).bit_length() if self.rows > 1 else 0
        return CONTROL + max(1, (self.depth - 1).bit_length()) + (chunks - 1).bit_length() + rows


def tile_features(cells: Cells) -> Features:
    """Of all tiles together."""
    (pk, pn), (tk, tn), tiles = cells.array, cells.tile, cells.tiles
    stack, copy = cells.storage.stack, cells.storage.copy
    pes, lanes = pk * pn, pk * pn // stack
    late = int(cells.depth >= REGISTERED)
    held = late if copy else 1
    gradient, backward = cells.grad > 0, cells.backward
    units = 0 if not cells.rows else pes if cells.rows == 1 else pes // cells.rows
    words = cells.master + (cells.w if copy else 0) + (cells.grad if cells.depth > 1 else 0)
    skew = cells.x * (tk * (tk + 1) // 2 + (held + 1) * tk)
    if gradient:
        skew += cells.x * tk * (tn + 1 + stack)
    if gradient or backward:
        skew += cells.dy * (tn * (tn + 1) // 2 + tn * (held + stack + gradient))
    return {
        "tile": tiles,
        "PE": pes,
        "forward sum bit": pes * cells.psum,
        "back sum bit": pes * cells.back if backward else 0,
        "dW bit": pes * cells.grad,
        "operand bit": pes * (cells.x + cells.dy) if gradient else 0,
        "updated bit": units * (cells.grad + cells.rate + 2 * cells.step + cells.master),
        "written bit": lanes * (cells.master + cells.grad),
        "word bit": lanes * words * late,
        "merged bit": lanes * (cells.master + cells.grad) if cells.columns else 0,
        "shared bit": lanes * cells.grad if cells.shared and cells.columns else 0,
        "bit in turn": 0 if copy else pes * cells.w * (1 + backward),
        "dW bit in turn": pes * cells.grad * (stack - 1) // stack,
        "late weight bit": pes * cells.w * (tk - 1) // 2 if cells.columns and copy else 0,
        "skewed bit": tiles * skew,
        "control bit": tiles * cells.control * (tn + 8 + stack),
        "address bit": math.ceil(pk / tk) * pn * max(1, (cells.depth * stack - 1).bit_length()),
    }


def array_features(cells: Cells) -> Features:
    """Of what stands around the tiles: registers of operands, trees of sums, peeks."""
    (pk, pn), (tk, tn), tiles = cells.array, cells.tile, cells.tiles
    down, across = math.ceil(pk / tk), math.ceil(pn / tn)
    gradient = cells.grad > 0
    sums = (down - 1) * pn * cells.psum + ((across - 1) * pk * cells.back if cells.backward else 0)
    operands = pk * cells.x * (1 + gradient) + (pn * cells.dy if gradient or cells.backward else 0)
    return {
        "array": 1,
        "PE": pk * pn,
        "operand bit": operands,
        "tree bit": sums,
        "peeked bit": tiles * (cells.master + cells.grad),
    }
