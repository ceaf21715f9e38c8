"""Reads frames: checks their CRC, and gives their words only once they are accepted."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .crc import Crc32
from .frames import HEADER, HELLO, MAX_FRAME_WORDS, Kind
from .phy import phy_word

__all__ = ["Receiver", "tagged_word"]


def tagged_word(width: int) -> data.StructLayout:
    """A payload word and its channel."""
    return data.StructLayout({"data": width, "channel": 4})


class Receiver(wiring.Component):
    """Writes payload words into a memory ahead of the verdict, which commits them or takes them back.

    A frame ends with the word that has ``last``; two cycles later ``done`` pulses, with ``good``: it had a
    header, as many words as that says, at most ``frame_words``, and the right CRC; ``header``, ``identity``
    and ``hello`` (of a hello) are valid then. ``accept`` in that cycle commits its words; they leave by ``o`` in
    cycles with ``o_valid``, one a cycle, and nobody can refuse them. The memory never fills: a frame leaves
    faster than the next one comes. While not ``up`` nothing is read, and a frame that has begun is forgotten.

    The first frame after reset or after ``up`` rose may be the rest of one that began before: if it is not good,
    it is none, and ``done`` does not pulse.

    Parameters: ``width`` bits of a word; ``frame_words``: payload words of the longest frame.
    """

    def __init__(self, width: int, frame_words: int):
        if not 1 <= frame_words <= MAX_FRAME_WORDS:
            raise ValueError(f"Receiver: frame_words {frame_words}; 1..{MAX_FRAME_WORDS}")
        self.width, self.frame_words = width, frame_words
        self.slots = 1 << ceil_log2(2 * max(frame_words, 2) + 4)
        super().__init__(
            {
                "i": In(phy_word(width)),
                "i_valid": In(1),
                "up": In(1),
                "done": Out(1),
                "good": Out(1),
                "header": Out(HEADER),
                "identity": Out(64),
                "hello": Out(HELLO),
                "accept": In(1),
                "o": Out(tagged_word(width)),
                "o_valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        crc = m.submodules.crc = Crc32(self.width)
        word = Signal(phy_word(self.width), reset_less=True)
        present, payload = Signal(), Signal()
        first, known = Signal(init=1), Signal()  # known: frames are, since the end of one was seen
        ended, good = Signal(), Signal()
        longest = max(self.frame_words, 2)  # a hello has two words
        count = Signal(range(longest + 1), reset_less=True)
        long = Signal(reset_less=True)
        m.d.sync += [word.eq(self.i), present.eq(self.i_valid & self.up), ended.eq(0), self.done.eq(0)]
        m.d.comb += [
            crc.data.eq(word.data),
            crc.start.eq(present & first),
            crc.valid.eq(present),
            payload.eq(present & ~first & ~word.last & (count != longest)),
            good.eq(~first & ~long & (count == self.header.length) & (word.data == crc.crc)),
        ]
        with m.If(present):
            m.d.sync += [
                first.eq(word.last),
                known.eq(known | word.last),
                ended.eq(word.last),
                self.done.eq(word.last & (known | good)),
                self.good.eq(good),
            ]
            with m.If(first):
                m.d.sync += [self.header.eq(word.data[:64]), count.eq(0), long.eq(0)]
            with m.Elif(count != longest):
                m.d.sync += count.eq(count + ~word.last)
            with m.Elif(~word.last):
                m.d.sync += long.eq(1)
        down = Signal()
        m.d.sync += down.eq(~self.up)
        with m.If(down):
            m.d.sync += [first.eq(1), known.eq(0)]
        with m.If(payload & (self.header.kind == Kind.HELLO)):
            with m.If(count == 0):
                m.d.sync += self.identity.eq(word.data[:64])
            with m.Else():
                m.d.sync += self.hello.eq(word.data[: HELLO.size])
        self._stage(m, payload, word.data, ended | down)
        return m

    def _stage(self, m, payload, word, over):
        memory = m.submodules.memory = Memory(shape=tagged_word(self.width), depth=self.slots, init=[])
        writer, reader = memory.write_port(), memory.read_port()
        end, committed = Signal(range(self.slots)), Signal(range(self.slots))
        m.d.comb += [
            writer.addr.eq(end),
            writer.en.eq(payload),
            writer.data.data.eq(word),
            writer.data.channel.eq(self.header.channel),
            reader.en.eq(1),
            self.o.eq(reader.data),
        ]
        with m.If(payload):
            m.d.sync += end.eq(end + 1)
        with m.If(self.done & self.accept):
            m.d.sync += committed.eq(end)
        with m.Elif(over):
            m.d.sync += end.eq(committed)
        ready = Signal()
        m.d.comb += ready.eq(reader.addr != committed)
        m.d.sync += self.o_valid.eq(ready)
        with m.If(ready):
            m.d.sync += reader.addr.eq(reader.addr + 1)
