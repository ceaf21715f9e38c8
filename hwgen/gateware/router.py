"""Management over the chain: commands for this board to its registers, others to the boards behind it; replies back."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .command import COMMAND

__all__ = ["Router"]


class Router(wiring.Component):
    """Sends every command to where its board is, and gives the replies of reads in the order of the commands.

    A read waits while replies of the other direction are under way, so that none overtakes; writes never wait for
    replies. At most ``pending`` reads are under way. ``command.ready`` depends on the ``ready`` of the side that the
    command goes to, ``reply.valid`` on the ``valid`` of the side whose turn it is.

    Members: ``command``, ``reply`` towards the host; ``own_command``, ``own_reply`` of this board; ``far_command``,
    ``far_reply`` away from the host. ``board``: the highest number that is not further away, 0 at the host.
    """

    def __init__(self, board: int, pending: int = 511):
        self.board, self.pending = board, pending
        command, reply = stream.Signature(COMMAND), stream.Signature(32)
        super().__init__(
            {
                "command": In(command),
                "reply": Out(reply),
                "own_command": Out(command),
                "own_reply": In(reply),
                "far_command": Out(command),
                "far_reply": In(reply),
            }
        )

    def elaborate(self, platform):
        m = Module()
        own, far = Signal(range(self.pending + 1)), Signal(range(self.pending + 1))
        # On the last board every number is its own: no comparison that lint would call constant.
        last = self.board == (1 << len(self.command.payload.board)) - 1
        here = Const(1) if last else self.command.payload.board <= self.board
        write = self.command.payload.write
        sides = (
            (here, self.own_command, self.own_reply, own, far),
            (~here, self.far_command, self.far_reply, far, own),
        )
        ready: Value = Const(0)
        for mine, command, reply, under_way, others in sides:
            allowed = mine & (write | ((others == 0) & (under_way != self.pending)))
            asked = command.valid & command.ready & ~write
            m.d.comb += [
                command.payload.eq(self.command.payload),
                command.valid.eq(self.command.valid & allowed),
                reply.ready.eq(self.reply.ready & (under_way != 0)),
            ]
            m.d.sync += under_way.eq(under_way + asked - (reply.valid & reply.ready))
            ready = ready | (allowed & command.ready)
        m.d.comb += [
            self.command.ready.eq(ready),
            self.reply.valid.eq(Mux(own != 0, self.own_reply.valid, (far != 0) & self.far_reply.valid)),
            self.reply.payload.eq(Mux(own != 0, self.own_reply.payload, self.far_reply.payload)),
        ]
        return m
