"""Who is at the other end, and whether words may be exchanged with it."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .frames import HEADER, HELLO, Kind

__all__ = ["Greeting"]


class Greeting(wiring.Component):
    """Exchanges hellos until both ends know that they were seen, and watches the peer from then on.

    ``heard``: a hello with the expected identity came. ``greeted``: the peer has seen this end too, as its hello
    says, or any data or control frame to this session. A wrong identity: ``refused``. A hello, while greeted, of
    another session or from a peer that has not seen this one: ``restarted``. Both last until reset.

    The session is a count of resets, 8 bits, in a register that no reset clears.

    Parameters, in cycles: ``hello_gap`` from one hello to the next; ``silence`` without any good frame until
    ``silent``.

    Members: ``done``, ``good``, ``header``, ``identity``, ``hello`` of the Receiver; ``expected`` identity, constant;
    ``awake``: buffers can take words. In the cycle of ``done``: ``admitted``, ``renewed`` as Order takes them.
    ``hello_due``, ``hello_sent``, ``own`` (payload of a hello) and ``epoch`` of the Sender. ``peer``: the identity that
    was shown, constant from ``shown`` on unless another one shows.
    """

    def __init__(self, hello_gap: int, silence: int):
        if hello_gap < 8 or silence <= hello_gap:
            raise ValueError(
                f"Greeting: hello_gap {hello_gap}, silence {silence}; at least 8, and silence more"
            )
        self.hello_gap, self.silence = hello_gap, silence
        super().__init__(
            {
                "done": In(1),
                "good": In(1),
                "header": In(HEADER),
                "identity": In(64),
                "hello": In(HELLO),
                "expected": In(64),
                "awake": In(1),
                "admitted": Out(1),
                "renewed": Out(1),
                "hello_due": Out(1),
                "hello_sent": In(1),
                "own": Out(HELLO),
                "epoch": Out(1),
                "greeted": Out(1),
                "refused": Out(1),
                "restarted": Out(1),
                "silent": Out(1),
                "shown": Out(1),
                "peer": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        session = Signal(8, reset_less=True)
        running, counted = Signal(), Signal(reset_less=True)
        m.d.sync += [running.eq(1), counted.eq(running)]
        with m.If(running & ~counted):  # once a reset, however long
            m.d.sync += session.eq(session + 1)

        heard, seen, match, to_us = Signal(), Signal(), Signal(), Signal()
        peer_session = Signal(8, reset_less=True)
        greeting, other, answered = Signal(), Signal(), Signal()
        m.d.sync += match.eq(self.identity == self.expected)  # two words before ``done``
        m.d.comb += [
            greeting.eq(self.done & self.good & (self.header.kind == Kind.HELLO)),
            other.eq(~heard | (self.hello.session != peer_session)),
            answered.eq(self.hello.seen & (self.hello.seen_session == session)),
            to_us.eq(heard & ~self.refused & ~self.restarted & (self.header.epoch == session[0])),
            self.admitted.eq(to_us),
            self.renewed.eq(greeting & other),
            self.greeted.eq(heard & seen & ~self.refused & ~self.restarted),
            self.own.session.eq(session),
            self.own.seen_session.eq(peer_session),
            self.own.seen.eq(heard & ~self.refused & ~self.restarted),
            self.epoch.eq(peer_session[0]),
        ]
        with m.If(greeting):
            m.d.sync += [self.shown.eq(1), self.peer.eq(self.identity)]
            with m.If(~match):
                m.d.sync += self.refused.eq(1)
            with m.Elif(~(heard & seen)):
                m.d.sync += [heard.eq(1), seen.eq(answered), peer_session.eq(self.hello.session)]
            with m.Elif(other | ~answered):
                m.d.sync += self.restarted.eq(1)
        with m.Elif(self.done & self.good & to_us):
            m.d.sync += seen.eq(1)
        self._timers(m, running & counted, greeting & ~heard)
        return m

    def _timers(self, m, woken, answer):
        gap = Signal(range(self.hello_gap))
        quiet = Signal(range(self.silence))
        m.d.comb += self.hello_due.eq(woken & self.awake & (gap == 0))
        with m.If(self.hello_sent):
            m.d.sync += gap.eq(self.hello_gap - 1)
        with m.Elif(answer):
            m.d.sync += gap.eq(0)
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.If(self.done & self.good):
            m.d.sync += [quiet.eq(0), self.silent.eq(0)]
        with m.Elif(quiet == self.silence - 1):
            m.d.sync += self.silent.eq(1)
        with m.Else():
            m.d.sync += quiet.eq(quiet + 1)
