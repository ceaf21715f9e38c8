"""The host's side: every register, the bus protocol, memories walked by the pointer, snapshots and counters."""

import itertools

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.sim import Simulator
from ref_networks import random_network

from hwgen.gateware.counters import Counters
from hwgen.gateware.host import Host
from hwgen.plan.planner import plan_network
from hwgen.plan.registers import (
    CONTROL_HOLD,
    CONTROL_TRAIN,
    DEVICE_ID,
    GLOBAL,
    SPACES,
    STAGE_COUNTERS,
    STATUS_BAD_FRAME,
    STATUS_BAD_LABEL,
    STATUS_HELD,
    STATUS_IDLE,
    stage_register,
)

BUILD, PEEK_DELAY, COUNTED = 0xC0FFEE42, 6, 3
PLAN = plan_network(next(n for n in map(random_network, itertools.count()) if len(n.stages) == COUNTED))
REGISTER_CYCLES, COUNTER_CYCLES = 2, 5


class Device(wiring.Component):
    """A host with a stage's counters behind it, wired as in a core; all counters count cycles in which
    ``event`` is set, in steps of their number."""

    def __init__(self):
        self.host = Host(PLAN, BUILD, PEEK_DELAY)
        self.counters = [Counters(STAGE_COUNTERS) for _ in PLAN.stages]
        super().__init__({"event": wiring.In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.host = host = self.host
        for i, counters in enumerate(self.counters):
            m.submodules[f"counters_{i}"] = counters
            for k, name in enumerate(STAGE_COUNTERS):
                if (i + k) % 7:
                    counters.add(name, Mux(self.event, 100 * i + k + 1, 0))
            m.d.comb += [counters.snapshot.eq(host.snapshot), counters.select.eq(host.counter_select)]
        with m.Switch(host.counter_stage):
            for i, counters in enumerate(self.counters):
                with m.Case(i):
                    m.d.comb += host.counter.eq(counters.value)
        return m


class Bus:
    """Runs a testbench on a device; memories of the stages answer ``PEEK_DELAY`` cycles after a peek."""

    def __init__(self, seed=0):
        self.device = Device()
        self.host = self.device.host
        self.rng = np.random.default_rng(seed)
        self.memory, self.loads, self.peeks = {}, [], []
        self.done = False

    def run(self, body):
        async def main(ctx):
            self.ctx = ctx
            await body(self)
            self.done = True

        simulator = Simulator(self.device)
        simulator.add_clock(1e-6)
        simulator.add_testbench(main)
        simulator.add_testbench(self._stages, background=True)
        simulator.run()
        assert self.done

    async def _stages(self, ctx):
        host, due = self.host, {}
        signals = [host.stage, host.host.space, host.host.pe, host.host.address, host.host.value]
        cycle = 0
        async for _, _, load, peek, *place, value in ctx.tick().sample(
            host.host.load, host.host.peek, *signals
        ):
            if load:
                self.memory[tuple(place)] = value
                self.loads.append(tuple(place))
            if peek:
                due[cycle + PEEK_DELAY - 1] = self.memory.get(tuple(place), 0)
                self.peeks.append(tuple(place))
            ctx.set(
                host.peeked, due.get(cycle, int(self.rng.integers(1 << 40)) if peek else ctx.get(host.peeked))
            )
            cycle += 1

    async def transfer(self, address, write=0, data=0, wait=None):
        """One transaction and how many cycles it held the bus."""
        ctx, bus = self.ctx, self.host.bus
        ctx.set(bus.valid, 1)
        ctx.set(bus.write, write)
        ctx.set(bus.addr, address)
        ctx.set(bus.wdata, data)
        ready, cycles = 0, 0
        while not ready:
            _, _, ready, rdata = await ctx.tick().sample(bus.ready, bus.rdata)
            cycles += 1
            assert cycles < 50, f"register {address} never answered"
        idle = int(self.rng.integers(3)) if wait is None else wait
        ctx.set(bus.valid, int(idle == 0))
        for _ in range(idle):
            _, _, ready = await ctx.tick().sample(bus.ready)
            assert not ready
        return rdata, cycles

    async def read(self, name, cycles=REGISTER_CYCLES, **options):
        value, taken = await self.transfer(GLOBAL[name].address if name in GLOBAL else name, **options)
        assert taken == cycles
        return value

    async def write(self, name, data, **options):
        _, taken = await self.transfer(GLOBAL[name].address, 1, data & 0xFFFFFFFF, **options)
        assert taken == REGISTER_CYCLES

    async def counter(self, stage, name):
        return await self.read(stage_register(stage, name), COUNTER_CYCLES)


def test_first_values():
    update = PLAN.network.update

    async def body(bus):
        wanted = {
            "id": DEVICE_ID,
            "build": BUILD,
            "control": CONTROL_TRAIN,
            "status": 0,
            "rate": update.rate & 0xFFFFFFFF,
            "batch": update.batch,
            "seed": update.seed,
            "samples": 0,
            "cycles_low": 0,
            "cycles_high": 0,
            "snapshot": 0,
            "space": 0,
            "pointer": 0,
        }
        assert {name: await bus.read(name) for name in wanted} == wanted
        assert {*wanted, "data"} == {*GLOBAL}

    Bus().run(body)


def test_settings_are_written_and_read_back():
    lr, batch = PLAN.network.update.lr, PLAN.network.update.batch
    values = {
        "control": [0, CONTROL_HOLD, CONTROL_TRAIN, CONTROL_HOLD | CONTROL_TRAIN],
        "rate": [0, 1, lr.max, lr.min, -1],
        "batch": [1, batch],
        "seed": [0, 0xFFFFFFFF, 0x12345678],
        "space": [0, 0x25, 0xFFFF],
        "pointer": [0, 0xFFFFFFFF, 0x00030007],
    }

    async def body(bus):
        host, ctx = bus.host, bus.ctx
        for name, choices in values.items():
            for value in choices:
                await bus.write(name, value)
                assert await bus.read(name) == value & 0xFFFFFFFF
                shown = {
                    "control": ctx.get(host.train) * CONTROL_TRAIN + ctx.get(host.hold) * CONTROL_HOLD,
                    "rate": ctx.get(host.rate),
                    "batch": ctx.get(host.batch),
                    "seed": ctx.get(host.seed),
                    "space": ctx.get(host.stage) * 16 + ctx.get(host.host.space),
                    "pointer": ctx.get(host.host.pe) << 16 | ctx.get(host.host.address),
                }
                most = {"space": (1 << len(host.stage) + 4) - 1 - 8}.get(name, -1)
                assert shown[name] == value & most

    Bus().run(body)


def test_every_read_only_register_ignores_writes_and_unknown_ones_are_zero():
    async def body(bus):
        before = {name: await bus.read(name) for name in GLOBAL if name != "data"}
        for name, register in GLOBAL.items():
            if register.access == "r":
                await bus.write(name, 0xFFFFFFFF)
        assert {name: await bus.read(name) for name in before} == before
        for address in (14, 15, 0x80, 0xFF):
            await bus.transfer(address, 1, 0xFFFFFFFF)
            assert await bus.read(address) == 0
        assert {name: await bus.read(name) for name in before} == before
        assert not bus.loads

    Bus().run(body)


def test_status_and_samples_follow_their_inputs():
    bits = [
        ("idle", STATUS_IDLE), ("bad_frame", STATUS_BAD_FRAME), ("bad_label", STATUS_BAD_LABEL), ("held", STATUS_HELD),
    ]  # fmt: skip

    async def body(bus):
        for number in range(16):
            for k, (name, _) in enumerate(bits):
                bus.ctx.set(getattr(bus.host, name), number >> k & 1)
            bus.ctx.set(bus.host.samples, number * 0x11111111 & 0xFFFFFFFF)
            assert await bus.read("status") == sum(bit for k, (_, bit) in enumerate(bits) if number >> k & 1)
            assert await bus.read("samples") == number * 0x11111111 & 0xFFFFFFFF

    Bus().run(body)


SIZES = [
    (stage, space, planned.fold.pn, planned.fold.y_words)
    if space.startswith("bias")
    else (stage, space, planned.fold.pk * planned.fold.pn, planned.fold.depth)
    for stage, planned in enumerate(PLAN.stages)
    for space in SPACES
]


@pytest.mark.parametrize(("stage", "space", "pes", "words"), SIZES)
def test_pointer_walks_all_words(stage, space, pes, words):
    """Writes, then reads from the start: address after address, then the next PE (lane); each access once."""
    walk = [
        (stage, SPACES[space], pe, address)
        for pe in range(min(pes, 200 // words))
        for address in range(words)
    ]

    async def body(bus):
        await bus.write("space", stage * 16 + SPACES[space])
        await bus.write("pointer", 0)
        values = bus.rng.integers(0, 1 << 32, len(walk))
        for value in values:
            await bus.write("data", int(value))
        assert bus.loads == walk
        assert await bus.read("pointer") == (walk[-1][2] + 1) << 16
        await bus.write("pointer", 0)
        for value in values:
            assert await bus.read("data", COUNTER_CYCLES + PEEK_DELAY) == value
        assert bus.peeks == walk
        assert bus.loads == walk
        await bus.write("pointer", walk[-1][2] << 16 | words - 1)
        assert await bus.read("data", COUNTER_CYCLES + PEEK_DELAY) == values[-1]
        assert bus.peeks[-1] == walk[-1]

    Bus(stage).run(body)


def test_transactions_back_to_back():
    """valid stays 1 from one transaction to the next; each is done once."""

    async def body(bus):
        await bus.write("space", 0, wait=0)
        await bus.write("pointer", 0, wait=0)
        for value in range(5):
            await bus.write("data", value, wait=0)
            assert await bus.read("seed", wait=0) == PLAN.network.update.seed
        assert len(bus.loads) == 5
        assert await bus.read("pointer", wait=0) == bus.ctx.get(bus.host.host.pe) << 16 | bus.ctx.get(
            bus.host.host.address
        )

    Bus().run(body)


@pytest.mark.parametrize("events", [1, 3, *(2**k + 1 for k in range(2, 8))])
def test_counters_are_exact(events):
    async def body(bus):
        for k in range(events):
            bus.ctx.set(bus.device.event, 1)
            await bus.ctx.tick()
            if k % 3 == 0:
                bus.ctx.set(bus.device.event, 0)
                await bus.ctx.tick()
        bus.ctx.set(bus.device.event, 0)
        name = STAGE_COUNTERS[5]
        assert await bus.counter(1, name) == 0, "a counter shows the last snapshot only"
        await bus.write("snapshot", 0)
        for stage in range(len(PLAN.stages)) if events < 4 else (1,):
            for k, name in enumerate(STAGE_COUNTERS):
                steps = (100 * stage + k + 1) if (stage + k) % 7 else 0
                assert await bus.counter(stage, name) == events * steps

    Bus().run(body)


def test_a_snapshot_is_one_instant():
    """While everything counts, all copies show the same number of cycles."""

    async def body(bus):
        bus.ctx.set(bus.device.event, 1)
        await bus.ctx.tick()
        before = 0
        for _ in range(3):
            await bus.write("snapshot", 0)
            cycles = await bus.read("cycles_low")
            assert cycles > before
            assert await bus.read("cycles_high") == 0
            for stage in range(len(PLAN.stages)):
                for k in (1, 4, len(STAGE_COUNTERS) - 1):
                    if (stage + k) % 7:
                        assert await bus.counter(stage, STAGE_COUNTERS[k]) == cycles * (100 * stage + k + 1)
            before = cycles

    Bus().run(body)


def run_counters(part, body):
    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_testbench(body)
    simulator.run()


def test_counters_follow_levels_and_wrap():
    part = Counters(("counted", "level", "absent"))
    step, level = Signal(32), Signal(32)
    part.add("counted", step)
    part.follow("level", level)

    async def body(ctx):
        async def values():
            ctx.set(part.snapshot, 1)
            await ctx.tick()
            ctx.set(part.snapshot, 0)
            shown = []
            for k in range(3):
                ctx.set(part.select, k)
                await ctx.tick()
                shown.append(ctx.get(part.value))
            return shown

        ctx.set(level, 7)
        assert await values() == [0, 7, 0]
        ctx.set(step, 0xFFFFFFFE)
        ctx.set(level, 3)
        await ctx.tick()
        ctx.set(step, 0)
        assert await values() == [0xFFFFFFFE, 3, 0]
        ctx.set(step, 5)
        await ctx.tick()
        ctx.set(step, 0)
        assert await values() == [3, 3, 0]

    run_counters(part, body)


def test_counters_know_their_names():
    part = Counters(("one",))
    part._MustUse__silence = True
    with pytest.raises(AssertionError):
        part.add("two", Const(1))
    with pytest.raises(AssertionError):
        part.follow("two", Const(1))
