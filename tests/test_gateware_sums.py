"""Sums of gradients over the parts of a stage: every part ends with the totals, whatever folds, cables and stalls."""

import dataclasses
from collections import deque

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator
from test_gateware_update import make_fold

from hwgen.gateware.reader import BIAS_LATENCY
from hwgen.gateware.sums import GradientSums
from hwgen.ir.window import Window2d
from hwgen.plan.fold import Fold, Folding
from hwgen.plan.foldings import tile_of
from hwgen.plan.layout import USUAL, Storage
from hwgen.plan.part import Part
from hwgen.plan.plan import StagePlan
from hwgen.plan.weights import bias_image, bias_tensor, weight_image, weight_tensor

GRAD = 21


class Bench(wiring.Component):
    """Parts in a line, cables between them, memories around them."""

    def __init__(self, stage, foldings, latency, seed=0, stall=0.0, storage=USUAL):
        self.rng, self.stall, self.latency = np.random.default_rng(seed), stall, latency
        self.folds = [Fold(stage, folding) for folding in foldings]
        self.parts = []
        for k, fold in enumerate(self.folds):
            part = Part("rows", k, len(foldings), 0, 1)
            planned = StagePlan(stage, fold.folding, tile_of(fold), None, part, k, storage=storage)
            self.parts.append(GradientSums(planned, stage, GRAD, latency))
        self.cycle, self.running, self.shared = 0, 0, 0
        super().__init__({"start": In(len(foldings))})

    def elaborate(self, platform):
        m = Module()
        for k, part in enumerate(self.parts):
            m.submodules[f"part_{k}"] = part
            m.d.comb += part.start.eq(self.start[k])
        return m

    def draw(self):
        """Random sums of all parts, as images of their memories."""
        stage, high = self.folds[0].stage, 1 << GRAD - 3
        self.weights = [self.rng.integers(-high, high, stage.weight_shape) for _ in self.folds]
        self.biases = [self.rng.integers(-high, high, stage.out_channels) for _ in self.folds]
        pairs = [*zip(self.folds, self.weights, strict=True)]
        self.dw = [weight_image(fold, dw).reshape(-1, fold.depth) for fold, dw in pairs]
        self.db = [bias_image(fold, db).T for fold, db in zip(self.folds, self.biases, strict=True)]

    async def memory(self, ctx, k):
        """Answers the peeks of part k at their latencies, and takes its loads."""
        part, peeks, bias_peeks = self.parts[k], deque([0] * self.latency), deque([0] * BIAS_LATENCY)
        pn, tn, peeked, cycle = self.folds[k].pn, part.behind.tn, {}, 0
        while True:
            cycle += 1
            if ctx.get(part.peek):
                peeked[cycle] = ctx.get(part.peek_pe) % pn
            if ctx.get(part.load) and not ctx.get(part.load_bias) and part.pace == 2:
                # A load reads a cycle later, a peek in column j of a tile after j + 2 cycles.
                column = ctx.get(part.load_pe) % pn
                assert peeked.get(cycle - column % tn - 1) != column
                self.shared += 1
            asked = (
                int(self.dw[k][ctx.get(part.peek_pe), ctx.get(part.peek_address)])
                if ctx.get(part.peek)
                else 0
            )
            peeks.append(asked)
            asked = (
                int(self.db[k][ctx.get(part.bias_lane), ctx.get(part.bias_word)])
                if ctx.get(part.bias_peek)
                else 0
            )
            bias_peeks.append(asked)
            if ctx.get(part.load):
                memory = self.db[k] if ctx.get(part.load_bias) else self.dw[k]
                memory[ctx.get(part.load_pe), ctx.get(part.load_address)] = ctx.get(part.load_sum)
            await ctx.tick()
            peeks.popleft(), bias_peeks.popleft()
            ctx.set(part.sum, peeks[0])
            ctx.set(part.bias_sum, bias_peeks[0])

    async def cable(self, ctx, o, i, delay=3):
        """Words from ``o`` to ``i``, some cycles late."""
        waiting = deque()
        while True:
            ready = int(self.rng.random() >= self.stall)
            ctx.set(o.ready, ready)
            due = bool(waiting) and waiting[0][0] <= self.cycle
            offer = due and bool(ctx.get(i.valid) or self.rng.random() >= self.stall)
            ctx.set(i.valid, int(offer))
            if offer:
                ctx.set(i.payload, [waiting[0][1]])
            _, _, valid, payload, taken = await ctx.tick().sample(o.valid, o.payload[0], i.ready)
            if valid and ready:
                waiting.append((self.cycle + delay, payload))
            if offer and taken:
                waiting.popleft()

    def run(self, body):
        simulator = Simulator(self)
        simulator.add_clock(1e-6)

        async def test(ctx):
            await body(ctx)
            self.over = True

        def background(function, *arguments):
            async def process(ctx):
                await function(ctx, *arguments)

            simulator.add_testbench(process, background=True)

        for k in range(len(self.parts)):
            background(self.memory, k)
        for near, far in zip(self.parts, self.parts[1:], strict=False):
            background(self.cable, near.grads_out, far.grads_in)
            background(self.cable, far.totals_out, near.totals_in)
        simulator.add_testbench(test)
        simulator.run()

    async def round(self, ctx, late=()):
        """Starts all parts, some later than others; cycles until none is running."""
        self.draw()
        starts = dict(enumerate(late)) or dict.fromkeys(range(len(self.parts)), 0)
        begin = self.cycle
        for cycle in range(20_000):
            self.cycle += 1
            ctx.set(self.start, sum(1 << k for k, at in starts.items() if at == cycle))
            await ctx.tick()
            ctx.set(self.start, 0)
            if cycle >= max(starts.values()) and not any(ctx.get(part.running) for part in self.parts):
                break
        else:
            raise AssertionError("never done")
        await ctx.tick().repeat(2)
        return self.cycle - begin

    def check(self):
        """Every part has the totals, and zeros where no weight is."""
        total, biases = sum(self.weights), sum(self.biases)
        for fold, dw, db in zip(self.folds, self.dw, self.db, strict=True):
            image = dw.reshape(fold.pk, fold.pn, fold.depth)
            np.testing.assert_array_equal(weight_tensor(fold, image), total)
            np.testing.assert_array_equal(weight_image(fold, total), image)
            if fold.stage.bias is not None:
                np.testing.assert_array_equal(bias_tensor(fold, db.T), biases)


