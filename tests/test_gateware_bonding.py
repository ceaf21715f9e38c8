"""Lane bonding: words and order over lanes that stall, differ in latency, go down and lose words."""

import gc
import re

import numpy as np
import pytest
from phy_loop import Loop, one_in_33, phy_wire, random_frames

from hwgen.gateware.link.bonding import MARKER, MARKER_MAGIC, Bond


def bond_run(
    part, frames, latencies, *, stall=0.0, phases=None, spoil=None, cycles=None, starts=None, goes=None
):
    loop = Loop(part, frames, stall=stall, cycles=cycles)
    lanes = []
    for k, lane in enumerate(part.lane):
        lanes.append(
            phy_wire(
                lane,
                latency=latencies[k],
                ready=None if phases is None else one_in_33(phases[k]),
                spoil=None if spoil is None else spoil(k),
                start=0 if starts is None else starts[k],
                goes=(lambda cycle: True) if goes is None else goes(k),
            )
        )
    counts = []

    async def count(ctx):
        while True:
            _, _, *values = await ctx.tick().sample(part.realigned, part.aligned, part.crossed, part.phy.up)
            counts.append(values)

    loop.run(*lanes, count)
    return loop.got, counts


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize(
    ("latencies", "phases"),
    [
        ((0, 16), None),
        ((16, 0), (0, 16)),
        ((3, 19, 9, 5), (5, 5, 9, 30)),
        ((16, 0, 0, 16), (0, 11, 22, 32)),
        ((5,), (0,)),
        ((0, 0, 0), None),
    ],
)
def test_bond_aligns(latencies, phases, stall):
    part = Bond(len(latencies))
    frames = random_frames(np.random.default_rng(1), part.lanes * 64, 50)
    starts = [40 * k for k in range(part.lanes)]
    got, counts = bond_run(part, frames, latencies, stall=stall, phases=phases, starts=starts)
    assert got == frames
    assert counts[-1][:3] == [0, 1, 0]


def test_bond_rate():
    """All words but one marker a gap, and those cycles in which one lane or the other stands."""
    part = Bond(2)
    frames = random_frames(np.random.default_rng(1), 128, 150)
    words = sum(map(len, frames))
    got, counts = bond_run(part, frames, (4, 9), phases=(0, 0))
    assert got == frames
    up = next(k for k, values in enumerate(counts) if values[3])
    assert len(counts) - up <= words * 33 / 32 * (1 + 1 / part.gap) + 30
    got, counts = bond_run(Bond(2), frames, (4, 9), phases=(0, 16))
    assert got == frames
    assert len(counts) - up <= words * 33 / 32 * (1 + 1 / part.gap) + 60


@pytest.mark.parametrize("latencies", [(0, 25), (60, 0)])
def test_bond_never_comes_up_beyond_its_skew(latencies):
    part = Bond(2)
    busy = random_frames(np.random.default_rng(1), 128, 50)

    async def always(ctx):
        tx = part.phy.tx
        ctx.set(tx.valid, 1)
        for frame in busy * 10:
            for k, word in enumerate(frame):
                ctx.set(tx.payload, {"data": word, "last": int(k == len(frame) - 1)})
                taken = False
                while not taken:
                    _, _, taken = await ctx.tick().sample(tx.ready)

    loop = Loop(part, [[0]], cycles=1200)
    loop.feed = always
    assert loop.run(*(phy_wire(lane, latency=n) for lane, n in zip(part.lane, latencies, strict=True))) == []


FAULTS = ("lose a word", "lose a last word", "repeat a word", "flip last", "lose a frame", "spoil a marker")


@pytest.mark.parametrize(
    ("kind", "victim"), [*((kind, k % 2) for k, kind in enumerate(FAULTS)), (FAULTS[0], 1), (FAULTS[3], 0)]
)
def test_bond_realigns(kind, victim):
    part = Bond(2, gap=128)
    rng = np.random.default_rng(5)
    frames = random_frames(rng, 128, 200)
    events = []

    def spoil(k):
        state = {"due": 300, "losing": False, "last": 1}

        def lane(cycle, data, last):
            alone, state["last"] = state["last"] and last, last
            if k != victim:
                return [(data, last)]
            if state["losing"]:
                state["losing"] = not last
                return []
            fits = {
                "lose a word": not last,
                "lose a last word": last and not alone,
                "repeat a word": not last,
                "flip last": not last,
                "lose a frame": state.get("before", 0) and not last,
                "spoil a marker": alone,
            }[kind]
            state["before"] = last
            if cycle < state["due"] or len(events) == 3 or not fits:
                return [(data, last)]
            state["due"] = cycle + 400
            events.append(cycle)
            if kind in ("lose a word", "lose a last word"):
                return []
            if kind == "repeat a word":
                return [(data, last)] * 2
            if kind == "flip last":
                return [(data, 1)]
            if kind == "lose a frame":
                state["losing"] = True
                return []
            return [(data ^ 1, last)]

        return lane

    got, counts = bond_run(part, frames, (2, 11), spoil=spoil, cycles=sum(map(len, frames)) + 800)
    whole = {tuple(frame) for frame in frames}
    good = [frame for frame in got if tuple(frame) in whole]
    assert len(events) == 3
    assert counts[-1][0] == len(events)
    assert counts[-1][1:] == [1, 0, 1]
    assert good == [frame for frame in frames if frame in good]  # in order, each once
    assert len(got) - len(good) <= len(events) * (1 + 20 * (kind == "lose a frame"))
    # A realignment takes a gap, the frame that it waits for, and the emptying.
    assert len(frames) - len(good) <= len(events) * (part.gap + 12 + 2 * part.depth + 24) / 6
    assert good[-3:] == frames[-3:]


