"""What crosses between two boards, as virtual channels of a link; and the names of a link's states and counters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

__all__ = [
    "CHANNEL_BITS", "LINK_COUNTERS", "LINK_PROTOCOL", "LINK_STATES", "MAX_CHANNELS", "SIDE_DOWN", "SIDE_UP", "Channel",
    "LinkPlan", "channel_lanes", "channel_of", "master_lanes", "masters_kind", "row_run", "updates_kind",
]  # fmt: skip

LINK_PROTOCOL = 1
"""Version of the frame format, part of the identity."""
SIDE_UP, SIDE_DOWN = 0, 1
"""Port of a board: towards the host, away from it."""
MAX_CHANNELS = 16
"""Virtual channels in one direction."""
FEWER = 0.8
"""Share of the link words of pixel by pixel that rows packed together may take."""
CHANNEL_BITS = 2048
"""Bits of a channel word, for which there are registers at both ends."""

LINK_STATES = ("off", "waiting", "up", "silent", "refused", "restarted")
"""off: the transceiver is not up; waiting: no peer has shown itself yet; up; silent: up, but nothing heard for long;
refused: the peer's identity is not the expected one; restarted: the peer was reset while this end was not."""

LINK_COUNTERS = (
    "frames_sent",  # data frames, first sending only
    "frames_replayed",  # data frames sent again
    "frames_received",  # data frames accepted
    "crc_errors",  # frames with a wrong CRC
    "frames_lost",  # frames that the peer sent and that never came (by the tick), damaged ones not counted
    "frames_repeated",  # frames that came twice (by the tick)
    "discarded",  # good data frames out of sequence, dropped (to be replayed)
    "timeouts",
    "stalled",  # cycles in which a channel had words but no credit
    "credit_low",  # least credits left on any channel since reset, in link words
    "control_sent",  # control frames
    "high",  # most words in any receive buffer since reset
)


@dataclass(frozen=True)
class Channel:
    """A virtual channel, one direction of a link; see docs/chain.md for the words.

    ``stage`` is the stage whose tensor crosses (-1: none), ``kind`` the column of docs/chain.md ("x", "y", "dy", "dx",
    "sums", "back", "conv", "unpooled", "grads", "totals", "masters_N", "updates_N", "management", "label", "result"),
    ``low``..``high`` the channels of it; ``pixels`` runs of ``run`` elements of ``bits`` a sample, or if ``batch`` a
    batch (a run is a pixel, or of x with few channels a row of them); ``depth`` link words that the receiver holds.
    """

    kind: str
    stage: int
    low: int
    high: int
    pixels: int
    run: int
    bits: int
    lanes: int
    depth: int
    batch: bool = False

    def beats(self, width: int) -> int:
        """Link words of a channel word."""
        return math.ceil(self.lanes * self.bits / width)

    def runs_words(self, elements: int) -> int:
        """Channel words of so many elements, whole runs."""
        return elements // self.run * math.ceil(self.run / self.lanes)

    def words(self, width: int) -> int:
        """Link words a sample, or a batch."""
        return self.pixels * math.ceil(self.run / self.lanes) * self.beats(width)


@dataclass(frozen=True)
class LinkPlan:
    """The cable between board ``index`` and the next: bits of a link word, channels away from and towards the host.

    ``frame_words`` most payload words of a frame, ``replay_words`` words kept for replay, ``latency`` the cycles of a
    one-way trip that depths were computed for.
    """

    index: int
    width: int
    down: tuple[Channel, ...]
    up: tuple[Channel, ...]
    frame_words: int
    replay_words: int
    latency: int


def channel_of(link: LinkPlan, kind: str) -> Channel:
    """The channel of a kind of which a link has one."""
    (channel,) = (each for each in (*link.down, *link.up) if each.kind == kind)
    return channel


@cache
def row_run(pixels: int, run: int, bits: int, width: int) -> int:
    """Pixels in a run of x whose rows have ``pixels`` of ``run`` elements: 1, or all of them if that takes FEWER."""

    def words(count: int) -> int:
        lanes = channel_lanes(count, bits, width)
        return math.ceil(count / lanes) * math.ceil(lanes * bits / width)

    return pixels if words(pixels * run) <= FEWER * pixels * words(run) else 1


@cache
def channel_lanes(run: int, bits: int, width: int) -> int:
    """Elements of a channel word so that a run of elements takes the fewest link words; the fewest of equals.

    Channel words have up to CHANNEL_BITS bits: longer ones save next to no link words, and cost registers.
    """

    def beats(lanes: int) -> int:
        return math.ceil(run / lanes) * math.ceil(lanes * bits / width)

    most = max(1, min(run, CHANNEL_BITS // bits))
    return min(range(1, most + 1), key=lambda lanes: (beats(lanes), lanes))


def masters_kind(part: int) -> str:
    """Kind of the channel that brings the masters of part number ``part`` of plan.stages from a neighbour."""
    return f"masters_{part}"


def updates_kind(part: int) -> str:
    """Kind of the channel that takes the new ones back."""
    return f"updates_{part}"


def master_lanes(count: int, bits: int, width: int) -> int:
    """Masters in a link word of ``width`` bits: a power of two, so that bits of an index tell where one lies; no more
    than there are."""
    return 1 << min((width // bits).bit_length() - 1, (count - 1).bit_length())
