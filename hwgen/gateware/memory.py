"""A board's external memory: masters of its stages, and the host's way to them."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.memory import AXI_ADDRESS, AXI_BITS, Region
from .axi import AXI, CLIENT, BurstPort
from .region import RegionStreams
from .stream import lanes

__all__ = ["BoardMemory", "HostWords"]


class HostWords(wiring.Component):
    """Elements of regions for the host, one at a time.

    Members: ``load`` and ``peek`` pulses with ``region``, ``index``, ``value``; ``busy`` from the cycle after one until
    it is done, then ``peeked`` is what was read; ``quiet``: it may start; ``client`` of a BurstPort.
    """

    def __init__(self, regions: Sequence[Region]):
        self.regions = tuple(regions)
        super().__init__(
            {
                "load": In(1),
                "peek": In(1),
                "region": In(range(max(2, len(regions)))),
                "index": In(32),
                "value": In(signed(32)),
                "busy": Out(1),
                "peeked": Out(signed(32)),
                "quiet": In(1),
                "client": Out(CLIENT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        client = self.client
        number, index, value = Signal.like(self.region), Signal(32), Signal(32)
        address = Signal(AXI_ADDRESS)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [number.eq(self.region), index.eq(self.index), value.eq(self.value)]
                with m.If(self.load):
                    m.next = "WRITE"
                with m.Elif(self.peek):
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += client.write.valid.eq(self.quiet)
                with m.If(client.write.valid & client.write.ready):
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += client.beats.valid.eq(1)
                with m.If(client.beats.ready):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"), m.If(client.written):
                m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += client.read.valid.eq(self.quiet)
                with m.If(client.read.valid & client.read.ready):
                    m.next = "DATA"
            with m.State("DATA"), m.If(client.data_valid):
                m.next = "IDLE"
        word = ~C(AXI_BITS // 8 - 1, AXI_ADDRESS)
        low = address[: (AXI_BITS // 8).bit_length() - 1]
        read = Signal(AXI_BITS)
        m.d.comb += [
            self.busy.eq(~fsm.ongoing("IDLE")),
            client.write.payload.address.eq(address & word),
            client.read.payload.address.eq(address & word),
            client.write.payload.beats.eq(1),
            client.read.payload.beats.eq(1),
            client.beats.payload.data.eq(value << (low << 3)),
            read.eq(client.data >> (low << 3)),
        ]
        with m.Switch(number):
            for k, region in enumerate(self.regions):
                with m.Case(k):
                    m.d.comb += [
                        address.eq(region.base + index * region.stride),
                        client.beats.payload.strobe.eq(C((1 << region.stride) - 1, AXI_BITS // 8) << low),
                    ]
                    with m.If(client.data_valid):
                        m.d.sync += self.peeked.eq(read[: region.bits].as_signed())
        return m


class BoardMemory(wiring.Component):
    """Regions of external memory behind one AXI4 port, each served to a stage; the host reads and writes elements.

    Members: ``masters`` and ``updates``, one of each a region (see RegionStreams); ``load``, ``peek``, ``region``,
    ``index``, ``value``, ``busy``, ``peeked`` as HostWords has them, the host waits for stages that update; ``memory``;
    ``error`` of the port.
    """

    def __init__(self, regions: Sequence[Region]):
        self.streams = [RegionStreams(region) for region in regions]
        self.host = HostWords(regions)
        own = ("load", "peek", "region", "index", "value", "busy", "peeked")
        members = {name: self.host.signature.members[name] for name in own}
        for k, region in enumerate(regions):
            word = stream.Signature(lanes(1, region.bits))
            members |= {f"masters_{k}": Out(word), f"updates_{k}": In(word)}
        super().__init__(members | {"memory": Out(AXI), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = BurstPort(1 + len(self.streams))
        m.submodules.host = host = self.host
        wiring.connect(m, port.memory, wiring.flipped(self.memory))
        wiring.connect(m, host.client, port.clients[0])
        for k, one in enumerate(self.streams):
            m.submodules[f"region_{k}"] = one
            wiring.connect(m, one.client, port.clients[1 + k])
            wiring.connect(m, one.masters, wiring.flipped(getattr(self, f"masters_{k}")))
            wiring.connect(m, wiring.flipped(getattr(self, f"updates_{k}")), one.updates)
        m.d.comb += [
            host.quiet.eq(Cat(one.quiet for one in self.streams).all()),
            self.error.eq(port.error),
            self.busy.eq(host.busy),
            self.peeked.eq(host.peeked),
        ]
        m.d.comb += [
            getattr(host, name).eq(getattr(self, name))
            for name in ("load", "peek", "region", "index", "value")
        ]
        return m
