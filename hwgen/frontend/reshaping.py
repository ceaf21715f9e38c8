"""The shape that a Reshape asks for, told apart from its batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .view import Dims, spell_dims

__all__ = ["BATCH", "target"]

BATCH = -(1 << 40)
"""Stands for the batch in shapes that a model computes."""


def target(wanted: Sequence[int], dims: Dims, batch: int | None, *, copies: bool) -> Dims | str:
    """Dimensions without the batch of a tensor ``dims`` that is given the shape ``wanted``; or "what; what to do".

    0 copies a dimension if ``copies``; one -1 is what is left. ``batch`` is the fixed batch, None if it is open. The
    first dimension has to be the batch for every number of images.
    """
    spelt = f"[{', '.join('N' if size == BATCH else str(size) for size in wanted)}]"
    known = (BATCH, *dims)
    full = [
        known[i] if size == 0 and copies and i < len(known) else BATCH if i == 0 and size == batch else size
        for i, size in enumerate(wanted)
    ]
    rest = full[1:]
    count, product = math.prod(dims), math.prod(size for size in rest if size != -1)
    if full[:1] == [BATCH] and rest.count(-1) == 1 and product > 0 and count % product == 0:
        rest = [count // product if size == -1 else size for size in rest]
    if full[:1] not in ([BATCH], [-1]) or min(rest, default=0) < 1 or math.prod(rest) != count:
        return (
            f"shape = {spelt} of {spell_dims(dims)}; hwgen keeps the batch apart: "
            f"give 0 or -1 and then dimensions of {count} elements in all"
        )
    return tuple(rest)
