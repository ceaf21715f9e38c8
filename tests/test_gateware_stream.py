"""Streams: FIFOs of every kind, forks, register slices, under random stalls at both ends."""

import gc

import numpy as np
import pytest
from amaranth import Module, signed, unsigned
from amaranth.lib import data, stream, wiring
from stream_bench import run_streams

from hwgen.gateware.stream import Buffer, Fifo, Fork, connect_streams, lanes

WORD = lanes(3, 5)


def words(count, seed=0):
    return [[int(v) for v in row] for row in np.random.default_rng(seed).integers(-16, 16, (count, 3))]


def as_ints(word):
    return [word[k] for k in range(3)]


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 31, 32, 33, 34, 1000])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.1), (0.1, 0.6), (0.0, 0.9)])
def test_fifo_keeps_order(depth, stalls):
    sent = words(min(400, 3 * depth + 60), depth)
    fifo = Fifo(WORD, depth)
    got, _ = run_streams(fifo, {"i": sent}, {"o": len(sent)}, stalls=stalls, seed=depth)
    assert [as_ints(w) for w in got["o"]] == sent


@pytest.mark.parametrize("depth", [1, 2, 3, 33, 40])
def test_fifo_capacity_level_and_latency(depth):
    fifo = Fifo(unsigned(8), depth)
    seen = {}

    async def look(ctx):
        ctx.set(fifo.i.valid, 1)
        for cycle in range(depth + 5):
            ctx.set(fifo.i.payload, cycle)
            await ctx.tick()
            if ctx.get(fifo.o.valid):
                seen.setdefault("latency", cycle + 1)
        assert (ctx.get(fifo.level), ctx.get(fifo.high), ctx.get(fifo.i.ready)) == (depth, depth, 0)
        ctx.set(fifo.i.valid, 0)
        ctx.set(fifo.o.ready, 1)
        for number in range(depth):
            assert (ctx.get(fifo.o.valid), ctx.get(fifo.o.payload)) == (1, number)
            await ctx.tick()
        assert (ctx.get(fifo.level), ctx.get(fifo.high), ctx.get(fifo.o.valid)) == (0, depth, 0)

    run_streams(fifo, {}, {}, bench=look)
    assert seen["latency"] == fifo.latency


@pytest.mark.parametrize("depth", [2, 3, 32, 33, 50])
def test_fifo_full_rate(depth):
    sent = words(200)
    _, cycles = run_streams(Fifo(WORD, depth), {"i": sent}, {"o": 200})
    assert cycles <= 200 + 3


@pytest.mark.parametrize("make", [lambda: Buffer(WORD), lambda: Fifo(WORD, 2)])
def test_ready_is_registered(make):
    """Neither o.ready nor i.valid changes i.ready or o.valid within a cycle."""
    part = make()

    async def look(ctx):
        rng = np.random.default_rng(5)
        for _ in range(200):
            seen = set()
            for valid, ready in ((0, 0), (0, 1), (1, 0), (1, 1)):
                ctx.set(part.i.valid, valid)
                ctx.set(part.o.ready, ready)
                seen.add((ctx.get(part.i.ready), ctx.get(part.o.valid)))
            assert len(seen) == 1
            ctx.set(part.i.valid, int(rng.integers(2)))
            ctx.set(part.o.ready, int(rng.integers(2)))
            await ctx.tick()

    run_streams(part, {}, {}, bench=look)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.2), (0.1, 0.6)])
def test_buffer(stalls):
    sent = words(200)
    got, cycles = run_streams(Buffer(WORD), {"i": sent}, {"o": 200}, stalls=stalls)
    assert [as_ints(w) for w in got["o"]] == sent
    assert stalls != (0.0, 0.0) or cycles <= 202


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.3), (0.0, 0.8)])
def test_fork_delivers_once_to_each(n, stalls):
    sent = words(150)

    class Bench(wiring.Component):
        """A Fork with its array of outputs as single ports."""

        def __init__(self):
            outs = {f"o{k}": wiring.Out(stream.Signature(WORD)) for k in range(n)}
            super().__init__({"i": wiring.In(stream.Signature(WORD)), **outs})

        def elaborate(self, platform):
            m = Module()
            m.submodules.fork = fork = Fork(WORD, n)
            connect_streams(m, producer=self.i, consumer=fork.i)
            for k in range(n):
                connect_streams(m, producer=fork.o[k], consumer=getattr(self, f"o{k}"))
            return m

    got, cycles = run_streams(Bench(), {"i": sent}, {f"o{k}": 150 for k in range(n)}, stalls=stalls)
    for k in range(n):
        assert [as_ints(w) for w in got[f"o{k}"]] == sent
    assert stalls != (0.0, 0.0) or cycles <= 151


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_connect_streams_compares_layouts():
    def connect():
        m = Module()
        with pytest.raises(TypeError, match=r"^producer sends .*, consumer takes .*$"):
            connect_streams(m, producer=Fifo(WORD, 2).o, consumer=Fifo(unsigned(15), 2).i)
        connect_streams(m, producer=Fifo(data.ArrayLayout(signed(5), 3), 2).o, consumer=Fifo(WORD, 2).i)

    connect()
    gc.collect()  # unused parts warn when they are collected: here, not in a later test


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    "make", [lambda: Fifo(WORD, 0), lambda: Fork(WORD, 0), lambda: lanes(0, 4), lambda: lanes(2, 0)]
)
def test_bad_sizes_are_refused(make):
    with pytest.raises(ValueError, match="at least 1"):
        make()
    gc.collect()
