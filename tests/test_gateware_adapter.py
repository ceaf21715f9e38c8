"""Adapters of a link and lane bonding: words and order over cores that stall, differ in latency and lose words."""

import gc
import re
from collections import deque

import numpy as np
import pytest
from amaranth.sim import Simulator

from hwgen.gateware.link.adapter import AuroraAdapter, Narrow, ParallelAdapter
from hwgen.gateware.link.bonding import MARKER, MARKER_MAGIC, Bond


def random_frames(rng, width, number, shortest=2, longest=12):
    """Frames as lists of words."""
    lengths = rng.integers(shortest, longest + 1, number)
    return [[int.from_bytes(rng.bytes(width // 8), "little") for _ in range(n)] for n in lengths]


class Loop:
    """Runs a part whose ``phy`` is fed with frames and watched; the cores' sides are joined by ``wire`` testbenches."""

    def __init__(self, part, frames, *, stall=0.0, seed=0, cycles=None):
        self.part, self.frames, self.stall = part, frames, stall
        self.rng = np.random.default_rng(seed)
        self.cycles = cycles or 60 * sum(map(len, frames)) + 2000
        self.got, self.current, self.sent_at, self.got_at = [], [], [], []
        self.wires = []

    async def feed(self, ctx):
        tx = self.part.phy.tx
        while not ctx.get(self.part.phy.up):
            await ctx.tick()
        for frame in self.frames:
            for k, word in enumerate(frame):
                while self.rng.random() < self.stall:
                    ctx.set(tx.valid, 0)
                    await ctx.tick()
                ctx.set(tx.payload, {"data": word, "last": int(k == len(frame) - 1)})
                ctx.set(tx.valid, 1)
                taken = False
                while not taken:
                    _, _, taken = await ctx.tick().sample(tx.ready)
        ctx.set(tx.valid, 0)

    async def watch(self, ctx):
        phy = self.part.phy
        for _ in range(self.cycles):
            _, _, valid, data, last = await ctx.tick().sample(phy.rx_valid, phy.rx.data, phy.rx.last)
            if valid:
                self.current.append(data)
                if last:
                    self.got.append(self.current)
                    self.current = []
            if len(self.got) == len(self.frames):
                return

    def run(self, *benches):
        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self.watch)
        simulator.add_testbench(self.feed, background=True)
        for bench in benches:
            simulator.add_testbench(bench, background=True)
        simulator.run()
        return self.got


def wire(tx, rx, up, *, latency=0, ready=None, spoil=None, start=0, goes=lambda cycle: True):
    """A testbench: words leave by ``tx`` (valid, ready or None, data, last), come back by ``rx`` (valid, data, last).

    ``ready`` tells for every cycle whether the core takes a word, ``spoil`` turns (cycle, data, last) into the words
    that arrive. Checks that a word on offer stays.
    """

    async def bench(ctx):
        line, cycle, pending = deque([[]] * latency), 0, None
        while True:
            can = ready is None or ready(cycle)
            if tx[1] is not None:
                ctx.set(tx[1], int(can))
            ctx.set(up, int(cycle >= start and goes(cycle)))
            _, _, valid, data, last = await ctx.tick().sample(tx[0], tx[2], tx[3])
            offer = (data, last) if valid else None
            assert pending is None or offer == pending
            pending = offer if not can else None
            words = []
            if offer and can:
                words = [offer] if spoil is None else spoil(cycle, *offer)
            line.append(words)
            arrived = line.popleft()
            assert len(arrived) <= 1 or spoil is not None
            ctx.set(rx[0], int(bool(arrived)))
            if arrived:
                ctx.set(rx[1], arrived[0][0])
                ctx.set(rx[2], arrived[0][1])
                if len(arrived) > 1:
                    line.appendleft(arrived[1:] + (line.popleft() if line else []))
            cycle += 1

    return bench


def phy_wire(lane, **knobs):
    tx, rx = lane.tx, lane.rx
    return wire(
        (tx.valid, tx.ready, tx.payload.data, tx.payload.last),
        (lane.rx_valid, rx.data, rx.last),
        lane.up,
        **knobs,
    )


def one_in_33(phase):
    return lambda cycle: (cycle + phase) % 33 != 0


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_parallel(width, stall):
    part = ParallelAdapter(width)
    frames = random_frames(np.random.default_rng(1), width, 60, shortest=1)
    loop = Loop(part, frames, stall=stall, cycles=3000)
    pins = wire(
        (part.tx_valid, None, part.tx_data, part.tx_last),
        (part.rx_valid, part.rx_data, part.rx_last),
        part.link_up,
    )
    assert loop.run(pins) == frames


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("stall", [0.0, 0.3])
@pytest.mark.parametrize("core", ["one_in_33", "random", "always"])
def test_aurora(width, stall, core):
    part = AuroraAdapter(width)
    frames = random_frames(np.random.default_rng(1), width, 100, shortest=1)
    rng = np.random.default_rng(2)
    ready = {"one_in_33": one_in_33(4), "random": lambda cycle: rng.random() < 0.5, "always": None}[core]
    loop = Loop(part, frames, stall=stall)
    core_side = wire(
        (part.s_axi_tx_tvalid, part.s_axi_tx_tready, part.s_axi_tx_tdata, part.s_axi_tx_tlast),
        (part.m_axi_rx_tvalid, part.m_axi_rx_tdata, part.m_axi_rx_tlast),
        part.channel_up, latency=7, ready=ready, start=30,
    )  # fmt: skip
    keeps = []

    async def keep(ctx):
        while True:
            _, _, value = await ctx.tick().sample(part.s_axi_tx_tkeep)
            keeps.append(value)

    assert loop.run(core_side, keep) == frames
    assert set(keeps) == {(1 << width // 8) - 1}


def test_aurora_takes_a_word_every_cycle_the_core_does():
    part = AuroraAdapter(64)
    frames = random_frames(np.random.default_rng(1), 64, 200)
    words = sum(map(len, frames))
    loop = Loop(part, frames, cycles=words * 33 // 32 + 16)
    core = (part.s_axi_tx_tvalid, part.s_axi_tx_tready, part.s_axi_tx_tdata, part.s_axi_tx_tlast)
    back = (part.m_axi_rx_tvalid, part.m_axi_rx_tdata, part.m_axi_rx_tlast)
    assert loop.run(wire(core, back, part.channel_up, ready=one_in_33(0))) == frames


@pytest.mark.parametrize(("width", "narrow"), [(128, 64), (256, 32), (64, 8), (192, 64)])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.2, 0.4)])
def test_narrow(width, narrow, stalls):
    part = Narrow(width, narrow)
    frames = random_frames(np.random.default_rng(1), width, 50, shortest=1)
    rng = np.random.default_rng(2)
    ready = (lambda cycle: rng.random() >= stalls[1]) if stalls[1] else None
    loop = Loop(part, frames, stall=stalls[0])
    assert loop.run(phy_wire(part.core, ready=ready, latency=3)) == frames


def test_narrow_sends_a_beat_every_cycle():
    part = Narrow(128, 32)
    frames = random_frames(np.random.default_rng(1), 128, 50)
    loop = Loop(part, frames, cycles=4 * sum(map(len, frames)) + 8)
    assert loop.run(phy_wire(part.core)) == frames


def test_narrow_starts_anew_at_every_frame():
    part = Narrow(128, 32)
    rng = np.random.default_rng(3)
    frames = random_frames(rng, 128, 200)
    loop = Loop(part, frames, cycles=8000)
    lost = 0

    def spoil(cycle, data, last):
        nonlocal lost
        gone = not last and rng.random() < 0.004
        lost += gone
        return [] if gone else [(data, last)]

    got = loop.run(phy_wire(part.core, spoil=spoil))
    assert len(got) == len(frames)
    assert 5 < lost < 30
    assert len(frames) - lost <= sum(a == b for a, b in zip(got, frames, strict=True)) < len(frames)


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
    frames = random_frames(np.random.default_rng(1), part.lanes * 64, 70)
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


@pytest.mark.parametrize("latencies", [(0, 25), (0, 60)])
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

    loop = Loop(part, [[0]], cycles=3000)
    loop.feed = always
    assert loop.run(*(phy_wire(lane, latency=n) for lane, n in zip(part.lane, latencies, strict=True))) == []


@pytest.mark.parametrize(
    "kind",
    ["lose a word", "lose a last word", "repeat a word", "flip last", "lose a frame", "spoil a marker"],
)
@pytest.mark.parametrize("victim", [0, 1])
def test_bond_realigns(kind, victim):
    part = Bond(2, gap=128)
    rng = np.random.default_rng(5)
    frames = random_frames(rng, 128, 260)
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
            if cycle < state["due"] or not fits:
                return [(data, last)]
            state["due"] = cycle + 600
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
    assert len(events) >= 3
    assert counts[-1][0] == len(events)
    assert counts[-1][1:] == [1, 0, 1]
    assert good == [frame for frame in frames if frame in good]  # in order, each once
    assert len(got) - len(good) <= len(events) * (1 + 20 * (kind == "lose a frame"))
    # A realignment takes a gap, the frame that it waits for, and the emptying.
    assert len(frames) - len(good) <= len(events) * (part.gap + 12 + 2 * part.depth + 24) / 6
    assert good[-3:] == frames[-3:]


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
        (lambda: AuroraAdapter(96), "AuroraAdapter: words of 96 bits; a lane takes 64, so 64, 128, …"),
        (lambda: Narrow(64, 24), "Narrow: words of 64 bits over 24; a whole number of them, at least 2"),
        (lambda: Narrow(64, 64), "Narrow: words of 64 bits over 64; a whole number of them, at least 2"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
    gc.collect()  # the refused part, while its warning is ignored
