"""A device's host port as a stream of bytes each way, and the devices that have it."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...plan.plan import Plan
from ..board import Board
from ..command import COMMAND
from ..core import Core
from ..emitted import Emitted
from ..loss import RESULT
from ..stream import lanes
from .frames import BYTE, FrameReceiver, FrameSender
from .messages import MessageReader, MessageWriter
from .uart import DIVIDER_BITS, Uart

__all__ = ["BytesDevice", "HostPort", "UartDevice"]

RESTART_CYCLES = 64
"""The core's reset, also for clocks of links that are slower."""


class HostPort(wiring.Component):
    """Joins the streams of a core to bytes from and to hwgen.host.protocol.Link.

    Every ``valid`` and ``ready`` depends on registers only, but ``result.ready`` on ``reply.valid``.

    Members: ``i`` bytes from the host, one every 12 cycles; ``o`` bytes of answers, one every 11 cycles; ``image``,
    ``label``, ``command``, ``result``, ``reply`` to those of the core; ``restart``: resets the core.
    """

    def __init__(self, plan: Plan):
        shape = lanes(plan.image_lanes, plan.network.input.width)
        self.reader = MessageReader(shape, plan.image_words)
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(BYTE)),
                "image": self.reader.signature.members["image"],
                "label": Out(stream.Signature(16)),
                "command": Out(stream.Signature(COMMAND)),
                "result": In(stream.Signature(RESULT)),
                "reply": In(stream.Signature(32)),
                "restart": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = FrameReceiver()
        m.submodules.sender = sender = FrameSender()
        clear = Signal()
        reader, writer = self.reader, MessageWriter()
        m.submodules.reader = ResetInserter(clear)(reader)
        m.submodules.writer = ResetInserter(clear)(writer)
        wiring.connect(m, wiring.flipped(self.i), receiver.i)
        wiring.connect(m, receiver.o, reader.i)
        wiring.connect(m, writer.o, sender.i)
        wiring.connect(m, sender.o, wiring.flipped(self.o))
        for name in ("image", "label", "command"):
            wiring.connect(m, getattr(reader, name), wiring.flipped(getattr(self, name)))
        for name in ("result", "reply"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(writer, name))
        for name in ("answer", "ack", "rewind", "sync", "next", "taken", "session", "damaged"):
            m.d.comb += getattr(sender, name).eq(getattr(receiver, name))
        left = Signal(range(RESTART_CYCLES + 1), init=RESTART_CYCLES)
        m.d.comb += clear.eq(receiver.sync | self.restart)
        m.d.sync += self.restart.eq(left != 0)
        with m.If(receiver.sync & receiver.restart):
            m.d.sync += left.eq(RESTART_CYCLES)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return m


STREAMS = ("image", "label", "command", "result", "reply")


class BytesDevice(wiring.Component):
    """A device, or the first board of a chain, whose host port is bytes.

    Parameters: core or board, and host port, each with the Verilog module that it is.

    Members: ``i``, ``o`` as of HostPort, and what else the core or board has, probes left out.
    """

    def __init__(self, inner: Core | Board, port: HostPort, core_module: str, port_module: str):
        self.port = Emitted(port, port_module)
        self.core = Emitted(inner, core_module, reset=self.port.restart)
        self.passed = [
            name
            for name in inner.signature.members
            if name not in STREAMS and not name.startswith(("probe_", "channel_"))
        ]
        members = {name: inner.signature.members[name] for name in self.passed}
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(BYTE)), **members})

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = self.port
        m.submodules.core = core = self.core
        wiring.connect(m, wiring.flipped(self.i), port.i)
        wiring.connect(m, port.o, wiring.flipped(self.o))
        for name in ("image", "label", "command"):
            wiring.connect(m, getattr(port, name), getattr(core, name))
        for name in ("result", "reply"):
            wiring.connect(m, getattr(core, name), getattr(port, name))
        for name in self.passed:
            _expose(m, self, core, name)
        return m


class UartDevice(wiring.Component):
    """A BytesDevice behind a Uart.

    Members: ``rx``, ``tx``; ``divider`` cycles a bit (uart_divider), constant; the rest of the device's.
    """

    def __init__(self, device: BytesDevice, module: str):
        self.device = Emitted(device, module)
        self.passed = device.passed
        members = {name: device.signature.members[name] for name in self.passed}
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "divider": In(DIVIDER_BITS), **members})

    def elaborate(self, platform):
        m = Module()
        m.submodules.uart = uart = Uart()
        m.submodules.device = device = self.device
        wiring.connect(m, uart.o, device.i)
        wiring.connect(m, device.o, uart.i)
        m.d.comb += [uart.rx.eq(self.rx), uart.divider.eq(self.divider), self.tx.eq(uart.tx)]
        for name in self.passed:
            _expose(m, self, device, name)
        return m


def _expose(m, outside, inside, name):
    """Makes a port of ``inside`` one of ``outside``."""
    port, own = getattr(inside, name), getattr(outside, name)
    member = outside.signature.members[name]
    if isinstance(port, Value):
        m.d.comb += port.eq(own) if member.flow is In else own.eq(port)
    elif member.flow is In:
        wiring.connect(m, wiring.flipped(own), port)
    else:
        wiring.connect(m, port, wiring.flipped(own))
