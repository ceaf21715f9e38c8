"""From a search's shares to the layout that a plan is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..layout import Layout, Placement
from ..part import WHOLE, Part
from ..rows import deal_evenly
from .layer import Layer, Share
from .search import Found

__all__ = ["layout_of"]


def layout_of(layers: Sequence[Layer], found: Found) -> Layout:
    """All parts in the order of the chain."""
    placements = []
    for index, parts in enumerate(found.shares(len(layers))):
        shares = [share for _, share, _ in parts]
        for number, (board, share, k) in enumerate(parts):
            part = WHOLE if share.axis == "whole" else _part(shares, number)
            choice = found.taken[board].choices[k]
            storage = replace(found.storages[index], stack=choice.stack)
            placements.append(Placement(index, board, choice.folding, part, storage))
    return tuple(placements)


def _part(shares: Sequence[Share], number: int) -> Part:
    share = shares[number]
    if share.axis != "rows":
        return Part(share.axis, number, len(shares), share.low, share.high)
    deal = deal_evenly([each.size for each in shares], share.turns)
    return Part("rows", number, len(shares), 0, share.size, deal)
