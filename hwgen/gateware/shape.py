"""What the PEs of an array have in common: widths, passes, memories, and the control that travels with an op."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amaranth.lib import data

__all__ = ["CHUNK", "ArrayShape", "control_layout"]

CHUNK = 17
"""Bits of dW that one update cycle multiplies: with a sign they fill an 18-bit multiplier input (DSP48,
MULT18X18D)."""
REGISTERED = 4
"""Words from which on a memory has a register behind it."""


@dataclass(frozen=True)
class ArrayShape:
    """Everything about a PE that its neighbours share: widths by type, passes that exist, the update rule.

    ``psum`` and ``back`` are the widths of sums over the whole K and N; ``shift`` and ``rate`` belong to the
    update step round(rate·dW / 2**shift), ``stochastic`` selects its rounding. ``shared``: sums of gradients can be
    loaded, because other boards add to them. Not ``in_place``: masters lie elsewhere, a PE has their top bits only
    (``master`` = ``w``) and gets its weights loaded.

    ``columns``: the PEs of a tile's column keep their words side by side in one memory of kind ``style``, with one
    write enable: a load reads the column's word and writes it back as a whole, a cycle later. ``copy``:
    forward has weights of its own; if not, it takes turns with backward: visits of forward start at cycles that are
    multiples of ``period``, those of backward ``stack`` cycles later. ``rows``: weights of a tile's column that one
    unit updates, one after the other; 1: every PE updates its own. ``stack``: rows of a column that lie behind one
    another in one lane of its memories, a power of two; visits are of so many ops at least. Row i is in lane i % lanes;
    its words are read, summed and written i // lanes cycles after those of row 0.
    """

    depth: int
    x: int
    w: int
    dy: int
    master: int
    grad: int
    psum: int
    back: int
    rate: int
    shift: int
    backward: bool
    gradient: bool
    stochastic: bool = False
    shared: bool = False
    in_place: bool = True
    columns: bool = False
    copy: bool = True
    period: int = 1
    style: str = "auto"
    rows: int = 1
    stack: int = 1

    def __post_init__(self) -> None:
        if not self.copy and not self.columns:
            raise ValueError("without a copy of the weights columns share memories; give columns = True")
        if not self.copy and self.backward and self.period < 2:
            raise ValueError(f"period = {self.period}; forward and backward take turns in at least 2 cycles")
        if self.rows > 1 and not (self.columns and self.updates):
            raise ValueError(
                "rows of a column that does not share its memories, or never changes, update themselves"
            )
        least = self.stack * (2 if self.backward else 1)
        if self.stack > 1 and (
            self.copy or self.depth < 2 or self.period < least or (self.updates and self.rows == 1)
        ):
            raise ValueError(
                f"stack = {self.stack}: rows that lie behind one another take turns at one memory: copy = False, "
                f"two words at least, period >= {least}, and no update of all rows at once"
            )
        if self.stack & (self.stack - 1):
            raise ValueError(f"stack = {self.stack} is not a power of two")

    @property
    def registered(self) -> int:
        """1 if memories have a register behind their output, as block RAM needs it. With fewer words one may come back
        before its dW is written, if it were read so early; such small memories are in look-up tables anyway."""
        return int(self.depth >= REGISTERED)

    @property
    def held(self) -> int:
        """Cycles that a weight waits in a register behind its memory, whose output is the other pass's next or too
        late."""
        return 1 if not self.copy else self.registered

    def early(self, j: int) -> int:
        """Cycles by which a tile's column j reads earlier for backward, lest it reads when columns read for forward."""
        if self.copy or not self.backward:
            return 0
        least, most = self.stack, self.period - self.stack
        return next(e for e in range(j + 1) if least <= (j + self.stack - e) % self.period <= most)

    @property
    def updates(self) -> bool:
        """PEs change their weights themselves."""
        return self.gradient and self.in_place

    @property
    def chunks(self) -> int:
        """Multiplications, and cycles, of one weight's update: dW in pieces of 17 bits, the top one
        signed."""
        return max(1, math.ceil((self.grad - 1) / CHUNK))

    @property
    def through_sums(self) -> bool:
        """All dW that are written come from the registers of the sums, which are parts of multipliers: a load takes the
        column's dW there and clears its own. Sums of others would have to get in."""
        return self.columns and self.gradient and self.depth > 1 and not self.shared and self.stack == 1

    @property
    def row_cycles(self) -> int:
        """Cycles from one row of a column to the next in an update. A unit for all rows reads two words for each, the
        second 2 cycles behind the first, and writes it a cycle later; then the next row may read it."""
        return max(self.chunks, 3 if self.rows > 1 else 1)

    @property
    def address(self) -> int:
        """Bits of a weight address."""
        return max(1, (self.depth - 1).bit_length())

    @property
    def place(self) -> int:
        """Bits of the address of a word in a memory: behind the bits that tell the rows of a lane apart."""
        return self.address + (self.stack - 1).bit_length()

    @property
    def addresses(self) -> int:
        """Words to allocate; a memory of one word would have no address."""
        return max(2, self.depth * self.stack)


def control_layout(shape: ArrayShape) -> data.StructLayout:
    """What travels with an op of the backward side: a gradient op, an update piece, or a peek.

    ``op``: dy and x are valid; ``first``/``last``: the ends of a visit to one weight word. ``update``:
    multiply piece ``chunk`` (counting down) of dW, ``first``/``last`` piece, of row ``row``. ``peek``: read master and
    dW for the host. ``base`` is the logical index of the word's lane (0, 0), for stochastic rounding.
    """
    fields: dict[str, object] = dict.fromkeys(("op", "update", "peek", "first", "last"), 1)
    fields["address"] = shape.address
    fields["chunk"] = max(1, (shape.chunks - 1).bit_length())
    if shape.rows > 1:
        fields["row"] = range(shape.rows)
    if shape.stochastic and shape.updates:
        fields["base"] = 32
    return data.StructLayout(fields)
