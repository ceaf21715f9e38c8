"""What travels on a cable: headers, the hello."""

from __future__ import annotations

from amaranth.lib import data, enum

__all__ = [
    "ACKNOWLEDGE", "CREDIT", "HEADER", "HELLO", "MAX_DEPTH", "MAX_FRAME_WORDS", "SEQUENCE_BITS", "WIDTHS", "Kind",
]  # fmt: skip

WIDTHS = range(64, 1025, 64)
"""Bits of a link word: those of 1 to 16 lanes."""
SEQUENCE_BITS = 10
"""Of data frames; at most half of them are on their way."""
MAX_FRAME_WORDS = 255
"""Payload words that a header can tell."""
MAX_DEPTH = 32767
"""Link words of a receive buffer, half of what a credit limit counts to."""


class Kind(enum.Enum, shape=2):
    """What a frame is. 0 is none of them: zeros are no header."""

    CONTROL = 1
    DATA = 2
    HELLO = 3


HEADER = data.StructLayout(
    {
        "kind": Kind,
        "channel": 4,
        "credit_channel": 4,
        "length": 8,
        "sequence": SEQUENCE_BITS,
        "acknowledge": SEQUENCE_BITS,
        "credit": 16,
        "tick": 8,
        "nack": 1,
        "epoch": 1,
    }
)
"""The first word of a frame, in its low 64 bits; the rest is zero.

``length`` payload words of ``channel``; ``sequence`` of a data frame, in a control frame that of the next data
frame; ``acknowledge`` the next sequence number expected; ``credit`` words that may have been sent in all on
``credit_channel`` (mod 2^16); ``tick`` counts frames of any kind; ``nack`` asks for a replay; ``epoch`` is the low bit
of the addressee's session, so that what was sent to it before its reset is not taken.
"""

HELLO = data.StructLayout({"session": 8, "seen_session": 8, "seen": 1})
"""The second payload word of a hello; the first is the identity. ``seen``: the peer's hello came, of
``seen_session``."""

ACKNOWLEDGE = data.StructLayout({"sequence": SEQUENCE_BITS, "nack": 1})
"""What a good frame says of the other direction: the next sequence number expected, and whether to go back."""
CREDIT = data.StructLayout({"channel": 4, "limit": 16})
"""Words that may have been sent in all on a channel (mod 2^16)."""
