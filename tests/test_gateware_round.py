"""Requantise against hwgen.numeric: every value at small widths, edges and random sums at large ones."""

import numpy as np
import pytest
from handshake import Trace, check_valid_ignores_ready
from stream_bench import run_streams

from hwgen.gateware.round import Requantise
from hwgen.numeric import Q, requantise


def rounded(values, in_width, in_frac, to, *, lanes=4, stalls=(0.0, 0.0), seed=0):
    """What the gateware makes of ``values`` (a multiple of ``lanes``), and its count of clipped lanes."""
    part = Requantise(in_width, in_frac, to, lanes)
    words = [[int(v) for v in values[k : k + lanes]] for k in range(0, len(values), lanes)]
    count = 0

    async def watch(ctx):
        nonlocal count
        seen = 0
        while seen < len(words):
            _, _, valid, ready = await ctx.tick().sample(part.o.valid, part.o.ready)
            seen += valid and ready
        await ctx.tick().repeat(2)
        count = ctx.get(part.saturated)

    got, cycles = run_streams(part, {"i": words}, {"o": len(words)}, stalls=stalls, seed=seed, bench=watch)
    assert stalls != (0.0, 0.0) or cycles == len(words) + part.latency
    return [word[k] for word in got["o"] for k in range(lanes)], count


def expected(values, in_frac, to):
    result, clipped = requantise(np.array(values, dtype=object), in_frac, to)
    return [int(v) for v in result], clipped


@pytest.mark.parametrize("to_width", [1, 2, 4, 6, 9])
@pytest.mark.parametrize("shift", range(-3, 9))
def test_every_value_of_six_bits(shift, to_width):
    values = list(range(-32, 32))
    to = Q(to_width, 2 - shift)
    assert rounded(values, 6, 2, to) == expected(values, 2, to)


@pytest.mark.parametrize("shift", range(-2, 4))
@pytest.mark.parametrize("in_width", [1, 2])
def test_every_value_of_one_and_two_bits(in_width, shift):
    values = list(range(-(1 << in_width - 1), 1 << in_width - 1)) * 2
    to = Q(2, -shift)
    assert rounded(values, in_width, 0, to, lanes=2) == expected(values, 0, to)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.2), (0.2, 0.6)])
@pytest.mark.parametrize(
    ("in_width", "in_frac", "to"),
    [
        (40, 23, Q(8, 4)),
        (36, 20, Q(16, 14)),
        (24, 10, Q(24, 10)),
        (48, 40, Q(4, 60)),
        (33, -5, Q(18, -9)),
        (62, 8, Q(24, -60)),
        (12, 3, Q(20, 11)),
        (20, 9, Q(8, 60)),
        (16, 0, Q(16, 16)),
    ],
    ids=str,
)
def test_wide_sums_and_edges(in_width, in_frac, to, stalls):
    rng = np.random.default_rng(in_width)
    shift = in_frac - to.frac
    least, greatest = -(1 << in_width - 1), (1 << in_width - 1) - 1
    values = [least, least + 1, -1, 0, 1, greatest - 1, greatest]
    for edge in (to.min, to.max, 1, -1, 3):
        for half in (-1, 0, 1):
            near = ((2 * edge + half) << shift) // 2 if shift > 0 else edge + half
            values += [near - 1, near, near + 1]
    values += [int(rng.integers(-(1 << 62), 1 << 62)) >> int(rng.integers(0, 63)) for _ in range(120)]
    values = [min(max(v, least), greatest) for v in values]
    values += [0] * (-len(values) % 3)
    assert rounded(values, in_width, in_frac, to, lanes=3, stalls=stalls, seed=in_width) == expected(
        values, in_frac, to
    )


def test_count_follows_a_word_by_one_cycle_and_stalls_do_not_repeat_it():
    part = Requantise(8, 0, Q(4, 0), 3)

    async def look(ctx):
        ctx.set(part.i.payload, [100, 7, -9])
        ctx.set(part.i.valid, 1)
        await ctx.tick()
        ctx.set(part.i.valid, 0)
        await ctx.tick()
        assert (ctx.get(part.o.valid), ctx.get(part.saturated)) == (1, 0)
        for _ in range(5):
            await ctx.tick()
            assert (ctx.get(part.o.valid), ctx.get(part.saturated)) == (1, 2)

    run_streams(part, {}, {}, bench=look)


def test_latency():
    part = Requantise(8, 0, Q(4, 0), 2)
    trace = Trace(part, ["i", "o"], 8)
    run_streams(part, {"i": [[1, 2]]}, {"o": 1}, bench=trace.bench)
    assert trace.valid["o"] == [trace.moved["i"][0] + part.latency]


def test_valid_ignores_ready():
    check_valid_ignores_ready(Requantise(9, 3, Q(5, 2), 2), ["i"], ["o"])
