"""Two link ends over their adapters: plain pins, Aurora cores and bonded lanes, with faults on the way."""

from collections import deque

import numpy as np
import pytest
from amaranth import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from link_pair import SHORT, words_of
from phy_loop import one_in_33

from hwgen.gateware.link.adapter import AuroraAdapter, ParallelAdapter
from hwgen.gateware.link.bonding import Bond
from hwgen.gateware.link.end import LinkEnd
from hwgen.plan.links import LINK_STATES

DEPTHS = (24, 5)


def pins(kind, part):
    """Of every lane: valid, ready, data, last to send; valid, data, last received; up."""
    if kind == "parallel":
        return [(part.tx_valid, None, part.tx_data, part.tx_last,
                 part.rx_valid, part.rx_data, part.rx_last, part.link_up)]  # fmt: skip
    if kind == "aurora":
        return [(part.s_axi_tx_tvalid, part.s_axi_tx_tready, part.s_axi_tx_tdata, part.s_axi_tx_tlast,
                 part.m_axi_rx_tvalid, part.m_axi_rx_tdata, part.m_axi_rx_tlast, part.channel_up)]  # fmt: skip
    return [(lane.tx.valid, lane.tx.ready, lane.tx.payload.data, lane.tx.payload.last,
             lane.rx_valid, lane.rx.data, lane.rx.last, lane.up) for lane in part.lane]  # fmt: skip


def cable(source, target, latency, phase, spoil):
    """A testbench: one lane, one way. ``spoil``(cycle, data) gives the data that arrives, or None for no word."""
    valid, ready, data, last = source[:4]
    rx_valid, rx_data, rx_last, up = target[4:]

    async def bench(ctx):
        line, cycle, can = deque([None] * latency), 0, one_in_33(phase)
        ctx.set(up, 1)
        while True:
            if ready is not None:
                ctx.set(ready, int(can(cycle)))
            _, _, offered, word, end = await ctx.tick().sample(valid, data, last)
            word = spoil(cycle, word) if offered and (ready is None or can(cycle)) else None
            line.append(None if word is None else (word, end))
            arrived = line.popleft()
            ctx.set(rx_valid, int(arrived is not None))
            if arrived is not None:
                ctx.set(rx_data, arrived[0])
                ctx.set(rx_last, arrived[1])
            cycle += 1

    return bench


def noisy(seed, chance, broken=None):
    """Flips a bit of a word in ``chance`` words; no word comes in the cycles of ``broken``."""
    rng = np.random.default_rng(seed)

    def spoil(cycle, word):
        if broken is not None and cycle in broken:
            return None
        return word ^ 1 << int(rng.integers(64)) if rng.random() < chance else word

    return spoil


def exchange(kind, lanes=1, *, chance=0.0, broken=None, count=80):
    """Words of all channels, both ways, in order; the counters of what happened at the end ``b``."""
    width = 64 * lanes
    m = Module()
    make = {"parallel": lambda: ParallelAdapter(width), "aurora": lambda: AuroraAdapter(width)}
    ends, parts = [], []
    for name in "ab":
        end = LinkEnd(width, DEPTHS, DEPTHS, **{**SHORT, "timeout": 900})
        part = make[kind]() if kind in make else Bond(lanes, gap=128)
        m.submodules[f"end_{name}"] = DomainRenamer({"link": "sync"})(end)
        m.submodules[f"part_{name}"] = part
        wiring.connect(m, end.phy, part.phy)
        ends.append(end)
        parts.append(part)
    m.d.comb += [
        ends[0].identity.eq(1),
        ends[0].expected.eq(2),
        ends[1].identity.eq(2),
        ends[1].expected.eq(1),
    ]
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    for way in (0, 1):
        for k, (source, target) in enumerate(
            zip(pins(kind, parts[way]), pins(kind, parts[1 - way]), strict=True)
        ):
            gone = broken if k == lanes - 1 and way == 0 else None
            bench = cable(source, target, 3 + 5 * k % 16, 7 * k, noisy(2 * k + way, chance, gone))
            simulator.add_testbench(bench, background=True)
    got, sent = {}, {}
    for way in (0, 1):
        for channel in range(len(DEPTHS)):
            sent[way, channel] = [
                word | (word << (width - 64)) for word in words_of("ab"[way], channel, count)
            ]
            got[way, channel] = []
            simulator.add_testbench(feeder(ends[way].tx[channel], sent[way, channel]), background=True)
            simulator.add_testbench(taker(ends[1 - way].rx[channel], got[way, channel]), background=True)
    seen = {"replayed": 0, "bad": 0, "realigned": 0}

    async def watch(ctx):
        b, a = ends[1], ends[0]
        for _ in range(12_000):
            _, _, replayed, bad = await ctx.tick().sample(a.tally.frames_replayed, b.tally.crc_errors)
            seen["replayed"] += replayed
            seen["bad"] += bad
            if all(len(got[key]) == count for key in got):
                break
        assert ctx.get(b.state) == LINK_STATES.index("up")
        if kind == "bond":
            seen["realigned"] = ctx.get(parts[1].realigned)

    simulator.add_testbench(watch)
    simulator.run()
    assert got == sent
    return seen


def feeder(port, words):
    async def bench(ctx):
        for word in words:
            ctx.set(port.payload, word)
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    return bench


def taker(port, got):
    async def bench(ctx):
        ctx.set(port.ready, 1)
        while True:
            _, _, valid, word = await ctx.tick().sample(port.valid, port.payload)
            if valid:
                got.append(word)

    return bench


WAYS = [("parallel", 1), ("aurora", 1), ("aurora", 2), ("bond", 2), ("bond", 4)]


@pytest.mark.parametrize(("kind", "lanes"), WAYS)
def test_all_words_arrive(kind, lanes):
    assert exchange(kind, lanes) == {"replayed": 0, "bad": 0, "realigned": 0}


@pytest.mark.parametrize(("kind", "lanes"), WAYS)
def test_faults_are_replayed(kind, lanes):
    seen = exchange(kind, lanes, chance=0.01 / lanes)
    assert seen["replayed"] > 0
    assert seen["bad"] > 0


@pytest.mark.parametrize("lanes", [2, 4])
def test_a_broken_lane_is_survived(lanes):
    """No word comes over the last lane for a while."""
    seen = exchange("bond", lanes, broken=range(250, 310), count=200)
    assert seen["realigned"] >= 1
    assert seen["replayed"] > 0
