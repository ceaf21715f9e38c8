"""Parts of a link end alone, and the Verilog of a whole one."""

import gc
import itertools
import re
import zlib

import numpy as np
import pytest
from amaranth import ClockDomain, Module
from amaranth.sim import Simulator
from hwgen.sim.lint import lint
from link_pair import SHORT

from hwgen.backend.convert import convert
from hwgen.backend.verilog import TOP
from hwgen.gateware.link.crc import Crc32, crc32
from hwgen.gateware.link.crossing import Crossing
from hwgen.gateware.link.end import LinkEnd
from hwgen.gateware.link.frames import HEADER, Kind
from hwgen.gateware.link.order import Order
from hwgen.gateware.link.receiver import Receiver
from hwgen.gateware.link.sender import Sender


def run(part, bench):
    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("width", [32, 64, 128, 256, 384, 1024])
def test_crc_is_the_usual_one(width):
    part, rng = Crc32(width), np.random.default_rng(width)

    async def bench(ctx):
        for length in (1, 2, 7):
            words = [int.from_bytes(rng.bytes(width // 8), "little") for _ in range(length)]
            for index, word in enumerate(words):
                ctx.set(part.data, word)
                ctx.set(part.start, index == 0)
                ctx.set(part.valid, 1)
                await ctx.tick()
                ctx.set(part.valid, 0)
                ctx.set(part.data, ~word)
                await ctx.tick()
            as_bytes = b"".join(word.to_bytes(width // 8, "little") for word in words)
            assert ctx.get(part.crc) == crc32(width).compute(words) == zlib.crc32(as_bytes)

    run(part, bench)


def frame(width, *payload, length=None, **fields):
    """Words of a good frame, (data, last)."""
    fields = {"kind": Kind.DATA, **fields, "length": len(payload) if length is None else length}
    words = [HEADER.const(fields).as_bits(), *payload]
    return [*((word, 0) for word in words), (crc32(width).compute(words), 1)]


def test_receiver_takes_back_what_is_not_accepted():
    """Random frames, faults and verdicts, with and without gaps between words."""
    part, rng = Receiver(64, 5), np.random.default_rng(1)
    words, judged, kept = [], [], []
    for number in range(400):
        payload = [int(rng.integers(1 << 62)) for _ in range(rng.integers(0, 6))]
        sent = frame(64, *payload, channel=number % 16, sequence=number)
        fault = int(rng.integers(8))
        accept = bool(rng.integers(2))
        good = fault > 3
        if fault == 0:  # a bit
            at = int(rng.integers(len(sent)))
            sent[at] = (sent[at][0] ^ 1 << int(rng.integers(64)), sent[at][1])
        elif fault == 1:  # no header
            sent = sent[-1:]
        elif fault == 2:  # too long
            sent = frame(64, *range(6 + number % 7))
        elif fault == 3:  # another length than it says, by a good CRC
            sent = frame(64, *payload, length=len(payload) ^ 1)
        words += sent
        judged.append((good, accept and good))
        kept += [(word, number % 16) for word in payload if accept and good]
    got, verdicts = [], iter(judged)

    async def bench(ctx):
        ctx.set(part.up, 1)
        todo, waited = iter(words), 0
        while waited < 20:
            word = next(todo, None) if rng.random() < 0.8 else None
            waited = waited + 1 if word is None else 0
            ctx.set(part.i_valid, word is not None)
            if word:
                ctx.set(part.i, {"data": word[0], "last": word[1]})
            accept = 0
            if ctx.get(part.done):
                good, accept = next(verdicts)
                assert ctx.get(part.good) == good
            ctx.set(part.accept, accept)
            if ctx.get(part.o_valid):
                got.append((ctx.get(part.o.data), ctx.get(part.o.channel)))
            await ctx.tick()

    run(part, bench)
    assert got == kept
    assert next(verdicts, None) is None


@pytest.mark.parametrize("moment", range(8))
def test_receiver_forgets_half_a_frame_when_it_goes_down(moment):
    """Whatever word of a frame is on its way; what ended before it stays."""
    part = Receiver(64, 5)
    got, good = [], []

    async def bench(ctx):
        ctx.set(part.up, 1)
        sent = [*frame(64, 1, 2, 3, channel=1), *frame(64, 4, 5, 6, channel=2)]
        for cycle, word in enumerate([*sent[:8], *frame(64, 7, 8, channel=3), *[None] * 9]):
            ctx.set(part.i_valid, word is not None)
            if word:
                ctx.set(part.i, {"data": word[0], "last": word[1]})
            ctx.set(part.up, cycle != moment)
            ctx.set(part.accept, ctx.get(part.done) & ctx.get(part.good))
            if ctx.get(part.done):
                good.append(ctx.get(part.good))
            if ctx.get(part.o_valid):
                got.append((ctx.get(part.o.data), ctx.get(part.o.channel)))
            await ctx.tick()

    run(part, bench)
    first, last = [(1, 1), (2, 1), (3, 1)], [(7, 3), (8, 3)]
    # A frame that lost its beginning or its end is none; the second and the third, run together, are a bad one.
    assert got == {4: [], 7: first + last}.get(moment, first if moment > 4 else [])
    assert sum(good) == bool(first[0] in got) + bool(last[0] in got)
    assert good.count(0) == (moment < 4)


@pytest.mark.parametrize("missing", range(5))
def test_receiver_starts_in_the_middle_of_a_frame(missing):
    """The rest of a frame is none; a whole one counts, though it is the first; later ones that are bad do."""
    part, verdicts = Receiver(64, 5), []
    sent = [*frame(64, 1, 2, 3)[missing:], *frame(64, 4), *frame(64, 5, 6)[1:], *frame(64, 7)]

    async def bench(ctx):
        ctx.set(part.up, 1)
        for word in [*sent, *[None] * 4]:
            ctx.set(part.i_valid, word is not None)
            if word:
                ctx.set(part.i, {"data": word[0], "last": word[1]})
            if ctx.get(part.done):
                verdicts.append(ctx.get(part.good))
            await ctx.tick()

    run(part, bench)
    assert verdicts == [1] * (missing == 0) + [1, 0, 1]


@pytest.mark.parametrize("replayed_at", [7, 300, 1023])
def test_one_negative_acknowledge_a_gap_and_replay(replayed_at):
    """Sequence numbers wrap; frames that were replayed although they had come are told again and change nothing."""
    part = Order()
    start = replayed_at
    told = []

    async def send(ctx, sequence, kind=Kind.DATA, *, good=True, tick=None):
        ctx.set(part.header, {"kind": kind, "sequence": sequence % 1024, "tick": tick % 256})
        ctx.set(part.good, good)
        ctx.set(part.done, 1)
        accept = ctx.get(part.accept)
        await ctx.tick()
        ctx.set(part.done, 0)
        told.append(ctx.get(part.acknowledge.nack))
        ctx.set(part.told, 1)
        await ctx.tick()
        ctx.set(part.told, 0)
        assert not ctx.get(part.acknowledge.nack)
        return accept

    async def bench(ctx):
        ctx.set(part.admitted, 1)
        for tick in range(start):
            assert await send(ctx, tick, tick=tick)
        told.clear()
        tick = start
        # (offset, what kind, accepted, asks for a replay)
        for offset, kind, accepted, asks in (
            (1, Kind.DATA, 0, 1), (2, Kind.DATA, 0, 0), (3, Kind.CONTROL, 0, 0), (3, Kind.CONTROL, 0, 0),
            (-1, Kind.DATA, 0, 0), (1, Kind.DATA, 0, 1), (2, Kind.CONTROL, 0, 0), (1, Kind.DATA, 0, 1),
            (0, Kind.DATA, 1, 0),
            (0, Kind.DATA, 0, 0), (1, Kind.CONTROL, 0, 0), (2, Kind.CONTROL, 0, 1), (1, Kind.DATA, 1, 0),
        ):  # fmt: skip
            assert await send(ctx, start + offset, kind, tick=tick) == accepted, offset
            assert told.pop() == asks, (offset, kind)
            tick += 1
        assert ctx.get(part.acknowledge.sequence) == (start + 2) % 1024
        assert not await send(ctx, start + 2, tick=tick - 1)  # the last frame once more
        assert ctx.get(part.acknowledge.sequence) == (start + 2) % 1024

    run(part, bench)


@pytest.mark.parametrize("periods", [(10, 10), (10, 37), (41, 10)])
def test_crossing_survives_resets(periods):
    """Of what is written after a reset nothing is missing, and nothing written before it comes out."""
    part, m = Crossing(16, 6, writer="w", reader="r"), Module()
    w, r = ClockDomain("w"), ClockDomain("r")
    m.domains += [w, r]
    m.submodules.part = part
    simulator = Simulator(m)
    epoch, got, rng = 0, [], np.random.default_rng(2)

    async def write(ctx):
        nonlocal epoch
        for epoch in range(1, 9):
            for number in range(epoch * 7):
                ctx.set(part.i.payload, epoch << 8 | number)
                ctx.set(part.i.valid, 1)
                taken = False
                while not taken:
                    _, _, taken = await ctx.tick("w").sample(part.i.ready)
                ctx.set(part.i.valid, 0)
                assert ctx.get(part.level) <= 8
            if epoch % 2:  # all of them
                while got[-1:] != [epoch << 8 | epoch * 7 - 1]:
                    await ctx.tick("w")
                assert got == [epoch << 8 | number for number in range(epoch * 7)]
            ctx.set(w.rst, 1)
            ctx.set(r.rst, 1)
            for _ in range(20):
                await ctx.tick("w")
            got.clear()
            for reset in (w.rst, r.rst)[:: 1 if epoch % 3 else -1]:
                ctx.set(reset, 0)
                for _ in range(int(rng.integers(5))):
                    await ctx.tick("r")

    async def read(ctx):
        while True:
            ctx.set(part.o.ready, int(rng.integers(2)))
            _, reset, valid, ready, word = await ctx.tick("r").sample(
                part.o.valid, part.o.ready, part.o.payload
            )
            if valid and ready and not reset:
                got.append(word)

    for name, period in zip("wr", periods, strict=True):
        simulator.add_clock(period * 1e-9, domain=name)
    simulator.add_testbench(write)
    simulator.add_testbench(read, background=True)
    simulator.run()


def test_a_level_counts_a_word_two_cycles_after_it_came():
    """As Grants needs it: earlier or later, a limit would step back or promise too much."""
    part, levels = Crossing(8, 4, writer="sync", reader="sync"), []

    async def bench(ctx):
        await ctx.tick().repeat(8)
        for cycle in range(9):
            ctx.set(part.i.valid, cycle in (0, 1, 4))
            levels.append(ctx.get(part.level))
            await ctx.tick()

    run(part, bench)
    assert levels == [0, 0, 1, 2, 2, 2, 3, 3, 3]


def test_a_sender_tells_at_most_in_every_third_cycle():
    """As Grants needs it, under the most that there is to tell."""
    part, told = Sender(64, 8), []

    async def bench(ctx):
        for port in (part.running, part.greeted, part.news, part.credit_news, part.o.ready):
            ctx.set(port, 1)
        ctx.set(part.next.frame.length, 1)
        for cycle in range(300):
            ctx.set(part.next_valid, cycle < 100 or cycle % 7 < 2)
            if ctx.get(part.told):
                told.append(cycle)
            await ctx.tick()

    run(part, bench)
    assert min(b - a for a, b in itertools.pairwise(told)) == 3


def test_verilog_of_an_end():
    """Clean under lint; no loop of wires."""
    text = convert(LinkEnd(128, (5, 300), (7,)), TOP)
    assert lint({f"verilog/{TOP}.v": text}) == []
    for port in ("link_clk", "link_rst", "clk", "rst", "phy__tx__payload", "tx__1__valid", "rx__0__ready"):
        assert re.search(rf"^  (input|output) (\[\d+:0\] )?{port};$", text, re.MULTILINE), port


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 65}, "LinkEnd: width 65; a multiple of 64 up to 1024"),
        ({"tx": ()}, r"Assembler: 0 channels; 1\.\.16"),
        ({"tx": (1,) * 17}, r"Assembler: 17 channels; 1\.\.16"),
        ({"rx": ()}, r"Grants: 0 channels, 0 buffers; 1\.\.16, as many of both"),
        ({"tx": (5, 0)}, r"Assembler: depth 0; 1\.\.32767"),
        ({"rx": (40000,)}, r"Grants: depth 40000 in a buffer of 65536; 1\.\.32767, and it must fit"),
        ({"frame_words": 256, "replay_words": 1024}, r"Assembler: frame_words 256; 1\.\.255"),
        ({"replay_words": 100}, "ReplayRing: 100 words; a power of two, at least 16, more than frame_words 8"),
        ({"replay_words": 8}, "ReplayRing: 8 words; a power of two, at least 16, more than frame_words 8"),
        ({"timeout": 0}, "ReplayRing: timeout 0; at least 1"),
        ({"heartbeat": 7}, "Sender: heartbeat 7; at least 8"),
        ({"hello_gap": 7}, "Greeting: hello_gap 7, silence 2000; at least 8, and silence more"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        LinkEnd(**{"width": 64, "tx": (16,), "rx": (16,), **SHORT, **options})
    gc.collect()  # the refused parts, while their warnings are ignored
