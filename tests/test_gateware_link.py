"""A pair of link ends: all words of all channels in order, whatever the cable and the users do; faults are counted."""

import itertools

import numpy as np
import pytest
from link_pair import Cable, Pair, words_of

from hwgen.gateware.link.frames import Kind

MIXED = {"tx": (16, 5, 1, 30), "rx": (16, 7)}
COUNTS = {"a": [120, 40, 6, 120], "b": [120, 40]}


def random_faults(seed, chance, width=64):
    """Each frame is lost, comes twice, or has a bit flipped, with ``chance`` each."""
    rng = np.random.default_rng(seed)

    def fault(_number, header):
        kind = int(rng.random() / chance)
        flip = ("flip", int(rng.integers(header.length + 2)), int(rng.integers(width + 1)))
        return ("drop", "repeat", flip)[kind] if kind < 3 else None

    return fault


@pytest.mark.parametrize(
    ("latency", "ready", "stalls", "clocks"),
    [
        ((0, 0), (1.0, 1.0), (0.0, 0.0), (10, 10, 10, 10)),
        ((3, 40), (0.7, 0.5), (0.4, 0.6), (10, 7, 13, 9)),
        ((300, 150), (0.97, 1.0), (0.0, 0.1), (17, 10, 5, 11)),
    ],
)
def test_words_arrive_in_order(latency, ready, stalls, clocks):
    cables = tuple(Cable(64, latency[k], ready=ready[k], seed=k) for k in range(2))
    pair = Pair(**MIXED, cables=cables, clocks=clocks, timeout=1500)
    counts = COUNTS if latency[0] < 100 else {"a": [40, 9, 2, 60], "b": [40, 20]}
    pair.exchange(counts, stalls=stalls)


@pytest.mark.parametrize("seed", range(3))
def test_words_arrive_in_order_under_faults(seed):
    cables = tuple(
        Cable(64, 10 * seed, ready=0.9, seed=k, fault=random_faults(2 * seed + k, 0.05)) for k in range(2)
    )
    Pair(**MIXED, cables=cables, clocks=(10, 9, 11, 10), seed=seed).exchange(COUNTS, stalls=(0.1, 0.2))


@pytest.mark.parametrize(("width", "frame_words"), [(128, 1), (256, 63), (1024, 8)])
def test_other_widths_and_frames(width, frame_words):
    cables = tuple(Cable(width, 4, seed=k, fault=random_faults(k, 0.02, width)) for k in range(2))
    pair = Pair((3, 40), (9,), cables=cables, width=width, frame_words=frame_words, replay_words=64)
    pair.exchange({"a": [50, 200], "b": [100]})


def small_pair(fault):
    """Three channels with words all the time; a cable from a to b that has a fault now and then."""
    pair = Pair((16, 16), (16,), cables=(Cable(64, 6, fault=fault), Cable(64, 9)))
    for side, channel in (("a", 0), ("a", 1), ("b", 0)):
        pair.feed(side, channel, words_of(side, channel, 150), 0.4)
        pair.take("b" if side == "a" else "a", channel)
    return pair


async def all_arrived(pair, ctx):
    await pair.arrived(ctx, {("b", 0): 150, ("b", 1): 150, ("a", 0): 150})
    await ctx.tick("a_link").repeat(100)  # control frames show what was lost at the end
    assert pair.got == {"a": [words_of("b", 0, 150)], "b": [words_of("a", k, 150) for k in range(2)]}


