"""Relane between layouts of every kind: order, padding, rate and latency, and that nothing stays inside."""

import gc
import itertools
import math

import numpy as np
import pytest
from handshake import Trace, check_valid_ignores_ready, cut
from stream_bench import run_streams

from hwgen.gateware.relane import Relane

KINDS = {
    "gather": [
        ((4, 1), (4, 4)),
        ((8, 2), (8, 8)),
        ((5, 2), (5, 4)),
        ((3, 4), (12, 12)),
        ((3, 4), (12, 6)),
        ((6, 3), (6, 7)),
        ((1, 1), (7, 3)),
        ((64, 1), (64, 64)),
        ((10, 4), (10, 4)),
        ((8, 4), (16, 4)),
        ((2, 4), (4, 5)),
    ],
    "scatter": [
        ((4, 4), (4, 1)),
        ((9, 9), (9, 3)),
        ((5, 4), (5, 2)),
        ((12, 12), (3, 4)),
        ((7, 8), (7, 1)),
        ((36, 6), (2, 2)),
    ],
    "shift": [
        ((12, 3), (12, 4)),
        ((10, 4), (490, 3)),
        ((490, 3), (10, 4)),
        ((7, 4), (7, 3)),
        ((9, 8), (6, 4)),
        ((5, 3), (15, 9)),
        ((20, 8), (20, 12)),
        ((6, 4), (9, 6)),
        ((13, 5), (3, 2)),
        ((64, 16), (1600, 25)),
        ((220, 5), (44, 6)),
        ((53, 6), (43, 7)),
        ((306, 19), (51, 20)),
        ((49, 12), (294, 10)),
    ],
}
CASES = [(kind, source, target) for kind, pairs in KINDS.items() for source, target in pairs]
IDS = [f"{s[0]}x{s[1]}-{t[0]}x{t[1]}" for _, s, t in CASES]


def run(source, target, periods, *, width=6, stalls=(0.0, 0.0), seed=0):
    """Sends ``periods`` periods and checks what comes out; the part's kind."""
    part = Relane(width, source, target)
    elements = np.random.default_rng(seed).integers(-(1 << width - 1), 1 << width - 1, periods * part.period)
    sent, wanted = cut(elements, source), cut(elements, target)
    assert (len(sent), len(wanted)) == tuple(periods * words for words in part.words)
    got, _ = run_streams(part, {"i": sent}, {"o": len(wanted)}, stalls=stalls, seed=seed)
    assert [[word[k] for k in range(target[1])] for word in got["o"]] == wanted
    return part.kind


