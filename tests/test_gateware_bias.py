"""Biases: the word for the sums, db over visits, the update in place, and how long it takes."""

import itertools

import numpy as np
import pytest
from amaranth.sim import Simulator

from hwgen.gateware.bias import Bias
from hwgen.gateware.loops import bits
from hwgen.numeric import saturate, scaled_step

WIDTH, DY, GRAD, RATE, ALIGN = 10, 6, 14, 5, 3


class Bench:
    """Drives a Bias cycle by cycle and keeps a model of its memories, [word, lane]."""

    def __init__(self, words, count=3, shift=4, seed=0, gradient=True, **sizes):
        self.rng = np.random.default_rng((seed, words, count))
        self.words, self.count, self.shift, self.with_gradient = words, count, shift, gradient
        sizes = {"width": WIDTH, "dy": DY, "grad": GRAD, "rate": RATE} | sizes
        self.width, self.dy, self.rate_bits = sizes["width"], sizes["dy"], sizes["rate"]
        self.bias = Bias(
            count=count, words=words, align=ALIGN, out_width=self.width + ALIGN + 1, shift=shift,
            gradient=gradient, word_shape=bits(words), **sizes,
        )  # fmt: skip
        self.value = np.zeros((words, count), dtype=np.int64)
        self.db = np.zeros_like(self.value)
        self.checked = self.saturated = self.zeros = 0

    def draw(self, width, size):
        return self.rng.integers(-(1 << (width - 1)), 1 << (width - 1), size)

    def run(self, body):
        simulator = Simulator(self.bias)
        simulator.add_clock(1e-6)
        simulator.add_testbench(body)
        simulator.run()
        assert self.checked

    async def load(self, ctx, values):
        for (word, lane), value in np.ndenumerate(values):
            ctx.set(self.bias.load, 1 << lane)
            ctx.set(self.bias.load_word, word)
            ctx.set(self.bias.load_value, int(value))
            await ctx.tick()
        ctx.set(self.bias.load, 0)
        self.value[:], self.db[:] = values, 0

    async def visits(self, ctx, visits):
        """Visits [(word, pixels, kf_first)], bubbles between ops."""
        part = self.bias
        for word, pixels, kf_first in visits:
            for k in range(pixels):
                while self.rng.random() < 0.2:
                    ctx.set(part.take, 0)
                    await ctx.tick()
                dy = self.draw(self.dy, self.count)
                ctx.set(part.take, 1)
                ctx.set(part.kf_first, kf_first)
                ctx.set(part.visit_first, int(k == 0))
                ctx.set(part.visit_last, int(k == pixels - 1))
                ctx.set(part.op_word, word)
                ctx.set(part.dy, dy.tolist())
                await ctx.tick()
                self.db[word] += dy * kf_first
        ctx.set(part.take, 0)
        await ctx.tick().repeat(3)

    async def peek(self, ctx):
        part = self.bias
        for word, lane in np.ndindex(self.value.shape):
            ctx.set(part.peek, 1)
            ctx.set(part.peek_word, word)
            ctx.set(part.peek_lane, lane)
            await ctx.tick()
            ctx.set(part.peek, 0)
            await ctx.tick()
            assert ctx.get(part.peek_bias) == self.value[word, lane]
            if self.with_gradient:
                assert ctx.get(part.peek_grad) == self.db[word, lane]
            self.checked += 1

    async def read(self, ctx):
        """Words in random order, some cycles without a request: the last word asked for stays."""
        part = self.bias
        for _ in range(2 * self.words + 2):
            word = int(self.rng.integers(self.words))
            ctx.set(part.word, word)
            ctx.set(part.word_enable, 1)
            await ctx.tick()
            ctx.set(part.word_enable, 0)
            ctx.set(part.word, int(self.rng.integers(self.words)))
            await ctx.tick()
            for _ in range(2):
                assert [int(v) for v in ctx.get(part.bias)] == (self.value[word] << ALIGN).tolist()
                await ctx.tick()
            self.checked += 1

    async def update(self, ctx, rate):
        part = self.bias
        ctx.set(part.rate, rate)
        ctx.set(part.start, 1)
        cycles = saturated = zeros = 0
        while ctx.get(part.running):
            saturated += ctx.get(part.saturated)
            zeros += ctx.get(part.zeros)
            await ctx.tick()
            ctx.set(part.start, 0)
            cycles += 1
        saturated += ctx.get(part.saturated)  # what is counted comes a cycle later
        zeros += ctx.get(part.zeros)
        step = scaled_step(self.db, rate, self.shift)
        self.value, clipped = saturate(self.value - step, self.width)
        assert cycles == part.update_cycles
        assert (saturated, zeros) == (clipped, np.count_nonzero((self.db != 0) & (step == 0)))
        self.saturated, self.zeros = self.saturated + saturated, self.zeros + zeros
        self.db[:] = 0


def in_order(words, b, rng, folds=2, blocks=4):
    """Visits of a few blocks as the backward pass makes them: kf outside the words."""
    sizes = [*[b] * (blocks - 1), int(rng.integers(1, b + 1))]
    return [(word, size, int(kf == 0)) for size in sizes for kf in range(folds) for word in range(words)]


