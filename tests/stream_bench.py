"""Runs a component's streams in Amaranth's simulator, each end stalling at random, with a watchdog."""

import numpy as np
from amaranth.lib import data
from amaranth.sim import Simulator

__all__ = ["run_streams"]


def _plain(value):
    """Constants of layouts, as they are compared and stored."""
    return value.as_bits() if isinstance(value, data.Const) else value


def run_streams(
    part,
    inputs,
    outputs,
    *,
    stalls=(0.0, 0.0),
    seed=0,
    settings=None,
    bench=None,
    extra=20,
    patience=3000,
    hang=False,
):
    """Feed ``inputs`` {port: words}, collect ``outputs`` {port: number of words}, and check stability while
    stalled.

    ``stalls``: chance that an input offers nothing, and that an output is not ready, in a cycle.
    ``settings``: {port: value} held all the time. ``bench``: another testbench. After the last word ``extra``
    cycles pass, in which no further word may come out. Returns the words of every output and the cycles until
    the last one. ``hang``: the part is expected to get stuck, and what came out until then is returned.
    """
    stuck = set()
    settings = settings or {}
    got = {name: [] for name in outputs}
    last = dict.fromkeys(outputs, 0)

    async def feed(ctx, port, words, rng):
        for word in words:
            while rng.random() < stalls[0]:
                ctx.set(port.valid, 0)
                await ctx.tick()
            ctx.set(port.payload, word)
            ctx.set(port.valid, 1)
            taken = False
            while not (taken or stuck):
                _, _, taken = await ctx.tick().sample(port.ready)
        ctx.set(port.valid, 0)

    async def collect(ctx, name, count, rng):
        port = getattr(part, name)
        idle, cycle, pending, rest = 0, 0, None, extra
        while len(got[name]) < count or rest:
            rest -= len(got[name]) >= count
            ready = int(rng.random() >= stalls[1])
            ctx.set(port.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(port.valid, port.payload)
            if pending is not None:
                assert (bool(valid), _plain(payload)) == (True, pending), f"{name} changed while stalled"
            pending = _plain(payload) if valid and not ready else None
            idle = 0 if valid and ready else idle + 1
            if hang and idle >= patience:
                stuck.add(name)
                return
            assert idle < patience or len(got[name]) >= count, (
                f"{name} stuck after {len(got[name])} of {count} words"
            )
            cycle += 1
            if valid and ready:
                last[name] = cycle
                assert len(got[name]) < count, f"{name}: a word too many"
                got[name].append(payload)

    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    seeds = iter(np.random.default_rng(seed).spawn(len(inputs) + len(outputs)))

    def add(function, *arguments):
        async def testbench(ctx):
            await function(ctx, *arguments)

        simulator.add_testbench(testbench)

    async def hold(ctx):
        for name, value in settings.items():
            ctx.set(getattr(part, name), value)

    simulator.add_testbench(hold)
    for name, words in inputs.items():
        add(feed, getattr(part, name), words, next(seeds))
    for name, count in outputs.items():
        add(collect, name, count, next(seeds))
    if bench is not None:
        simulator.add_testbench(bench)
    simulator.run()
    return got, max(last.values(), default=0)
