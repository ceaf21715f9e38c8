"""The sending half alone: frames are cut by the rules, kept until acknowledged, and sent again from there."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from hwgen.gateware.link.assembler import Assembler
from hwgen.gateware.link.ring import ReplayRing


def run(part, bench):
    simulator = Simulator(part)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


class RingUser:
    """Writes frames, sends them, and acknowledges those in order, all at random; ``sent`` as they went out."""

    def __init__(self, ring, frames, longest, *, seed, delay, nack=0.0, loss=0.0):
        self.ring, self.delay, self.nack, self.loss = ring, delay, nack, loss
        self.rng = np.random.default_rng(seed)
        self.frames = [
            [int(word) for word in self.rng.integers(1 << 32, size=self.rng.integers(1, longest + 1))]
            for _ in range(frames)
        ]
        self.written, self.word = 0, 0
        self.sending, self.payload = None, []
        self.flight, self.expected = [], 0  # frames and acknowledges on their way: (cycle, …)
        self.answers = []
        self.acknowledged = self.replays = self.timeouts = self.most = self.cycle = 0

    def write(self, ctx):
        ring, frames = self.ring, self.frames
        ctx.set(ring.word_valid, 0)
        ctx.set(ring.frame_valid, 0)
        if self.written == len(frames) or (self.word == 0 and not ctx.get(ring.open)):
            return
        frame = frames[self.written]
        if self.word == len(frame):
            ctx.set(ring.frame, {"channel": self.written % 16, "length": len(frame)})
            ctx.set(ring.frame_valid, 1)
            self.written, self.word = self.written + 1, 0
        elif ctx.get(ring.room) and self.rng.random() < 0.9:
            ctx.set(ring.word, frame[self.word])
            ctx.set(ring.word_valid, 1)
            self.word += 1

    def send(self, ctx):
        ring = self.ring
        go = self.rng.random() < 0.9
        if self.sending is not None and self.reading:
            self.payload.append(ctx.get(ring.payload))
        done = self.sending is not None and len(self.payload) == self.length
        if done and go:
            # What was acknowledged meanwhile may have been overwritten: the peer drops it.
            if self.sending >= self.acknowledged:
                assert self.payload == self.frames[self.sending]
            if self.rng.random() >= self.loss:
                self.flight.append((self.cycle + self.delay, self.sending))
            self.sending, done = None, False
        idle = self.sending is None
        start = idle and go and ctx.get(ring.next_valid)
        ctx.set(ring.between, idle)
        ctx.set(ring.start, start)
        self.reading = bool(start) or (not idle and go and not done)
        ctx.set(ring.read, self.reading)
        if start:
            late = (ctx.get(ring.next.sequence) - self.acknowledged) % 1024
            assert late < 512, "sent although it was acknowledged"
            self.sending, self.payload = self.acknowledged + late, []
            self.length = ctx.get(ring.next.frame.length)
            self.replays += not ctx.get(ring.next.first)
            self.most = max(self.most, late + 1)
            assert self.length == len(self.frames[self.sending])
            assert ctx.get(ring.next.frame.channel) == self.sending % 16

    def answer(self, ctx):
        ring = self.ring
        while self.flight and self.flight[0][0] <= self.cycle:
            _, sequence = self.flight.pop(0)
            good = sequence == self.expected
            self.expected += good
            if self.rng.random() >= self.loss:
                nack = not good and self.rng.random() < self.nack
                self.answers.append((self.cycle + self.delay, self.expected, nack))
        ctx.set(ring.acknowledge_valid, 0)
        if self.answers and self.answers[0][0] <= self.cycle:
            _, sequence, nack = self.answers.pop(0)
            ctx.set(ring.acknowledge, {"sequence": sequence % 1024, "nack": nack})
            ctx.set(ring.acknowledge_valid, 1)
            return sequence
        return self.acknowledged

    async def bench(self, ctx):
        self.reading = False
        ctx.set(self.ring.enabled, 1)
        while self.acknowledged < len(self.frames):
            assert self.cycle < 60 * (len(self.frames) + 10) + 4000, (self.written, self.acknowledged)
            self.write(ctx)
            self.send(ctx)
            following = self.answer(ctx)
            self.timeouts += ctx.get(self.ring.timed_out)
            await ctx.tick()
            self.acknowledged = following
            self.cycle += 1


@pytest.mark.parametrize(
    ("words", "longest", "frames", "delay"),
    [(16, 5, 150, 10), (16, 1, 150, 40), (32, 31, 60, 0), (64, 20, 60, 90)],
)
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_ring_keeps_what_is_not_acknowledged(words, longest, frames, delay, loss):
    ring = ReplayRing(32, words, longest, 300)
    user = RingUser(ring, frames, longest, seed=words + longest, delay=delay, nack=0.3, loss=loss)
    run(ring, user.bench)
    assert (user.replays > 0) == (loss > 0)
    assert user.timeouts == 0 or loss


def test_ring_at_the_end_of_sequence_numbers():
    """More frames than there are numbers, as many on their way as may be."""
    ring = ReplayRing(32, 1024, 1, 3000)
    user = RingUser(ring, 1500, 1, seed=3, delay=900, nack=0.1)
    run(ring, user.bench)
    assert user.timeouts == user.replays == 0
    assert 500 < user.most < 512


async def offer(ctx, part, waiting):
    """Offers the first word of each list; call it after each tick with what was taken."""
    for port, words in zip(part.i, waiting, strict=True):
        ctx.set(port.valid, bool(words))
        ctx.set(port.payload, words[0] if words else 0)


@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_assembler_cuts_frames(gaps):
    """Only with credit, no longer than allowed, whole runs in order, one word a cycle, every channel in turn."""
    n, depths, longest = 3, (7, 40, 1), 6
    part, rng = Assembler(16, depths, longest), np.random.default_rng(4)
    words = [[channel << 12 | k for k in range(90)] for channel in range(n)]
    limits, taken, frames, run_words = list(depths), [0] * n, [], []
    got = [[] for _ in range(n)]

    async def bench(ctx):
        rest = [list(own) for own in words]
        for _ in range(1500):
            await offer(ctx, part, [own if rng.random() >= gaps else [] for own in rest])
            ctx.set(part.open, int(rng.random() < 0.7))
            ctx.set(part.room, int(rng.random() < 0.9))
            ctx.set(part.credit_valid, 0)
            if rng.random() < 0.2:
                channel = int(rng.integers(n))
                news = taken[channel] + int(rng.integers(depths[channel] + 1))
                limits[channel] = max(limits[channel], news)
                ctx.set(part.credit, {"channel": channel, "limit": limits[channel]})
                ctx.set(part.credit_valid, 1)
            moved = [k for k in range(n) if ctx.get(part.i[k].valid) and ctx.get(part.i[k].ready)]
            assert len(moved) == ctx.get(part.word_valid)
            assert not (moved and not ctx.get(part.room))
            assert not (moved and ctx.get(part.frame_valid))
            for channel in moved:
                run_words.append(ctx.get(part.word))
                assert run_words[-1] == rest[channel].pop(0)
                taken[channel] += 1
                assert taken[channel] <= limits[channel]
            if ctx.get(part.frame_valid):
                channel = ctx.get(part.frame.channel)
                assert ctx.get(part.frame.length) == len(run_words) <= longest
                assert {word >> 12 for word in run_words} == {channel}
                frames.append((channel, len(run_words)))
                got[channel] += run_words
                run_words.clear()
            await ctx.tick()

    run(part, bench)
    assert got[1] == words[1]
    for channel in range(n):
        assert got[channel] == words[channel][: len(got[channel])]
        assert len(got[channel]) > 20


def test_assembler_keeps_pace():
    """Channels that always have words and credit: frames of full length, in turn, a cycle between them."""
    part = Assembler(16, (1000, 1000, 1000), 5)
    frames = []

    async def bench(ctx):
        for port in part.i:
            ctx.set(port.valid, 1)
        ctx.set(part.open, 1)
        ctx.set(part.room, 1)
        for cycle in range(100):
            if ctx.get(part.frame_valid):
                frames.append((cycle, ctx.get(part.frame.channel), ctx.get(part.frame.length)))
            await ctx.tick()

    run(part, bench)
    first = frames[0][1]
    assert frames == [(6 + 6 * k, (first + k) % 3, 5) for k in range(len(frames))]
    assert len(frames) == 16
