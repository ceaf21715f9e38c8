"""What projects put around a device: resets of an Aurora core, and bytes as beats of a DMA engine."""

import gc
import re

import numpy as np
import pytest
from amaranth.sim import Simulator

from hwgen.gateware.link.startup import AuroraReset
from hwgen.gateware.serial.beats import ByteBeats


def levels(part, locks):
    """pma_init and reset_pb after every cycle."""
    found = []

    async def bench(ctx):
        for lock in locks:
            ctx.set(part.pll_lock, lock)
            await ctx.tick()
            found.append((ctx.get(part.pma_init), ctx.get(part.reset_pb)))

    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def test_transceivers_first_then_the_core():
    found = levels(AuroraReset(hold=10, settle=5), [1] * 40)
    assert [pma for pma, _ in found] == [1] * 9 + [0] * 31
    assert [core for _, core in found] == [1] * 14 + [0] * 26


def test_the_core_waits_for_the_lock_and_is_reset_when_it_is_lost():
    found = levels(AuroraReset(hold=4, settle=3), [0] * 20 + [1] * 2 + [0] * 3 + [1] * 10 + [0] * 5)
    assert [pma for pma, _ in found] == [1] * 3 + [0] * 37
    released = [k for k, (_, core) in enumerate(found) if not core]
    assert released == list(range(29, 37))  # two cycles of synchroniser, three in a row with lock


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AuroraReset(0, 1), "AuroraReset: hold 0, settle 1 cycles; both must be at least 1"),
        (lambda: AuroraReset(1, 0), "AuroraReset: hold 1, settle 0 cycles; both must be at least 1"),
        (lambda: ByteBeats(3), "ByteBeats: 3 bytes; a power of two"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
    gc.collect()  # the refused part, while its warning is ignored


def beats_of(rng, data, size):
    """Beats with those bytes, some of them missing: (tdata, tkeep)."""
    beats, data = [], list(data)
    while data:
        keep = int(rng.integers(1, 1 << size))
        taken = [data.pop(0) if keep >> k & 1 and data else None for k in range(size)]
        keep = sum(1 << k for k, byte in enumerate(taken) if byte is not None)
        word = sum((byte if byte is not None else 0xEE) << 8 * k for k, byte in enumerate(taken))
        beats.append((word, keep))
    return beats


@pytest.mark.parametrize("size", [1, 8, 16])
@pytest.mark.parametrize("period", [0.7e-6, 1e-6, 2.3e-6])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_bytes_of_beats(size, period, stall):
    part, rng = ByteBeats(size), np.random.default_rng(size)
    data = rng.integers(0, 256, 300).tolist()
    answers = [rng.integers(0, 256, int(n)).tolist() for n in rng.integers(1, 3 * size + 2, 12)]
    down, up = [], [[]]
    draw = [np.random.default_rng(k) for k in range(4)]

    async def host_sends(ctx):
        for word, keep in beats_of(rng, data, size):
            while draw[0].random() < stall:
                await ctx.tick("dma")
            ctx.set(part.h2c_tdata, word)
            ctx.set(part.h2c_tkeep, keep)
            ctx.set(part.h2c_tvalid, 1)
            await ctx.tick("dma").until(part.h2c_tready)
            ctx.set(part.h2c_tvalid, 0)

    async def device_takes(ctx):
        while len(down) < len(data):
            ctx.set(part.o.ready, int(draw[1].random() >= stall))
            _, _, valid, ready, byte = await ctx.tick().sample(part.o.valid, part.o.ready, part.o.payload)
            if valid and ready:
                down.append(byte)

    async def device_sends(ctx):
        for answer in answers:
            for k, byte in enumerate(answer):
                while draw[2].random() < stall:
                    await ctx.tick()
                ctx.set(part.i.payload, {"data": byte, "last": int(k == len(answer) - 1)})
                ctx.set(part.i.valid, 1)
                await ctx.tick().until(part.i.ready)
                ctx.set(part.i.valid, 0)

    async def host_takes(ctx):
        while len(up) <= len(answers):
            ctx.set(part.c2h_tready, int(draw[3].random() >= stall))
            ports = (part.c2h_tvalid, part.c2h_tready, part.c2h_tdata, part.c2h_tkeep, part.c2h_tlast)
            _, _, valid, ready, word, keep, last = await ctx.tick("dma").sample(*ports)
            if valid and ready:
                count = keep.bit_length()
                assert keep == (1 << count) - 1
                assert last or count == size
                up[-1] += [word >> 8 * k & 255 for k in range(count)]
                if last:
                    up.append([])

    async def watchdog(ctx):
        for _ in range(20_000):  # a repeat() that is abandoned at the end warns in a later test
            await ctx.tick()
        raise AssertionError("no end")

    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_clock(period, domain="dma")
    for bench in (host_sends, device_takes, device_sends, host_takes):
        simulator.add_testbench(bench)
    simulator.add_testbench(watchdog, background=True)
    simulator.run()
    assert down == data
    assert up == [*answers, []]
