"""The core: images of the right length only, and a whole small device in Amaranth's own simulator."""

import numpy as np
import pytest
from amaranth.sim import Simulator
from ref_networks import random_batch, random_parameters
from stream_bench import run_streams

from hwgen.gateware.core import Core
from hwgen.gateware.frame import FrameCheck
from hwgen.gateware.stream import lanes
from hwgen.ir.activation import Activation
from hwgen.ir.stage import Loss, Network, Stage, Update, Wish
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.planner import plan_network
from hwgen.plan.registers import GLOBAL, SPACES, STATUS_BAD_FRAME, STATUS_IDLE, channel_names, stage_register
from hwgen.plan.weights import bias_image, bias_tensor, weight_image, weight_tensor
from hwgen.ref.executor import Reference

WORD = lanes(2, 5)


def frame_words(rng, lengths):
    """Beats of images of these lengths, ``last`` on the last one of each."""
    return [
        {"data": [int(v) for v in rng.integers(-16, 16, 2)], "last": int(k == length - 1)}
        for length in lengths
        for k in range(length)
    ]


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.4)])
@pytest.mark.parametrize("beats", [1, 2, 3, 8])
def test_right_frames_pass(beats, stalls):
    part = FrameCheck(WORD, beats)
    sent = frame_words(np.random.default_rng(beats), [beats] * 5)
    firsts, taken = [], []

    async def watch(ctx):
        while len(taken) < len(sent):
            _, _, valid, ready, first = await ctx.tick().sample(part.i.valid, part.i.ready, part.first)
            assert valid & ready or not first
            if valid & ready:
                taken.append(1)
                firsts.append(first)
        assert not ctx.get(part.bad)

    got, _ = run_streams(part, {"i": sent}, {"o": len(sent)}, stalls=stalls, seed=beats, bench=watch)
    assert [list(word) for word in got["o"]] == [word["data"] for word in sent]
    assert firsts == [int(k % beats == 0) for k in range(len(sent))]


@pytest.mark.parametrize("wrong", [1, 2, 4, 7])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_wrong_frames_stop_for_good(wrong, before):
    """Beats pass up to the first ``last`` that is missing or too early; then nothing is taken or given, ever."""
    beats = 3
    part = FrameCheck(WORD, beats)
    sent = frame_words(np.random.default_rng(wrong), [beats] * before + [wrong] + [beats] * 3)
    good = beats * before + min(wrong, beats) - 1
    given = []

    async def offer(ctx):
        ctx.set(part.o.ready, 1)
        ctx.set(part.i.valid, 1)
        taken = 0
        for _ in range(60):
            ctx.set(part.i.payload, sent[min(taken, len(sent) - 1)])
            _, _, ready, bad, valid, word = await ctx.tick().sample(
                part.i.ready, part.bad, part.o.valid, part.o.payload
            )
            assert bad == (taken > good)
            assert not (ready and bad)
            taken += ready
            if valid:
                given.append(list(word))
        assert taken == good + 1

    run_streams(part, {}, {}, bench=offer)
    assert given == [word["data"] for word in sent[:good]]


def tiny_network():
    """A convolution with everything behind it, and a classifier."""
    conv = Stage(
        "conv", 0, Window2d(4, 4, (3, 3), (1, 1), (1, 1, 1, 1)), 1, 2, x=Q(6, 4), w=Q(6, 4), master=Q(10, 8),
        bias=Q(10, 6), y=Q(6, 3), dy=Q(6, 6), dx=None, activation=Activation(), pool=Window2d(4, 4, (2, 2), (2, 2)),
        wish=Wish(3, 1, 1, 2),
    )  # fmt: skip
    linear = Stage(
        "linear", 1, Window2d(1, 1), 8, 3, x=Q(6, 3), w=Q(6, 4), master=Q(10, 8), bias=Q(10, 6), y=Q(6, 2),
        dy=Q(6, 5), dx=Q(6, 6), wish=Wish(1, 4, 2, 1),
    )  # fmt: skip
    return Network("tiny", Q(6, 4), (conv, linear), Loss(3, Q(6, 2), Q(6, 5)), Update(Q(6, 3), 9, 2, 0.1))


