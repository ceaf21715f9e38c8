"""Regions of external memory: masters of every batch in order, new ones written behind them, the host in between."""

import numpy as np
import pytest
from amaranth.sim import Simulator
from axi_memory import AxiMemory

from hwgen.gateware.memory import BoardMemory
from hwgen.plan.memory import PAGE, Region, element_bytes

MOST_CYCLES = 60_000


def make_regions(*sizes):
    """Regions of (count, bits) one after the other."""
    found, base = [], 0
    for k, (count, bits) in enumerate(sizes):
        found.append(Region(k, 0, count, bits, True, base, element_bytes(bits)))
        base += -(-found[-1].bytes // PAGE) * PAGE
    return found


class Bench:
    """Stages that change all their masters every batch, one after the other or all at once."""

    def __init__(self, regions, seed=0, stall=0.0, latency=5, late=False):
        self.regions, self.stall = regions, stall
        self.rng = np.random.default_rng(seed)
        self.part = BoardMemory(regions)
        last = regions[-1]
        self.memory = AxiMemory(self.part.memory, (last.base + PAGE) // 8, seed, stall, latency, late)
        self.memory.size = -(-(last.base + last.bytes) // 8) * 8
        self.wanted = [self.read(k) for k in range(len(regions))]
        self.cycles = {}

    def read(self, k):
        """A region's elements in memory."""
        region = self.regions[k]
        raw = np.frombuffer(self.memory.data, dtype=f"<i{region.stride}")[region.base // region.stride :]
        low = 64 - region.bits
        return raw[: region.count].astype(np.int64) << low >> low

    def coin(self):
        return self.rng.random() >= self.stall

    async def take(self, ctx, k):
        port = getattr(self.part, f"masters_{k}")
        while not self.coin():
            await ctx.tick()
        ctx.set(port.ready, 1)
        valid = False
        while not valid:
            _, _, valid, word = await ctx.tick().sample(port.valid, port.payload)
        ctx.set(port.ready, 0)
        return word[0]

    async def give(self, ctx, k, value):
        port = getattr(self.part, f"updates_{k}")
        while not self.coin():
            await ctx.tick()
        ctx.set(port.payload, [int(value)])
        ctx.set(port.valid, 1)
        ready = False
        while not ready:
            _, _, ready = await ctx.tick().sample(port.ready)
        ctx.set(port.valid, 0)

    async def batch(self, ctx, k):
        """Masters read from region k, others written; those at the front are taken while the ones behind come."""
        await self.give(ctx, k, 0)
        old, region = [], self.regions[k]
        high = 1 << region.bits - 1
        new = self.rng.integers(-high, high, region.count)
        for value in new:
            old.append(await self.take(ctx, k))
            await self.give(ctx, k, value)
        assert old == self.wanted[k].tolist()
        self.wanted[k] = new

    async def host(self, ctx, k, index, value=None):
        """Loads, or peeks, an element."""
        part = self.part
        ctx.set(part.region, k)
        ctx.set(part.index, index)
        if value is not None:
            ctx.set(part.value, int(value))
        strobe = part.peek if value is None else part.load
        ctx.set(strobe, 1)
        await ctx.tick()
        ctx.set(strobe, 0)
        while ctx.get(part.busy):
            await ctx.tick()
        return ctx.get(part.peeked)

    def run(self, *bodies):
        """Runs testbenches beside the memory until all are done."""
        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)
        for body in bodies:
            simulator.add_testbench(body)
        simulator.add_testbench(self.memory.run, background=True)

        async def watchdog(ctx):
            for _ in range(MOST_CYCLES):
                await ctx.tick()
            raise AssertionError("the memory is stuck")

        simulator.add_testbench(watchdog, background=True)
        simulator.run()


SIZES = [((1, 8),), ((37, 32), (3, 16), (150, 12)), ((129, 24), (16, 5))]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("stall", [0.0, 0.3])
@pytest.mark.parametrize("late", [False, True])
def test_batches_of_all_regions(sizes, stall, late):
    bench = Bench(make_regions(*sizes), seed=len(sizes), stall=stall, late=late)

    def stage(k):
        async def body(ctx):
            for _ in range(3):
                await bench.batch(ctx, k)
            busy.discard(k)

        return body

    busy = {*range(len(sizes))}

    async def peeks(ctx):
        """The host reads beside them, and at the end sees what was written last."""
        while busy:
            await bench.host(ctx, 0, 0)
        for k, region in enumerate(bench.regions):
            assert await bench.host(ctx, k, region.count - 1) == bench.wanted[k][-1]

    bench.run(*(stage(k) for k in range(len(sizes))), peeks)
    for k, wanted in enumerate(bench.wanted):
        assert bench.read(k).tolist() == wanted.tolist()


def test_the_host_loads_and_peeks():
    bench = Bench(make_regions((5, 32), (9, 10), (4, 16)), stall=0.2)

    async def body(ctx):
        for k, region in enumerate(bench.regions):
            high = 1 << region.bits - 1
            bench.wanted[k] = bench.rng.integers(-high, high, region.count)
            for index, value in enumerate(bench.wanted[k]):
                await bench.host(ctx, k, index, value)
        for k, wanted in enumerate(bench.wanted):
            assert [await bench.host(ctx, k, index) for index in range(len(wanted))] == wanted.tolist()
        await bench.batch(ctx, 1)
        assert [await bench.host(ctx, 1, index) for index in range(9)] == bench.wanted[1].tolist()

    bench.run(body)
    assert bench.read(0).tolist() == bench.wanted[0].tolist()


@pytest.mark.parametrize(("bits", "latency"), [(32, 60), (16, 60), (8, 30)])
def test_an_element_a_cycle(bits, latency):
    count = 400
    bench = Bench(make_regions((count, bits)), latency=latency)
    taken = []

    async def ask(ctx):
        await bench.give(ctx, 0, 0)
        for _ in range(3 * latency):
            await ctx.tick()
        port, back = bench.part.masters_0, bench.part.updates_0
        ctx.set(port.ready, 1)
        ctx.set(back.valid, 1)
        while len(taken) < count:
            assert ctx.get(back.ready) or len(taken) == 0
            if ctx.get(port.valid):
                taken.append(bench.memory.cycle)
            await ctx.tick()
        ctx.set(back.valid, 0)
        ctx.set(port.ready, 0)

    bench.run(ask)
    assert taken[-1] - taken[0] == count - 1
    assert max(bench.memory.bursts) == 16


def test_errors_are_told():
    bench = Bench(make_regions((4, 16)))

    async def body(ctx):
        ctx.set(bench.part.memory.rresp, 2)
        await bench.host(ctx, 0, 1)
        assert ctx.get(bench.part.error)

    bench.run(body)
