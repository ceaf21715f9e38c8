"""Drives the ``phy`` side of an adapter with frames and joins its cores' sides, with latency, stalls and faults."""

from collections import deque

import numpy as np
from amaranth.sim import Simulator

__all__ = ["Loop", "one_in_33", "phy_wire", "random_frames", "wire"]


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
