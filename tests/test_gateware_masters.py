"""The update of masters that lie elsewhere: the same bits as the reference, whatever folds, roundings, stalls."""

import dataclasses
from collections import deque

import numpy as np
import pytest
from amaranth.sim import Simulator
from test_gateware_update import FOLDS

from hwgen.gateware.masters import MasterUpdate
from hwgen.gateware.stage import array_shape
from hwgen.ir.stage import Loss, Network, Update
from hwgen.numeric import HASH_MASK, Q, mix32
from hwgen.plan import latency as L
from hwgen.plan.fold import Fold
from hwgen.plan.foldings import tile_of
from hwgen.plan.layout import Storage
from hwgen.plan.part import Part, part_stage
from hwgen.plan.plan import StagePlan
from hwgen.plan.weights import weight_image, weight_tensor
from hwgen.ref.update import random_bits, step_values

SEED, RATE = 0x1234, -5


class Bench:
    """The update between memories: dW behind a latency, masters and new ones as streams that stall."""

    def __init__(
        self, fold, seed=0, stall=0.0, rounding="nearest", frac=9, part=None, weights="auto", latency=5
    ):
        stage = dataclasses.replace(fold.stage, master=Q(13, 9), dy=Q(8, frac))
        update = Update(Q(5, 4), RATE, 4, 0.1, rounding, SEED)
        stages = tuple(dataclasses.replace(stage, index=i) for i in range(stage.index + 1))
        self.network = Network("n", stage.x, stages, Loss(2, stage.y, stage.dy), update)
        own = part_stage(stage, part, 0) if part else stage
        storage = Storage(master="memory", weights=weights)
        places = {"part": part} if part else {}
        self.tile = tile_of(Fold(own, fold.folding))
        self.planned = StagePlan(own, fold.folding, self.tile, None, storage=storage, **places)
        self.stage, self.fold, self.stall = own, self.planned.fold, stall
        self.shape = array_shape(self.network, self.planned)
        self.latency = latency
        self.part = MasterUpdate(self.network, self.planned, self.shape, self.latency)
        self.rng = np.random.default_rng(seed)
        high = 1 << stage.master.width - 1
        self.masters = self.rng.integers(-high, high, own.weight_shape)
        self.weights = np.zeros((self.fold.pk * self.fold.pn, self.fold.depth), dtype=np.int64)
        self.saturated = self.zeros = self.cycles = 0

    def coin(self):
        return int(self.rng.random() >= self.stall)

    async def memory(self, ctx):
        """Answers peeks of dW, takes loaded weights, counts flags."""
        part, peeks, peeked, cycle = self.part, deque([0] * self.latency), {}, 0
        while True:
            cycle += 1
            if ctx.get(part.peek):
                peeked[cycle] = ctx.get(part.peek_pe) % self.fold.pn
            if ctx.get(part.load) and part.pace == 2:
                # A load reads a cycle later, a peek in column j of a tile after j + 2 cycles.
                column = ctx.get(part.load_pe) % self.fold.pn
                assert peeked.get(cycle - column % self.tile[1] - 1) != column
            pe, address = ctx.get(part.peek_pe), ctx.get(part.peek_address)
            peeks.append(int(self.dw[pe, address]) if ctx.get(part.peek) else 0)
            if ctx.get(part.load):
                self.weights[ctx.get(part.load_pe), ctx.get(part.load_address)] = ctx.get(part.load_weight)
            self.saturated += ctx.get(part.saturated)
            self.zeros += ctx.get(part.zero)
            self.cycles += ctx.get(part.running)
            await ctx.tick()
            peeks.popleft()
            ctx.set(part.sum, peeks[0])

    async def elsewhere(self, ctx):
        """Where the masters are: gives them when asked, takes new ones."""
        port, back, waiting, left = self.part.masters, self.part.updates, deque(), 0
        while True:
            if waiting and (ctx.get(port.valid) or self.coin()):
                ctx.set(port.payload, [waiting[0]])
                ctx.set(port.valid, 1)
            ctx.set(back.ready, self.coin())
            given = ctx.get(port.valid) and ctx.get(port.ready)
            taken = ctx.get(back.valid) and ctx.get(back.ready)
            value = ctx.get(back.payload[0])
            await ctx.tick()
            if given:
                waiting.popleft()
                ctx.set(port.valid, 0)
                if waiting and not self.stall:
                    ctx.set(port.payload, [waiting[0]])
                    ctx.set(port.valid, 1)
            if taken and left:
                left -= 1
                self.new.append(value)
            elif taken:
                assert value == 0
                left, self.new = self.masters.size, []
                waiting.extend(int(value) for value in self.masters.reshape(-1))

    def run(self, batches=2, early=True):
        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self.memory, background=True)
        simulator.add_testbench(self.elsewhere, background=True)

        async def body(ctx):
            ctx.set(self.part.rate, RATE)
            for step in range(batches):
                await self.batch(ctx, step, early)

        simulator.add_testbench(body)
        simulator.run()

    async def batch(self, ctx, step, early):
        stage, part, update = self.stage, self.part, self.network.update
        high = 1 << self.shape.grad - self.rng.integers(1, self.shape.grad)
        dw = self.rng.integers(-high, high, stage.weight_shape) // 2
        self.dw = weight_image(self.fold, dw).reshape(-1, self.fold.depth)
        if update.rounding == "stochastic":
            key = mix32(mix32(mix32(SEED) + stage.index & HASH_MASK) + step & HASH_MASK)
            ctx.set(part.key, int(key))
        ctx.set(part.ask, 1)
        ctx.set(part.start, 0 if early else 1)
        await ctx.tick()
        ctx.set(part.ask, 0)
        if early:
            for _ in range(20):
                await ctx.tick()
            ctx.set(part.start, 1)
            await ctx.tick()
        ctx.set(part.start, 0)
        before = self.saturated, self.zeros
        for _ in range(20_000):
            if not ctx.get(part.running) and not ctx.get(part.updates.valid):
                break
            await ctx.tick()
        await ctx.tick()
        whole = self.network.stages[stage.index]
        random = random_bits(update, whole, step)
        if random is not None:
            inputs, outputs = self.planned.part.weights(whole)
            random = random[:, :, inputs, outputs]
        shift = stage.update_shift(update.lr)
        wanted = step_values(self.masters, dw, stage.master, RATE, shift, random)
        assert self.new == wanted[0].reshape(-1).tolist()
        assert (self.saturated - before[0], self.zeros - before[1]) == wanted[1:]
        weights = weight_tensor(self.fold, self.weights.reshape(self.fold.pk, self.fold.pn, -1))
        assert (weights == wanted[0] >> stage.master.width - stage.w.width).all()
        self.masters = wanted[0]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_every_fold(fold, rounding):
    Bench(fold, seed=fold.depth, rounding=rounding).run()


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("fold", FOLDS[1:4])
def test_no_load_reads_where_a_peek_reads(fold, stall):
    """Columns share memories: every column reads for one of them a cycle."""
    bench = Bench(fold, seed=fold.depth, stall=stall, weights="block")
    assert bench.part.pace == 2
    bench.run()


@pytest.mark.parametrize("stall", [0.2, 0.7])
@pytest.mark.parametrize("early", [False, True])
def test_stalls(stall, early):
    Bench(FOLDS[2], seed=7, stall=stall, rounding="stochastic").run(3, early)


@pytest.mark.parametrize("frac", [0, 2, 20])
def test_shifts(frac):
    Bench(FOLDS[1], seed=frac, rounding="stochastic", frac=frac).run()


def test_a_part_draws_its_own_random_bits():
    part = Part("output_channels", 1, 2, 2, 6)
    Bench(FOLDS[2], rounding="stochastic", part=part).run()


@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize("pace", [1, 2])
def test_a_weight_in_so_many_cycles(pace, columns):
    weights = "block" if pace == 2 else "auto"
    bench = Bench(FOLDS[2], seed=3, weights=weights, latency=columns + 5)
    bench.run(1)
    # As Array.peek_latency, but for the register of the array; the bench does not see the cycle of ``start``.
    assert bench.part.pace == pace
    update = bench.network.update
    planned = dataclasses.replace(bench.planned, tile=(1, columns))
    assert bench.cycles + 1 == L.update_cycles(planned, update) - 2 * L.settle(planned) - 7
