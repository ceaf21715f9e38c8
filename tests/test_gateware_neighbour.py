"""Masters on a neighbour's chip: those of every batch in order, new ones behind them, receipts, the host in between."""

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.sim import Simulator
from stream_bench import run_streams

from hwgen.gateware.neighbour import ChipRegion, MasterWords
from hwgen.gateware.stream import Fifo, lanes
from hwgen.plan.links import master_lanes
from hwgen.plan.memory import Region

MOST_CYCLES = 20_000
SIZES = [(1, 8, 64), (2, 32, 64), (37, 32, 64), (21, 12, 64), (30, 24, 64), (50, 16, 128)]
"""Masters, their bits, bits of a link word."""


def region_of(count, bits, width):
    return Region(0, 1, count, bits, False, lanes=master_lanes(count, bits, width))


class Pair(wiring.Component):
    """Both ends, joined by FIFOs instead of a link."""

    def __init__(self, region, depth=8):
        self.region, self.depth = region, depth
        self.near, self.far = MasterWords(region), ChipRegion(region)
        element = stream.Signature(lanes(1, region.bits))
        host = ("load", "peek", "index", "value", "busy", "peeked")
        members = {name: self.far.signature.members[name] for name in host}
        self.host = host
        super().__init__(
            members | {"updates": wiring.In(element), "masters": wiring.Out(element), "quiet": wiring.Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.near, self.far]
        for name, source, target in (
            ("new", self.near.sent, self.far.updates),
            ("old", self.far.masters, self.near.received),
        ):
            m.submodules[name] = fifo = Fifo(source.payload.shape(), self.depth)
            wiring.connect(m, source, fifo.i)
            wiring.connect(m, fifo.o, target)
        wiring.connect(m, wiring.flipped(self.updates), self.near.updates)
        wiring.connect(m, self.near.masters, wiring.flipped(self.masters))
        m.d.comb += self.quiet.eq(self.near.quiet)
        for name in self.host:
            inner, outer = getattr(self.far, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if name in ("busy", "peeked") else inner.eq(outer)
        return m


class Bench:
    def __init__(self, size, stall=0.0, seed=0):
        self.part, self.stall = Pair(region_of(*size)), stall
        self.count, self.bits = size[:2]
        self.rng = np.random.default_rng(seed)
        self.wanted, self.cycles = np.zeros(self.count, dtype=np.int64), 0

    def values(self):
        high = 1 << self.bits - 1
        return self.rng.integers(-high, high, self.count)

    async def coin(self, ctx):
        while self.rng.random() < self.stall:
            await ctx.tick()

    async def take(self, ctx):
        port = self.part.masters
        await self.coin(ctx)
        ctx.set(port.ready, 1)
        valid = False
        while not valid:
            _, _, valid, word = await ctx.tick().sample(port.valid, port.payload)
        ctx.set(port.ready, 0)
        return word[0]

    async def give(self, ctx, value):
        port = self.part.updates
        await self.coin(ctx)
        ctx.set(port.payload, [int(value)])
        ctx.set(port.valid, 1)
        ready = False
        while not ready:
            _, _, ready = await ctx.tick().sample(port.ready)
        ctx.set(port.valid, 0)

    async def batch(self, ctx):
        """Masters read, others written."""
        await self.give(ctx, 0)
        old, new = [], self.values()
        for value in new:
            old.append(await self.take(ctx))
            await self.give(ctx, value)
        assert old == self.wanted.tolist()
        self.wanted = new

    async def host(self, ctx, index, value=None):
        """Loads, or peeks, an element."""
        part = self.part
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

    async def load(self, ctx):
        self.wanted = self.values()
        for index, value in enumerate(self.wanted):
            await self.host(ctx, index, value)

    def run(self, *bodies):
        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)
        for body in bodies:
            simulator.add_testbench(body)

        async def watchdog(ctx):
            for self.cycles in range(MOST_CYCLES):
                await ctx.tick()
            raise AssertionError("stuck")

        simulator.add_testbench(watchdog, background=True)
        simulator.run()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_batches(size, stall):
    bench = Bench(size, stall, seed=size[0])

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(3):
            await bench.batch(ctx)
            while not ctx.get(bench.part.quiet):
                await ctx.tick()
            found = [await bench.host(ctx, index) for index in range(bench.count)]
            assert found == bench.wanted.tolist()

    bench.run(body)


@pytest.mark.parametrize("size", SIZES[2:4])
def test_a_batch_follows_at_once(size):
    """Its request stands right behind the last new master: what is read is what was written."""
    bench = Bench(size, seed=7)

    async def body(ctx):
        await bench.load(ctx)
        for _ in range(4):
            await bench.batch(ctx)

    bench.run(body)


def test_quiet_is_true_after_a_request_and_false_until_the_receipt():
    bench = Bench((5, 32, 64))

    async def body(ctx):
        part = bench.part
        await bench.load(ctx)
        assert ctx.get(part.quiet)
        await bench.give(ctx, 0)
        for _ in range(30):
            await ctx.tick()
            assert ctx.get(part.quiet)
        for k, value in enumerate(bench.values()):
            assert await bench.take(ctx) == bench.wanted[k]
            await bench.give(ctx, value)
            await ctx.tick()
            assert not ctx.get(part.quiet)
        written = 0
        while not ctx.get(part.quiet):
            written += ctx.get(part.far.updates.valid & part.far.updates.ready)
            await ctx.tick()
        assert written == 1

    bench.run(body)


def test_the_host_reads_beside_batches():
    """Between the words of a batch it sees old masters or waits; it never stops the batch."""
    bench, busy = Bench((37, 32, 64), 0.2, 3), {1}

    async def body(ctx):
        await bench.load(ctx)
        busy.add(2)
        for _ in range(3):
            await bench.batch(ctx)
        busy.clear()

    async def peeks(ctx):
        while 2 not in busy:
            await ctx.tick()
        seen = {int(bench.wanted[11])}
        while busy:
            seen.add(await bench.host(ctx, 11))
            assert len(seen) <= 4

    bench.run(body, peeks)


@pytest.mark.parametrize(("bits", "width"), [(32, 64), (16, 64), (32, 512)])
def test_an_element_a_cycle(bits, width):
    bench = Bench((200, bits, width))
    taken = []

    async def ask(ctx):
        await bench.load(ctx)
        await bench.give(ctx, 0)
        for _ in range(60):
            await ctx.tick()
        port, back = bench.part.masters, bench.part.updates
        ctx.set(port.ready, 1)
        ctx.set(back.valid, 1)
        while len(taken) < bench.count:
            assert ctx.get(back.ready)
            if ctx.get(port.valid):
                taken.append(bench.cycles)
            await ctx.tick()

    bench.run(ask)
    assert taken[-1] - taken[0] == bench.count - 1


def words_of(values, region, last):
    """Masters as words; the last one filled up with ``last``."""
    filled = np.full(region.words * region.lanes, last)
    filled[: region.count] = values
    return filled.reshape(region.words, region.lanes).tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.1), (0.1, 0.6)])
