"""How long words of a channel take over a link: frames are stored whole, at both ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .latency import LINK
from .links import Channel, LinkPlan

__all__ = ["arrivals", "batch_crossing", "least_crossing"]

Ints = NDArray[np.int64]


def least_crossing(link: LinkPlan, channel: Channel) -> int:
    """From a channel word's last link word to the whole word at the other side, if it has a frame of its own."""
    return LINK + 2 * min(channel.beats(link.width), link.frame_words) + link.latency


def batch_crossing(link: LinkPlan, channel: Channel, cycles: int) -> int:
    """The same of what crosses once a batch, all of it in so many cycles: if no cycle is without a word, in frames as
    long as can be."""
    words = channel.words(link.width)
    length = words if cycles <= words else channel.beats(link.width)
    return LINK + 2 * min(length, link.frame_words) + link.latency


def arrivals(link: LinkPlan, channel: Channel, ends: Ints, words: int) -> Ints:
    """When each of a sequence is at the other side whose last link word goes in before ``ends``, ``words`` each.

    A frame goes on as long as there is a word in every cycle, up to its limit. Of a frame of L words the last one waits
    until all have been sent, and the first one until the last has been checked: 2·L cycles for each of them.
    """
    begins = np.append(True, np.diff(ends) > words)
    frame = np.cumsum(begins) - 1
    counts = np.bincount(frame)
    length = np.where(counts > 1, counts * words, min(words, channel.beats(link.width)))
    there = ends + LINK + 2 * np.minimum(length, link.frame_words)[frame] + link.latency
    order = words * np.arange(len(there))
    found: Ints = np.maximum.accumulate(there - order) + order  # none overtakes another
    return found
