"""Biases of one layer: added to the forward sums, their gradient summed, updated in place."""

from __future__ import annotations

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .arithmetic import round_shift, saturate
from .stream import lanes

__all__ = ["Bias"]


class Bias(wiring.Component):
    """Pn lanes of ``words`` biases and of their gradient sums.

    db[word] += dy for every pixel (ops with ``kf_first``); update: bias ← saturate(bias - round(rate·db /
    2**shift)), the product bit by bit, all lanes together: ``update_cycles`` in all. What memories give waits in a
    register first, and so does the difference, as block RAM is slow. Model: hwgen.numeric.scaled_step.

    Members: ``word``, ``word_enable`` → ``bias`` two cycles later, shifted left by ``align`` to the sums'
    binary point; ``take`` with the op's flags and dy; ``start`` pulse → ``running`` until done; ``load_*``
    host write (lane one-hot), with ``load_sum`` (if ``shared``) of db = ``load_grad``; ``peek_*`` read, two cycles
    after ``peek``, one a cycle; ``saturated``/``zeros``: lanes in the last cycle.
    """

    def __init__(
        self, *, count, words, width, align, out_width, dy, grad, rate, shift, gradient, word_shape, shared=False
    ):  # fmt: skip
        self.count, self.words, self.width, self.align, self.out_width = count, words, width, align, out_width
        self.dy_width, self.grad, self.rate_width, self.shift, self.gradient = dy, grad, rate, shift, gradient
        self.shared = shared
        self.update_cycles = words * (rate + 5) + 1
        members: dict[str, object] = {
            "word": In(word_shape),
            "word_enable": In(1),
            "bias": Out(lanes(count, out_width)),
            "load": In(count),
            "load_word": In(word_shape),
            "load_value": In(signed(width)),
            "peek": In(1),
            "peek_word": In(word_shape),
            "peek_lane": In(range(max(2, count))),
            "peek_bias": Out(signed(width)),
        }
        if gradient:
            members |= {
                "take": In(1),
                "kf_first": In(1),
                "visit_first": In(1),
                "visit_last": In(1),
                "op_word": In(word_shape),
                "dy": In(lanes(count, dy)),
                "rate": In(signed(rate)),
                "start": In(1),
                "running": Out(1),
                "peek_grad": Out(signed(grad)),
                "saturated": Out(range(count + 1)),
                "zeros": Out(range(count + 1)),
            }
        if gradient and shared:
            members |= {"load_sum": In(1), "load_grad": In(signed(grad))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        # The update's schedule: read, hold, rate bits from the top, round, subtract, write; for each word.
        bit = Signal(range(self.rate_width))
        word = Signal(range(max(2, self.words)))
        read, hold, step_bit, rounding, write = Signal(), Signal(), Signal(), Signal(), Signal()
        first_bit = Signal()
        if self.gradient:
            self._schedule(m, word, bit, read, hold, step_bit, first_bit, rounding, write)
        saturated, zeros, biases, grads = [], [], [], []
        load = Mux(self.load_sum, 0, self.load) if self.shared else self.load
        lane = Signal.like(self.peek_lane)
        m.d.sync += lane.eq(self.peek_lane)
        visit = self._visit(m) if self.gradient else None
        for k in range(self.count):
            memory = Memory(MemoryData(shape=signed(self.width), depth=max(2, self.words), init=[]))
            m.submodules[f"bias_{k}"] = memory
            writer, reader, keeper = memory.write_port(), memory.read_port(), memory.read_port()
            updated = Signal(signed(self.width), name=f"updated_{k}")
            m.d.comb += [
                reader.en.eq(self.word_enable),
                reader.addr.eq(self.word),
                keeper.en.eq(read | self.peek),
                keeper.addr.eq(Mux(self.peek, self.peek_word, word)),
                writer.en.eq(write | load[k]),
                writer.addr.eq(Mux(load[k], self.load_word, word)),
                writer.data.eq(Mux(load[k], self.load_value, updated)),
            ]
            m.d.sync += self.bias[k].eq(reader.data << self.align)
            biases.append(keeper.data)
            if not self.gradient:
                continue
            old = self._gradient(m, k, visit, read, word, write)
            grads.append(old)
            held = Signal(signed(self.width), name=f"held_{k}", reset_less=True)
            held_grad = Signal(signed(self.grad), name=f"held_grad_{k}", reset_less=True)
            with m.If(hold):
                m.d.sync += [held.eq(keeper.data), held_grad.eq(old)]
            product = Signal(signed(self.grad + self.rate_width), name=f"product_{k}", reset_less=True)
            step = Signal(
                signed(max(self.grad + self.rate_width - self.shift, 1) + 1),
                name=f"step_{k}",
                reset_less=True,
            )
            addend = Mux(self.rate.bit_select(bit, 1), held_grad, 0)
            with m.If(step_bit):  # the top bit of a signed rate counts negative
                m.d.sync += product.eq(Mux(first_bit, -addend, (product << 1)[: len(product)] + addend))
            with m.If(rounding):
                m.d.sync += step.eq(round_shift(product, self.shift))
            difference = Signal((held - step).shape(), name=f"difference_{k}", reset_less=True)
            zero = Signal(name=f"zero_{k}", reset_less=True)
            m.d.sync += [difference.eq(held - step), zero.eq((held_grad != 0) & (step == 0))]
            new, clipped = saturate(m, difference, self.width, f"new_{k}")
            m.d.comb += updated.eq(new)
            saturated.append(write & clipped)
            zeros.append(write & zero)
        with m.Switch(lane):
            for k in range(self.count):
                with m.Case(k):
                    m.d.sync += self.peek_bias.eq(biases[k])
                    if self.gradient:
                        m.d.sync += self.peek_grad.eq(grads[k])
        if self.gradient:
            m.d.sync += [self.saturated.eq(sum(saturated)), self.zeros.eq(sum(zeros))]
        return m

    def _schedule(self, m, word, bit, read, hold, step_bit, first_bit, rounding, write):
        m.d.comb += self.running.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.running.eq(self.start)
                m.d.sync += word.eq(0)
                with m.If(self.start):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += read.eq(1)
                m.d.sync += [bit.eq(self.rate_width - 1), first_bit.eq(1)]
                m.next = "HOLD"
            with m.State("HOLD"):
                m.d.comb += hold.eq(1)
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.comb += step_bit.eq(1)
                m.d.sync += [bit.eq(bit - 1), first_bit.eq(0)]
                with m.If(bit == 0):
                    m.next = "ROUND"
            with m.State("ROUND"):
                m.d.comb += rounding.eq(1)
                m.next = "SUBTRACT"
            with m.State("SUBTRACT"):
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += write.eq(1)
                m.d.sync += word.eq(word + 1)
                m.next = "READ"
                with m.If(word == self.words - 1):
                    m.next = "IDLE"

    def _visit(self, m):
        """Flags of the op taken one and two cycles ago, and its dy one cycle ago."""
        take = self.take & self.kf_first
        valid1, valid2 = Signal(name="valid_1"), Signal(name="valid_2")
        first1, last1, last2 = Signal(), Signal(name="last_1"), Signal(name="last_2")
        word1, word2 = Signal.like(self.op_word, name="word_1"), Signal.like(self.op_word, name="word_2")
        dy1 = Signal(lanes(self.count, self.dy_width), reset_less=True)
        m.d.sync += [
            valid1.eq(take),
            valid2.eq(valid1),
            first1.eq(self.visit_first),
            last1.eq(self.visit_last),
            last2.eq(last1),
            word1.eq(self.op_word),
            word2.eq(word1),
            dy1.eq(self.dy),
        ]
        return take, valid1, first1, dy1, valid2 & last2, word2

    def _gradient(self, m, k, visit, read, word, write):
        """db of lane k: as dW in a PE, a sum register over a visit and a memory between visits."""
        take, valid1, first1, dy1, store, word2 = visit
        total = Signal(signed(self.grad), name=f"grad_sum_{k}", reset_less=True)
        clear = write | self.load[k]
        cleared = Mux(self.load_sum, self.load_grad, 0) if self.shared else 0
        if self.words == 1:
            with m.If(valid1):
                m.d.sync += total.eq(total + dy1[k])
            with m.If(clear):
                m.d.sync += total.eq(cleared)
            return total
        memory = Memory(MemoryData(shape=signed(self.grad), depth=self.words, init=[]))
        m.submodules[f"grad_{k}"] = memory
        writer = memory.write_port()
        reader = memory.read_port(transparent_for=[writer] if self.words == 2 else [])
        with m.If(valid1):
            m.d.sync += total.eq(Mux(first1, reader.data, total) + dy1[k])
        m.d.comb += [
            writer.en.eq(store | clear),
            writer.addr.eq(Mux(self.load[k], self.load_word, Mux(write, word, word2))),
            writer.data.eq(Mux(clear, cleared, total)),
            reader.en.eq((take & self.visit_first) | read | self.peek),
            reader.addr.eq(Mux(self.peek, self.peek_word, Mux(read, word, self.op_word))),
        ]
        return reader.data
