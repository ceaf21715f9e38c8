"""One end of a link between two boards."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from ...plan.links import LINK_STATES
from .assembler import Assembler
from .crossing import Crossing
from .frames import WIDTHS
from .grants import Grants
from .greeting import Greeting
from .order import Order
from .phy import phy_signature
from .receiver import Receiver
from .ring import ReplayRing
from .sender import Sender
from .tally import Tally

__all__ = ["TX_WORDS", "LinkEnd"]

TX_WORDS = 64
"""Most words of the FIFO before the assembler, a channel; no more than the peer can hold."""


class LinkEnd(wiring.Component):
    """Carries the words of ``tx`` to the peer's ``rx`` and back: none lost, doubled, altered or out of order.

    The user's side is in domain ``sync``, ``phy`` and everything else in domain ``link``. A word a cycle of
    ``link``; a frame of L words takes L + 2 cycles. A channel whose user takes nothing never holds up another one.

    The board resets both domains together (each reset released in its own clock, at least four cycles of the
    slower clock long), and holds ``identity`` and ``expected`` constant after it. Boards are reset without
    regard to each other. Between the domains: Crossing, synchronisers, and values that stand still.

    A channel alone goes at full rate if its depth is the round trip of the cable + 4 · (frame_words + 2) + 30
    words, and (n + 1) · (frame_words + 2) more if the other direction is full too, n being the channels of the
    one that goes (each frame carries one credit). Any depth from 1 on works.

    Parameters: ``width``: bits of a word (WIDTHS); ``tx``: words a channel that the peer holds, ``rx``: that this
    end holds; ``frame_words``: most payload words of a frame, the same at both ends; ``replay_words``: a power of two;
    ``timeout``, ``hello_gap``, ``heartbeat``, ``silence``: cycles of ``link``; the time-out is longer than the ring
    and a round trip take.

    Members: docs/chain.md. ``state``: number in LINK_STATES. ``phy.up`` belongs to the domain ``link``.
    """

    def __init__(
        self,
        width: int,
        tx: tuple[int, ...],
        rx: tuple[int, ...],
        frame_words: int = 64,
        replay_words: int = 1024,
        timeout: int = 2048,
        hello_gap: int = 64,
        heartbeat: int = 256,
        silence: int = 65536,
    ):
        if width not in WIDTHS:
            raise ValueError(f"LinkEnd: width {width}; a multiple of {WIDTHS.step} up to {WIDTHS[-1]}")
        self.width, self.rx_depths = width, tuple(rx)
        self.assembler = Assembler(width, tuple(tx), frame_words)
        self.tx_fifos = [Crossing(width, min(TX_WORDS, depth), writer="sync", reader="link") for depth in tx]
        self.rx_fifos = [Crossing(width, depth, writer="link", reader="sync") for depth in rx]
        self.ring = ReplayRing(width, replay_words, frame_words, timeout)
        self.sender = Sender(width, heartbeat)
        self.receiver = Receiver(width, frame_words)
        self.order = Order()
        self.grants = Grants(self.rx_depths, tuple(fifo.slots for fifo in self.rx_fifos))
        self.greeting = Greeting(hello_gap, silence)
        self.tally = Tally()
        self.overflow = Signal()
        super().__init__(
            {
                "tx": In(stream.Signature(width)).array(len(tx)),
                "rx": Out(stream.Signature(width)).array(len(rx)),
                "identity": In(64),
                "expected": In(64),
                "state": Out(3),
                "peer": Out(64),
                "snapshot": In(1),
                "counter_select": In(4),
                "counter": Out(32),
                "channel_valid": Out(len(tx) + len(rx)),
                "channel_ready": Out(len(tx) + len(rx)),
                "phy": Out(phy_signature(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name in ("assembler", "ring", "sender", "receiver", "order", "grants", "greeting"):
            m.submodules[name] = DomainRenamer("link")(getattr(self, name))
        m.submodules.tally = self.tally
        for k, (fifo, port) in enumerate(zip(self.tx_fifos, self.tx, strict=True)):
            m.submodules[f"tx{k}"] = fifo
            connect(m, flipped(port), fifo.i)
            connect(m, fifo.o, self.assembler.i[k])
        for k, (fifo, port) in enumerate(zip(self.rx_fifos, self.rx, strict=True)):
            m.submodules[f"rx{k}"] = fifo
            connect(m, fifo.o, flipped(port))
        self._send(m)
        self._receive(m)
        self._count(m)
        self._show(m)
        return m

    def _send(self, m):
        assembler, ring, sender = self.assembler, self.ring, self.sender
        connect(m, sender.o, flipped(self.phy.tx))
        m.d.comb += [
            assembler.open.eq(ring.open),
            assembler.room.eq(ring.room),
            ring.word.eq(assembler.word),
            ring.word_valid.eq(assembler.word_valid),
            ring.frame.eq(assembler.frame),
            ring.frame_valid.eq(assembler.frame_valid),
            ring.enabled.eq(self.phy.up & self.greeting.greeted),
            ring.start.eq(sender.start),
            ring.read.eq(sender.read),
            ring.between.eq(sender.between),
            sender.next.eq(ring.next),
            sender.next_valid.eq(ring.next_valid),
            sender.payload.eq(ring.payload),
            sender.position.eq(ring.position),
            sender.running.eq(self.phy.up),
            sender.greeted.eq(self.greeting.greeted),
            sender.acknowledge.eq(self.order.acknowledge),
            sender.news.eq(self.order.news),
            self.order.told.eq(sender.told),
            sender.credit.eq(self.grants.credit),
            sender.credit_news.eq(self.grants.news),
            self.grants.told.eq(sender.told),
            sender.hello_due.eq(self.greeting.hello_due),
            self.greeting.hello_sent.eq(sender.hello_sent),
            sender.identity.eq(self.identity),
            sender.hello.eq(self.greeting.own),
            sender.epoch.eq(self.greeting.epoch),
        ]

    def _receive(self, m):
        receiver, order, greeting, grants = self.receiver, self.order, self.greeting, self.grants
        for part in (order, greeting):
            m.d.comb += [
                part.done.eq(receiver.done),
                part.good.eq(receiver.good),
                part.header.eq(receiver.header),
            ]
        header = receiver.header
        awake = Signal()
        m.d.link += awake.eq(awake | Cat(fifo.i.ready for fifo in self.rx_fifos).all())
        m.d.comb += [
            receiver.i.eq(self.phy.rx),
            receiver.i_valid.eq(self.phy.rx_valid),
            receiver.up.eq(self.phy.up),
            receiver.accept.eq(order.accept),
            greeting.identity.eq(receiver.identity),
            greeting.hello.eq(receiver.hello),
            greeting.expected.eq(self.expected),
            greeting.awake.eq(awake),
            order.admitted.eq(greeting.admitted),
            order.renewed.eq(greeting.renewed),
            self.ring.acknowledge.sequence.eq(header.acknowledge),
            self.ring.acknowledge.nack.eq(header.nack),
            self.ring.acknowledge_valid.eq(order.current),
            self.assembler.credit.channel.eq(header.credit_channel),
            self.assembler.credit.limit.eq(header.credit),
            self.assembler.credit_valid.eq(order.current),
            grants.channel.eq(receiver.o.channel),
            grants.word_valid.eq(receiver.o_valid),
        ]
        refused = Signal(len(self.rx_fifos))
        for k, fifo in enumerate(self.rx_fifos):
            m.d.comb += [
                fifo.i.payload.eq(receiver.o.data),
                fifo.i.valid.eq(receiver.o_valid & (receiver.o.channel == k)),
                grants.level[k].eq(fifo.level),
                refused[k].eq(fifo.i.valid & ~fifo.i.ready),
            ]
        m.d.link += self.overflow.eq(self.overflow | refused.any())

    def _count(self, m):
        tally, sender, order = self.tally, self.sender, self.order
        m.d.comb += [
            tally.frames_sent.eq(sender.start & self.ring.next.first),
            tally.frames_replayed.eq(sender.start & ~self.ring.next.first),
            tally.frames_received.eq(order.accept),
            tally.crc_errors.eq(order.bad),
            tally.frames_lost.eq(order.lost),
            tally.frames_repeated.eq(order.repeated),
            tally.discarded.eq(order.discarded),
            tally.timeouts.eq(self.ring.timed_out),
            tally.stalled.eq(self.assembler.stalled),
            tally.credit_low.eq(self.assembler.low),
            tally.control_sent.eq(sender.control_sent),
            tally.high.eq(self.grants.high),
            tally.overflow.eq(self.overflow),
            tally.snapshot.eq(self.snapshot),
            tally.select.eq(self.counter_select),
            self.counter.eq(tally.value),
        ]

    def _show(self, m):
        """State and peer in the user's domain: every flag comes through its own synchroniser."""
        greeting = self.greeting
        flags = {
            "up": self.phy.up,
            "refused": greeting.refused,
            "restarted": greeting.restarted,
            "silent": greeting.silent,
            "greeted": greeting.greeted,
            "shown": greeting.shown,
        }
        seen = {}
        for name, flag in flags.items():
            registered = Signal(name=f"{name}_link")
            seen[name] = Signal(name=f"{name}_sync")
            m.d.link += registered.eq(flag)
            m.submodules[f"state_{name}"] = FFSynchronizer(registered, seen[name], reset_less=False)

        def state(name):
            return self.state.eq(LINK_STATES.index(name))

        with m.If(~seen["up"]):
            m.d.sync += state("off")
        with m.Elif(seen["refused"]):
            m.d.sync += state("refused")
        with m.Elif(seen["restarted"]):
            m.d.sync += state("restarted")
        with m.Elif(~seen["greeted"]):
            m.d.sync += state("waiting")
        with m.Else():
            m.d.sync += self.state.eq(
                Mux(seen["silent"], LINK_STATES.index("silent"), LINK_STATES.index("up"))
            )
        with m.If(seen["shown"]):
            m.d.sync += self.peer.eq(greeting.peer)
        m.d.comb += [
            self.channel_valid.eq(Cat(port.valid for port in (*self.tx, *self.rx))),
            self.channel_ready.eq(Cat(port.ready for port in (*self.tx, *self.rx))),
        ]
