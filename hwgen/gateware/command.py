"""Commands and replies of the management channel as transactions on a register bus."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .host import BUS
from .stream import Buffer, Fifo

__all__ = ["COMMAND", "CommandBus"]

COMMAND = data.StructLayout({"data": 32, "addr": 16, "board": 8, "write": 1})
"""A register access: of which board, where, and what to write there (``data`` means nothing in a read)."""


class CommandBus(wiring.Component):
    """Does the register accesses of ``board`` one after the other, in the order of the commands.

    A read gives one word of ``reply``, a write none. A command for another board does nothing; a read is
    answered with 0, so that no host waits in vain. Throughput is that of the bus; ``depth`` commands, two more and
    ``depth`` replies queue. A read starts when its reply has room. ``command.ready`` and ``reply.valid`` depend on
    registers only.

    Members: ``command`` stream of COMMAND, ``reply`` stream of 32 bits, ``bus`` to a Host.
    """

    def __init__(self, board: int = 0, depth: int = 4):
        if not 0 <= board < 256:
            raise ValueError(f"CommandBus: board {board}; 0 to 255")
        self.board, self.depth = board, depth
        super().__init__(
            {
                "command": In(stream.Signature(COMMAND)),
                "reply": Out(stream.Signature(32)),
                "bus": Out(BUS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.commands = commands = Fifo(COMMAND, self.depth)
        m.submodules.replies = replies = Fifo(32, self.depth)
        # Accesses reach all of the device: they come from registers, not out of a memory.
        m.submodules.next = following = Buffer(COMMAND)
        wiring.connect(m, wiring.flipped(self.command), commands.i)
        wiring.connect(m, commands.o, following.i)
        wiring.connect(m, replies.o, wiring.flipped(self.reply))
        bus, command = self.bus, following.o.payload
        own, start, done = Signal(), Signal(), Signal()
        m.d.comb += [
            own.eq(command.board == self.board),
            start.eq(following.o.valid & (command.write | replies.i.ready)),
            bus.valid.eq(start & own),
            bus.write.eq(command.write),
            bus.addr.eq(command.addr),
            bus.wdata.eq(command.data),
            done.eq(start & (bus.ready | ~own)),
            following.o.ready.eq(done),
            replies.i.valid.eq(done & ~command.write),
            replies.i.payload.eq(Mux(own, bus.rdata, 0)),
        ]
        return m
