"""A whole device: image and label streams in, results out, stages in a chain, loss at its end."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.plan import Plan
from ..plan.registers import channel_names
from .emitted import Emitted
from .host import BUS, Host
from .loss import SoftmaxCrossEntropy
from .relane import Relane
from .stage import StageEngine
from .stream import Fifo, lanes

__all__ = ["Core", "FrameCheck"]


class FrameCheck(wiring.Component):
    """Passes images of exactly ``beats`` beats; stops for good at a ``last`` in the wrong place.

    ``o`` carries the data alone; ``first`` pulses with an image's first beat. ``bad`` is sticky.
    """

    def __init__(self, shape, beats: int):
        self.beats = beats
        super().__init__(
            {
                "i": In(stream.Signature(data.StructLayout({"data": shape, "last": 1}))),
                "o": Out(stream.Signature(shape)),
                "first": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = Fifo(self.o.payload.shape(), 2)
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        beat = Signal(range(max(2, self.beats)))
        end = beat == self.beats - 1
        take = self.i.valid & self.i.ready
        right = self.i.payload.last == end
        m.d.comb += [
            self.i.ready.eq(fifo.i.ready & ~self.bad),
            fifo.i.payload.eq(self.i.payload.data),
            fifo.i.valid.eq(self.i.valid & ~self.bad & right),
            self.first.eq(take & (beat == 0)),
        ]
        with m.If(take):
            m.d.sync += beat.eq(Mux(end, 0, beat + 1))
            with m.If(~right):
                m.d.sync += self.bad.eq(1)
        return m


class Core(wiring.Component):
    """One FPGA that trains the whole network; ports in docs/gateware.md ("Device ports").

    Model: hwgen.ref.executor.Reference. ``build`` is the number that the register of that name shows,
    ``modules`` the Verilog modules of the stages (None: stages as submodules, for Amaranth's simulator).
    """

    def __init__(self, plan: Plan, build: int = 0, modules: tuple[str, ...] | None = None):
        self.plan, self.build = plan, build
        network = plan.network
        self.engines = [StageEngine(network, planned) for planned in plan.stages]
        self.stages: list[wiring.Component] = list(self.engines)
        if modules is not None:
            self.stages = [
                Emitted(engine, module) for engine, module in zip(self.engines, modules, strict=True)
            ]
        self.channels = channel_names(plan)
        last = plan.stages[-1]
        self.loss = SoftmaxCrossEntropy(network.loss, last.fold.pn, last.fold.pn)
        word = lanes(plan.image_lanes, network.input.width)
        members: dict[str, object] = {
            "image": In(stream.Signature(data.StructLayout({"data": word, "last": 1}))),
            "label": In(stream.Signature(16)),
            "result": Out(stream.Signature(self.loss.result.payload.shape())),
            "bus": In(BUS),
            "channel_valid": Out(len(self.channels)),
            "channel_ready": Out(len(self.channels)),
        }
        self.probes: dict[str, object] = {}
        for i, (engine, ports) in enumerate(zip(self.engines, self.stages, strict=True)):
            self.probes[f"probe_y{i}"] = ports.y
            if engine.backs:
                self.probes[f"probe_dy{i}"] = ports.probe_dy
            if engine.shape.backward:
                self.probes[f"probe_dx{i}"] = ports.dx
        self.probes["probe_dz"] = self.loss.dz
        for name, port in self.probes.items():
            shape = port.payload.shape()
            members[name] = Out(wiring.Signature({"valid": Out(1), "ready": Out(1), "payload": Out(shape)}))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan, stages = self.plan, self.stages
        host = Host(plan, self.build, max(engine.peek_delay for engine in self.engines))
        m.submodules.host = host
        wiring.connect(m, wiring.flipped(self.bus), host.bus)
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

        frame = self._chain(m)
        self._loss(m, host)
        self._status(m, host, frame)
        self._watch(m)
        return m

    def _relane(self, m, name, source, target, width, o, i):
        """Connect o to i through a lane conversion; (run, lanes) as in Relane."""
        if source == target:
            wiring.connect(m, o, i)
            return
        relane = Relane(width, source, target)
        m.submodules[name] = relane
        wiring.connect(m, o, relane.i)
        wiring.connect(m, relane.o, i)

    def _chain(self, m):
        plan, network = self.plan, self.plan.network
        height, width, channels = network.in_shape
        beats = height * width * -(-channels // plan.image_lanes)
        frame = FrameCheck(lanes(plan.image_lanes, network.input.width), beats)
        m.submodules.frame = frame
        wiring.connect(m, wiring.flipped(self.image), frame.i)
        first = plan.stages[0]
        x_side = (first.stage.cin, first.fold.folding.pc)
        self._relane(
            m, "x_0", (channels, plan.image_lanes), x_side, network.input.width, frame.o, self.stages[0].x
        )
        for i in range(1, len(plan.stages)):
            before, behind = plan.stages[i - 1], plan.stages[i]
            y_side = (before.stage.N, before.fold.pn)
            x_side = (behind.stage.cin, behind.fold.folding.pc)
            engine, follower = self.stages[i - 1], self.stages[i]
            self._relane(m, f"x_{i}", y_side, x_side, before.stage.y.width, engine.y, follower.x)
            if self.engines[i - 1].backs:
                self._relane(m, f"dy_{i - 1}", x_side, y_side, before.stage.dy.width, follower.dx, engine.dy)
        return frame

    def _loss(self, m, host):
        m.submodules.loss = loss = self.loss
        engine, last = self.stages[-1], self.plan.stages[-1]
        network = self.plan.network
        # Groups end a word each; the loss takes one run of all classes.
        own, run = (last.stage.N, last.fold.pn), (network.loss.classes, last.fold.pn)
        self._relane(m, "z", own, run, last.stage.y.width, engine.y, loss.z)
        wiring.connect(m, wiring.flipped(self.label), loss.label)
        wiring.connect(m, loss.result, wiring.flipped(self.result))
        m.d.comb += [loss.train.eq(host.train), host.bad_label.eq(loss.bad_label)]
        if self.engines[-1].backs:
            self._relane(m, "dz", run, own, last.stage.dy.width, loss.dz, engine.dy)
        else:
            m.d.comb += loss.dz.ready.eq(1)

    def _status(self, m, host, frame):
        taken, given = Signal(32), Signal(32)
        with m.If(frame.first):
            m.d.sync += taken.eq(taken + 1)
        with m.If(self.result.valid & self.result.ready):
            m.d.sync += given.eq(given + 1)
        training = [
            ports for engine, ports in zip(self.engines, self.stages, strict=True) if engine.shape.gradient
        ]
        m.d.comb += [
            host.samples.eq(given),
            host.bad_frame.eq(frame.bad),
            host.held.eq(Cat(engine.held for engine in training).all()),
            host.idle.eq((taken == given) & Cat(engine.quiet for engine in training).all()),
        ]

    def _watch(self, m):
        bits = {"image": self.image, "label": self.label, "loss.z": self.loss.z, "loss.dz": self.loss.dz}
        bits["result"] = self.result
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
                valid, ready = bits[name].valid, bits[name].ready
            m.d.comb += [self.channel_valid[bit].eq(valid), self.channel_ready[bit].eq(ready)]
        for name, port in self.probes.items():
            probe = getattr(self, name)
            m.d.comb += [
                probe.valid.eq(port.valid),
                probe.ready.eq(port.ready),
                probe.payload.eq(port.payload),
            ]
