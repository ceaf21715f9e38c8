"""Drives an array in Amaranth's simulator beside a model of its memories."""

import numpy as np
from amaranth.sim import Simulator

from hwgen.gateware.array import Array
from hwgen.gateware.tile import ArrayShape
from hwgen.numeric import saturate, scaled_step

__all__ = ["Bench", "make_shape"]


def make_shape(
    depth,
    *,
    backward=True,
    gradient=True,
    stochastic=False,
    grad=22,
    shift=5,
    widths=(6, 5, 7),
    master=12,
    **more,
):
    x, w, dy = widths
    return ArrayShape(
        depth=depth, x=x, w=w, dy=dy, master=master, grad=grad, psum=x + w + 4, back=dy + w + 4, rate=6, shift=shift,
        backward=backward, gradient=gradient, stochastic=stochastic, **more,
    )  # fmt: skip


class Bench:
    """Drives an Array cycle by cycle and keeps a model of its memories."""

    def __init__(self, shape, pk, pn, tile, seed):
        self.rng = np.random.default_rng(seed)
        self.shape, self.pk, self.pn = shape, pk, pn
        self.offsets = tuple(tuple(i * 131 + j for j in range(pn)) for i in range(pk))
        self.array = Array(shape, pk, pn, tile, self.offsets)
        self.master = self.ints(shape.master, (pk, pn, shape.depth))
        self.dw = np.zeros_like(self.master)
        self.rate, self.key, self.checked = int(self.rng.integers(0, 32)), 0, 0
        self.saturated = self.zeros = 0
        self.bubbles = 0.15

    def ints(self, width, size):
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        values = self.rng.integers(low, high + 1, size)
        extreme = self.rng.random(size)
        return np.where(extreme < 0.1, low, np.where(extreme > 0.9, high, values)).astype(np.int64)

    @property
    def weight(self):
        return self.master >> (self.shape.master - self.shape.w)

    def run(self, body):
        simulator = Simulator(self.array)
        simulator.add_clock(1e-6)
        simulator.add_testbench(body)
        simulator.run()
        assert self.checked > 0

    async def load(self, ctx):
        async for place in self.loads(ctx):
            ctx.set(self.array.load_value, int(self.master[place]))
        await ctx.tick().repeat(self.array.settle)

    async def load_some(self, ctx):
        """New masters here and there; dW of these is cleared, that of their neighbours in a word is not."""
        chosen = self.rng.random(self.master.shape) < 0.5
        self.master = np.where(chosen, self.ints(self.shape.master, chosen.shape), self.master)
        self.dw = np.where(chosen, 0, self.dw)
        async for place in self.loads(ctx, chosen):
            ctx.set(self.array.load_value, int(self.master[place]))
        await ctx.tick().repeat(self.array.settle)

    async def loads(self, ctx, chosen=None):
        """Loads at every place (chosen), those of a column's word one after the other, with and without gaps."""
        a = self.array
        for j, address, i in np.ndindex(self.pn, self.shape.depth, self.pk):
            if chosen is not None and not chosen[i, j, address]:
                continue
            while self.rng.random() < self.bubbles:
                ctx.set(a.load, 0)
                await ctx.tick()
            ctx.set(a.load, 1)
            ctx.set(a.load_select, i * self.pn + j)
            ctx.set(a.load_address, address)
            yield i, j, address
            await ctx.tick()
        ctx.set(a.load, 0)

    async def visits(self, ctx, visits):
        """Visits [(address, pixels)] of forward and of backward, each with bubbles of its own; sums checked at their
        latency. Where both take turns at the weights, visits begin when it is their turn."""
        a = self.array
        expected_f, expected_b, cycle = {}, {}, 0
        ops = [(address, k == 0, k == n - 1) for address, n in visits for k in range(n)]
        forward, backward = list(ops), list(ops)
        while forward or backward or cycle <= max([*expected_f, *expected_b, 0]):
            ctx.set(a.f_load, 0)
            ctx.set(a.b_control, {})
            if self.goes(forward, cycle):
                expected_f[cycle + a.forward_latency] = self.forward_op(ctx, *forward.pop(0))
            if self.goes(backward, cycle - self.shape.stack):
                expected_b[cycle + a.backward_latency] = self.backward_op(ctx, *backward.pop(0))
            if cycle in expected_f:
                assert [ctx.get(a.f_sum[j]) for j in range(self.pn)] == expected_f[cycle].tolist()
                self.checked += 1
            if self.shape.backward and cycle in expected_b:
                assert [ctx.get(a.b_sum[i]) for i in range(self.pk)] == expected_b[cycle].tolist()
                self.checked += 1
            await ctx.tick()
            cycle += 1
        await ctx.tick().repeat(a.settle)

    def goes(self, ops, cycle):
        """Whether the next op comes in a cycle of its side."""
        turn = not ops or not ops[0][1] or cycle % self.shape.period == 0
        return ops and turn and self.rng.random() > self.bubbles

    def forward_op(self, ctx, address, first, last):
        a, x = self.array, self.ints(self.shape.x, self.pk)
        ctx.set(a.f_load, int(first))
        ctx.set(a.f_address, address)
        ctx.set(a.f_x, x.tolist())
        return x @ self.weight[:, :, address]

    def backward_op(self, ctx, address, first, last):
        a, xs, dy = self.array, self.ints(self.shape.x, self.pk), self.ints(self.shape.dy, self.pn)
        ctx.set(a.b_x, xs.tolist())
        ctx.set(a.b_dy, dy.tolist())
        ctx.set(a.b_control, {"op": 1, "first": int(first), "last": int(last), "address": address})
        self.dw[:, :, address] += np.outer(xs, dy)
        return self.weight[:, :, address] @ dy

    async def update(self, ctx):
        a, shape = self.array, self.shape
        ctx.set(a.rate, self.rate)
        ctx.set(a.key, self.key)
        saturated = zeros = 0
        await ctx.tick()
        total = shape.depth * shape.rows * shape.row_cycles
        for cycle in range(total + a.settle + 3):
            rest, piece = divmod(cycle, shape.row_cycles)
            word, row = divmod(rest, shape.rows)
            chunk = shape.row_cycles - 1 - piece
            if cycle < total and chunk < shape.chunks:
                control = {"update": 1, "address": word, "chunk": chunk}
                control |= {"first": int(chunk == shape.chunks - 1), "last": int(chunk == 0)}
                if shape.rows > 1:
                    control["row"] = row
                if shape.stochastic:
                    control["base"] = word * 7919
                ctx.set(a.b_control, control)
            else:
                ctx.set(a.b_control, {})
            await ctx.tick()
            saturated += ctx.get(a.saturated)
            zeros += ctx.get(a.zeros)
        index = np.array(self.offsets)[:, :, None] + np.arange(shape.depth) * 7919
        random = None
        if shape.stochastic:
            # the array is given the finished key, so undo hash_words' key rounds by hashing from key alone
            bits = np.asarray(_bits(self.key, index))
            random = bits >> (32 - shape.shift)
        step = scaled_step(self.dw, self.rate, shape.shift, random)
        self.master, clipped = saturate(self.master - step, shape.master)
        assert saturated == clipped
        assert zeros == np.count_nonzero((self.dw != 0) & (step == 0))
        self.saturated, self.zeros = self.saturated + saturated, self.zeros + zeros
        self.dw[:] = 0

    async def peek(self, ctx):
        a = self.array
        for i, j, address in np.ndindex(self.master.shape):
            ctx.set(a.peek_select, i * self.pn + j)
            ctx.set(a.b_control, {"peek": 1, "address": address})
            await ctx.tick()
            ctx.set(a.b_control, {})
            await ctx.tick().repeat(a.settle + 2)
            assert ctx.get(a.peek_master) == self.master[i, j, address]
            if self.shape.gradient:
                assert ctx.get(a.peek_grad) == self.dw[i, j, address]
            self.checked += 1

    async def peeks(self, ctx):
        """All words at random, one after the other with gaps: each comes at its latency."""
        a = self.array
        places = [tuple(place) for place in self.rng.permutation([*np.ndindex(self.master.shape)])]
        wanted, cycle = {}, 0
        while places or cycle <= max(wanted):
            ctx.set(a.b_control, {})
            if places and self.rng.random() < 0.8:
                i, j, address = (int(k) for k in places.pop())
                ctx.set(a.peek_select, i * self.pn + j)
                ctx.set(a.b_control, {"peek": 1, "address": address})
                wanted.setdefault(cycle + a.peek_latency, []).append((a.peek_grad, self.dw[i, j, address]))
                wanted.setdefault(cycle + a.peek_latency + 4, []).append(
                    (a.peek_master, self.master[i, j, address])
                )
            for port, value in wanted.get(cycle, ()):
                assert ctx.get(port) == value
                self.checked += 1
            await ctx.tick()
            cycle += 1

    async def load_sums(self, ctx):
        a = self.array
        self.dw = self.ints(self.shape.grad, self.dw.shape)
        ctx.set(a.load_sum, 1)
        async for place in self.loads(ctx):
            ctx.set(a.load_grad, int(self.dw[place]))
        ctx.set(a.load_sum, 0)
        await ctx.tick().repeat(2)


def _bits(key, index):
    from hwgen.numeric import mix32

    return mix32(mix32((key + index) & 0xFFFFFFFF))