class Driver:
    """A device in Amaranth's simulator: commands, samples, results."""

    def __init__(self, plan):
        self.plan, self.core = plan, Core(plan, 77)
        self.results, self.ended = [], False

    def run(self, images, labels, body):
        simulator = Simulator(self.core)
        simulator.add_clock(1e-6)

        async def main(ctx):
            self.ctx = ctx
            await body(self)
            self.ended = True

        simulator.add_testbench(main)
        beats = images.reshape(len(images), -1, self.plan.image_lanes)
        self.go = False
        words = [
            {"data": beat.tolist(), "last": int(k == len(image) - 1)}
            for image in beats
            for k, beat in enumerate(image)
        ]
        simulator.add_testbench(self._feed(self.core.image, words), background=True)
        simulator.add_testbench(self._feed(self.core.label, labels.tolist()), background=True)
        simulator.add_testbench(self._collect, background=True)
        simulator.run()
        assert self.ended

    def _feed(self, port, words):
        async def testbench(ctx):
            while not self.go:
                await ctx.tick()
            for word in words:
                ctx.set(port.payload, word)
                ctx.set(port.valid, 1)
                await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)

        return testbench

    async def _collect(self, ctx):
        port = self.core.result
        ctx.set(port.ready, 1)
        async for _, _, valid, payload in ctx.tick().sample(port.valid, port.payload):
            if valid:
                self.results.append((payload.prediction, payload.loss))

    async def transfer(self, address, write=0, data=0):
        command, reply, ctx = self.core.command, self.core.reply, self.ctx
        ctx.set(command.payload, {"data": data & 0xFFFFFFFF, "addr": address, "board": 0, "write": write})
        ctx.set(command.valid, 1)
        await ctx.tick().until(command.ready)
        ctx.set(command.valid, 0)
        if write:
            return None
        ctx.set(reply.ready, 1)
        (value,) = await ctx.tick().sample(reply.payload).until(reply.valid)
        ctx.set(reply.ready, 0)
        return value

    async def read(self, name):
        return await self.transfer(GLOBAL[name].address)

    async def write(self, name, data):
        await self.transfer(GLOBAL[name].address, 1, data)

    async def memory(self, stage, space, values):
        """Writes [pe, address] values, or reads as many if they are None."""
        await self.write("space", stage * 16 + SPACES[space])
        await self.write("pointer", 0)
        if isinstance(values, tuple):
            raw = [await self.read("data") for _ in range(int(np.prod(values)))]
            return np.array(raw, dtype=np.uint32).astype(np.int32).astype(np.int64).reshape(values)
        for value in values.reshape(-1):
            await self.write("data", int(value))
        return values

    async def idle(self, samples):
        for _ in range(3000):
            if await self.read("samples") == samples and await self.read("status") & STATUS_IDLE:
                return
        raise AssertionError("the device never came to rest")


def test_whole_device_trains_like_the_reference():
    plan = plan_network(tiny_network())
    network = plan.network
    rng = np.random.default_rng(8)
    parameters = random_parameters(network, rng)
    images, labels = random_batch(network, rng, 4)
    reference = Reference(network, parameters)
    traces = [reference.train_batch(images[k : k + 2], labels[k : k + 2]) for k in (0, 2)]
    driver = Driver(plan)

    async def body(device):
        assert await device.read("build") == 77
        for k, planned in enumerate(plan.stages):
            await device.memory(k, "master", weight_image(planned.fold, parameters.weights[k]))
            await device.memory(k, "bias", bias_image(planned.fold, parameters.biases[k]).T)
        assert await device.read("status") == STATUS_IDLE
        device.go = True
        await device.idle(4)
        for k, planned in enumerate(plan.stages):
            fold = planned.fold
            masters = await device.memory(k, "master", (fold.pk, fold.pn, fold.depth))
            assert np.array_equal(weight_tensor(fold, masters), reference.parameters.weights[k])
            biases = await device.memory(k, "bias", (fold.pn, fold.y_words))
            assert np.array_equal(bias_tensor(fold, biases.T), reference.parameters.biases[k])
        await device.write("snapshot", 0)
        for k, planned in enumerate(plan.stages):
            for name in ("forward_ops", "gradient_ops"):
                assert await device.transfer(stage_register(k, name)) == 4 * planned.fold.cycles
            assert await device.transfer(stage_register(k, "updates")) == 2

    driver.run(images, labels, body)
    core = driver.core
    assert core.channels == channel_names(plan)
    assert len(core.channel_valid) == len(core.channel_ready) == len(core.channels)
    assert {*core.probes} == {"probe_y0", "probe_y1", "probe_dy0", "probe_dy1", "probe_dx1", "probe_dz"}
    losses = np.concatenate([trace.losses for trace in traces])
    predictions = np.concatenate([trace.predictions for trace in traces])
    assert driver.results == [*zip(predictions.tolist(), losses.tolist(), strict=True)]


def test_a_bad_frame_shows_in_the_status():
    plan = plan_network(tiny_network())
    driver = Driver(plan)
    images, labels = random_batch(plan.network, np.random.default_rng(9), 1)

    async def body(device):
        ctx, port = device.ctx, device.core.image
        ctx.set(port.payload, {"data": [1], "last": 1})
        ctx.set(port.valid, 1)
        await ctx.tick().repeat(4)
        assert not ctx.get(port.ready)
        assert await device.read("status") == STATUS_BAD_FRAME
        assert await device.read("samples") == 0

    driver.run(images, labels, body)
