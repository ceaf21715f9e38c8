"""The passes on a small array: order, exact sums, credits under stalls, latency, an op a cycle, what is counted."""

import dataclasses

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from geometry_cases import FIXED, draw_geometry, flags_of, ops, random_words, rng_of
from handshake import check_valid_ignores_ready
from stream_bench import run_streams

from hwgen.gateware.array import Array
from hwgen.gateware.loops import flags_layout
from hwgen.gateware.passes import BackwardPass, ForwardPass
from hwgen.gateware.stream import lanes
from hwgen.gateware.tile import ArrayShape
from hwgen.ir.window import Window2d

X, W, DY = 6, 5, 7
WIDTH = 24


def make_array(geometry, pn, tile, backward=True, gradient=True):
    shape = ArrayShape(
        depth=geometry.out_words * geometry.fk, x=X, w=W, dy=DY, master=W + 3, grad=24, psum=18, back=18, rate=4,
        shift=3, backward=backward, gradient=gradient,
    )  # fmt: skip
    pk = geometry.u * geometry.pc
    return Array(shape, pk, pn, tile, tuple((0,) * pn for _ in range(pk)))


def draw_weights(rng, array):
    """Master weights [Pk, Pn, address] and what the multipliers see of them."""
    size = (array.pk, array.pn, array.shape.depth)
    master = rng.integers(-(1 << (W + 2)), 1 << (W + 2), size)
    return master, master >> 3


async def load(ctx, array, master):
    for (i, j, address), value in np.ndenumerate(master):
        ctx.set(array.load, 1)
        ctx.set(array.load_select, i * array.pn + j)
        ctx.set(array.load_address, address)
        ctx.set(array.load_value, int(value))
        await ctx.tick()
    ctx.set(array.load, 0)
    await ctx.tick().repeat(array.settle)


def op_layout(geometry, **operand):
    return data.StructLayout({"flags": flags_layout(geometry), **operand})