def stage_of(bias=True, **arguments):
    stage = make_fold(**arguments).stage
    return dataclasses.replace(stage, bias=stage.w if bias else None)


CONV = {"window": Window2d(5, 6, (3, 2)), "cin": 3, "cout": 5}
CASES = {
    "two parts": (stage_of(**CONV), [Folding(2, 2, 2), Folding(2, 2, 2)]),
    "foldings of their own": (stage_of(**CONV), [Folding(1, 1, 3), Folding(6, 3, 5), Folding(2, 2, 1)]),
    "groups": (stage_of(window=Window2d(4, 4, (2, 1)), cin=4, cout=6, groups=2), [Folding(1, 2, 2)] * 4),
    "one weight": (stage_of(), [Folding(1, 1, 1)] * 3),
    "no biases": (stage_of(False, **CONV), [Folding(2, 2, 2), Folding(6, 1, 2)]),
}


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("latency", [2, 9])
@pytest.mark.parametrize("case", CASES)
def test_every_part_gets_the_totals(case, latency, stall):
    stage, foldings = CASES[case]
    bench = Bench(stage, foldings, latency, seed=latency, stall=stall)

    async def body(ctx):
        for _ in range(3):
            await bench.round(ctx)
            bench.check()

    bench.run(body)


@pytest.mark.parametrize("late", [(0, 60, 5), (90, 0, 0), (0, 3, 200)])
def test_parts_start_when_they_like(late):
    stage, foldings = CASES["foldings of their own"]
    bench = Bench(stage, foldings, 5, seed=1, stall=0.2)

    async def body(ctx):
        for _ in range(2):
            await bench.round(ctx, late)
            bench.check()

    bench.run(body)


@pytest.mark.parametrize("pace", [1, 2])
def test_an_element_in_so_many_cycles(pace):
    stage, foldings = CASES["two parts"]
    bench = Bench(stage, foldings, 5, storage=Storage(weights="block") if pace == 2 else USUAL)

    async def body(ctx):
        cycles = await bench.round(ctx)
        assert cycles <= pace * bench.parts[0].count + 5 + 2 * 4 + 10 + pace

    bench.run(body)
    assert bench.parts[0].pace == pace


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("latency", [2, 7])
@pytest.mark.parametrize("case", ["foldings of their own", "groups", "no biases"])
def test_no_load_reads_where_a_peek_reads(case, latency, stall):
    """Columns share memories: every column reads for one of them a cycle, and all parts get the totals."""
    stage, foldings = CASES[case]
    bench = Bench(stage, foldings, latency, seed=latency, stall=stall, storage=Storage(weights="block"))

    async def body(ctx):
        for _ in range(2):
            await bench.round(ctx)
            bench.check()

    bench.run(body)
    assert bench.shared >= 2 * bench.parts[0].behind.weights


def test_totals_that_come_too_early_wait():
    """A total must not be put where the own sum was not read yet."""
    stage, foldings = CASES["two parts"]
    bench = Bench(stage, foldings, 7)
    part = bench.parts[0]

    async def body(ctx):
        bench.draw()
        ctx.set(part.totals_in.valid, 1)
        ctx.set(part.grads_out.ready, 1)
        ctx.set(bench.start, 1)
        await ctx.tick()
        ctx.set(bench.start, 0)
        sent = []
        while ctx.get(part.running):
            assert len(sent) < 2000
            if ctx.get(part.grads_out.valid):
                sent.append(ctx.get(part.grads_out.payload[0]))
            await ctx.tick()
        assert sent[: part.behind.weights] == bench.weights[0].reshape(-1).tolist()
        assert sent[part.behind.weights :] == bench.biases[0].tolist()

    async def nothing(*_):
        pass

    bench.cable = nothing
    bench.run(body)
