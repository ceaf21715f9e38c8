"""Management over a line of boards: every command reaches its board in order, every reply comes back in order."""

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from handshake import check_valid_ignores_ready
from stream_bench import run_streams

from hwgen.gateware.command import COMMAND
from hwgen.gateware.router import Router
from hwgen.gateware.stream import Fifo

REGISTERS = 4


class Slow(wiring.Component):
    """A FIFO whose words come out at least ``delay`` cycles after they went in, and then with random gaps."""

    def __init__(self, shape, depth, delay, seed):
        self.depth, self.delay, self.seed = depth, delay, seed | 1
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        shape = self.i.payload.shape()
        m.submodules.fifo = fifo = Fifo(shape, self.depth)
        wiring.connect(m, wiring.flipped(self.i), fifo.i)
        age, noise = Signal(range(self.delay + 1)), Signal(16, init=self.seed & 0xFFFF)
        m.d.sync += noise.eq(Cat(noise[15] ^ noise[13] ^ noise[12] ^ noise[10], noise))
        open_ = age == self.delay
        m.d.comb += [
            self.o.payload.eq(fifo.o.payload),
            self.o.valid.eq(fifo.o.valid & open_),
            fifo.o.ready.eq(self.o.ready & open_),
        ]
        with m.If(fifo.o.valid & ~open_):
            m.d.sync += age.eq(age + 1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += age.eq(Mux(noise[0], 0, self.delay))
        return m


class Memory(wiring.Component):
    """A board's registers: a write sets one, a read answers {board, what it holds, accesses so far}."""

    def __init__(self, board):
        self.board = board
        super().__init__({"command": In(stream.Signature(COMMAND)), "reply": Out(stream.Signature(32))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.replies = replies = Fifo(32, 2)
        wiring.connect(m, replies.o, wiring.flipped(self.reply))
        words = Array(Signal(16, name=f"word_{k}") for k in range(REGISTERS))
        count = Signal(8)
        command = self.command.payload
        m.d.comb += [
            self.command.ready.eq(command.write | replies.i.ready),
            replies.i.valid.eq(self.command.valid & ~command.write),
            replies.i.payload.eq(Cat(words[command.addr[:2]], count, Const(self.board, 8))),
        ]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += count.eq(count + 1)
            with m.If(command.write):
                m.d.sync += words[command.addr[:2]].eq(command.data)
        return m


class Line(wiring.Component):
    """Routers in a line, with slow FIFOs between them and between each and its board."""

    def __init__(self, boards, seed, pending=511, depth=4):
        self.boards, self.depth = boards, depth
        self.rng = np.random.default_rng(seed)
        self.routers = [Router(k, pending) for k in range(boards)]
        super().__init__({"command": In(stream.Signature(COMMAND)), "reply": Out(stream.Signature(32))})

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.command), self.routers[0].command)
        wiring.connect(m, self.routers[0].reply, wiring.flipped(self.reply))
        for k, router in enumerate(self.routers):
            m.submodules[f"router_{k}"] = router
            m.submodules[f"memory_{k}"] = memory = Memory(k)
            self._join(m, f"own_command_{k}", router.own_command, memory.command, 6)
            self._join(m, f"own_reply_{k}", memory.reply, router.own_reply, 12)
            if k + 1 < self.boards:
                self._join(m, f"far_command_{k}", router.far_command, self.routers[k + 1].command, 20)
                self._join(m, f"far_reply_{k}", self.routers[k + 1].reply, router.far_reply, 20)
        return m

    def _join(self, m, name, source, target, most):
        slow = Slow(
            source.payload.shape(), self.depth, int(self.rng.integers(most)), int(self.rng.integers(1 << 16))
        )
        m.submodules[name] = slow
        wiring.connect(m, source, slow.i)
        wiring.connect(m, slow.o, target)


def commands(rng, count, boards, reads=0.5):
    """Random accesses, in runs of the same board as often as not."""
    board, found = 0, []
    for _ in range(count):
        board = int(rng.integers(boards)) if rng.random() < 0.5 else board
        found.append(
            {
                "data": int(rng.integers(1 << 16)),
                "addr": int(rng.integers(REGISTERS)),
                "board": board,
                "write": int(rng.random() >= reads),
            }
        )
    return found


def model(sent, boards):
    """Replies of the reads, in order."""
    words, counts, replies = [[0] * REGISTERS for _ in range(boards)], [0] * boards, []
    for command in sent:
        board, addr = command["board"], command["addr"]
        if command["write"]:
            words[board][addr] = command["data"]
        else:
            replies.append(words[board][addr] | counts[board] % 256 << 16 | board << 24)
        counts[board] += 1
    return replies


def check(boards, seed, count=50, stalls=(0.0, 0.0), reads=0.5, **line):
    sent = commands(np.random.default_rng(seed), count, boards, reads)
    wanted = model(sent, boards)
    got, cycles = run_streams(
        Line(boards, seed, **line), {"command": sent}, {"reply": len(wanted)}, stalls=stalls, seed=seed
    )
    assert got["reply"] == wanted
    return cycles


@pytest.mark.parametrize("boards", [1, 2, 3, 5])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.2), (0.0, 0.7)])
def test_replies_come_in_order_and_all_of_them(boards, stalls):
    for seed in range(2):
        check(boards, seed, stalls=stalls, reads=(0.4, 0.8)[seed])


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("pending", [1, 2, 3])
def test_few_reads_under_way_and_short_queues(pending, depth):
    check(4, pending, pending=pending, depth=depth, stalls=(0.2, 0.4), reads=0.8)


