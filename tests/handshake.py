"""What the stream tests of several components check alike: who depends on whom, and when words move."""

import itertools

import numpy as np
from amaranth import Value
from stream_bench import run_streams

__all__ = ["Trace", "check_valid_ignores_ready", "cut"]


def cut(elements, side):
    """Words of a layout (run, lanes): every run is filled up with zeros to whole words."""
    run, P = side
    words = []
    for start in range(0, len(elements), run):
        for k in range(0, run, P):
            word = [int(v) for v in elements[start + k : start + min(k + P, run)]]
            words.append(word + [0] * (P - len(word)))
    return words


def check_valid_ignores_ready(part, inputs, outputs, *, held=(), cycles=200):
    """No output's valid or payload changes within a cycle, whatever the ready of the outputs.

    ``held``: pairs of a signal and its value all the time.
    """
    ins, outs = [getattr(part, name) for name in inputs], [getattr(part, name) for name in outputs]
    valid = 0

    async def look(ctx):
        nonlocal valid
        rng = np.random.default_rng(3)
        for signal, value in held:
            ctx.set(signal, value)
        for _ in range(cycles):
            for port in ins:
                ctx.set(port.valid, int(rng.integers(2)))
                bits = Value.cast(port.payload)
                ctx.set(bits, int.from_bytes(rng.bytes(40), "little") % (1 << len(bits)))
            seen = set()
            for ready in itertools.product((0, 1), repeat=len(outs)):
                for port, bit in zip(outs, ready, strict=True):
                    ctx.set(port.ready, bit)
                seen.add(tuple((ctx.get(port.valid), ctx.get(Value.cast(port.payload))) for port in outs))
            assert len(seen) == 1
            valid += sum(word[0] for word in seen.pop())
            for port in outs:
                ctx.set(port.ready, int(rng.integers(2)))
            await ctx.tick()

    run_streams(part, {}, {}, bench=look)
    assert valid > 0


class Trace:
    """Notes for every port in which cycles a word moves (``moved``) and is offered (``valid``)."""

    def __init__(self, part, names, cycles):
        self.ports = {name: getattr(part, name) for name in names}
        self.cycles = cycles
        self.moved = {name: [] for name in names}
        self.valid = {name: [] for name in names}

    async def bench(self, ctx):
        """The testbench; it ends after ``cycles``."""
        bits = [bit for port in self.ports.values() for bit in (port.valid, port.ready)]
        for cycle in range(self.cycles):
            _, _, *values = await ctx.tick().sample(*bits)
            for name, valid, ready in zip(self.ports, values[::2], values[1::2], strict=True):
                if valid:
                    self.valid[name].append(cycle)
                if valid and ready:
                    self.moved[name].append(cycle)
