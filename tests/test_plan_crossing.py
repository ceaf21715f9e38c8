"""Words over two real link ends come when the plan's model of a crossing says."""

import numpy as np
from amaranth import ClockDomain, Module, Signal, Value
from amaranth.sim import Simulator

from hwgen.gateware.link.end import LinkEnd
from hwgen.plan.crossing import arrivals, batch_crossing, least_crossing
from hwgen.plan.latency import LINK
from hwgen.plan.links import Channel, LinkPlan

WORDS = Channel("x", 0, 0, 1, 1, 1, 64, 1, 256)
PLAN = LinkPlan(0, 64, (WORDS,), (WORDS,), 64, 512, 0)
BURSTS = (1, 3, 40, 100)
"""Words one a cycle; the last are more than a frame holds."""
APART = 200
AROUND = 8
"""Cycles of a crossing that are not the ends': packing, the cable as simulations have it, registers beside the ends."""


def crossed(offered, start=900):
    """(taken, given) cycles of words offered so many cycles after ``start``, over a cable of one register."""
    m = Module()
    ends = a, b = [LinkEnd(64, (256,), (256,), frame_words=64, replay_words=512) for _ in range(2)]
    m.domains += ClockDomain("link")
    m.submodules += ends
    for number, (near, far) in enumerate(((a, b), (b, a)), 1):
        word, valid = Signal(len(Value.cast(far.phy.rx))), Signal()
        m.d.link += [word.eq(Value.cast(near.phy.tx.payload)), valid.eq(near.phy.tx.valid)]
        m.d.comb += [
            near.phy.tx.ready.eq(1),
            near.phy.up.eq(1),
            near.identity.eq(number),
            near.expected.eq(3 - number),
        ]
        m.d.comb += [Value.cast(far.phy.rx).eq(word), far.phy.rx_valid.eq(valid), near.rx[0].ready.eq(1)]
    simulator = Simulator(m)
    for domain in ("sync", "link"):
        simulator.add_clock(1e-8, domain=domain)
    taken, given = [], []

    async def send(ctx):
        for cycle in range(start + offered[-1] + 400):
            ctx.set(a.tx[0].valid, len(taken) < len(offered) and cycle >= start + offered[len(taken)])
            _, _, valid, ready, came = await ctx.tick("sync").sample(
                a.tx[0].valid, a.tx[0].ready, b.rx[0].valid
            )
            if valid and ready:
                taken.append(cycle)
            if came:
                given.append(cycle)

    simulator.add_testbench(send)
    simulator.run()
    assert len(given) == len(taken) == len(offered)
    return np.asarray(taken), np.asarray(given)


def test_words_come_when_the_model_says():
    offered = [APART * k + i for k, count in enumerate(BURSTS) for i in range(count)]
    taken, given = crossed(offered)
    found = arrivals(PLAN, WORDS, taken + 1, 1)
    assert (taken - taken[0]).tolist() == offered
    assert ((given - given[0]) - (found - found[0])).tolist() == [0] * len(offered)
    assert LINK - (given[0] - taken[0] - 2) == AROUND


def test_what_crosses_once_a_batch():
    sums = Channel("grads", 0, 0, 0, 40, 1, 42, 1, 256, batch=True)
    assert least_crossing(PLAN, sums) == LINK + 2
    assert batch_crossing(PLAN, sums, 40) == LINK + 80
    assert batch_crossing(PLAN, sums, 41) == LINK + 2
