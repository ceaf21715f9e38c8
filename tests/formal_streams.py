"""What is proven of streams: every element comes out where it belongs, words wait, nothing gets stuck."""

from dataclasses import dataclass

from amaranth import *
from formal_bench import End

__all__ = ["Side", "follow", "progress", "transfer"]

EPOCH = 3
"""Bits of the count of periods: no part under proof holds 2**EPOCH of them."""


@dataclass(frozen=True)
class Side:
    """One end of a stream and what its words hold: for every word of a period the numbers of its elements, from the
    low bits up; None is an element that is zero at an output and anything at an input."""

    end: End
    words: list[tuple[int | None, ...]]


def follow(bench, come, gone, most, expect=lambda word: word):
    """Properties "data" and "count" of a stream that passes through a part which holds at most ``most`` words: an
    arbitrary word comes out, as ``expect`` gives it, behind exactly those that were before it. Returns the words
    inside."""
    m = bench.m
    inside, ahead = Signal(range(most + 1), name="inside"), Signal(range(most + 1), name="ahead")
    after = Signal(Shape(len(inside) + 2, signed=True), name="inside_next")
    mark, watched = bench.any(1, "mark"), Signal(name="watched")
    word = Signal(len(come.payload), name="watched_word", reset_less=True)
    m.d.comb += after.eq(inside + come.fire - gone.fire)
    m.d.sync += inside.eq(after)
    with m.If(watched), m.If(gone.fire):
        m.d.sync += [ahead.eq(ahead - 1), watched.eq(ahead != 0)]
    with m.Elif(mark & come.fire):
        m.d.sync += [watched.eq(1), word.eq(come.payload), ahead.eq(inside - gone.fire)]
    bench.check("count", (after >= 0) & (after <= most))
    bench.check("data", ~(watched & (ahead == 0) & gone.valid) | (gone.payload == expect(word)))
    return inside


def transfer(bench, sources, targets, width):
    """Property "data" of a part that rearranges elements of ``width`` bits: the element of an arbitrary number in an
    arbitrary period is what was put in there, wherever and however often it comes out; fill is zero. Returns the
    count of periods of every source and every target."""
    numbers = sorted({e for side in sources for word in side.words for e in word if e is not None})
    number = bench.some(range(max(2, max(numbers) + 1)), "number")
    period = bench.some(EPOCH, "period")
    element = bench.some(width, "element")
    counts = []
    for kind, sides in (("source", sources), ("target", targets)):
        for k, side in enumerate(sides):
            right, filled, count = _position(bench, side, f"{kind}_{k}", number, period, element, width)
            counts.append(count)
            if kind == "source":
                bench.assume(~side.end.valid | right)
            else:
                bench.check("data", ~side.end.valid | (right & filled))
    return counts[: len(sources)], counts[len(sources) :]


def _position(bench, side, name, number, period, element, width):
    """Whether the word at that end agrees with the chosen element, whether its fill is zero, and the periods that
    went by."""
    m, words = bench.m, side.words
    index = Signal(range(max(2, len(words))), name=f"{name}_index")
    count = Signal(EPOCH, name=f"{name}_periods")
    right, filled = Signal(name=f"{name}_right", init=1), Signal(name=f"{name}_filled", init=1)
    with m.If(side.end.fire):
        m.d.sync += index.eq(index + 1)
        with m.If(index == len(words) - 1):
            m.d.sync += [index.eq(0), count.eq(count + 1)]
    with m.Switch(index):
        for k, word in enumerate(words):
            with m.Case(k):
                lanes = [side.end.payload.word_select(lane, width) for lane in range(len(word))]
                pairs = list(zip(lanes, word, strict=True))
                m.d.comb += [
                    right.eq(
                        Cat((number != e) | (lane == element) for lane, e in pairs if e is not None).all()
                        | (count != period)
                    ),
                    filled.eq(Cat(lane == 0 for lane, e in pairs if e is None).all()),
                ]
    return right, filled, count


def progress(bench, sources, targets, pending, limit):
    """Property "progress": while all consumers are ready, a word that is ``pending`` comes at each of them, and every
    producer that offers a word gets rid of it, within ``limit`` cycles."""
    ready = Cat(end.ready for end in targets).all()
    offered = Cat(end.valid for end in sources).all()
    for k, end in enumerate(targets):
        waits = bench.since(ready & pending & ~end.fire, f"waited_{k}", limit)
        bench.check("progress", waits != limit)
    for k, end in enumerate(sources):
        waits = bench.since(ready & offered & ~end.fire, f"refused_{k}", limit)
        bench.check("progress", waits != limit)
