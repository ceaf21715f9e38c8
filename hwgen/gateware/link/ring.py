"""Frames kept until the peer has acknowledged them, and sent again when it asks or keeps silent."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .assembler import FRAME
from .frames import ACKNOWLEDGE, MAX_FRAME_WORDS, SEQUENCE_BITS

__all__ = ["NEXT", "ReplayRing"]

NEXT = data.StructLayout({"frame": FRAME, "sequence": SEQUENCE_BITS, "first": 1})
"""The frame to be sent: ``first`` if it never was."""


class ReplayRing(wiring.Component):
    """Go-back-N: a ring memory of payload words and a list of their frames.

    acknowledged <= sending <= top <= written (sequence numbers): from acknowledged to top frames are on their
    way, from sending to top they are sent again. A negative acknowledge, or ``timeout`` cycles without progress
    while something is on its way, set sending back to acknowledged.

    Parameters: ``width`` bits of a word; ``words`` of the ring, a power of two; ``frame_words`` of a frame;
    ``timeout`` cycles.

    Members, writing: ``word`` with ``word_valid``, not without ``room``; ``frame`` with ``frame_valid``, at the
    earliest the cycle after its last word; ``open``: few frames wait to be sent, and another may be begun.
    Sending: ``next`` with ``next_valid``; ``start``: its header goes out; ``read``: the next payload word is in
    ``payload`` from the following cycle on, until the next ``read`` (with ``start`` the first one); ``between``: no
    frame is being sent; ``position``: sequence number of ``next``.
    Peer: ``acknowledge`` with ``acknowledge_valid``; ``enabled``: the time-out runs; ``timed_out`` a pulse.
    """

    def __init__(self, width: int, words: int, frame_words: int, timeout: int):
        if words & (words - 1) or words < 16 or words <= frame_words:
            raise ValueError(
                f"ReplayRing: {words} words; a power of two, at least 16, more than frame_words {frame_words}"
            )
        if timeout < 1:
            raise ValueError(f"ReplayRing: timeout {timeout}; at least 1")
        if frame_words > MAX_FRAME_WORDS:
            raise ValueError(f"ReplayRing: frame_words {frame_words}; at most {MAX_FRAME_WORDS}")
        self.width, self.words, self.timeout = width, words, timeout
        self.frames = min(words, 1 << (SEQUENCE_BITS - 1))
        super().__init__(
            {
                "word": In(width),
                "word_valid": In(1),
                "room": Out(1),
                "frame": In(FRAME),
                "frame_valid": In(1),
                "open": Out(1),
                "next": Out(NEXT),
                "next_valid": Out(1),
                "start": In(1),
                "read": In(1),
                "payload": Out(width),
                "between": In(1),
                "position": Out(SEQUENCE_BITS),
                "acknowledge": In(ACKNOWLEDGE),
                "acknowledge_valid": In(1),
                "enabled": In(1),
                "timed_out": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        names = ("written", "sending", "top", "acknowledged", "walked")
        written, sending, top, acknowledged, walked = (Signal(SEQUENCE_BITS, name=name) for name in names)
        free = Signal(range(self.words))
        waiting, outstanding, late = (
            Signal(SEQUENCE_BITS, name=n) for n in ("waiting", "outstanding", "late")
        )
        on_way, back, behind, jump = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            waiting.eq(written - sending),
            outstanding.eq(written - acknowledged),
            late.eq(sending - acknowledged),
            behind.eq(late[-1]),  # acknowledged although it was to be sent again
            on_way.eq(top != acknowledged),
        ]
        # Registered, so a frame or two more are begun than this says.
        m.d.sync += self.open.eq((waiting < 2) & (outstanding < self.frames - 4))
        with m.If(self.frame_valid):
            m.d.sync += written.eq(written + 1)
        with m.If(self.acknowledge_valid):
            m.d.sync += acknowledged.eq(self.acknowledge.sequence)

        # The list of frames answers a cycle later: what is freed and sent waits until its number stood still.
        freeing, fetched = Signal(), Signal()
        freed_length = self._list(m, written, sending, walked)
        with m.If(freeing):
            m.d.sync += [freeing.eq(0), walked.eq(walked + 1), free.eq(free + freed_length)]
        with m.Else():
            m.d.sync += freeing.eq(walked != acknowledged)
        m.d.sync += fetched.eq((waiting != 0) & ~jump & ~self.start)

        m.d.comb += [
            jump.eq(self.between & (back | behind) & (walked == acknowledged)),
            self.next.sequence.eq(sending),
            self.next.first.eq(sending == top),
            self.next_valid.eq(fetched & ~back & ~behind),
            self.position.eq(sending),
        ]
        with m.If(jump):
            m.d.sync += [sending.eq(acknowledged), back.eq(0)]
        with m.Elif(self.start):
            m.d.sync += sending.eq(sending + 1)
            with m.If(sending == top):
                m.d.sync += top.eq(top + 1)
        with m.If((self.acknowledge_valid & self.acknowledge.nack | self.timed_out) & on_way):
            m.d.sync += back.eq(1)
        progress = self.acknowledge_valid & (self.acknowledge.sequence != acknowledged)
        self._timer(m, ~on_way | progress | jump)
        self._words(m, free, jump)
        return m

    def _list(self, m, written, sending, walked):
        """The list of frames by sequence number. Returns the length of frame ``walked``."""
        frames = m.submodules.frames = Memory(shape=FRAME, depth=self.frames, init=[])
        bits = ceil_log2(self.frames)
        writer, sender, walker = frames.write_port(), frames.read_port(), frames.read_port()
        m.d.comb += [
            writer.addr.eq(written[:bits]),
            writer.data.eq(self.frame),
            writer.en.eq(self.frame_valid),
            sender.addr.eq(sending[:bits]),
            self.next.frame.eq(sender.data),
            walker.addr.eq(walked[:bits]),
        ]
        return walker.data.length

    def _timer(self, m, restart):
        count = Signal(range(self.timeout))
        m.d.comb += self.timed_out.eq(self.enabled & ~restart & (count == self.timeout - 1))
        with m.If(restart | self.timed_out):
            m.d.sync += count.eq(0)
        with m.Elif(self.enabled):
            m.d.sync += count.eq(count + 1)

    def _words(self, m, free, jump):
        memory = m.submodules.memory = Memory(shape=self.width, depth=self.words, init=[])
        writer, reader = memory.write_port(), memory.read_port()
        end, at = Signal(range(self.words)), Signal(range(self.words))
        m.d.comb += self.room.eq((end + 1)[: len(end)] != free)
        m.d.sync += [writer.addr.eq(end), writer.data.eq(self.word), writer.en.eq(self.word_valid)]
        with m.If(self.word_valid):
            m.d.sync += end.eq(end + 1)
        m.d.comb += [reader.addr.eq(at), reader.en.eq(self.read), self.payload.eq(reader.data)]
        with m.If(jump):
            m.d.sync += at.eq(free)
        with m.Elif(self.read):
            m.d.sync += at.eq(at + 1)
