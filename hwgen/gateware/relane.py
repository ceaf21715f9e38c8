"""Conversion between two ways of cutting runs of channels into words."""

from __future__ import annotations

import itertools
import math
from bisect import bisect

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import lanes

__all__ = ["Relane", "Runs"]

Runs = int | tuple[int, ...]
"""Elements of a run, or of several runs that follow each other in turn."""


class _Layout:
    """Words of at most ``lanes`` elements that cut ``runs``: ``size`` elements a turn, ``words`` their sizes."""

    def __init__(self, side: str, runs: Runs, lanes: int):
        self.runs = (runs,) if isinstance(runs, int) else runs
        self.lanes = lanes
        if lanes < 1 or not self.runs or min(self.runs) < 1:
            raise ValueError(f"Relane: {side} has runs of {runs} in {lanes} lanes; both must be at least 1")
        self.size = sum(self.runs)
        self.words = [min(lanes, run - k) for run in self.runs for k in range(0, run, lanes)]

    def edges(self, period: int) -> list[int]:
        """First element of every word of ``period`` elements."""
        words = self.words * (period // self.size)
        return [0, *itertools.accumulate(words[:-1])]


class Relane(wiring.Component):
    """Cuts a sequence of elements, which comes in words of one layout, into words of another.

    A layout (run, lanes) cuts every ``run`` elements into ceil(run/lanes) words, the last one filled up with
    zeros; ``run`` may also be a tuple of runs that repeat in turn. ``period`` = lcm of what both sides repeat: after
    every ``period`` elements both are at the start, and nothing is left inside.

    Throughput: ``cycles`` = max(words of the source, words of the target) a period; the side with more words
    never waits for the other. Latency ``latency``: from the first word of a period taken to its first word
    given, at full rate. ``i.ready`` depends on ``o.ready``; ``o.valid`` and ``o.payload`` on registers only.

    One buffer, elements in order from lane 0 up. Where every word of the wider side is made of whole words of
    the other (``kind`` "gather": several in, one out; "scatter": one in, several out; a plain register is
    both) it holds one wide word, and an incoming word has few places to go. Otherwise ("shift") it holds what
    full rate needs, lanes in + lanes out + the smaller of the two - unit, and an incoming word is shifted
    behind the last.

    Parameters: bits of an element; (run, lanes) of both sides.

    Members: ``i`` lanes(source lanes, width), lanes behind the end of a run are ignored; ``o`` lanes(target
    lanes, width).
    """

    def __init__(self, width: int, source: tuple[Runs, int], target: tuple[Runs, int]):
        self.source, self.target = _Layout("source", *source), _Layout("target", *target)
        self.width = width
        self.period = math.lcm(self.source.size, self.target.size)
        fine, coarse = self.source, self.target
        self.unit = math.gcd(*fine.runs, fine.lanes, *coarse.runs, coarse.lanes)
        if self._cuts(fine, coarse):
            self.kind, self.capacity = "gather", coarse.lanes
        elif self._cuts(coarse, fine):
            self.kind, self.capacity = "scatter", fine.lanes
        else:
            most = fine.lanes + coarse.lanes + min(fine.lanes, coarse.lanes)
            self.kind, self.capacity = "shift", most - self.unit
        super().__init__(
            {
                "i": In(stream.Signature(lanes(self.source.lanes, width))),
                "o": Out(stream.Signature(lanes(self.target.lanes, width))),
            }
        )

    def _cuts(self, fine: _Layout, coarse: _Layout) -> bool:
        """Whether words of ``coarse`` begin only where words of ``fine`` do."""
        return set(coarse.edges(self.period)) <= set(fine.edges(self.period))

    @property
    def words(self) -> tuple[int, int]:
        """Words of source and target in a period."""
        return tuple(self.period // side.size * len(side.words) for side in (self.source, self.target))

    @property
    def cycles(self) -> int:
        """Cycles a period, in steady state and if neither neighbour stalls."""
        return max(self.words)

    @property
    def latency(self) -> int:
        """Cycles from a period's first source word to its first target word: the words that it needs."""
        need = self.target.words[0]
        return 1 + sum(edge < need for edge in self.source.edges(self.period) if edge > 0)

    def elaborate(self, platform):
        m = Module()
        unit, width = self.unit, self.width
        buffer = Signal(self.capacity * width)
        level = Signal(range(self.capacity // unit + 1))
        after = Signal.like(level)
        push = self.i.valid & self.i.ready
        pop = self.o.valid & self.o.ready
        come, short_in = self._count(m, "source", self.source, push)
        go, short_out = self._count(m, "target", self.target, pop)

        word = self.i.payload.as_value()
        for size, flag in short_in:
            word = Mux(flag, word[: size * width], word)
        shown = buffer[: self.target.lanes * width]
        rest = buffer[self.target.lanes * width :]
        for size, flag in short_out:
            shown = Mux(flag, shown[: size * width], shown)
            rest = Mux(flag, buffer[size * width :], rest)
        m.d.comb += [
            self.o.valid.eq(level >= go),
            self.o.payload.as_value().eq(shown),
            after.eq(Mux(pop, level - go, level)),
            self.i.ready.eq(self._room(after, come)),
        ]
        m.d.sync += [
            level.eq(Mux(push, after + come, after)),
            buffer.eq(Mux(pop, rest, buffer) | Mux(push, self._place(m, word, after), 0)),
        ]
        return m

    def _count(self, m, name, side, step):
        """Units in the word that is next, and (size, flag) of every size below the lanes: whether it has it."""
        sizes = side.words
        word = Signal(range(max(2, len(sizes))), name=f"{name}_word")
        with m.If(step):
            m.d.sync += word.eq(Mux(word == len(sizes) - 1, 0, word + 1))
        units: Value | int = side.lanes // self.unit
        shorts = []
        for size in sorted(set(sizes) - {side.lanes}):
            flag = Cat(word == k for k, own in enumerate(sizes) if own == size).any()
            units = Mux(flag, size // self.unit, units)
            shorts.append((size, flag))
        return units, shorts

    def _room(self, after, come):
        if self.kind == "gather":
            return ~self.o.valid | self.o.ready
        if self.kind == "scatter":
            return after == 0
        return after + come <= self.capacity // self.unit

    def _place(self, m, word, after):
        """``word`` moved up by ``after`` units."""
        step = self.unit * self.width
        if self.kind == "scatter":
            return word
        if self.kind == "gather":
            starts = self.target.edges(self.period)
            places = sorted({e - starts[bisect(starts, e) - 1] for e in self.source.edges(self.period)})
            placed = Signal(self.capacity * self.width)
            with m.Switch(after):
                for place in places:
                    with m.Case(place // self.unit):
                        m.d.comb += placed.eq(word.shift_left(place * self.width))
            return placed
        for bit in range(len(after)):
            amount = step << bit
            moved = Signal(min(len(word) + amount, self.capacity * self.width), name=f"moved_{bit}")
            m.d.comb += moved.eq(Mux(after[bit], word.shift_left(amount), word))
            word = moved
        return word
