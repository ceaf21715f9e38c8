"""The updater: what it allows, when it holds, what it injects, how long it takes; the walk of logical indices."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from hwgen.gateware.tile import ArrayShape
from hwgen.gateware.update import Updater
from hwgen.ir.stage import Stage
from hwgen.ir.window import Window2d
from hwgen.numeric import HASH_MASK, Q, hash_words, mix32
from hwgen.plan.fold import Fold, Folding
from hwgen.plan.weights import weight_index

SETTLE, MAX_BATCH = 5, 3


def make_fold(window=Window2d(4, 4), cin=1, cout=1, groups=1, folding=Folding(1, 1, 1), index=0):  # noqa: B008
    q = Q(8, 4)
    stage = Stage(
        "s", index, window, cin, cout, x=q, w=q, master=q, bias=None, y=q, dy=q, dx=q, groups=groups
    )
    return Fold(stage, folding)


FOLDS = [
    make_fold(),
    make_fold(cin=5, cout=6, folding=Folding(1, 2, 2)),
    make_fold(Window2d(5, 6, (3, 3)), 4, 6, 1, Folding(3, 2, 4), index=2),
    make_fold(Window2d(5, 6, (3, 2)), 6, 4, 2, Folding(1, 2, 1), index=1),
    make_fold(Window2d(4, 4, (2, 2)), 3, 3, 3, Folding(4, 1, 1), index=7),
    make_fold(Window2d(4, 4, (2, 2)), 10, 6, 2, Folding(2, 3, 2), index=3),
]


class Bench:
    """Drives an Updater; ``log`` has the outputs of every cycle."""

    def __init__(self, fold=FOLDS[1], grad=36, stochastic=False, max_batch=MAX_BATCH):
        self.shape = ArrayShape(
            depth=fold.depth, x=8, w=8, dy=8, master=8, grad=grad, psum=20, back=20, rate=4, shift=3,
            backward=True, gradient=True, stochastic=stochastic,
        )  # fmt: skip
        self.fold = fold
        self.part = Updater(fold, self.shape, SETTLE, max_batch)
        self.names = ["allow", "pause", "held", "updating", "quiet", "bias_start", "count", "key"]
        self.log = {name: [] for name in [*self.names, *self.control]}

    @property
    def control(self):
        return [name for name, _ in self.part.control.shape()]

    def run(self, body):
        async def started(ctx):
            ctx.set(self.part.train, 1)
            await body(ctx)

        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)
        simulator.add_testbench(started)
        simulator.run()

    async def tick(self, ctx, count=1):
        for _ in range(count):
            for name in self.names:
                self.log[name].append(ctx.get(getattr(self.part, name)))
            for name in self.control:
                self.log[name].append(ctx.get(getattr(self.part.control, name)))
            await ctx.tick()

    async def pulse(self, ctx, name):
        ctx.set(getattr(self.part, name), 1)
        await self.tick(ctx)
        ctx.set(getattr(self.part, name), 0)

    async def until(self, ctx, name, most=2000):
        """Cycles until an output is set."""
        for cycle in range(most):
            if ctx.get(getattr(self.part, name)):
                return cycle
            await self.tick(ctx)
        raise AssertionError(f"{name} never set")

    def get(self, ctx, *names):
        return tuple(ctx.get(getattr(self.part, name)) for name in names)

    def walked(self):
        """(address, chunk, first, last) of every cycle with an update piece."""
        rows = zip(*(self.log[name] for name in ("update", "address", "chunk", "first", "last")), strict=True)
        return [row[1:] for row in rows if row[0]]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_batch_counts_starts_and_ends(batch):
    """No start beyond the batch, no pause before its last gradient, not quiet while a sample is under way."""
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.part.batch, batch)
        for version in range(3):
            for k in range(batch):
                assert bench.get(ctx, "allow", "pause", "quiet") == (1, 0, 1 if k == 0 else 0)
                await bench.pulse(ctx, "started")
                await bench.tick(ctx, 2)
            assert bench.get(ctx, "allow", "pause", "quiet", "count") == (0, 0, 0, version)
            for k in range(batch):
                assert bench.get(ctx, "allow", "pause", "updating") == (0, 0, 0)
                await bench.tick(ctx, k)
                await bench.pulse(ctx, "sample_done")
            assert bench.get(ctx, "allow", "pause", "quiet") == (0, 1, 0)
            await bench.until(ctx, "allow")
            assert bench.get(ctx, "pause", "quiet", "count") == (0, 1, version + 1)

    bench.run(body)
    assert bench.log["bias_start"].count(1) == 3


def test_samples_of_a_batch_overlap():
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.part.batch, 3)
        for name in ("started", "started", "sample_done", "started", "sample_done"):
            await bench.pulse(ctx, name)
            assert bench.get(ctx, "pause", "quiet") == (0, 0)
        ctx.set(bench.part.started, 0)
        assert bench.get(ctx, "allow") == (0,)
        await bench.pulse(ctx, "sample_done")
        assert bench.get(ctx, "pause") == (1,)

    bench.run(body)


def test_start_and_end_in_one_cycle():
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.part.batch, 2)
        await bench.pulse(ctx, "started")
        ctx.set(bench.part.started, 1)
        await bench.pulse(ctx, "sample_done")
        ctx.set(bench.part.started, 0)
        assert bench.get(ctx, "allow", "pause", "quiet") == (0, 0, 0)
        await bench.pulse(ctx, "sample_done")
        assert bench.get(ctx, "pause") == (1,)

    bench.run(body)


@pytest.mark.parametrize("grad", [10, 18, 19, 36])
@pytest.mark.parametrize("fold", FOLDS[:3])
def test_every_piece_of_every_word(fold, grad):
    bench = Bench(fold, grad)

    async def body(ctx):
        ctx.set(bench.part.batch, 1)
        for _ in range(2):
            await bench.pulse(ctx, "started")
            await bench.pulse(ctx, "sample_done")
            assert 1 + await bench.until(ctx, "allow") == bench.part.cycles

    bench.run(body)
    chunks = bench.shape.chunks
    pieces = [
        (word, chunk, int(chunk == chunks - 1), int(chunk == 0))
        for word in range(fold.depth)
        for chunk in reversed(range(chunks))
    ]
    assert bench.walked() == pieces * 2
    assert bench.log["op"].count(1) == bench.log["peek"].count(1) == 0
    # Pieces only while the array is idle: settled before, and given time to land behind.
    pause, update = np.array(bench.log["pause"]), np.array(bench.log["update"])
    edges = np.flatnonzero(np.diff(update))
    assert np.all(pause[np.flatnonzero(update)])
    for begin, end in edges.reshape(-1, 2):
        assert np.all(pause[begin - SETTLE : begin + 1])
        assert np.all(pause[end + 1 : end + SETTLE + 1])


@pytest.mark.parametrize("wait", [0, 1, 40])
def test_hold(wait):
    """Waits in front of the update as long as asked, and takes that much longer."""
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.part.batch, 1)
        ctx.set(bench.part.hold, 1)
        await bench.pulse(ctx, "started")
        await bench.pulse(ctx, "sample_done")
        first = await bench.until(ctx, "held")
        await bench.tick(ctx, wait)
        assert bench.get(ctx, "held", "pause", "updating", "bias_start") == (1, 1, 0, 0)
        ctx.set(bench.part.hold, 0)
        assert bench.get(ctx, "held", "bias_start") == (1, 1)
        rest = await bench.until(ctx, "allow")
        assert 1 + first + rest == bench.part.cycles
        assert bench.get(ctx, "held") == (0,)

    bench.run(body)
    assert len(bench.walked()) == bench.fold.depth * bench.shape.chunks


@pytest.mark.parametrize("extra", [0, 1, 30])
def test_waits_for_the_biases(extra):
    bench = Bench(FOLDS[0], grad=10)
    begin = SETTLE + 1
    alone = bench.part.cycles - 1

    async def body(ctx):
        ctx.set(bench.part.batch, 1)
        await bench.pulse(ctx, "started")
        await bench.pulse(ctx, "sample_done")
        await bench.until(ctx, "bias_start")
        ctx.set(bench.part.bias_running, 1)
        await bench.tick(ctx, begin + 3 + extra)
        ctx.set(bench.part.bias_running, 0)
        await bench.until(ctx, "allow")

    bench.run(body)
    assert len(bench.log["pause"]) - 2 == max(alone, SETTLE + 2 + begin + 3 + extra + 1)


def test_inference_counts_nothing():
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.part.train, 0)
        ctx.set(bench.part.batch, 1)
        for name in ("started", "sample_done", "started", "started"):
            assert bench.get(ctx, "allow", "pause", "updating") == (1, 0, 0)
            await bench.pulse(ctx, name)
        await bench.tick(ctx, 60)
        assert bench.get(ctx, "allow", "quiet", "count") == (1, 1, 0)
        ctx.set(bench.part.train, 1)
        await bench.pulse(ctx, "started")
        assert bench.get(ctx, "allow") == (0,)
        ctx.set(bench.part.train, 0)
        assert bench.get(ctx, "allow") == (1,)

    bench.run(body)
    assert bench.walked() == []


@pytest.mark.parametrize("fold", FOLDS)
def test_stochastic_walk_is_the_logical_index(fold):
    """``base`` with a word's last piece is the index of its first weight; ``key`` that of seed, stage, version."""
    bench = Bench(fold, stochastic=True)
    seed = 0x9E3779B9

    async def body(ctx):
        ctx.set(bench.part.batch, 1)
        ctx.set(bench.part.seed, seed)
        await bench.tick(ctx, 4)
        for _ in range(2):
            await bench.pulse(ctx, "started")
            await bench.pulse(ctx, "sample_done")
            await bench.until(ctx, "allow")

    bench.run(body)
    wanted = weight_index(fold)[0, 0]
    rows = zip(
        *(bench.log[name] for name in ("update", "last", "address", "base", "key", "count")), strict=True
    )
    ends = [row[2:] for row in rows if row[0] and row[1]]
    assert len(ends) == 2 * fold.depth
    for address, base, key, count in ends:
        assert base == wanted[address]
        index = int(wanted[address])
        assert mix32(mix32((key + index) & HASH_MASK)) == hash_words(seed, fold.stage.index, count, index)
    assert [row[3] for row in ends] == [version for version in (0, 1) for _ in range(fold.depth)]