@pytest.mark.parametrize("b", [1, 2, 3])
@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("folds", [1, 2])
def test_words_and_visits(words, b, folds):
    bench = Bench(words, seed=b)

    async def body(ctx):
        await bench.load(ctx, bench.draw(WIDTH, (words, bench.count)))
        for rate in (3, -7, 15):
            await bench.visits(ctx, in_order(words, b, bench.rng, folds))
            await bench.peek(ctx)
            await bench.update(ctx, rate)
            await bench.read(ctx)
        await bench.peek(ctx)
        await bench.visits(ctx, in_order(words, b, bench.rng, folds))
        await bench.load(ctx, bench.draw(WIDTH, (words, bench.count)))
        await bench.peek(ctx)

    bench.run(body)


@pytest.mark.parametrize("shift", [-3, 0, 1, 2, 9, 18, 19, 20, 40])
def test_shifts_of_either_sign(shift):
    """GRAD + RATE = 19 bits of product: shifts below, at and above all of them."""
    bench = Bench(2, shift=shift, width=24)

    async def body(ctx):
        await bench.load(ctx, bench.draw(24, (2, bench.count)))
        for rate in (-16, 15, 0, 1):
            await bench.visits(ctx, in_order(2, 2, bench.rng))
            await bench.update(ctx, rate)
            await bench.peek(ctx)

    bench.run(body)


def test_ties_go_to_even():
    """db of every value around the ties of a shift by 2, one a lane."""
    values = list(range(-8, 9))
    bench = Bench(1, count=len(values), shift=2)
    part = bench.bias

    async def body(ctx):
        await bench.load(ctx, np.zeros((1, len(values)), dtype=np.int64))
        ctx.set(part.dy, values)
        for name in ("take", "kf_first", "visit_first", "visit_last"):
            ctx.set(getattr(part, name), 1)
        await ctx.tick()
        ctx.set(part.take, 0)
        await ctx.tick().repeat(3)
        bench.db[0] = values
        await bench.update(ctx, 1)
        await bench.peek(ctx)

    bench.run(body)
    assert bench.value[0].tolist() == [2, 2, 2, 1, 1, 1, 0, 0, 0, 0, 0, -1, -1, -1, -2, -2, -2]


def test_counts_saturation_and_zero_steps():
    bench = Bench(3, shift=8, width=6)

    async def body(ctx):
        await bench.load(ctx, np.array([[31, -32, 0], [31, -32, 0], [30, -31, 1]]))
        for rate in (15, -16, 1, 2):
            await bench.visits(ctx, in_order(3, 3, bench.rng, blocks=6))
            await bench.update(ctx, rate)
            await bench.peek(ctx)

    bench.run(body)
    assert bench.saturated > 0
    assert bench.zeros > 0


@pytest.mark.parametrize(("words", "rate"), [*itertools.product([1, 2, 5], [1, 3, 8])])
def test_an_update_takes_update_cycles(words, rate):
    bench = Bench(words, rate=rate)

    async def body(ctx):
        await bench.load(ctx, bench.draw(WIDTH, (words, bench.count)))
        for value in (0, (1 << (rate - 1)) - 1):
            await bench.visits(ctx, in_order(words, 2, bench.rng))
            await bench.update(ctx, value)
        await bench.peek(ctx)

    bench.run(body)


def test_frozen():
    bench = Bench(3, gradient=False)

    async def body(ctx):
        await bench.load(ctx, bench.draw(WIDTH, (3, bench.count)))
        await bench.peek(ctx)
        await bench.read(ctx)

    bench.run(body)


@pytest.mark.parametrize("words", [1, 2, 5])
def test_loaded_sums_leave_the_biases(words):
    """And peeks may follow each other."""
    bench = Bench(words, seed=words, shared=True)
    part = bench.bias

    async def body(ctx):
        await bench.load(ctx, bench.draw(WIDTH, bench.value.shape))
        for _ in range(2):
            await bench.visits(ctx, [(k % words, 2, 1) for k in range(2 * words)])
            bench.db[:] = bench.draw(GRAD, bench.db.shape)
            ctx.set(part.load_sum, 1)
            for (word, lane), value in np.ndenumerate(bench.db):
                ctx.set(part.load, 1 << lane)
                ctx.set(part.load_word, word)
                ctx.set(part.load_grad, int(value))
                await ctx.tick()
            ctx.set(part.load, 0)
            ctx.set(part.load_sum, 0)
            await bench.peek(ctx)
            places = [*np.ndindex(bench.db.shape)]
            for cycle in range(len(places) + 2):
                if cycle < len(places):
                    ctx.set(part.peek, 1)
                    ctx.set(part.peek_word, places[cycle][0])
                    ctx.set(part.peek_lane, places[cycle][1])
                if cycle >= 2:
                    assert ctx.get(part.peek_grad) == bench.db[places[cycle - 2]]
                await ctx.tick()
            ctx.set(part.peek, 0)

    bench.run(body)
