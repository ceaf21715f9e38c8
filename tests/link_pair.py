"""Two link ends, a cable with faults between them, and users that send and take words on every channel."""

from collections import deque
from functools import partial

import numpy as np
from amaranth import ClockDomain, DomainRenamer, Module, Value
from amaranth.sim import Simulator

from hwgen.gateware.link.end import LinkEnd
from hwgen.gateware.link.frames import HEADER
from hwgen.plan.links import LINK_COUNTERS, LINK_STATES

__all__ = ["SHORT", "Cable", "Pair", "words_of"]

SHORT = {
    "frame_words": 8, "replay_words": 64, "timeout": 300, "hello_gap": 16, "heartbeat": 64, "silence": 2000,
}  # fmt: skip
"""Small ends, for the sake of time."""


def words_of(side, channel, count):
    """Words that tell where they come from: no two in a test are alike."""
    return [(ord(side) << 56) | (channel << 48) | (k * 0x9E3779B1 & 0xFFFFFFFF) << 16 | (k & 0xFFFF)
            for k in range(count)]  # fmt: skip


class Cable:
    """One direction. ``fault(number, header)`` says what becomes of a frame, as it comes in.

    None, "drop", "repeat", or ("flip", word, bit): bit ``width`` of a word is ``last``.
    """

    def __init__(self, width, latency=5, *, fault=None, ready=1.0, seed=0):
        self.width, self.latency, self.fault, self.ready = width, latency, fault, ready
        self.rng = np.random.default_rng(seed)
        self.queue = deque()
        self.frames = self.now = self.words = 0
        self.frame, self.action = [], None
        self.cut = False

    def take(self, bits):
        """A word goes in."""
        last = bits >> self.width
        if not self.frame:
            header = HEADER.from_bits(bits & (1 << 64) - 1)
            self.action = self.fault(self.frames, header) if self.fault else None
            self.frames += 1
        index = len(self.frame)
        self.frame.append(bits)
        self.words += 1
        if isinstance(self.action, tuple) and self.action[1] == index:
            bits ^= 1 << self.action[2]
        if self.action != "drop" and not self.cut:
            self.queue.append((self.now + self.latency, bits))
        if last:
            if self.action == "repeat":
                self.queue.extend((self.now + self.latency, word) for word in self.frame)
            self.frame = []

    async def carry(self, ctx, phy, domain):
        """The sending side."""
        payload = Value.cast(phy.tx.payload)
        held = None
        while True:
            ready = int(self.ready == 1.0 or self.rng.random() < self.ready)
            ctx.set(phy.tx.ready, ready)
            _, _, valid, bits = await ctx.tick(domain).sample(phy.tx.valid, payload)
            assert held is None or not valid or bits == held, "changed while stalled"
            held = bits if valid and not ready else None
            self.now += 1
            if valid and ready:
                self.take(bits)

    async def deliver(self, ctx, phy, domain):
        """The receiving side."""
        rx = Value.cast(phy.rx)
        while True:
            if self.queue and self.queue[0][0] <= self.now:
                ctx.set(rx, self.queue.popleft()[1])
                ctx.set(phy.rx_valid, 1)
            else:
                ctx.set(phy.rx_valid, 0)
            await ctx.tick(domain)


