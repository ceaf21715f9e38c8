"""A board of a chain: its share of the network, its place in the management, and an end of every link it has."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..plan.links import LINK_COUNTERS, LINK_PROTOCOL, SIDE_DOWN, SIDE_UP, LinkPlan
from ..plan.plan import Plan
from ..plan.registers import LINK_REGISTERS, LINK_STRIDE
from ..target import MAX_BOARDS
from .channels import Pack, Unpack
from .command import COMMAND
from .core import Core
from .emitted import Emitted
from .flow import channel_shape
from .link.end import LinkEnd
from .router import Router

__all__ = ["Board", "identity", "link_end"]


def link_end(link: LinkPlan, side: str) -> LinkEnd:
    """The end of a link at the board whose ``side`` ("up", "down") it is on."""
    away, home = tuple(c.depth for c in link.down), tuple(c.depth for c in link.up)
    tx, rx = (away, home) if side == "down" else (home, away)
    return LinkEnd(link.width, tx, rx, frame_words=link.frame_words, replay_words=link.replay_words)


def identity(build: int, board: int, side: int) -> int:
    """What an end shows its peer (docs/chain.md)."""
    return build | board << 32 | side << 40 | LINK_PROTOCOL << 48


class Board(wiring.Component):
    """Board ``board`` of a plan with links.

    Ports: those of :class:`Core` but for the boundary streams; the host's only on the first board. For each side with
    a link: ``<side>_clk``, the clock of its end; ``<side>``, the signature of link.phy; ``<side>_state``, a number in
    links.LINK_STATES. One reset resets all domains.

    ``ends`` are emitted link ends by side (None: as submodules, for Amaranth's simulator).
    """

    def __init__(
        self,
        plan: Plan,
        board: int,
        build: int = 0,
        modules: tuple[str, ...] | None = None,
        ends: Mapping[str, Emitted] | None = None,
    ):
        self.plan, self.board, self.build = plan, board, build
        self.core = Core(plan, build, modules, board)
        self.links = {
            side: plan.links[k]
            for side, k in (("up", board - 1), ("down", board))
            if 0 <= k < len(plan.links)
        }
        self.ends = (
            dict(ends)
            if ends is not None
            else {side: link_end(link, side) for side, link in self.links.items()}
        )
        inner = ("snapshot", "link_address", "link_value")
        members = {
            name: member
            for name, member in self.core.signature.members.items()
            if name not in inner and not name.startswith(("up_", "down_"))
        }
        if board:
            del members["command"], members["reply"]
        for side, end in self.ends.items():
            members[f"{side}_clk"] = In(1)
            members[side] = end.signature.members["phy"]
            members[f"{side}_state"] = Out(3)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        # Behind the last board there is none: its core answers for all that are not there.
        m.submodules.router = router = Router(self.board if "down" in self.links else MAX_BOARDS - 1)
        wiring.connect(m, router.own_command, core.command)
        wiring.connect(m, core.reply, router.own_reply)
        if self.board == 0:
            wiring.connect(m, wiring.flipped(self.command), router.command)
            wiring.connect(m, router.reply, wiring.flipped(self.reply))
        if "down" not in self.links:
            m.d.comb += [router.far_command.ready.eq(1), router.far_reply.valid.eq(0)]
        values = []
        for side, link in self.links.items():
            values.append(self._end(m, side))
            self._channels(m, side, link, router)
        with m.Switch(core.link_address[LINK_STRIDE.bit_length() - 1]):
            for number, value in values:
                with m.Case(number):
                    m.d.comb += core.link_value.eq(value)
        for name in self.signature.members:
            if name in core.signature.members and name not in ("command", "reply"):
                self._expose(m, name)
        return m

    def _expose(self, m, name):
        """Makes a port of the core one of the board."""
        inside, outside = getattr(self.core, name), getattr(self, name)
        if isinstance(inside, Value):
            m.d.comb += outside.eq(inside)
        elif self.core.signature.members[name].flow is In:
            wiring.connect(m, wiring.flipped(outside), inside)
        else:
            wiring.connect(m, inside, wiring.flipped(outside))

    def _end(self, m, side):
        """The link's end in its own clock domain; its side's number and what its registers show."""
        domain = ClockDomain(side)
        m.domains += domain
        m.submodules[f"{side}_reset"] = FFSynchronizer(ResetSignal(), domain.rst, o_domain=side, init=1)
        m.d.comb += domain.clk.eq(getattr(self, f"{side}_clk"))
        end, number = self.ends[side], SIDE_DOWN if side == "down" else SIDE_UP
        m.submodules[f"{side}_link"] = end if isinstance(end, Emitted) else DomainRenamer({"link": side})(end)
        peer = self.board + (1 if side == "down" else -1)
        wiring.connect(m, end.phy, wiring.flipped(getattr(self, side)))
        address = self.core.link_address[: LINK_STRIDE.bit_length() - 1]
        value = Signal(32, name=f"{side}_value")
        first = LINK_REGISTERS.index(LINK_COUNTERS[0])
        m.d.comb += [
            end.identity.eq(identity(self.build, self.board, number)),
            end.expected.eq(identity(self.build, peer, SIDE_UP if side == "down" else SIDE_DOWN)),
            getattr(self, f"{side}_state").eq(end.state),
            end.snapshot.eq(self.core.snapshot),
            end.counter_select.eq(address - first),
            value.eq(end.counter),
        ]
        for k, shown in enumerate((end.state, end.peer[:32], end.peer[32:])):
            with m.If(address == k):
                m.d.comb += value.eq(shown)
        return number, value

    def _channels(self, m, side, link, router):
        """Joins every channel of a link to the core or to the management, words packed."""
        end = self.ends[side]
        sent, received = (link.down, link.up) if side == "down" else (link.up, link.down)
        management = {
            ("up", "rx"): (router.command, COMMAND),
            ("up", "tx"): (router.reply, unsigned(32)),
            ("down", "tx"): (router.far_command, COMMAND),
            ("down", "rx"): (router.far_reply, unsigned(32)),
        }
        for way, channels in (("tx", sent), ("rx", received)):
            for k, channel in enumerate(channels):
                port, shape = management[side, way]
                if channel.kind != "management":
                    port, shape = getattr(self.core, f"{side}_{channel.kind}"), channel_shape(channel)
                if way == "tx":
                    m.submodules[f"{side}_pack_{channel.kind}"] = part = Pack(shape, link.width)
                    wiring.connect(m, port, part.i)
                    wiring.connect(m, part.o, end.tx[k])
                else:
                    m.submodules[f"{side}_unpack_{channel.kind}"] = part = Unpack(shape, link.width)
                    wiring.connect(m, end.rx[k], part.i)
                    wiring.connect(m, part.o, port)
