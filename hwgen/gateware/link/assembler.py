"""Cuts the words of many channels into frames, where there are credits for them."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .frames import CREDIT, MAX_DEPTH, MAX_FRAME_WORDS

__all__ = ["FRAME", "Assembler"]

FRAME = data.StructLayout({"channel": 4, "length": 8})
"""A closed frame: ``length`` payload words of ``channel``."""


class Assembler(wiring.Component):
    """Takes runs of words, channel after channel in turn, and closes a frame at the end of each.

    A run starts when ``open``; it ends when the channel has no word or no credit, after ``frame_words``
    words, or without ``room``. A word is taken in every cycle of a run; L words take L + 1 cycles.
    ``i[k].ready`` depends on ``i[k].valid`` and on ``room``.

    Parameters: ``width`` bits of a word; ``depths``: words that the peer holds a channel, its first credit.

    Members: ``i`` an array of streams; ``credit`` with ``credit_valid``: a newer limit of a channel; ``open``,
    ``room``: a frame may be begun, a word be written; ``word`` with ``word_valid``: a payload word;
    ``frame`` with ``frame_valid``: its words, all given before, are a frame; ``stalled``: a channel has words
    and no credit; ``low``: least credit left on any channel after a word of it, since reset.
    """

    def __init__(self, width: int, depths: tuple[int, ...], frame_words: int):
        if not 1 <= frame_words <= MAX_FRAME_WORDS:
            raise ValueError(f"Assembler: frame_words {frame_words}; 1..{MAX_FRAME_WORDS}")
        if not depths or len(depths) > 16:
            raise ValueError(f"Assembler: {len(depths)} channels; 1..16")
        for depth in depths:
            if not 1 <= depth <= MAX_DEPTH:
                raise ValueError(f"Assembler: depth {depth}; 1..{MAX_DEPTH}")
        self.width, self.depths, self.frame_words = width, tuple(depths), frame_words
        super().__init__(
            {
                "i": In(stream.Signature(width)).array(len(depths)),
                "credit": In(CREDIT),
                "credit_valid": In(1),
                "open": In(1),
                "room": In(1),
                "word": Out(width),
                "word_valid": Out(1),
                "frame": Out(FRAME),
                "frame_valid": Out(1),
                "stalled": Out(1),
                "low": Out(16, init=0xFFFF),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n = len(self.depths)
        limits = [Signal(16, name=f"limit{k}", init=depth) for k, depth in enumerate(self.depths)]
        sent = [Signal(16, name=f"sent{k}") for k in range(n)]
        valid, credit, take = Signal(n), Signal(n), Signal(n)
        for k in range(n):
            m.d.comb += [
                valid[k].eq(self.i[k].valid),
                credit[k].eq(limits[k] != sent[k]),
                self.i[k].ready.eq(take[k]),
            ]
            with m.If(take[k]):
                m.d.sync += sent[k].eq(sent[k] + 1)
            with m.If(self.credit_valid & (self.credit.channel == k)):
                m.d.sync += limits[k].eq(self.credit.limit)
        m.d.sync += self.stalled.eq((valid & ~credit).any())
        channel = self._runs(m, valid & credit, take)
        m.d.comb += self.word.eq(Array(port.payload for port in self.i)[channel])
        self._lowest(m, channel, limits, sent)
        return m

    def _runs(self, m, able, take):
        """Drives take, word_valid, frame. Returns the channel of the run."""
        n = len(self.depths)
        running = Signal()
        channel = Signal(range(max(2, n)))
        following = Signal.like(channel)
        count = Signal(range(self.frame_words + 1), reset_less=True)
        able_now = Signal()
        m.d.comb += following.eq(channel)
        with m.Switch(channel):
            for current in range(n):
                with m.Case(current):
                    m.d.comb += able_now.eq(able[current])
                    for step in range(n, 0, -1):  # the last assignment wins: the nearest channel
                        k = (current + step) % n
                        with m.If(able[k]):
                            m.d.comb += following.eq(k)
        m.d.comb += [
            self.word_valid.eq(running & able_now & self.room & (count != self.frame_words)),
            self.frame.channel.eq(channel),
            self.frame.length.eq(count),
        ]
        for k in range(n):
            m.d.comb += take[k].eq(self.word_valid & (channel == k))
        with m.If(self.word_valid):
            m.d.sync += count.eq(count + 1)
        with m.Else():
            m.d.comb += self.frame_valid.eq(running & (count != 0))
            m.d.sync += [running.eq(0), count.eq(0)]
            with m.If(able.any() & self.open & self.room):
                m.d.sync += [running.eq(1), channel.eq(following)]
        return channel

    def _lowest(self, m, channel, limits, sent):
        left = Signal(16, reset_less=True)
        known = Signal()
        m.d.sync += [
            left.eq(Array(limits)[channel] - Array(sent)[channel] - 1),
            known.eq(self.word_valid),
        ]
        with m.If(known & (left < self.low)):
            m.d.sync += self.low.eq(left)
