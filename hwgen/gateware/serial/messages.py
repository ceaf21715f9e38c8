"""Messages from the host as beats of the core's streams, and its replies and results as messages."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...host.protocol import MESSAGE_IMAGE, MESSAGE_LABEL, MESSAGE_READ, MESSAGE_WRITE, REPLY, RESULT
from ..command import COMMAND
from ..loss import RESULT as RESULT_LAYOUT
from ..stream import Fifo

__all__ = ["LABELS", "MessageReader", "MessageWriter"]

LABELS = 16
"""Labels that wait for their sample's logits. With that many samples under way the next image waits for the oldest."""
ARGUMENTS = 5


class MessageReader(wiring.Component):
    """Takes messages apart: a kind, then what belongs to it, low bytes first.

    read: board, address (2), count (2). write: the same, then ``count`` words of 4 bytes for that address. image: all
    beats, each in whole bytes. label: 2 bytes. An unknown kind is skipped.

    Parameters: ``shape`` of an image's beat, ``beats`` of an image.

    Members: ``i`` bytes; ``image``, ``label``, ``command`` as those of the core.
    """

    def __init__(self, shape, beats: int):
        self.beats, self.bits = beats, data.Layout.cast(shape).size
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "image": Out(stream.Signature(data.StructLayout({"data": shape, "last": 1}))),
                "label": Out(stream.Signature(16)),
                "command": Out(stream.Signature(COMMAND)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.labels = labels = Fifo(16, LABELS)
        wiring.connect(m, labels.o, wiring.flipped(self.label))
        width = -(-self.bits // 8)
        word = Signal(8 * max(4, width))
        arguments, write = Signal(8 * ARGUMENTS), Signal()
        left, beat = Signal(range(max(ARGUMENTS, width, 4))), Signal(range(max(2, self.beats)))
        last, count, none = Signal(), arguments[24:], Signal()
        m.d.sync += [last.eq(beat == self.beats - 1), none.eq(count == 0)]
        m.d.comb += [
            self.image.payload.data.eq(word[len(word) - 8 * width :]),
            self.image.payload.last.eq(last),
            labels.i.payload.eq(word[-16:]),
            self.command.payload.write.eq(write),
            self.command.payload.board.eq(arguments[:8]),
            self.command.payload.addr.eq(arguments[8:24]),
            self.command.payload.data.eq(word[-32:]),
        ]
        take = Signal()
        m.d.comb += take.eq(self.i.valid & self.i.ready)
        with m.If(take):
            m.d.sync += left.eq(left - 1)
        kind = self.i.payload
        with m.FSM():
            with m.State("KIND"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += beat.eq(0)
                with m.If(take):
                    m.d.sync += write.eq(kind == MESSAGE_WRITE)
                    with m.If((kind == MESSAGE_READ) | (kind == MESSAGE_WRITE)):
                        m.d.sync += left.eq(ARGUMENTS - 1)
                        m.next = "ARGUMENTS"
                    with m.If(kind == MESSAGE_IMAGE):
                        m.d.sync += left.eq(width - 1)
                        m.next = "BEAT"
                    with m.If(kind == MESSAGE_LABEL):
                        m.d.sync += left.eq(1)
                        m.next = "LABEL"
            with m.State("ARGUMENTS"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(take):
                    m.d.sync += arguments.eq(Cat(arguments[8:], self.i.payload))
                    with m.If(left == 0):
                        m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += left.eq(3)
                m.next = "MORE"
            with m.State("MORE"):
                m.next = "COMMAND"
                with m.If(write):
                    m.next = "WORD"
                with m.If(none):
                    m.next = "KIND"
            for state, then in (("WORD", "COMMAND"), ("BEAT", "IMAGE"), ("LABEL", "PUT")):
                with m.State(state):
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(take):
                        m.d.sync += word.eq(Cat(word[8:], self.i.payload))
                        with m.If(left == 0):
                            m.next = then
            with m.State("COMMAND"):
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.d.sync += count.eq(count - 1)
                    m.next = "NEXT"
            with m.State("IMAGE"):
                m.d.comb += self.image.valid.eq(1)
                with m.If(self.image.ready):
                    m.d.sync += [left.eq(width - 1), beat.eq(beat + 1)]
                    m.next = "BEAT"
                    with m.If(last):
                        m.next = "KIND"
            with m.State("PUT"):
                m.d.comb += labels.i.valid.eq(1)
                with m.If(labels.i.ready):
                    m.next = "KIND"
        return m


class MessageWriter(wiring.Component):
    """Replies and results, each behind a byte that says which, low bytes first; replies first.

    Members: ``reply``, ``result`` as those of the core; ``o`` bytes.
    """

    def __init__(self):
        super().__init__(
            {
                "reply": In(stream.Signature(32)),
                "result": In(stream.Signature(RESULT_LAYOUT)),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shift, left = Signal(56), Signal(3)
        m.d.comb += [
            self.o.payload.eq(shift[:8]),
            self.o.valid.eq(left != 0),
            self.reply.ready.eq(left == 0),
            self.result.ready.eq((left == 0) & ~self.reply.valid),
        ]
        with m.If(left == 0):
            with m.If(self.reply.valid):
                m.d.sync += [shift.eq(Cat(Const(REPLY, 8), self.reply.payload)), left.eq(5)]
            with m.Elif(self.result.valid):
                m.d.sync += [shift.eq(Cat(Const(RESULT, 8), self.result.payload)), left.eq(7)]
        with m.Elif(self.o.ready):
            m.d.sync += [shift.eq(shift >> 8), left.eq(left - 1)]
        return m