@pytest.mark.parametrize("stalls", [(0.4, 0.3), (0.0, 0.6), (0.6, 0.0)])
@pytest.mark.parametrize(("kind", "source", "target"), CASES, ids=IDS)
def test_order_and_padding(kind, source, target, stalls):
    periods = max(3, 40 // math.lcm(source[0], target[0]))
    run(source, target, periods, stalls=stalls, seed=sum(source))


@pytest.mark.parametrize(("kind", "source", "target"), CASES, ids=IDS)
def test_rate_and_latency_are_exact(kind, source, target):
    part = Relane(3, source, target)
    assert part.kind == kind
    assert (part.capacity <= max(source[1], target[1])) == (kind != "shift")  # no shifter for simple ratios
    assert part.cycles == max(part.period // run * math.ceil(run / P) for run, P in (source, target))
    periods = 4
    trace = Trace(part, ["i", "o"], (periods + 1) * part.cycles + 30)
    elements = np.arange(periods * part.period) % 4
    words = cut(elements, target)
    run_streams(part, {"i": cut(elements, source)}, {"o": len(words)}, bench=trace.bench)
    assert trace.valid["o"][0] - trace.moved["i"][0] == part.latency
    ends = trace.moved["o"][part.words[1] - 1 :: part.words[1]]
    assert [b - a for a, b in itertools.pairwise(ends[1:])] == [part.cycles] * (periods - 2)


@pytest.mark.parametrize(
    ("source", "target"), [((6, 4), (6, 3)), ((5, 2), (5, 8)), ((5, 8), (5, 2)), ((10, 4), (30, 3))]
)
def test_lanes_behind_a_run_are_ignored(source, target):
    part = Relane(5, source, target)
    elements = np.arange(4 * part.period) % 15 + 1
    sent = [[v or -7 for v in word] for word in cut(elements, source)]
    wanted = cut(elements, target)
    got, _ = run_streams(part, {"i": sent}, {"o": len(wanted)}, stalls=(0.2, 0.4))
    assert [[word[k] for k in range(target[1])] for word in got["o"]] == wanted


def test_random_layouts():
    rng = np.random.default_rng(17)
    kinds = set()
    for number in range(60):
        run_a = int(rng.integers(1, 25))
        run_b = int(rng.choice([run_a, run_a * int(rng.integers(1, 5)), int(rng.integers(1, 25))]))
        sides = [(r, int(rng.integers(1, min(r + 3, 9)))) for r in (run_a, run_b)]
        if number % 2:
            sides.reverse()
        kinds.add(run(*sides, 2, stalls=(0.3, 0.3) if number % 3 else (0.0, 0.0), seed=number))
    assert kinds == {"gather", "scatter", "shift"}


def cut_in_turn(elements, side):
    """Words of a layout whose runs repeat in turn; every run ends its last word."""
    runs, P = side
    turns = itertools.cycle((runs,) if isinstance(runs, int) else runs)
    words, start = [], 0
    while start < len(elements):
        run = next(turns)
        words += cut(elements[start : start + run], (run, P))
        start += run
    return words


TURNS = [
    ("gather", ((2, 2), 2), (4, 4)),
    ("gather", ((4, 8), 4), (12, 12)),
    ("gather", ((1, 1, 1), 1), (3, 3)),
    ("gather", ((3, 1), 4), ((3, 1), 4)),
    ("scatter", (4, 4), ((2, 2), 2)),
    ("scatter", (8, 8), ((3, 5), 1)),
    ("scatter", (12, 12), ((4, 8), 4)),
    ("scatter", (4, 4), ((3, 1), 4)),
    ("shift", (8, 4), ((3, 5), 4)),
    ("shift", ((3, 5), 4), (8, 4)),
    ("shift", ((5, 2, 4), 3), (11, 4)),
    ("gather", ((3, 1), 2), ((2, 2), 3)),
    ("shift", (7, 3), ((1, 6), 5)),
]
TURN_IDS = [f"{s[0]}x{s[1]}-{t[0]}x{t[1]}" for _, s, t in TURNS]


@pytest.mark.parametrize(("kind", "source", "target"), TURNS, ids=TURN_IDS)
def test_runs_in_turn(kind, source, target):
    for number, stalls in enumerate([(0.0, 0.0), (0.4, 0.3), (0.0, 0.6)]):
        part = Relane(5, source, target)
        assert part.kind == kind
        elements = np.random.default_rng(number).integers(-16, 16, 5 * part.period)
        sent, wanted = cut_in_turn(elements, source), cut_in_turn(elements, target)
        assert (len(sent), len(wanted)) == tuple(5 * words for words in part.words)
        trace = Trace(part, ["i", "o"], 6 * part.cycles + 30)
        got, _ = run_streams(
            part, {"i": sent}, {"o": len(wanted)}, stalls=stalls, seed=number,
            bench=None if any(stalls) else trace.bench,
        )  # fmt: skip
        assert [[word[k] for k in range(target[1])] for word in got["o"]] == wanted
        if not any(stalls):
            assert trace.valid["o"][0] - trace.moved["i"][0] == part.latency
            ends = trace.moved["o"][part.words[1] - 1 :: part.words[1]]
            assert [b - a for a, b in itertools.pairwise(ends[1:])] == [part.cycles] * 3


@pytest.mark.parametrize(("source", "target"), [((4, 2), (4, 4)), ((4, 4), (4, 2)), ((6, 3), (6, 4))])
def test_valid_ignores_ready(source, target):
    check_valid_ignores_ready(Relane(4, source, target), ["i"], ["o"])


@pytest.mark.parametrize(
    "sides",
    [
        ((0, 1), (4, 2)),
        ((4, 2), (0, 1)),
        ((4, 0), (4, 2)),
        ((4, 2), (4, 0)),
        ((4, 2), ((3, 0), 2)),
        (((), 1), (4, 2)),
    ],
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_bad_sizes_are_refused(sides):
    with pytest.raises(ValueError, match="at least 1"):
        Relane(8, *sides)
    gc.collect()  # the refused part, while its warning is ignored
