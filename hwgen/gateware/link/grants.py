"""How many words the peer may send: the credits of the receive buffers."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .frames import CREDIT, MAX_DEPTH

__all__ = ["Grants"]


class Grants(wiring.Component):
    """Offers one channel's credit limit at a time: words that its user took, and ``depths``, in all (mod 2^16).

    It goes round the channels, one a cycle, and stops at one whose limit is not the last one told, until
    ``told``; while there is none, it offers any. A limit is never above what is true: it is up to a round old.

    Parameters: ``depths``: words of credit of each channel; ``levels``: most words in each buffer.

    Members: ``channel`` with ``word_valid``: a word goes into a buffer; ``level`` an array: words in a buffer, with
    a word two cycles after it went in, not earlier nor later (a limit that steps back is credit without end to the
    Assembler); ``credit``; ``news``: it is a new limit; ``told``: it is being told, at most in every third cycle
    (nothing new is found in the cycle of it nor in the one after); ``high``: most words in any buffer since reset.
    """

    def __init__(self, depths: tuple[int, ...], levels: tuple[int, ...]):
        if not depths or len(depths) > 16 or len(levels) != len(depths):
            raise ValueError(f"Grants: {len(depths)} channels, {len(levels)} buffers; 1..16, as many of both")
        for depth, level in zip(depths, levels, strict=True):
            if not 1 <= depth <= min(level, MAX_DEPTH):
                raise ValueError(
                    f"Grants: depth {depth} in a buffer of {level}; 1..{MAX_DEPTH}, and it must fit"
                )
        self.depths = tuple(depths)
        super().__init__(
            {
                "channel": In(4),
                "word_valid": In(1),
                "level": In(max(levels).bit_length()).array(len(depths)),
                "credit": Out(CREDIT, init={"channel": 0, "limit": depths[0]}),
                "high": Out(16),
                "news": Out(1),
                "told": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n = len(self.depths)
        granted = [Signal(16, name=f"granted{k}", init=depth) for k, depth in enumerate(self.depths)]
        said = [Signal(16, name=f"said{k}", init=depth) for k, depth in enumerate(self.depths)]
        channel, entering = Signal(4, reset_less=True), Signal()
        m.d.sync += [channel.eq(self.channel), entering.eq(self.word_valid)]
        for k in range(n):
            with m.If(entering & (channel == k)):
                m.d.sync += granted[k].eq(granted[k] + 1)

        entered, high_at = Signal(), Signal(4, reset_less=True)
        level = Signal(16)
        m.d.sync += [entered.eq(entering), high_at.eq(channel)]
        m.d.comb += level.eq(Array(self.level)[high_at])
        with m.If(entered & (level > self.high)):
            m.d.sync += self.high.eq(level)

        # Two stages: read a channel's registers; compare, and keep it or go on.
        at, seen_at = Signal(range(max(2, n))), Signal(range(max(2, n)))
        limit, told_limit = Signal(16), Signal(16)
        seen = Signal()
        m.d.sync += [
            seen.eq(~self.told),
            seen_at.eq(at),
            limit.eq(Array(granted)[at] - Array(self.level)[at]),
            told_limit.eq(Array(said)[at]),
            at.eq(Mux(at == n - 1, 0, at + 1)),
        ]
        changed = Signal()
        m.d.comb += changed.eq(seen & (limit != told_limit))
        with m.If(self.told):
            m.d.sync += self.news.eq(0)
            for k in range(n):
                with m.If(self.credit.channel == k):
                    m.d.sync += [said[k].eq(self.credit.limit), at.eq((k + 1) % n)]
        with m.Elif(seen & (~self.news | (seen_at == self.credit.channel))):
            m.d.sync += [
                self.credit.channel.eq(seen_at),
                self.credit.limit.eq(limit),
                self.news.eq(self.news | changed),
            ]
        return m