class Forward(wiring.Component):
    """A forward pass, its array and a table of biases that answers two cycles after a question; ops wait for ``go``."""

    def __init__(self, geometry, pn, tile, biases):
        self.array = make_array(geometry, pn, tile)
        self.biases = biases
        layout = op_layout(geometry, x=lanes(self.array.pk, X), inside=geometry.u)
        self.part = ForwardPass(layout, self.array, WIDTH, geometry.b)
        super().__init__(
            {
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(lanes(pn, WIDTH))),
                "go": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.array, m.submodules.part = array, part = self.array, self.part
        wiring.connect(m, part.o, wiring.flipped(self.o))
        m.d.comb += [
            part.i.payload.eq(self.i.payload),
            part.i.valid.eq(self.i.valid & self.go),
            self.i.ready.eq(part.i.ready & self.go),
            array.f_load.eq(part.f_load),
            array.f_address.eq(part.f_address),
            array.f_x.eq(part.f_x),
            part.f_sum.eq(array.f_sum),
        ]
        read = Signal.like(part.bias, name="read")
        m.d.sync += [Value.cast(read).eq(-1), Value.cast(part.bias).eq(Value.cast(read))]
        with m.If(part.word_enable), m.Switch(part.word):
            for word, row in enumerate(self.biases):
                with m.Case(word):
                    m.d.sync += [read[j].eq(value) for j, value in enumerate(row)]
        return m


class Backward(wiring.Component):
    """A backward pass and its array; ops wait for ``go``."""

    def __init__(self, geometry, pn, tile, backward=True, gradient=True):
        self.array = make_array(geometry, pn, tile, backward, gradient)
        pk = self.array.pk
        dy = op_layout(geometry, dy=lanes(pn, DY))
        x = op_layout(geometry, x=lanes(pk, X), inside=geometry.u)
        self.part = BackwardPass(dy, x if gradient else None, self.array, geometry.b)
        members = {"dy": In(stream.Signature(dy)), "go": In(1)}
        if gradient:
            members["x"] = In(stream.Signature(x))
        if backward:
            members["o"] = Out(stream.Signature(lanes(pk, 18)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.array, m.submodules.part = array, part = self.array, self.part
        for name in ("dy", "x"):
            if hasattr(self, name):
                port, inner = getattr(self, name), getattr(part, name)
                m.d.comb += [
                    inner.payload.eq(port.payload),
                    inner.valid.eq(port.valid & self.go),
                    port.ready.eq(inner.ready & self.go),
                ]
        if array.shape.backward:
            wiring.connect(m, part.o, wiring.flipped(self.o))
        m.d.comb += [
            array.b_control.eq(part.b_control),
            array.b_dy.eq(part.b_dy),
            array.b_x.eq(part.b_x),
            part.b_sum.eq(array.b_sum),
        ]
        return m


def tile_for(pk, pn, seed):
    rng = rng_of(seed, 22)
    divisors = [[d for d in range(1, n + 1) if n % d == 0] for n in (pk, pn)]
    return tuple(int(rng.choice(choices)) for choices in divisors)


def forward_words(geometry, pk, weight, biases, rng, samples):
    """Ops of a few samples, and the sums they make."""
    sent, sums = [], []
    for _ in range(samples):
        totals = {}
        for op in ops(geometry, "forward"):
            flags = flags_of(geometry, "forward", *op)
            x = random_words(rng, 1, pk, X)[0]
            sent.append({"flags": flags, "x": x, "inside": 0})
            before = biases[flags["word"]] if flags["first"] else totals[op[1]]
            totals[op[1]] = before + np.array(x) @ weight[:, :, flags["waddr"]]
            if flags["last"]:
                sums.append(totals[op[1]].tolist())
    return sent, sums


def backward_words(geometry, array, weight, rng, samples):
    """Ops (dy, x) of a few samples, the chunks they make and dW."""
    dys, xs, chunks = [], [], []
    dw = np.zeros_like(weight)
    for _ in range(samples):
        totals = {}
        for op in ops(geometry, "backward"):
            flags = flags_of(geometry, "backward", *op)
            dy, x = random_words(rng, 1, array.pn, DY)[0], random_words(rng, 1, array.pk, X)[0]
            dys.append({"flags": flags, "dy": dy})
            xs.append({"flags": flags, "x": x, "inside": 0})
            before = 0 if flags["first"] else totals[op[1]]
            totals[op[1]] = before + weight[:, :, flags["waddr"]] @ np.array(dy)
            dw[:, :, flags["waddr"]] += np.outer(x, dy)
            if flags["last"]:
                chunks.append(totals[op[1]].tolist())
    return dys, xs, chunks, dw


class Watch:
    """Notes the cycles from ``go`` on in which ops were taken and results offered; checks what is counted."""

    def __init__(self, part, last_flags):
        self.part, self.last_flags = part, last_flags
        self.taken, self.given, self.offered, self.done = [], [], [], []

    async def run(self, ctx):
        """Until every op has been taken and the last result given."""
        part, inner = self.part, self.part.part
        entries = [port for name in ("i", "dy", "x") if (port := getattr(part, name, None)) is not None]
        signals = [*(p.valid for p in entries), *(p.ready for p in entries)]
        signals += [inner.busy, inner.blocked, inner.starved, getattr(inner, "done", inner.busy)]
        out = getattr(part, "o", None)
        signals += [out.valid, out.ready] if out is not None else []
        cycle = 0
        while len(self.taken) < len(self.last_flags) or (
            out is not None and len(self.given) < sum(self.last_flags)
        ):
            _, _, *values = await ctx.tick().sample(*signals)
            n = len(entries)
            have, kinds, rest = all(values[:n]), values[2 * n : 2 * n + 3], values[2 * n + 4 :]
            ready = have and all(values[n : 2 * n])
            assert kinds == [ready, have and not ready, not have]
            if ready:
                self.taken.append(cycle)
                self.done.append(values[2 * n + 3])
            if rest and rest[0]:
                self.offered.append(cycle)
            if rest and all(rest):
                self.given.append(cycle)
            cycle += 1

    def check_flow(self, latency):
        """An op a cycle, and a result ``latency`` cycles behind each op that completes one."""
        assert np.all(np.diff(self.taken) == 1)
        ends = [cycle for cycle, last in zip(self.taken, self.last_flags, strict=True) if last]
        assert self.given == [cycle + latency for cycle in ends]


def check_forward(geometry, seed, stalls=(0.0, 0.0), pn=2, samples=2):
    rng = rng_of(seed, 23)
    biases = rng.integers(-(1 << 20), 1 << 20, (geometry.out_words, pn))
    part = Forward(geometry, pn, tile_for(geometry.u * geometry.pc, pn, seed), biases.tolist())
    master, weight = draw_weights(rng, part.array)
    sent, sums = forward_words(geometry, part.array.pk, weight, biases, rng, samples)
    watch = Watch(part, [op["flags"]["last"] for op in sent])

    async def bench(ctx):
        await load(ctx, part.array, master)
        ctx.set(part.go, 1)
        await watch.run(ctx)

    got, _ = run_streams(part, {"i": sent}, {"o": len(sums)}, stalls=stalls, seed=seed, bench=bench)
    assert [list(word) for word in got["o"]] == sums
    if stalls == (0.0, 0.0):
        watch.check_flow(part.part.latency)
    return watch


def check_backward(geometry, seed, stalls=(0.0, 0.0), pn=2, samples=2, backward=True, gradient=True):
    rng = rng_of(seed, 24)
    part = Backward(geometry, pn, tile_for(geometry.u * geometry.pc, pn, seed), backward, gradient)
    array = part.array
    master, weight = draw_weights(rng, array)
    dys, xs, chunks, dw = backward_words(geometry, array, weight, rng, samples)
    watch = Watch(part, [op["flags"]["last"] for op in dys])

    async def bench(ctx):
        await load(ctx, array, master)
        ctx.set(part.go, 1)
        await watch.run(ctx)
        await ctx.tick().repeat(array.settle)
        for i, j, address in np.ndindex(dw.shape):
            ctx.set(array.peek_select, i * pn + j)
            ctx.set(part.part.inject, {"peek": 1, "address": address})
            await ctx.tick()
            ctx.set(part.part.inject, {})
            await ctx.tick().repeat(array.settle + 2)
            assert ctx.get(array.peek_master) == master[i, j, address]
            if gradient:
                assert ctx.get(array.peek_grad) == dw[i, j, address]

    inputs = {"dy": dys} | ({"x": xs} if gradient else {})
    outputs = {"o": len(chunks)} if backward else {}
    got, _ = run_streams(part, inputs, outputs, stalls=stalls, seed=seed, bench=bench)
    if backward:
        assert [list(word) for word in got["o"]] == chunks
        if stalls == (0.0, 0.0):
            watch.check_flow(part.part.latency)
    assert watch.done == [op["flags"]["sample_last"] for op in dys]
    return watch


SMALL = [
    geometry
    for geometry in FIXED
    if geometry.M * geometry.groups * geometry.fk * geometry.fn <= 100 and geometry.u < 9
]


def small_geometry(seed):
    """A random one with few weights and operands, but with blocks and folds."""
    rng = rng_of(seed, 25)
    while True:
        geometry = draw_geometry(rng, 60)
        depth, pk = geometry.out_words * geometry.fk, geometry.u * geometry.pc
        if 1 < depth * pk <= 12 and geometry.fn > 1 and geometry.b > 1:
            return geometry


@pytest.mark.parametrize("case", range(len(SMALL)))
def test_an_op_a_cycle_without_stalls(case):
    check_forward(SMALL[case], case)
    check_backward(SMALL[case], case)


@pytest.mark.parametrize("stalls", [(0.0, 0.6), (0.6, 0.0), (0.3, 0.3), (0.0, 0.95)])
@pytest.mark.parametrize("seed", range(3))
def test_stalls_at_both_ends(seed, stalls):
    geometry = small_geometry(seed)
    check_forward(geometry, seed, stalls)
    check_backward(geometry, seed, stalls)


@pytest.mark.parametrize(("backward", "gradient"), [(False, True), (True, False)])
def test_missing_passes(backward, gradient):
    geometry = SMALL[2]
    check_backward(geometry, 5, (0.2, 0.2 if backward else 0.0), backward=backward, gradient=gradient)


@pytest.mark.parametrize("check", [check_forward, check_backward])
def test_every_op_completes_a_sum(check):
    """One fold each way: a result a cycle, for which the credits must just reach."""
    one = dataclasses.replace(SMALL[0], window=Window2d(8, 8))
    watch = check(one, 1, samples=1)
    assert len(watch.given) == 64
    tight = check(one, 1, (0.0, 0.7), samples=1)
    inside = [sum(c <= t for c in tight.taken) - sum(c < t for c in tight.given) for t in tight.taken]
    assert max(inside) == tight.part.part.depth


def test_pause_keeps_ops_out():
    """Injected control passes unchanged while paused, and no op is lost or taken."""
    part = Backward(SMALL[0], 2, (1, 1))
    inner = part.part
    seen = []

    async def bench(ctx):
        ctx.set(part.go, 1)
        for port in (part.dy, part.x):
            ctx.set(port.valid, 1)
        ctx.set(part.o.ready, 1)
        await ctx.tick().repeat(2)
        for pause in (0, 1, 1, 0):
            control = {"update": 1, "first": 1, "address": 0}
            ctx.set(inner.pause, pause)
            ctx.set(inner.inject, control if pause else {})
            ready, update = ctx.get(part.dy.ready), ctx.get(inner.b_control.update)
            seen.append(
                (ready, ctx.get(part.x.ready), ctx.get(inner.taken), ctx.get(inner.b_control.op), update)
            )
            await ctx.tick()

    run_streams(part, {}, {}, bench=bench)
    go, stop = (1, 1, 1, 1, 0), (0, 0, 0, 0, 1)
    assert seen == [go, stop, stop, go]


def test_valid_ignores_ready():
    geometry = SMALL[0]
    forward = Forward(geometry, 2, (1, 1), [[0, 0]])
    check_valid_ignores_ready(forward, ("i",), ("o",), held=[(forward.go, 1)])
    backward = Backward(geometry, 2, (1, 1))
    check_valid_ignores_ready(backward, ("dy", "x"), ("o",), held=[(backward.go, 1)])
