"""What a link end and whatever carries its words say to each other."""

from __future__ import annotations

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LANE_BITS", "phy_signature", "phy_word"]

LANE_BITS = 64
"""Bits of a link word that one lane carries."""


def phy_word(width: int) -> data.StructLayout:
    """A link word of ``width`` bits; ``last`` goes with the trailer of a frame."""
    return data.StructLayout({"data": width, "last": 1})


def phy_signature(width: int) -> wiring.Signature:
    """As a link end sees it; ``rx`` cannot be held up, ``up`` says that words can pass."""
    word = phy_word(width)
    return wiring.Signature(
        {"tx": Out(stream.Signature(word)), "rx": In(word), "rx_valid": In(1), "up": In(1)}
    )
