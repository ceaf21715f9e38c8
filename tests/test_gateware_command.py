"""Commands on a register bus: each done once, in order, answered if it reads, whatever stalls."""

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from handshake import check_valid_ignores_ready
from stream_bench import run_streams

from hwgen.gateware.command import COMMAND, CommandBus


class Registers(wiring.Component):
    """Behind the bus: reads what was written last to an address, after 2 to 5 cycles; counts accesses."""

    def __init__(self, board, depth=4):
        self.part = CommandBus(board, depth)
        super().__init__(
            {
                "command": In(stream.Signature(COMMAND)),
                "reply": Out(stream.Signature(32)),
                "accesses": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = self.part
        bus = part.bus
        wiring.connect(m, wiring.flipped(self.command), part.command)
        wiring.connect(m, part.reply, wiring.flipped(self.reply))
        words = Array(Signal(32, name=f"word_{i}", init=i) for i in range(8))
        wait = Signal(3)
        m.d.comb += [bus.ready.eq(bus.valid & (wait == 1 + bus.addr[:2])), bus.rdata.eq(0xDEAD)]
        m.d.sync += wait.eq(Mux(bus.valid & ~bus.ready, wait + 1, 0))
        with m.If(bus.ready):
            m.d.comb += bus.rdata.eq(words[bus.addr[:3]])
            m.d.sync += self.accesses.eq(self.accesses + 1)
            with m.If(bus.write):
                m.d.sync += words[bus.addr[:3]].eq(bus.wdata)
        return m


def commands(rng, count, boards):
    return [
        {
            "data": int(rng.integers(1 << 32)),
            "addr": int(rng.integers(8)),
            "board": int(rng.choice(boards)),
            "write": int(rng.integers(2)),
        }
        for _ in range(count)
    ]


def model(sent, board):
    """Replies and the number of accesses."""
    words, replies, own = list(range(8)), [], 0
    for command in sent:
        mine = command["board"] == board
        own += mine
        if not command["write"]:
            replies.append(words[command["addr"]] if mine else 0)
        elif mine:
            words[command["addr"]] = command["data"]
    return replies, own


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.7, 0.0), (0.0, 0.9), (0.4, 0.6)])
@pytest.mark.parametrize(("board", "depth"), [(0, 4), (3, 1), (255, 7)])
def test_every_command_once_and_in_order(stalls, board, depth):
    sent = commands(np.random.default_rng(board + depth), 80, (board, board, board ^ 1, board ^ 128))
    replies, own = model(sent, board)
    part, accesses = Registers(board, depth), []

    async def look(ctx):
        async for _, _, count in ctx.tick().sample(part.accesses):
            accesses.append(count)
            if count == own:
                break
        await ctx.tick().repeat(200)
        assert ctx.get(part.accesses) == own

    got, _ = run_streams(
        part, {"command": sent}, {"reply": len(replies)}, stalls=stalls, seed=depth, bench=look
    )
    assert got["reply"] == replies


def test_as_fast_as_the_bus():
    """A register whose access takes 2 cycles: a command every 2 cycles, the last reply 5 after its command."""
    sent = [{"data": 0, "addr": 0, "board": 0, "write": 0}] * 20
    _, cycles = run_streams(Registers(0), {"command": sent}, {"reply": 20})
    assert cycles == 2 * 20 + 3


def test_replies_without_a_taker_stop_reads_only():
    """With ``depth`` replies waiting, no further read is begun and as many commands wait; writes go on."""
    for depth in (1, 4):
        read = {"data": 0, "addr": 0, "board": 0, "write": 0}
        sent = [read] * depth + [{**read, "write": 1}] * 3 + [read] * 40
        part, counted = Registers(0, depth), []

        async def look(ctx, part=part, counted=counted):
            await ctx.tick().repeat(150)
            counted.append((ctx.get(part.accesses), ctx.get(part.command.ready)))

        run_streams(
            part, {"command": sent}, {"reply": 1}, stalls=(0.0, 1.0), bench=look, patience=200, hang=True
        )
        assert counted == [(depth + 3, 0)]


def test_valid_ignores_ready():
    check_valid_ignores_ready(Registers(0), ["command"], ["reply"])


@pytest.mark.parametrize("board", [-1, 256])
def test_boards_have_eight_bits(board):
    part = CommandBus.__new__(CommandBus)
    part._MustUse__silence = True
    with pytest.raises(ValueError, match=rf"^CommandBus: board {board}; 0 to 255$"):
        part.__init__(board)