class Pair:
    """Ends "a" and "b" with clocks of their own.

    ``tx``: depths of a's channels to b, ``rx`` of b's to a; ``cables``: a to b, b to a; ``clocks``: periods in
    ns of a_sync, a_link, b_sync, b_link; ``stalls``: chance that a user gives and takes nothing in a cycle.
    """

    def __init__(
        self, tx=(16,), rx=(16,), *, cables=None, clocks=(10, 10, 10, 10), seed=0, up=True, **options
    ):
        self.width = options.pop("width", 64)
        options = {**SHORT, **options}
        self.a = LinkEnd(self.width, tx, rx, **options)
        self.b = LinkEnd(self.width, rx, tx, **options)
        self.cables = cables or (Cable(self.width), Cable(self.width))
        self.got = {"a": [[] for _ in rx], "b": [[] for _ in tx]}
        self.rng = np.random.default_rng(seed)
        self.cycle = 0
        self.m = Module()
        self.resets = {}
        for name, end in (("a", self.a), ("b", self.b)):
            for domain in ("sync", "link"):
                clock = ClockDomain(f"{name}_{domain}")
                self.m.domains += clock
                self.resets[name, domain] = clock.rst
            self.m.submodules[name] = DomainRenamer({d: f"{name}_{d}" for d in ("sync", "link")})(end)
        self.simulator = Simulator(self.m)
        for name, period in zip(("a_sync", "a_link", "b_sync", "b_link"), clocks, strict=True):
            self.simulator.add_clock(period * 1e-9, domain=name)
        self._cable(self.a, self.b, "a", "b", self.cables[0])
        self._cable(self.b, self.a, "b", "a", self.cables[1])

        async def start(ctx):
            for end in (self.a, self.b):
                ctx.set(end.phy.up, int(up))
            ctx.set(self.a.identity, 0x1234_5678_9ABC_0001)
            ctx.set(self.b.expected, 0x1234_5678_9ABC_0001)
            ctx.set(self.b.identity, 0x1234_5678_9ABC_0002)
            ctx.set(self.a.expected, 0x1234_5678_9ABC_0002)

        self.simulator.add_testbench(start)

    def _cable(self, source, target, name, other, cable):
        async def carry(ctx):
            await cable.carry(ctx, source.phy, f"{name}_link")

        async def deliver(ctx):
            await cable.deliver(ctx, target.phy, f"{other}_link")

        self.simulator.add_testbench(carry, background=True)
        self.simulator.add_testbench(deliver, background=True)

    def feed(self, side, channel, words, stall=0.0):
        """A user that sends ``words``."""
        end, rng = getattr(self, side), self.rng.spawn(1)[0]
        port = end.tx[channel]

        async def bench(ctx):
            for word in words:
                while stall and rng.random() < stall:
                    await ctx.tick(f"{side}_sync")
                ctx.set(port.payload, word)
                ctx.set(port.valid, 1)
                taken = False
                while not taken:
                    _, _, taken = await ctx.tick(f"{side}_sync").sample(port.ready)
                ctx.set(port.valid, 0)

        self.simulator.add_testbench(bench, background=True)

    def take(self, side, channel, stall=0.0):
        """A user that takes all words; ``stall`` 1 takes none."""
        end, rng = getattr(self, side), self.rng.spawn(1)[0]
        port, got = end.rx[channel], self.got[side][channel]

        async def bench(ctx):
            held = None
            while True:
                ready = int(not stall or rng.random() >= stall)
                ctx.set(port.ready, ready)
                _, _, valid, word = await ctx.tick(f"{side}_sync").sample(port.valid, port.payload)
                assert held is None or (valid and word == held), "changed while stalled"
                held = word if valid and not ready else None
                if valid and ready:
                    got.append(word)

        self.simulator.add_testbench(bench, background=True)

    def exchange(self, counts, *, stalls=(0.0, 0.0), patience=3000):
        """Every channel of both sides sends {side: counts}; returns after all came, in order, and a while more."""
        sent = {}
        for side, other in (("a", "b"), ("b", "a")):
            for channel, count in enumerate(counts[side]):
                sent[other, channel] = words_of(side, channel, count)
                self.feed(side, channel, sent[other, channel], stalls[0])
                self.take(other, channel, stalls[1])

        async def watch(ctx):
            await self.arrived(ctx, {key: len(words) for key, words in sent.items()}, patience)

        self.run(watch)
        for (side, channel), words in sent.items():
            assert self.got[side][channel] == words, (side, channel)

    async def arrived(self, ctx, counts, patience=3000):
        """Until {(side, channel): number} of words came; after ``patience`` cycles without any it fails."""
        before, idle = -1, 0
        while any(len(self.got[side][channel]) < count for (side, channel), count in counts.items()):
            await ctx.tick("a_link")
            self.cycle += 1
            total = sum(len(words) for side in self.got.values() for words in side)
            idle = idle + 1 if total == before else 0
            before = total
            assert idle < patience, {
                key: (len(self.got[key[0]][key[1]]), count) for key, count in counts.items()
            }

    async def state(self, ctx, side, name, patience=3000):
        """Until a side's state is ``name``."""
        for _ in range(patience):
            if ctx.get(getattr(self, side).state) == LINK_STATES.index(name):
                return
            await ctx.tick(f"{side}_sync")
        raise AssertionError(f"{side} is {LINK_STATES[ctx.get(getattr(self, side).state)]}, not {name}")

    async def reset(self, ctx, side, cycles=8):
        """Holds both resets of a side."""
        for domain in ("sync", "link"):
            ctx.set(self.resets[side, domain], 1)
        await self.wait(ctx, f"{side}_sync", cycles)
        await self.release(ctx, side)

    async def release(self, ctx, side):
        """Ends both resets of a side."""
        ctx.set(self.resets[side, "link"], 0)
        await ctx.tick(f"{side}_sync")
        ctx.set(self.resets[side, "sync"], 0)

    async def wait(self, ctx, domain, cycles):
        """Lets cycles pass, in reset too."""
        for _ in range(cycles):
            await ctx.tick(domain)

    async def counters(self, ctx, side):
        """All counters by name."""
        end = getattr(self, side)
        ctx.set(end.snapshot, 1)
        await ctx.tick(f"{side}_sync")
        ctx.set(end.snapshot, 0)
        await ctx.tick(f"{side}_sync").repeat(32)
        values = {}
        for number, name in enumerate((*LINK_COUNTERS, "overflow")):
            ctx.set(end.counter_select, number)
            await ctx.tick(f"{side}_sync")
            values[name] = ctx.get(end.counter)
        assert values["overflow"] == 0
        return values

    def run(self, *benches):
        """Runs until all ``benches`` are done. No end may have had a word without room for it."""

        async def checked(ctx, bench):
            await bench(ctx)
            assert not ctx.get(self.a.overflow)
            assert not ctx.get(self.b.overflow)

        for bench in benches:
            self.simulator.add_testbench(partial(checked, bench=bench))
        self.simulator.run()