def test_new_masters_that_come_early_wait_for_old_ones_to_be_read(size, stalls):
    """Words of three batches, offered one behind the other; what fills up the last one is not kept."""
    region, rng = region_of(*size), np.random.default_rng(size[0])
    high = 1 << region.bits - 1
    batches = [rng.integers(-high, high, region.count) for _ in range(3)]
    zero = [[0] * region.lanes]
    offered = [word for batch in batches for word in zero + words_of(batch, region, 1)]
    old = [np.zeros(region.count, dtype=np.int64), *batches]
    wanted = [word for batch in old[:3] for word in words_of(batch, region, 0) + zero]
    got, _ = run_streams(
        ChipRegion(region), {"updates": offered}, {"masters": len(wanted)}, stalls=stalls, seed=1
    )
    assert [[word[k] for k in range(region.lanes)] for word in got["masters"]] == wanted


@pytest.mark.parametrize(
    ("count", "bits", "width", "wanted"),
    [(1, 32, 64, 1), (2, 32, 64, 2), (100, 32, 64, 2), (100, 17, 64, 2), (100, 16, 64, 4), (3, 4, 64, 4),
     (100, 4, 64, 16), (100, 32, 512, 16), (9, 32, 512, 16), (100, 24, 64, 2)],
)  # fmt: skip
def test_masters_in_a_word(count, bits, width, wanted):
    assert master_lanes(count, bits, width) == wanted
