"""What one board computes: its stages, between the host or the board before and the loss or the board behind."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.plan import Plan
from ..plan.registers import channel_names
from .command import COMMAND, CommandBus
from .elsewhere import MastersElsewhere
from .emitted import Emitted
from .flow import Flow, boundary_ports
from .frame import FrameCheck
from .host import Host
from .loss import RESULT, SoftmaxCrossEntropy
from .stage import StageEngine
from .stream import lanes

__all__ = ["Core"]


class Core(wiring.Component):
    """A board's share of the network; ports in docs/gateware.md ("Device ports") and flow.boundary_ports.

    A single device has it all: model hwgen.ref.executor.Reference. ``build`` is the number that the register of that
    name shows, ``modules`` the Verilog modules of its stages (None: stages as submodules, for Amaranth's simulator).

    Members beside the ports: with links, ``snapshot`` pulse, ``link_address`` and ``link_value`` for the registers of
    the links (value one cycle later).
    """

    def __init__(self, plan: Plan, build: int = 0, modules: tuple[str, ...] | None = None, board: int = 0):
        self.plan, self.build, self.board = plan, build, board
        network, own = plan.network, plan.on(board)
        self.first, self.last = board == 0, board == len(plan.boards) - 1
        self.engines = [StageEngine(network, planned) for planned in own]
        self.stages: list[wiring.Component] = list(self.engines)
        if modules is not None:
            self.stages = [
                Emitted(engine, module) for engine, module in zip(self.engines, modules, strict=True)
            ]
        self.channels = channel_names(plan, board)
        members: dict[str, object] = {}
        if self.first:
            word = lanes(plan.image_lanes, network.input.width)
            members["image"] = In(stream.Signature(data.StructLayout({"data": word, "last": 1})))
            members["label"] = In(stream.Signature(16))
            members["result"] = Out(stream.Signature(RESULT))
        else:
            members |= boundary_ports(plan.links[board - 1], "up")
        if not self.last:
            members |= boundary_ports(plan.links[board], "down")
        self.elsewhere = MastersElsewhere(plan, board)
        if self.elsewhere.memory is not None:
            members["memory"] = self.elsewhere.memory.signature.members["memory"]
        if plan.links:
            members |= {"snapshot": Out(1), "link_address": Out(8), "link_value": In(32)}
        members |= {
            "command": In(stream.Signature(COMMAND)),
            "reply": Out(stream.Signature(32)),
            "channel_valid": Out(len(self.channels)),
            "channel_ready": Out(len(self.channels)),
        }
        self.probes = self._probes(network, own)
        for name, port in self.probes.items():
            shape = port.payload.shape()
            members[name] = Out(wiring.Signature({"valid": Out(1), "ready": Out(1), "payload": Out(shape)}))
        super().__init__(members)

    def _probes(self, network, own) -> dict[str, object]:
        """Streams that simulations record, by the name of their port."""
        found: dict[str, object] = {}
        for i, (engine, ports) in enumerate(zip(self.engines, self.stages, strict=True)):
            streams = ports.signature.members
            if "y" in streams:
                found[f"probe_y{i}"] = ports.y
            if engine.backs:
                found[f"probe_dy{i}"] = ports.probe_dy
            if "dx" in streams:
                found[f"probe_dx{i}"] = ports.dx
        if self.last:
            pn = own[-1].fold.pn
            self.loss = SoftmaxCrossEntropy(network.loss, pn, pn)
            found["probe_dz"] = self.loss.dz
        return found

    def elaborate(self, platform):
        m = Module()
        plan, stages = self.plan.alone(self.board), self.stages
        regions = len(self.elsewhere.regions)
        host = Host(plan, self.build, max(engine.peek_delay for engine in self.engines), regions)
        m.submodules.host = host
        m.submodules.commands = commands = CommandBus(self.board)
        wiring.connect(m, wiring.flipped(self.command), commands.command)
        wiring.connect(m, commands.reply, wiring.flipped(self.reply))
        wiring.connect(m, commands.bus, host.bus)
        for i, engine in enumerate(stages):
            m.submodules[f"stage_{i}"] = engine
            m.d.comb += [
                engine.train.eq(host.train),
                engine.hold.eq(host.hold),
                engine.batch.eq(host.batch),
                engine.rate.eq(host.rate),
                engine.seed.eq(host.seed),
                engine.host.eq(host.host),
                engine.host.load.eq(host.host.load & (host.stage == i)),
                engine.host.peek.eq(host.host.peek & (host.stage == i)),
                engine.snapshot.eq(host.snapshot),
                engine.counter_select.eq(host.counter_select),
            ]
        with m.Switch(host.stage):
            for i, engine in enumerate(stages):
                with m.Case(i):
                    m.d.comb += host.peeked.eq(engine.peeked)
        with m.Switch(host.counter_stage):
            for i, engine in enumerate(stages):
                with m.Case(i):
                    m.d.comb += host.counter.eq(engine.counter)
        if self.plan.links:
            m.d.comb += [
                self.snapshot.eq(host.snapshot),
                self.link_address.eq(host.bus.addr),
                host.link.eq(self.link_value),
            ]

        self.flow = Flow(m, self.plan, self.board, self, stages)
        frame = self._image(m) if self.first else None
        side = plan.image_side
        y = self.flow.forward((frame.o, side) if frame is not None else None)
        self.flow.backward(self._loss(m, host, y) if self.last else None)
        self.flow.share_sums()
        self.elsewhere.join(m, self, host)
        self._pass_on(m)
        self._status(m, host, frame)
        self._watch(m)
        return m

    def _image(self, m):
        """The image's beats, checked."""
        plan, network = self.plan, self.plan.network
        shape = lanes(plan.image_lanes, network.input.width)
        m.submodules.frame = frame = FrameCheck(shape, plan.image_words)
        wiring.connect(m, wiring.flipped(self.image), frame.i)
        return frame

    def _loss(self, m, host, y):
        """The loss behind the last stage; its error and that one's layout."""
        m.submodules.loss = loss = self.loss
        network, last = self.plan.network, self.plan.stages[-1]
        # Groups end a word each; the loss takes one run of all classes.
        run = (network.loss.classes, last.fold.pn)
        self.flow.join("z", last.stage.y.width, y, (loss.z, run))
        label = self.label if self.first else self.up_label
        wiring.connect(m, wiring.flipped(label), loss.label)
        wiring.connect(m, loss.result, wiring.flipped(self._result))
        m.d.comb += [loss.train.eq(host.train), host.bad_label.eq(loss.bad_label)]
        if not self.engines[-1].backs:
            m.d.comb += loss.dz.ready.eq(1)
        return loss.dz, run

    @property
    def _result(self):
        """Where results leave this board."""
        return self.result if self.first else self.up_result

    def _pass_on(self, m):
        """Labels and results of a board without the loss."""
        if not self.last:
            label = self.label if self.first else self.up_label
            wiring.connect(m, wiring.flipped(label), wiring.flipped(self.down_label))
            wiring.connect(m, wiring.flipped(self.down_result), wiring.flipped(self._result))

    def _status(self, m, host, frame):
        taken, given = Signal(32), Signal(32)
        with m.If(self._result.valid & self._result.ready):
            m.d.sync += given.eq(given + 1)
        training = [
            ports for engine, ports in zip(self.engines, self.stages, strict=True) if engine.shape.gradient
        ]
        quiet = Cat(engine.quiet for engine in training).all() & self.elsewhere.quiet
        m.d.comb += [
            host.samples.eq(given),
            host.held.eq(Cat(engine.held for engine in training).all()),
            host.idle.eq(quiet),
        ]
        if frame is not None:
            with m.If(frame.first):
                m.d.sync += taken.eq(taken + 1)
            m.d.comb += [host.bad_frame.eq(frame.bad), host.idle.eq((taken == given) & quiet)]

    def _watch(self, m):
        streams = {name: getattr(self, name) for name in ("image", "label", "result") if self.first}
        streams |= {
            name.replace("_", ".", 1): getattr(self, name)
            for name in self.signature.members
            if name.startswith(("up_", "down_"))
        }
        if self.last:
            streams |= {"loss.z": self.loss.z, "loss.dz": self.loss.dz}
        owned = {
            name: (ports, bit)
            for engine, ports in zip(self.engines, self.stages, strict=True)
            for bit, name in enumerate(engine.channels)
        }
        for bit, name in enumerate(self.channels):
            if name in owned:
                ports, k = owned[name]
                valid, ready = ports.channel_valid[k], ports.channel_ready[k]
            else:
                valid, ready = streams[name].valid, streams[name].ready
            m.d.comb += [self.channel_valid[bit].eq(valid), self.channel_ready[bit].eq(ready)]
        for name, port in self.probes.items():
            probe = getattr(self, name)
            m.d.comb += [
                probe.valid.eq(port.valid),
                probe.ready.eq(port.ready),
                probe.payload.eq(port.payload),
            ]