def test_reads_of_one_far_board_follow_each_other():
    """A read does not wait for the reply of the one before it on the same way."""
    sent = [{"data": 0, "addr": 0, "board": 2, "write": 0}] * 40
    line = Line(3, 7, depth=32)
    got, cycles = run_streams(line, {"command": sent}, {"reply": 40})
    assert got["reply"] == model(sent, 3)
    _, one = run_streams(Line(3, 7, depth=32), {"command": sent[:1]}, {"reply": 1})
    assert cycles < 20 * one


def test_writes_never_wait_for_replies():
    """While the host takes no reply, writes to every board still arrive."""
    part, taken = Line(2, 5, depth=8), []
    sent = [{"data": 0, "addr": 0, "board": 1, "write": 0}]
    sent += [{"data": 1, "addr": 0, "board": k % 2, "write": 1} for k in range(12)]

    async def bench(ctx):
        ctx.set(part.reply.ready, 0)
        ctx.set(part.command.valid, 1)
        for _ in range(300):
            ctx.set(part.command.payload, sent[len(taken)])
            _, _, moved = await ctx.tick().sample(part.command.ready)
            if moved:
                taken.append(moved)
            if len(taken) == len(sent):
                return

    run_streams(part, {}, {}, bench=bench)
    assert len(taken) == len(sent)


def test_a_command_that_has_passed_its_board_goes_no_further():
    part = Router(2)

    async def bench(ctx):
        for board, own in ((0, 1), (1, 1), (2, 1), (3, 0), (255, 0)):
            ctx.set(part.command.payload, {"data": 0, "addr": 0, "board": board, "write": 1})
            ctx.set(part.command.valid, 1)
            assert (ctx.get(part.own_command.valid), ctx.get(part.far_command.valid)) == (own, 1 - own)
            await ctx.tick()

    run_streams(part, {}, {}, bench=bench)


@pytest.mark.parametrize("own", [0, 1])
def test_a_router_only_sends_what_it_may(own):
    """With a read of one side under way, a read of the other waits, and a write of either does not."""
    part = Router(1)
    near, far = ("own_command", "far_command") if own else ("far_command", "own_command")
    boards = {"own_command": 1, "far_command": 3}

    async def bench(ctx):
        async def offer(side, write, wanted):
            ctx.set(part.command.payload, {"data": 0, "addr": 0, "board": boards[side], "write": write})
            ctx.set(part.command.valid, 1)
            assert (ctx.get(part.command.ready), ctx.get(getattr(part, side).valid)) == (wanted, wanted)
            await ctx.tick()
            ctx.set(part.command.valid, 0)

        for side in (near, far):
            ctx.set(getattr(part, side).ready, 1)
        await offer(near, 0, 1)
        await offer(far, 0, 0)
        await offer(far, 1, 1)
        await offer(near, 1, 1)
        await offer(near, 0, 1)
        reply = getattr(part, near.replace("command", "reply"))
        ctx.set(part.reply.ready, 1)
        for _ in range(2):
            ctx.set(reply.valid, 1)
            assert ctx.get(part.reply.valid) == ctx.get(reply.ready) == 1
            await offer(far, 0, 0)
            ctx.set(reply.valid, 0)
        await offer(far, 0, 1)
        # What nobody asked for is not taken.
        ctx.set(reply.valid, 1)
        assert ctx.get(part.reply.valid) == 0
        assert ctx.get(reply.ready) == 0

    run_streams(part, {}, {}, bench=bench)


def test_valid_ignores_ready():
    check_valid_ignores_ready(
        Router(1), ["command", "own_reply", "far_reply"], ["own_command", "far_command", "reply"]
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
def test_more_lines(seed):
    rng = np.random.default_rng(seed)
    check(
        int(rng.integers(1, 9)), seed, count=300, stalls=tuple(rng.random(2) * 0.7), reads=rng.random() * 0.8 + 0.1,
        pending=int(rng.choice([1, 2, 7, 511])), depth=int(rng.integers(1, 9)),
    )  # fmt: skip
