"""Conversion between two ways of cutting runs of channels into words."""

from __future__ import annotations

import math

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import lanes

__all__ = ["Relane"]


class Relane(wiring.Component):
    """Cuts a sequence of elements, which comes in words of one layout, into words of another.

    A layout (run, lanes) cuts every ``run`` elements into ceil(run/lanes) words, the last one filled up with
    zeros. ``period`` = lcm of both runs: after every ``period`` elements both sides are at the start of a
    run, and nothing is left inside.

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

    def __init__(self, width: int, source: tuple[int, int], target: tuple[int, int]):
        for side, (run, P) in (("source", source), ("target", target)):
            if run < 1 or P < 1:
                raise ValueError(f"Relane: {side} has runs of {run} in {P} lanes; both must be at least 1")
        self.width, self.source, self.target = width, source, target
        self.period = math.lcm(source[0], target[0])
        self.unit = math.gcd(*source, *target)
        if self._cuts(source, target):
            self.kind, self.capacity = "gather", target[1]
        elif self._cuts(target, source):
            self.kind, self.capacity = "scatter", source[1]
        else:
            self.kind, self.capacity = "shift", source[1] + target[1] + min(source[1], target[1]) - self.unit
        super().__init__(
            {
                "i": In(stream.Signature(lanes(source[1], width))),
                "o": Out(stream.Signature(lanes(target[1], width))),
            }
        )

    def _edges(self, side):
        """First element of every word of a period."""
        run, P = side
        return (start + k for start in range(0, self.period, run) for k in range(0, run, P))

    def _cuts(self, fine, coarse):
        """Whether words of ``coarse`` begin only where words of ``fine`` do."""
        return all(edge % fine[0] % fine[1] == 0 for edge in self._edges(coarse))

    @property
    def words(self) -> tuple[int, int]:
        """Words of source and target in a period."""
        return tuple(self.period // run * math.ceil(run / P) for run, P in (self.source, self.target))

    @property
    def cycles(self) -> int:
        """Cycles a period, in steady state and if neither neighbour stalls."""
        return max(self.words)

    @property
    def latency(self) -> int:
        """Cycles from a period's first source word to its first target word: the words that it needs."""
        need, (run, P) = min(self.target), self.source
        return need // run * math.ceil(run / P) + math.ceil(need % run / P)

    def elaborate(self, platform):
        m = Module()
        unit, width = self.unit, self.width
        buffer = Signal(self.capacity * width)
        level = Signal(range(self.capacity // unit + 1))
        after = Signal.like(level)
        push = self.i.valid & self.i.ready
        pop = self.o.valid & self.o.ready
        come, last_in = self._count(m, "source", self.source, push)
        go, last_out = self._count(m, "target", self.target, pop)

        word = self.i.payload.as_value()
        short = self.source[0] % self.source[1]
        if short:
            word = Mux(last_in, word[: short * width], word)
        shown = buffer[: self.target[1] * width]
        short = self.target[0] % self.target[1]
        if short:
            shown = Mux(last_out, shown[: short * width], shown)
            rest = Mux(last_out, buffer[short * width :], buffer[self.target[1] * width :])
        else:
            rest = buffer[self.target[1] * width :]
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
        """Units in the word that is next, and whether it ends a run."""
        run, P = side
        words = math.ceil(run / P)
        word = Signal(range(max(2, words)), name=f"{name}_word")
        last = word == words - 1
        with m.If(step):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
        return Mux(last, (run - (words - 1) * P) // self.unit, P // self.unit), last

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
            places = sorted({edge % self.target[0] % self.target[1] for edge in self._edges(self.source)})
            placed = Signal(self.capacity * self.width)
            with m.Switch(after):
                for place in places:
                    with m.Case(place // self.unit):
                        m.d.comb += placed.eq(word << place * self.width)
            return placed
        for bit in range(len(after)):
            word = Mux(after[bit], word << (step << bit), word)[: self.capacity * self.width]
        return word
