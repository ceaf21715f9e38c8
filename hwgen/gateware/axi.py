"""An AXI4 port to external memory, shared by clients that read and write bursts."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.memory import AXI_ADDRESS, AXI_BITS, BURST_BEATS
from .stream import Fifo

__all__ = ["AXI", "BEAT", "BURST", "CLIENT", "BurstPort"]

BURST = data.StructLayout({"address": AXI_ADDRESS, "beats": BURST_BEATS.bit_length()})
"""A burst of 1 to BURST_BEATS whole words from a byte address on; it stays within a page of 4 KiB."""
BEAT = data.StructLayout({"data": AXI_BITS, "strobe": AXI_BITS // 8})

CLIENT = wiring.Signature(
    {
        "read": Out(stream.Signature(BURST)),
        "data_valid": In(1),
        "data": In(AXI_BITS),
        "write": Out(stream.Signature(BURST)),
        "beats": Out(stream.Signature(BEAT)),
        "written": In(1),
    }
)
"""What a client has of the port: words that it asked to ``read`` come in order and must be taken at once; those of a
``write`` are in ``beats`` when it is asked for, ``written`` tells of the oldest one that it is in memory."""

_BURST = {
    "valid": Out(1),
    "ready": In(1),
    "addr": Out(AXI_ADDRESS),
    "len": Out(8),
    "size": Out(3),
    "burst": Out(2),
}
AXI = wiring.Signature(
    {f"{way}{name}": member for way in ("aw", "ar") for name, member in _BURST.items()}
    | {
        "wvalid": Out(1),
        "wready": In(1),
        "wdata": Out(AXI_BITS),
        "wstrb": Out(AXI_BITS // 8),
        "wlast": Out(1),
    }
    | {"bvalid": In(1), "bready": Out(1), "bresp": In(2)}
    | {"rvalid": In(1), "rready": Out(1), "rdata": In(AXI_BITS), "rresp": In(2), "rlast": In(1)}
)
"""AXI4 with one ID (0, no ports for it), bursts INCR of whole words."""

IN_FLIGHT = 8
"""Bursts that wait for their answer, each way."""
_SIZE = (AXI_BITS // 8).bit_length() - 1
_INCR = 1


class BurstPort(wiring.Component):
    """Joins ``clients`` to an AXI4 port, each in turn; reads and writes go their own ways.

    A read word a cycle; a burst of n written words takes n + 1 cycles. Answers are always taken.

    Members: ``clients``, ``memory``, ``error``: an answer told of an error (stays up).
    """

    def __init__(self, clients: int):
        self.count = clients
        super().__init__({"clients": In(CLIENT).array(clients), "memory": Out(AXI), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        bus = self.memory
        self._read(m)
        self._write(m)
        for way in ("ar", "aw"):
            m.d.comb += [getattr(bus, f"{way}size").eq(_SIZE), getattr(bus, f"{way}burst").eq(_INCR)]
        m.d.comb += [bus.rready.eq(1), bus.bready.eq(1)]
        with m.If((bus.rvalid & bus.rresp.any()) | (bus.bvalid & bus.bresp.any())):
            m.d.sync += self.error.eq(1)
        return m

    def _choose(self, m, name, streams, take):
        """(number, burst, there is one): the next client in turn that asks; it is served with ``take``."""
        turn = Signal(range(max(2, self.count)), name=f"{name}_turn")
        chosen = Signal.like(turn, name=f"{name}_chosen")
        some = Cat(one.valid for one in streams).any()
        burst = Signal(BURST, name=f"{name}_burst")
        with m.Switch(turn):
            for first in range(self.count):
                with m.Case(first):
                    # The last assignment counts: the client behind the one served last comes first.
                    for k in reversed(range(1, self.count + 1)):
                        number = (first + k) % self.count
                        with m.If(streams[number].valid):
                            m.d.comb += chosen.eq(number)
        with m.Switch(chosen):
            for k, one in enumerate(streams):
                with m.Case(k):
                    m.d.comb += [burst.eq(one.payload), one.ready.eq(take)]
        with m.If(take & some):
            m.d.sync += turn.eq(chosen)
        return chosen, burst, some

    def _read(self, m):
        bus = self.memory
        m.submodules.reading = order = Fifo(range(max(2, self.count)), IN_FLIGHT)
        take = Signal(name="take_read")
        chosen, burst, some = self._choose(m, "read", [one.read for one in self.clients], take)
        m.d.comb += [
            take.eq((~bus.arvalid | bus.arready) & order.i.ready),
            order.i.valid.eq(take & some),
            order.i.payload.eq(chosen),
            order.o.ready.eq(bus.rvalid & bus.rlast),
        ]
        with m.If(bus.arready):
            m.d.sync += bus.arvalid.eq(0)
        with m.If(take & some):
            m.d.sync += [bus.arvalid.eq(1), bus.araddr.eq(burst.address), bus.arlen.eq(burst.beats - 1)]
        for k, one in enumerate(self.clients):
            m.d.comb += [one.data_valid.eq(bus.rvalid & (order.o.payload == k)), one.data.eq(bus.rdata)]

    def _write(self, m):
        bus = self.memory
        m.submodules.writing = order = Fifo(range(max(2, self.count)), IN_FLIGHT)
        take, sending = Signal(name="take_write"), Signal()
        chosen, burst, some = self._choose(m, "write", [one.write for one in self.clients], take)
        client, left = Signal.like(chosen, name="client"), Signal(range(BURST_BEATS + 1))
        # Words do not wait for their address to be taken: a memory may want to see them first.
        m.d.comb += [
            take.eq(~sending & order.i.ready),
            order.i.valid.eq(take & some),
            order.i.payload.eq(chosen),
            order.o.ready.eq(bus.bvalid),
            sending.eq(bus.awvalid | (left != 0)),
            bus.wlast.eq(left == 1),
        ]
        with m.If(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        with m.If(take & some):
            m.d.sync += [
                bus.awvalid.eq(1),
                bus.awaddr.eq(burst.address),
                bus.awlen.eq(burst.beats - 1),
                left.eq(burst.beats),
                client.eq(chosen),
            ]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += left.eq(left - 1)
        with m.Switch(client):
            for k, one in enumerate(self.clients):
                with m.Case(k):
                    m.d.comb += [
                        bus.wvalid.eq(one.beats.valid & (left != 0)),
                        bus.wdata.eq(one.beats.payload.data),
                        bus.wstrb.eq(one.beats.payload.strobe),
                        one.beats.ready.eq(bus.wready & (left != 0)),
                    ]
        for k, one in enumerate(self.clients):
            m.d.comb += one.written.eq(bus.bvalid & (order.o.payload == k))