def test_bond_keeps_a_word_on_offer():
    """Markers step in between frames only, however the lanes stall."""
    part = Bond(2, gap=96)
    frames = random_frames(np.random.default_rng(1), 128, 100, longest=4)
    loop = Loop(part, frames)
    rngs = [np.random.default_rng(k) for k in range(2)]
    lanes = [
        phy_wire(lane, latency=3, ready=lambda cycle, rng=rng: rng.random() < 0.4)
        for lane, rng in zip(part.lane, rngs, strict=True)
    ]
    assert loop.run(*lanes) == frames


def test_bond_tells_markers_apart():
    """One marker lost while nothing else is sent: the next ones do not belong together."""
    part = Bond(2, gap=128)
    frames = random_frames(np.random.default_rng(1), 128, 10)
    loop = Loop(part, frames, cycles=1500)
    feed, lost, realigned = loop.feed, [], []

    async def late(ctx):
        await ctx.tick().repeat(1000)
        await feed(ctx)

    def spoil(cycle, data, last):
        if cycle > 300 and not lost:
            lost.append(cycle)
            return []
        return [(data, last)]

    async def look(ctx):
        while True:
            _, _, value = await ctx.tick().sample(part.realigned)
            realigned.append(value)

    loop.feed = late
    assert loop.run(phy_wire(part.lane[0]), phy_wire(part.lane[1], spoil=spoil), look) == frames
    assert realigned[-1] == 1


def test_bond_survives_lanes_that_go_down():
    part = Bond(2, gap=128)
    frames = random_frames(np.random.default_rng(5), 128, 300)
    away = [(500, 560, 0), (900, 1000, 1), (1500, 1501, 0)]

    def goes(k):
        return lambda cycle: not any(low <= cycle < high and k == lane for low, high, lane in away)

    def spoil(k):
        return lambda cycle, data, last: [(data, last)] if goes(k)(cycle) else []

    got, counts = bond_run(part, frames, (2, 11), spoil=spoil, goes=goes, cycles=3000)
    whole = {tuple(frame) for frame in frames}
    assert sum(tuple(frame) in whole for frame in got) > 150
    assert counts[-1] == [3, 1, 0, 1]
    assert got[-1] == frames[-1]
    assert [values[3] for values in counts].count(0) > 160


def test_bond_names_crossed_lanes():
    part = Bond(3)
    loop = Loop(part, [[0]], cycles=800)
    seen = []

    async def cross(ctx):
        for lane in part.lane:
            ctx.set(lane.up, 1)
            ctx.set(lane.tx.ready, 1)
        while True:
            names = [(lane.tx.valid, lane.tx.payload.data, lane.tx.payload.last) for lane in part.lane]
            flat = [signal for group in names for signal in group]
            _, _, *values, crossed, up = await ctx.tick().sample(*flat, part.crossed, part.phy.up)
            seen.append((crossed, up))
            for k, source in enumerate((1, 0, 2)):
                valid, data, last = values[3 * source : 3 * source + 3]
                ctx.set(part.lane[k].rx_valid, valid)
                ctx.set(part.lane[k].rx, {"data": data, "last": last})

    loop.run(cross)
    assert seen[-1] == (0b011, 0)


def test_marker_layout():
    bits = MARKER.const({"magic": MARKER_MAGIC, "count": 3, "lane": 2, "zero": 0}).as_bits()
    assert bits == MARKER_MAGIC | 3 << 32 | 2 << 40


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bond(0), "Bond: 0 lanes; 1 to 256"),
        (lambda: Bond(2, skew=25), "Bond: skew of 25 words; 0 to 24"),
        (lambda: Bond(2, gap=95), "Bond: a marker every 95 cycles; at least 96 for a skew of 16"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
    gc.collect()  # the refused part, while its warning is ignored
