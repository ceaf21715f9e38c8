"""Streams of a cut stage: channels dealt out and put together again, sums added, words packed: order, rate, stalls."""

import gc
import itertools

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from handshake import Trace, check_valid_ignores_ready, cut
from stream_bench import run_streams

from hwgen.gateware.channels import AddSums, MergeChannels, Pack, SplitChannels, Unpack
from hwgen.gateware.stream import lanes


class OneStream(wiring.Component):
    """A splitter with its outputs, or a merger with its inputs, as ports with names of their own."""

    def __init__(self, part):
        self.part, self.splits = part, isinstance(part, SplitChannels)
        word = stream.Signature(lanes(part.lanes, part.width))
        whole, share = (In, Out) if self.splits else (Out, In)
        super().__init__({"whole": whole(word), "low": share(word), "high": share(word)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = self.part
        if self.splits:
            wiring.connect(m, wiring.flipped(self.whole), part.i)
            for port, inner in zip((self.low, self.high), part.o, strict=True):
                wiring.connect(m, inner, wiring.flipped(port))
        else:
            wiring.connect(m, part.o, wiring.flipped(self.whole))
            for port, inner in zip((self.low, self.high), part.i, strict=True):
                wiring.connect(m, wiring.flipped(port), inner)
        return m


def words_of(pixels, run, P):
    return cut([int(v) for pixel in pixels for v in pixel], (run, P))


def pixels_of(low, high, width, count, seed=0):
    rng = np.random.default_rng([low, high, width, count, seed])
    return rng.integers(-(1 << width - 1), 1 << width - 1, (count, low + high))


def streams_of(pixels, low, P):
    """Words of the whole pixels, of their low and of their high channels."""
    count = pixels.shape[1]
    return {
        "whole": words_of(pixels, count, P),
        "low": words_of(pixels[:, :low], low, P),
        "high": words_of(pixels[:, low:], count - low, P),
    }


def check(kind, low, high, P, width, pixels, stalls, bench=None, seed=0):
    part = OneStream(kind(width, low, high, P)) if bench is None else bench[0]
    words = streams_of(pixels, low, P)
    sent = ["whole"] if kind is SplitChannels else ["low", "high"]
    wanted = [name for name in words if name not in sent]
    got, _ = run_streams(
        part, {n: words[n] for n in sent}, {n: len(words[n]) for n in wanted},
        stalls=stalls, seed=seed, bench=bench and bench[1],
    )  # fmt: skip
    for name in wanted:
        assert [[word[k] for k in range(P)] for word in got[name]] == words[name], name


STALLS = [(0.0, 0.0), (0.4, 0.3), (0.0, 0.6), (0.6, 0.0)]
SMALL = list(itertools.product((1, 2, 3, 5), (1, 2, 3, 4), (1, 2, 3, 4)))


@pytest.mark.parametrize("kind", [SplitChannels, MergeChannels])
@pytest.mark.parametrize("P", [1, 2, 3, 4])
def test_every_small_split_and_merge(kind, P):
    for number, (low, high, lanes_) in enumerate(case for case in SMALL if case[2] == P):
        width = (1, 2, 8, 13)[number % 4]
        pixels = pixels_of(low, high, width, 6)
        check(kind, low, high, lanes_, width, pixels, STALLS[(number + P) % 4], seed=number)


@pytest.mark.parametrize("kind", [SplitChannels, MergeChannels])
@pytest.mark.parametrize(("low", "high", "P"), [(1, 63, 8), (17, 3, 16), (40, 24, 64), (7, 9, 5)])
def test_wide_splits_and_merges(kind, low, high, P):
    check(kind, low, high, P, 7, pixels_of(low, high, 7, 12), (0.3, 0.3))


@pytest.mark.parametrize("kind", [SplitChannels, MergeChannels])
@pytest.mark.parametrize(("low", "high", "P"), [(4, 4, 4), (3, 5, 4), (1, 1, 1), (2, 7, 3), (8, 1, 4)])
def test_a_pixel_takes_as_many_cycles_as_words(kind, low, high, P):
    pixels = pixels_of(low, high, 4, 6)
    part = OneStream(kind(4, low, high, P))
    each = -(-low // P) + -(-high // P)
    whole = -(-(low + high) // P)
    trace = Trace(part, ["whole", "high"], 8 * each + 20)
    check(kind, low, high, P, 4, pixels, (0.0, 0.0), (part, trace.bench))
    ends = trace.moved["high"][-(-high // P) - 1 :: -(-high // P)]
    assert [b - a for a, b in itertools.pairwise(ends[1:])] == [max(each, whole)] * (len(pixels) - 2)


@pytest.mark.parametrize(
    ("kind", "sent", "given"),
    [(SplitChannels, ["whole"], ["low", "high"]), (MergeChannels, ["low", "high"], ["whole"])],
)
@pytest.mark.parametrize(("low", "high", "P"), [(1, 1, 1), (3, 5, 4), (4, 8, 4)])
def test_valid_of_split_and_merge_ignores_ready(kind, sent, given, low, high, P):
    check_valid_ignores_ready(OneStream(kind(3, low, high, P)), sent, given)


def test_a_split_waits_only_for_the_output_whose_turn_it_is():
    """The high channels of a pixel pass while the low ones of the next cannot."""
    part = OneStream(SplitChannels(8, 2, 2, 2))
    got = []

    async def bench(ctx):
        ctx.set(part.high.ready, 1)
        ctx.set(part.low.ready, 0)
        taken = 0
        for _ in range(40):
            ctx.set(part.low.ready, taken == 0)
            _, _, low, high, payload = await ctx.tick().sample(
                part.low.valid & part.low.ready, part.high.valid, part.high.payload
            )
            taken += low
            if high:
                got.append([payload[0], payload[1]])

    run_streams(part, {"whole": [[1, 2], [3, 4], [5, 6]]}, {}, bench=bench)
    assert got == [[3, 4]]


# --- Sums


def corners(bits):
    return [-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1 if bits > 1 else 0]


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(
    ("P", "a", "b", "width"), [(1, 1, 1, 2), (2, 8, 8, 9), (3, 17, 40, 41), (5, 64, 7, 65)]
)
def test_sums_are_exact_at_the_extremes(P, a, b, width, stalls):
    pairs = list(itertools.product(corners(a), corners(b)))
    pairs += [(0, 0)] * (-len(pairs) % P)
    words = [[pairs[k : k + P][i] for i in range(P)] for k in range(0, len(pairs), P)]
    got, _ = run_streams(
        AddSums(P, a, b, width),
        {"a": [[x for x, _ in word] for word in words], "b": [[y for _, y in word] for word in words]},
        {"o": len(words)},
        stalls=stalls, seed=width,
    )  # fmt: skip
    assert [[word[k] for k in range(P)] for word in got["o"]] == [[x + y for x, y in word] for word in words]


def test_sums_come_a_word_a_cycle():
    part = AddSums(2, 8, 8, 9)
    trace = Trace(part, ["a", "b", "o"], 30)
    words = [[k, -k] for k in range(20)]
    run_streams(part, {"a": words, "b": words}, {"o": 20}, bench=trace.bench)
    assert trace.moved["o"] == [cycle + part.latency for cycle in trace.moved["a"]]
    assert trace.moved["a"] == trace.moved["b"] == list(range(trace.moved["a"][0], trace.moved["a"][0] + 20))


def test_sums_wait_for_both_and_ignore_ready():
    check_valid_ignores_ready(AddSums(2, 4, 5, 6), ["a", "b"], ["o"])
    got, _ = run_streams(AddSums(1, 4, 4, 5), {"a": [[1], [2], [3]]}, {"o": 1}, patience=60, hang=True)
    assert got["o"] == []


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_sums_into_too_few_bits_are_refused():
    with pytest.raises(ValueError, match=r"^AddSums: sums of 9 and 12 bits in 11; at least 12$"):
        AddSums(2, 9, 12, 11)
    gc.collect()  # the refused part, while its warning is ignored


# --- Link words

SHAPES = [
    (unsigned(1), 64),
    (unsigned(16), 64),
    (unsigned(32), 32),
    (unsigned(57), 8),
    (lanes(3, 5), 4),
    (lanes(4, 8), 32),
    (lanes(7, 23), 64),
    (lanes(1, 65), 64),
    (lanes(8, 8), 64),
    (data.StructLayout({"data": 32, "addr": 16, "board": 8, "write": 1}), 64),
]
SHAPE_IDS = [f"{Shape.cast(shape).width}-{width}" for shape, width in SHAPES]


def random_words(shape, count, seed):
    rng = np.random.default_rng(seed)
    bits = Shape.cast(shape).width
    numbers = [int.from_bytes(rng.bytes(40), "little") & (1 << bits) - 1 for _ in range(count)]
    numbers[:2] = [0, (1 << bits) - 1]
    return numbers, [shape.from_bits(n) if hasattr(shape, "from_bits") else n for n in numbers]


def number_of(word):
    return word.as_bits() if isinstance(word, data.Const) else int(word)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.5)])
@pytest.mark.parametrize(("shape", "width"), SHAPES, ids=SHAPE_IDS)
def test_words_are_packed_low_bits_first(shape, width, stalls):
    numbers, words = random_words(shape, 12, width)
    part = Pack(shape, width)
    assert part.beats == -(-part.bits // width)
    wanted = [n >> width * k & (1 << width) - 1 for n in numbers for k in range(part.beats)]
    got, _ = run_streams(part, {"i": words}, {"o": len(wanted)}, stalls=stalls)
    assert [int(word) for word in got["o"]] == wanted


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.5)])
@pytest.mark.parametrize(("shape", "width"), SHAPES, ids=SHAPE_IDS)
def test_words_are_unpacked(shape, width, stalls):
    numbers, _ = random_words(shape, 12, width + 1)
    part = Unpack(shape, width)
    sent = [n >> width * k & (1 << width) - 1 for n in numbers for k in range(part.beats)]
    got, _ = run_streams(part, {"i": sent}, {"o": len(numbers)}, stalls=stalls)
    assert [number_of(word) for word in got["o"]] == numbers


@pytest.mark.parametrize(("shape", "width"), [(unsigned(16), 64), (lanes(3, 16), 16), (lanes(5, 32), 64)])
def test_link_words_move_every_cycle(shape, width):
    _, words = random_words(shape, 10, 5)
    pack, unpack = Pack(shape, width), Unpack(shape, width)
    for part, sent, given in ((pack, words, 10 * pack.beats), (unpack, [1] * 10 * unpack.beats, 10)):
        port = "o" if part is pack else "i"
        trace = Trace(part, [port], 10 * part.beats + 10)
        run_streams(part, {"i": sent}, {"o": given}, bench=trace.bench)
        moved = trace.moved[port]
        assert moved == list(range(moved[0], moved[0] + 10 * part.beats))


@pytest.mark.parametrize("kind", [Pack, Unpack])
@pytest.mark.parametrize(("shape", "width"), [(unsigned(16), 64), (lanes(3, 16), 16)])
def test_valid_of_link_words_ignores_ready(kind, shape, width):
    check_valid_ignores_ready(kind(shape, width), ["i"], ["o"])