EXPECTED = {  # per fault: CRC errors, lost, repeated
    "drop": (0, 1, 0),
    "repeat": (0, 0, 1),
    "header": (1, 0, 0),
    "trailer": (1, 0, 0),
    "end": (1, 1, 0),  # the frame and the next one become one
    "early": (2, 0, 0),  # a frame becomes two
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_every_fault_is_counted(kind):
    """Exactly, after 1, 3 and 5 of them."""
    hit, allowed = [], 0

    def fault(number, header):
        if number < 12 or number % 7 or len(hit) >= allowed:
            return None
        hit.append(header.kind)
        bit = 7 * len(hit)
        places = {
            "header": (0, bit), "trailer": (header.length + 1, bit), "end": (header.length + 1, 64), "early": (0, 64),
        }  # fmt: skip
        return ("flip", *places[kind]) if kind in places else kind

    pair = small_pair(fault)

    async def look(ctx):
        nonlocal allowed
        for allowed in (1, 3, 5):
            while len(hit) < allowed:
                await ctx.tick("a_link")
            await ctx.tick("a_link").repeat(40)
            b = await pair.counters(ctx, "b")
            found = tuple(b[name] for name in ("crc_errors", "frames_lost", "frames_repeated"))
            assert found == tuple(allowed * each for each in EXPECTED[kind])
        await all_arrived(pair, ctx)
        a, b = await pair.counters(ctx, "a"), await pair.counters(ctx, "b")
        assert len(hit) == 5
        assert (a["crc_errors"], a["frames_lost"], a["frames_repeated"]) == (0, 0, 0)
        assert b["frames_received"] == a["frames_sent"]
        assert kind != "repeat" or (a["frames_replayed"], b["discarded"], b["timeouts"]) == (0, 0, 0)

    pair.run(look)


def test_counters_of_a_quiet_link():
    pair = small_pair(None)

    async def look(ctx):
        await all_arrived(pair, ctx)
        a, b = await pair.counters(ctx, "a"), await pair.counters(ctx, "b")
        for side, other in ((a, b), (b, a)):
            assert side["frames_sent"] == other["frames_received"] > 0
            for name in (
                "frames_replayed",
                "crc_errors",
                "frames_lost",
                "frames_repeated",
                "discarded",
                "timeouts",
            ):
                assert side[name] == 0, name
            assert side["control_sent"] > 0
        assert 0 <= a["credit_low"] < 16
        assert 0 < b["high"] <= 16

    pair.run(look)


def test_lost_frames_at_the_end_are_sent_again():
    """The last data frame and all control frames that would show its loss: only the time-out is left."""
    words, lost = 0, 0

    def fault(_number, header):
        nonlocal words, lost
        data = header.kind == Kind.DATA
        words += header.length if data else 0
        if words == 16 and (not lost or not data):
            lost += 1
            return "drop"
        return None

    pair = Pair(cables=(Cable(64, fault=fault), Cable(64)))

    async def look(ctx):
        await pair.arrived(ctx, {("b", 0): 16})
        values = await pair.counters(ctx, "a")
        assert (values["timeouts"], values["frames_replayed"]) == (1, 1)
        assert lost > 1

    pair.feed("a", 0, words_of("a", 0, 16))
    pair.take("b", 0)
    pair.run(look)


def test_a_blocked_channel_blocks_no_other():
    pair = Pair((4, 12, 9), (8, 8))

    async def look(ctx):
        await pair.arrived(ctx, {("b", 0): 100, ("b", 2): 100, ("a", 1): 100})
        values = await pair.counters(ctx, "a")
        assert values["stalled"] > 100
        assert values["credit_low"] == 0
        assert (await pair.counters(ctx, "b"))["high"] == 12

    for side, channel, stall in (("a", 0, 0), ("a", 1, 0), ("a", 2, 0), ("b", 0, 0), ("b", 1, 0)):
        pair.feed(side, channel, words_of(side, channel, 100), stall)
    for side, channel in (("b", 0), ("b", 2), ("a", 1)):
        pair.take(side, channel)
    pair.take("b", 1, 1.0)
    pair.take("a", 0, 1.0)
    pair.run(look)
    assert pair.got["b"][0] == words_of("a", 0, 100)
    assert pair.got["b"][2] == words_of("a", 2, 100)
    assert pair.got["b"][1] == pair.got["a"][0] == []


def test_one_word_of_credit():
    cables = tuple(Cable(64, 25, fault=random_faults(k, 0.03)) for k in range(2))
    Pair((1,), (1, 1), cables=cables).exchange({"a": [20], "b": [15, 15]})


@pytest.mark.parametrize(("channels", "back"), [(1, False), (4, True)])
def test_full_rate(channels, back):
    """Of a word a cycle, 64 of 66 are payload; round trip of 160 cycles and more."""
    depths = (1024,) * channels
    pair = Pair(
        depths, depths, cables=(Cable(64, 80), Cable(64, 80)), frame_words=64, replay_words=1024, timeout=2048
    )
    for channel in range(channels):
        pair.feed("a", channel, itertools.count())
        pair.take("b", channel)
        if back:
            pair.feed("b", channel, itertools.count())
            pair.take("a", channel)
    cycles = 66 * 8
    start, count = {}, {}

    async def measure(ctx):
        await pair.state(ctx, "a", "up")
        await ctx.tick("a_link").repeat(600)
        for store in (start, count):
            store.update({side: [len(words) for words in pair.got[side]] for side in "ab"})
            await ctx.tick("a_link").repeat(cycles)

    pair.run(measure)
    for side in "ab" if back else "b":
        words = sum(count[side]) - sum(start[side])
        assert words >= 0.96 * cycles
        assert abs(words - cycles * 64 / 66) <= 64
        assert max(count[side]) - min(count[side]) <= 3 * 64  # nobody is left behind


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_random_pairs(seed):
    """Depths, frames, clocks, latencies, faults and stalls, all drawn; sequence numbers wrap in some."""
    rng = np.random.default_rng(seed)
    depths = [
        tuple(int(d) for d in rng.choice([1, 2, 3, 7, 8, 20, 70], rng.integers(1, 7))) for _ in range(2)
    ]
    frame_words = int(rng.choice([1, 2, 5, 8, 31]))
    chance = float(rng.choice([0.0, 0.01, 0.03, 0.1]))
    cables = tuple(
        Cable(64, int(rng.choice([0, 1, 7, 33, 120, 300])), ready=float(rng.choice([1.0, 32 / 33, 0.6])), seed=seed + k,
              fault=random_faults(seed + k, chance) if chance else None)
        for k in range(2)
    )  # fmt: skip
    pair = Pair(
        *depths, cables=cables, seed=seed, clocks=tuple(int(c) for c in rng.integers(5, 20, 4)),
        frame_words=frame_words, replay_words=int(rng.choice([32, 64, 256])), timeout=int(rng.choice([900, 2048])),
        heartbeat=int(rng.choice([8, 64, 256])),
    )  # fmt: skip
    slow = sum(cable.latency for cable in cables) > 60 or chance > 0.05
    counts = {
        side: [int(rng.integers(1, 8)) * min(depth, 12) * (2 if slow else 15) for depth in own]
        for side, own in zip("ab", depths, strict=True)
    }
    stalls = rng.choice([0.0, 0.3, 0.8], 2)
    pair.exchange(counts, stalls=tuple(float(s) for s in stalls), patience=30000)
