"""The boards of a plan in one module, joined by short FIFOs instead of links: cuts without the links between them."""

from pathlib import Path

from amaranth import *
from amaranth.lib import wiring
from kept_modules import kept_text

from hwgen.backend import verilog
from hwgen.backend.convert import convert
from hwgen.backend.requests import stage_requests
from hwgen.gateware.core import Core
from hwgen.gateware.flow import channel_shape
from hwgen.gateware.router import Router
from hwgen.gateware.stream import Fifo

__all__ = ["DirectChain", "direct_files"]


class DirectChain(wiring.Component):
    """Host ports of board 0; probes and channels of all boards, as the chain's simulation top has them."""

    def __init__(self, plan, build=0, modules=None, depth=4):
        self.plan, self.depth = plan, depth
        parts = [modules[i] if modules else None for i in range(len(plan.boards))]
        self.cores = [Core(plan, build, own, board) for board, own in enumerate(parts)]
        self.channels = sum(len(core.channels) for core in self.cores)
        first = self.cores[0].signature.members
        members = {name: first[name] for name in ("image", "label", "result", "command", "reply")}
        members |= {"channel_valid": wiring.Out(self.channels), "channel_ready": wiring.Out(self.channels)}
        for k, core in enumerate(self.cores):
            for name in core.probes:
                members[name.replace("probe_", f"probe_b{k}_")] = core.signature.members[name]
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        cores, routers = self.cores, [Router(k) for k in range(len(self.cores))]
        for k, (core, router) in enumerate(zip(cores, routers, strict=True)):
            m.submodules[f"core_{k}"] = core
            m.submodules[f"router_{k}"] = router
            wiring.connect(m, router.own_command, core.command)
            wiring.connect(m, core.reply, router.own_reply)
            for name in core.probes:
                wiring.connect(
                    m,
                    getattr(core, name),
                    wiring.flipped(getattr(self, name.replace("probe_", f"probe_b{k}_"))),
                )
        for name in ("image", "label"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(cores[0], name))
        wiring.connect(m, cores[0].result, wiring.flipped(self.result))
        wiring.connect(m, wiring.flipped(self.command), routers[0].command)
        wiring.connect(m, routers[0].reply, wiring.flipped(self.reply))
        m.d.comb += [
            self.channel_valid.eq(Cat(core.channel_valid for core in cores)),
            self.channel_ready.eq(Cat(core.channel_ready for core in cores)),
        ]
        for link in self.plan.links:
            self._link(m, link, cores[link.index : link.index + 2], routers[link.index : link.index + 2])
        return m

    def _link(self, m, link, cores, routers):
        near, far = cores
        self._join(m, f"commands_{link.index}", routers[0].far_command, routers[1].command)
        self._join(m, f"replies_{link.index}", routers[1].reply, routers[0].far_reply)
        for channels, source, target, ways in (
            (link.down, near, far, ("down", "up")),
            (link.up, far, near, ("up", "down")),
        ):
            for channel in channels:
                if channel.kind != "management":
                    o, i = (
                        getattr(core, f"{way}_{channel.kind}")
                        for core, way in zip((source, target), ways, strict=True)
                    )
                    assert o.payload.shape() == channel_shape(channel)
                    self._join(m, f"{ways[0]}_{channel.kind}_{link.index}", o, i)

    def _join(self, m, name, o, i):
        m.submodules[name] = fifo = Fifo(o.payload.shape(), self.depth)
        wiring.connect(m, o, fifo.i)
        wiring.connect(m, fifo.o, i)


def direct_files(plan, depth=4):
    """Verilog of a DirectChain under the name of a single device."""
    files = {}
    engines = [[stage_requests(plan, planned) for planned in plan.on(k)] for k in range(len(plan.boards))]
    modules = [tuple(engine.name for _, engine in own) for own in engines]
    files |= {
        f"verilog/{one.name}.v": kept_text(one.key, one.text)
        for own in engines
        for pair in own
        for one in pair
    }

    def top():
        return convert(DirectChain(plan, verilog.build_number(plan), modules, depth), verilog.TOP)

    files[f"verilog/{verilog.TOP}.v"] = kept_text(
        repr((Path(__file__).read_text(), plan, modules, depth)), top
    )
    return files
