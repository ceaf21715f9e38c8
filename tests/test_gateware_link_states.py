"""How two link ends meet, and what they make of a wrong, reset, silent or absent peer."""

import numpy as np
import pytest
from link_pair import Cable, Pair, words_of

from hwgen.gateware.link.frames import Kind


def sending_pair(**options):
    """A pair of which both sides send and take."""
    pair = Pair((8,), (8,), **options)
    for side, other in (("a", "b"), ("b", "a")):
        pair.feed(side, 0, words_of(side, 0, 60))
        pair.take(other, 0)
    return pair


def nothing_came(pair):
    return pair.got == {"a": [[]], "b": [[]]}


@pytest.mark.parametrize(
    ("first", "wait", "clocks"),
    [
        ("a", 0, (10, 10, 10, 10)),
        ("b", 60, (10, 8, 14, 9)),
        ("a", 700, (31, 10, 10, 17)),
        ("b", 1500, (10, 10, 10, 10)),
        pytest.param("b", 5000, (10,) * 4, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("faulty", [False, True])
def test_boards_start_in_any_order(first, wait, clocks, faulty):
    """Both in reset from the start, one released ``wait`` cycles after the other."""
    rng = np.random.default_rng(wait)

    def fault(_number, _header):
        return "drop" if faulty and rng.random() < 0.3 else None

    cables = tuple(Cable(64, latency, fault=fault) for latency in (5, 25))
    pair = sending_pair(cables=cables, clocks=clocks)

    async def look(ctx):
        for reset in pair.resets.values():
            ctx.set(reset, 1)
        await pair.wait(ctx, "a_sync", 20)
        for side in (first, "b" if first == "a" else "a"):
            assert nothing_came(pair)
            await pair.release(ctx, side)
            await pair.wait(ctx, f"{side}_link", wait)
        await pair.arrived(ctx, {("a", 0): 60, ("b", 0): 60})
        for side, peer in (("a", pair.b), ("b", pair.a)):
            await pair.state(ctx, side, "up")
            assert ctx.get(getattr(pair, side).peer) == ctx.get(peer.identity)

    pair.run(look)
    assert pair.got == {"a": [words_of("b", 0, 60)], "b": [words_of("a", 0, 60)]}


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_another_identity_is_refused(bit):
    pair = sending_pair()

    async def look(ctx):
        ctx.set(pair.b.expected, ctx.get(pair.a.identity) ^ 1 << bit)
        await pair.state(ctx, "b", "refused")
        assert ctx.get(pair.b.peer) == ctx.get(pair.a.identity)
        await ctx.tick("a_link").repeat(300)
        await pair.state(ctx, "a", "waiting")
        await pair.state(ctx, "b", "refused")
        assert nothing_came(pair)

    pair.run(look)


@pytest.mark.parametrize("reset", ["a", "b"])
def test_a_restarted_peer_gets_no_data(reset):
    """Not even what is still in flight when it was reset; both boards reset are a new start."""
    pair = Pair((8,), (8,), cables=(Cable(64, 50), Cable(64, 60)))
    other = "b" if reset == "a" else "a"

    async def look(ctx):
        ends = {side: getattr(pair, side) for side in "ab"}
        for end in ends.values():
            ctx.set(end.tx[0].valid, 1)
            ctx.set(end.tx[0].payload, 1)
            ctx.set(end.rx[0].ready, 1)
        for side in "ab":
            await pair.state(ctx, side, "up")
        await ctx.tick("a_link").repeat(150)
        before = (await pair.counters(ctx, other))["frames_received"]
        assert before > 0
        await pair.reset(ctx, reset)
        await pair.state(ctx, other, "restarted")
        assert [ctx.get(ends[side].greeting.own.session) for side in (reset, other)] == [2, 1]
        for _ in range(10):
            await ctx.tick("a_link").repeat(40)
            assert ctx.get(ends[reset].rx[0].valid) == 0
        await pair.state(ctx, reset, "waiting")
        assert (await pair.counters(ctx, reset))["frames_received"] == 0
        count = (await pair.counters(ctx, other))["frames_received"]
        await ctx.tick("a_link").repeat(200)
        assert (await pair.counters(ctx, other))["frames_received"] == count
        await pair.state(ctx, other, "restarted")

        await pair.reset(ctx, other)
        for side in "ab":
            await pair.state(ctx, side, "up")
        await ctx.tick("a_link").repeat(300)
        for side in "ab":
            assert (await pair.counters(ctx, side))["frames_received"] > 0

    pair.run(look)


def test_a_silent_peer_is_told_and_nothing_is_lost():
    cables = (Cable(64, 5), Cable(64, 5))
    pair = sending_pair(cables=cables, silence=400)

    async def look(ctx):
        await pair.state(ctx, "a", "up")
        await pair.arrived(ctx, {("a", 0): 5, ("b", 0): 5})
        cables[0].cut = True
        await pair.state(ctx, "b", "silent")
        await pair.state(ctx, "a", "up")
        cables[0].cut = False
        await pair.state(ctx, "b", "up")
        await pair.arrived(ctx, {("a", 0): 60, ("b", 0): 60})

    pair.run(look)
    assert pair.got == {"a": [words_of("b", 0, 60)], "b": [words_of("a", 0, 60)]}


def test_a_transceiver_that_goes_down_and_comes_back():
    """For a short and a long while, wherever in a frame; the same session goes on."""
    cables = (Cable(64, 5), Cable(64, 5))
    pair = sending_pair(cables=cables)

    async def look(ctx):
        await pair.state(ctx, "a", "up")
        for count, pause in enumerate((1, 2, 3, 5, 400)):
            await ctx.tick("a_link").repeat(17 + 3 * count)
            ctx.set(pair.b.phy.up, 0)
            cables[0].cut = True
            await ctx.tick("a_link").repeat(pause)
            if pause > 100:
                await pair.state(ctx, "b", "off")
            cables[0].cut = False
            ctx.set(pair.b.phy.up, 1)
        await pair.state(ctx, "b", "up")
        await pair.arrived(ctx, {("a", 0): 60, ("b", 0): 60})

    pair.run(look)
    assert pair.got == {"a": [words_of("b", 0, 60)], "b": [words_of("a", 0, 60)]}


def test_no_transceiver_no_frame():
    pair = sending_pair(up=False)

    async def look(ctx):
        await ctx.tick("a_link").repeat(200)
        for side in "ab":
            await pair.state(ctx, side, "off")
            ctx.set(getattr(pair, side).phy.up, 1)
        assert [cable.words for cable in pair.cables] == [0, 0]
        await pair.arrived(ctx, {("a", 0): 60, ("b", 0): 60})

    pair.run(look)


def test_hellos_end_once_both_are_up():
    kinds = ([], [])
    cables = tuple(
        Cable(64, 9, fault=lambda _number, header, k=k: kinds[k].append(header.kind)) for k in range(2)
    )
    pair = sending_pair(cables=cables)

    async def look(ctx):
        await pair.arrived(ctx, {("a", 0): 60, ("b", 0): 60})

    pair.run(look)
    for seen in kinds:
        hellos = seen.count(Kind.HELLO)
        assert 1 <= hellos <= 6
        assert Kind.HELLO not in seen[hellos:]
