"""Masters on a neighbour: a memory on its chip that serves them over the link, and the part's end of that way."""

from __future__ import annotations

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..plan.memory import Region
from .stream import Fifo, lanes
from .words import ram_style

__all__ = ["ChipRegion", "MasterWords"]

OUT_DEPTH = 4
"""Words read that wait for the link; a word a cycle needs three."""


class MasterWords(wiring.Component):
    """Joins a :class:`hwgen.gateware.masters.MasterUpdate` to a region on another board, by words of ``lanes`` masters.

    Of a batch go out: a word of 0, the request, then all new masters. Come in: all masters, then a word of 0, the
    receipt: all new ones are in memory. An element a cycle each way. ``updates.ready`` depends on ``sent.ready``,
    ``received.ready`` on ``masters.ready``; every ``valid`` on registers only.

    Members: ``updates``, ``masters``: elements, as master_streams has them; ``sent``, ``received``: words; ``quiet``:
    no new master is on its way.
    """

    def __init__(self, region: Region):
        self.region = region
        element, word = (stream.Signature(lanes(each, region.bits)) for each in (1, region.lanes))
        super().__init__(
            {
                "updates": In(element),
                "masters": Out(element),
                "sent": Out(word),
                "received": In(word),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # New masters without a receipt: some, all of a batch. A request may already follow them.
        some, due = Signal(), Signal()
        complete, all_due = Signal(), Signal()
        receipt = Signal()
        self._send(m, some, complete)
        self._receive(m, receipt, all_due)
        m.d.sync += [due.eq((due & ~receipt) | some), all_due.eq((all_due & ~receipt) | complete)]
        m.d.comb += self.quiet.eq(~due)
        return m

    def _send(self, m, some, complete):
        """Gathers new masters; ``some``: one is taken, ``complete``: the last one."""
        region, updates, sent = self.region, self.updates, self.sent
        left = Signal(range(region.count + 1))
        lane = Signal(range(max(2, region.lanes)), name="sent_lane")
        take, asks, last = Signal(), Signal(), Signal()
        m.d.comb += [
            updates.ready.eq(~sent.valid | sent.ready),
            take.eq(updates.valid & updates.ready),
            asks.eq(left == 0),
            last.eq((lane == region.lanes - 1) | (left == 1)),
            some.eq(take & ~asks),
            complete.eq(take & (left == 1)),
        ]
        with m.If(updates.ready):
            m.d.sync += sent.valid.eq(take & (asks | last))
        with m.If(take):
            m.d.sync += [left.eq(Mux(asks, region.count, left - 1)), lane.eq(Mux(asks | last, 0, lane + 1))]
            for k in range(region.lanes):
                with m.If(lane == k):
                    m.d.sync += sent.payload[k].eq(updates.payload[0])
                with m.Elif(lane == 0):
                    m.d.sync += sent.payload[k].eq(0)

    def _receive(self, m, receipt, all_due):
        """Gives masters one by one; ``receipt``: the word behind the last of them is taken, after all new ones are
        sent."""
        region, masters, received = self.region, self.masters, self.received
        left = Signal(range(region.count + 1), name="masters_left", init=region.count)
        lane = Signal(range(max(2, region.lanes)), name="received_lane")
        word, full = Signal.like(received.payload, name="word"), Signal()
        moved, last = Signal(), Signal()
        m.d.comb += [
            masters.valid.eq(full),
            masters.payload[0].eq(Array(word)[lane]),
            moved.eq(masters.valid & masters.ready),
            last.eq((lane == region.lanes - 1) | (left == 1)),
            receipt.eq(received.valid & (left == 0) & all_due),
            received.ready.eq(Mux(left == 0, all_due, ~full | (moved & last & (left != 1)))),
        ]
        with m.If(moved):
            m.d.sync += [left.eq(left - 1), lane.eq(Mux(last, 0, lane + 1))]
            with m.If(last):
                m.d.sync += full.eq(0)
        with m.If(receipt):
            m.d.sync += left.eq(region.count)
        with m.Elif(received.valid & received.ready):
            m.d.sync += [word.eq(received.payload), full.eq(1)]


class ChipRegion(wiring.Component):
    """Masters of a part on another board in a memory of this chip, a word of ``lanes`` at each address.

    The other end of a :class:`MasterWords`: a first word of ``updates`` asks for all masters, those behind it are the
    new ones, in the same order; then a word of 0 is the receipt. A new master is taken only after the old one has been
    read. New ones never wait for ``masters``, nor for the host. A word a cycle each way.

    Members: ``updates``, ``masters``; ``load`` and ``peek`` pulses of the host with ``index``, ``value``: they wait
    while masters change; ``busy`` from the cycle after one until it is done, then ``peeked`` is what was read.
    """

    def __init__(self, region: Region):
        self.region = region
        word = stream.Signature(lanes(region.lanes, region.bits))
        super().__init__(
            {
                "updates": In(word),
                "masters": Out(word),
                "load": In(1),
                "peek": In(1),
                "index": In(32),
                "value": In(signed(32)),
                "busy": Out(1),
                "peeked": Out(signed(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        region, words = self.region, self.region.words
        m.submodules.out = out = Fifo(self.masters.payload.shape(), OUT_DEPTH)
        wiring.connect(m, out.o, wiring.flipped(self.masters))
        asked, receipt = Signal(), Signal()
        read, written = Signal(range(words + 1)), Signal(range(words + 1))
        index, value = Signal(32), Signal(region.bits)
        host_read, host_write = self._host(m, ~asked | (written == 0), index, value)

        take, last = Signal(), Signal()
        m.d.comb += [
            self.updates.ready.eq(Mux(asked, (written != read) & ~host_write, ~receipt)),
            take.eq(self.updates.valid & self.updates.ready),
            last.eq(written == words - 1),
        ]
        under_way, issue, came, told = Signal(range(OUT_DEPTH + 1)), Signal(), Signal(), Signal()
        room = under_way != OUT_DEPTH
        m.d.comb += [
            issue.eq(asked & (read != words) & room & ~host_read),
            told.eq(receipt & room & ~came),
            out.i.valid.eq(came | told),
        ]
        m.d.sync += [
            came.eq(issue),
            under_way.eq(under_way + (issue | told) - (out.o.valid & out.o.ready)),
            read.eq(read + issue),
        ]
        with m.If(told):
            m.d.sync += receipt.eq(0)
        with m.If(take & ~asked):
            m.d.sync += [asked.eq(1), read.eq(0), written.eq(0)]
        with m.Elif(take):
            m.d.sync += written.eq(written + 1)
            with m.If(last):
                m.d.sync += [asked.eq(0), receipt.eq(1)]
        self._memories(m, out, read, written, take & asked, issue, came, index, value, host_read, host_write)
        return m

    def _memories(
        self, m, out, read, written, take, issue, came, index, value, host_read, host_write
    ):  # fmt: skip
        """A memory a lane, and who has their ports; words read into ``out``."""
        region = self.region
        low = region.lanes.bit_length() - 1
        lane, place = index[:low], index[low:]
        rest = region.count - (region.words - 1) * region.lanes
        short = Signal()
        m.d.sync += short.eq(read == region.words - 1)
        found = []
        for k in range(region.lanes):
            memory = Memory(
                MemoryData(shape=signed(region.bits), depth=max(2, region.words), init=[]),
                attrs=ram_style(region.kind),
            )
            m.submodules[f"masters_{k}"] = memory
            writer, reader = memory.write_port(), memory.read_port()
            m.d.comb += [
                writer.addr.eq(Mux(host_write, place, written)),
                writer.data.eq(Mux(host_write, value, self.updates.payload[k])),
                writer.en.eq(take | (host_write & ((lane == k) if low else 1))),
                reader.addr.eq(Mux(host_read, place, read)),
                reader.en.eq(issue | host_read),
                out.i.payload[k].eq(Mux(came & ~short if k >= rest else came, reader.data, 0)),
            ]
            found.append(reader.data)
        m.d.comb += self._read.eq(Array(found)[lane] if low else found[0])

    def _host(self, m, quiet, index, value):
        """One access after the other; whether it reads, or writes, in this cycle."""
        host_read, host_write = Signal(), Signal()
        self._read = Signal(signed(self.region.bits), name="host_word")
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [index.eq(self.index), value.eq(self.value)]
                with m.If(self.load):
                    m.next = "WRITE"
                with m.Elif(self.peek):
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += host_write.eq(quiet)
                with m.If(quiet):
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += host_read.eq(quiet)
                with m.If(quiet):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.sync += self.peeked.eq(self._read)
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return host_read, host_write
