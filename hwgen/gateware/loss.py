"""The end of the chain: softmax cross-entropy of a sample's logits, its error and its result."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..ir.stage import Loss
from ..numeric import Q
from ..numeric_tables import UNIT_BITS
from .arithmetic import round_shift
from .relane import Relane
from .softmax import Divider, Exponential, Logarithm, scaled, sum_bits
from .stream import lanes

__all__ = ["RESULT", "SoftmaxCrossEntropy"]

RESULT = data.StructLayout({"prediction": 16, "loss": 32})
"""One a sample: first largest logit; loss in units of 2**-16, saturated, 0 in inference."""

_LOSS_FRAC = 16


class _Logits(wiring.Component):
    """Keeps one sample's logits, and tells the greatest and its index.

    Takes an element a cycle; a word stays at ``z`` until its last lane is read. After the last one ``full``
    is 1, and nothing is taken until ``release``. ``value`` is the logit that ``index`` named one cycle ago.
    """

    def __init__(self, classes: int, width: int, P: int):
        self.classes, self.width, self.lanes = classes, width, P
        index = range(max(2, classes))
        super().__init__(
            {
                "z": In(stream.Signature(lanes(P, width))),
                "full": Out(1),
                "release": In(1),
                "greatest": Out(signed(width)),
                "winner": Out(index),
                "index": In(index),
                "value": Out(signed(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        memory = m.submodules.memory = Memory(shape=signed(self.width), depth=max(2, self.classes), init=[])
        writer, reader = memory.write_port(), memory.read_port()
        element = Signal.like(self.index)
        lane = Signal(range(max(2, self.lanes)))
        value = Signal(signed(self.width))
        take = self.z.valid & ~self.full
        end = element == self.classes - 1
        last = end | (lane == self.lanes - 1)
        m.d.comb += [
            value.eq(self.z.payload[lane]),
            self.z.ready.eq(~self.full & last),
            writer.en.eq(take),
            writer.addr.eq(element),
            writer.data.eq(value),
            reader.addr.eq(self.index),
            self.value.eq(reader.data),
        ]
        with m.If(take):
            m.d.sync += [
                lane.eq(Mux(last, 0, lane + 1)),
                element.eq(Mux(end, 0, element + 1)),
                self.full.eq(end),
            ]
            with m.If((element == 0) | (value > self.greatest)):
                m.d.sync += [self.greatest.eq(value), self.winner.eq(element)]
        with m.If(self.release):
            m.d.sync += self.full.eq(0)
        return m


class _Cost(wiring.Component):
    """loss = behind + ln(total) in units of 2**-16, ``latency`` cycles after its inputs.

    Members: ``behind`` z.width bits unsigned in units of 2**-z.frac; ``total`` in units of 2**-24; ``loss``.
    """

    latency = Logarithm.latency + 1

    def __init__(self, classes: int, z: Q):
        self.z = z
        self.logarithm = Logarithm(classes)
        super().__init__({"behind": In(z.width), "total": In(self.logarithm.bits), "loss": Out(32)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.logarithm = self.logarithm
        m.d.comb += self.logarithm.total.eq(self.total)
        shift = _LOSS_FRAC - self.z.frac
        if shift < 0:
            rounded, far = round_shift(Cat(self.behind, Const(0)).as_signed(), -shift), Const(0)
            behind = Signal(self.z.width)
            m.d.comb += behind.eq(rounded)
        else:
            behind, far = scaled(self.behind, shift, 32)
        log = round_shift(Cat(self.logarithm.log, Const(0)).as_signed(), UNIT_BITS - _LOSS_FRAC)
        value = Signal(max(len(behind), len(log)) + 1)
        m.d.comb += value.eq(behind + log)
        m.d.sync += self.loss.eq(Mux(far | (value >> 32).any(), (1 << 32) - 1, value))
        return m


class SoftmaxCrossEntropy(wiring.Component):
    """Predicts a sample's class; in training also gives its loss and the error of its logits.

    dz = round(softmax(z) - onehot(label)), loss = ln Σ exp(z) - z[label]. Model: hwgen.ref.softmax, bit for
    bit.

    One element a cycle is taken (a word stays at ``z`` until its last lane is read), then, in training, C
    exponentials at one a cycle, then C divisions one after the other, in whose time the next logits are
    taken.

    Cycles a sample in steady state: ``cycles`` = C + 11 + max(C·T, 3) in training, with T = max(dz.frac, -1)
    + 2 cycles a division; ``inference_cycles`` = C + 1. Cycles from a sample's last word of z taken to its
    first word of dz valid: ``latency`` = C + 12 + min(C, lanes_out)·T; to its result: ``result_latency`` = C
    + 15, in inference ``inference_latency`` = 2 (all if the label is there and nothing is full).

    ``valid`` of both outputs depends on registers only; ``z.ready`` and ``label.ready`` on no input. The
    errors of a sample wait for ``dz.ready`` alone, but the next sample starts only when this one's result has
    a place: results that are not taken block from the second sample after them.

    A label that is no class stops everything for good: nothing is taken any more, ``bad_label`` stays 1,
    nothing of that sample is given.

    Parameters: the loss; lanes of a word of z, of a word of dz.

    Members: ``train`` (change only while idle); ``z`` ceil(C/lanes_in) words lanes(lanes_in, z.width);
    ``label`` 16 bits, one a sample, taken in training only; ``dz`` ceil(C/lanes_out) words lanes(lanes_out,
    dz.width), lanes past C zero; ``result`` RESULT; ``bad_label``.
    """

    def __init__(self, loss: Loss, lanes_in: int, lanes_out: int):
        if not 1 <= loss.classes <= 1 << 16:
            raise ValueError(f"SoftmaxCrossEntropy: {loss.classes} classes; 1 to {1 << 16}")
        self.loss, self.lanes_in, self.lanes_out = loss, lanes_in, lanes_out
        self.divider = Divider(sum_bits(loss.classes), loss.dz)
        super().__init__(
            {
                "train": In(1),
                "z": In(stream.Signature(lanes(lanes_in, loss.z.width))),
                "label": In(stream.Signature(16)),
                "dz": Out(stream.Signature(lanes(lanes_out, loss.dz.width))),
                "result": Out(stream.Signature(RESULT)),
                "bad_label": Out(1),
            }
        )

    @property
    def cycles(self) -> int:
        """Cycles a sample in training, in steady state, if no neighbour stalls."""
        return self.loss.classes + 11 + max(self.loss.classes * self.divider.cycles, 3)

    @property
    def inference_cycles(self) -> int:
        """Cycles a sample in inference."""
        return self.loss.classes + 1

    @property
    def latency(self) -> int:
        """Cycles from a sample's last word of z taken to its first word of dz valid."""
        return self.loss.classes + 12 + min(self.loss.classes, self.lanes_out) * self.divider.cycles

    @property
    def result_latency(self) -> int:
        """Cycles from a sample's last word of z taken to its result, in training."""
        return self.loss.classes + 15

    inference_latency = 2

    def elaborate(self, platform):
        m = Module()
        classes = self.loss.classes
        m.submodules.logits = logits = _Logits(classes, self.loss.z.width, self.lanes_in)
        m.submodules.cost = cost = _Cost(classes, self.loss.z)
        wiring.connect(m, wiring.flipped(self.z), logits.z)

        target, prediction = Signal.like(logits.winner), Signal.like(logits.winner)
        begin, read, divide = Signal(), Signal(), Signal()
        kept, summed = self._exponentials(m, logits, cost, target, begin, read)
        divided = self._errors(m, kept, cost.total, target, divide)
        told = self._result(m, logits, cost, prediction, divide)

        right = self.label.payload < classes
        m.d.comb += begin.eq(self.label.ready & self.label.valid & right)
        with m.If(self.label.ready & self.label.valid):
            m.d.sync += [target.eq(self.label.payload), prediction.eq(logits.winner)]
            m.d.sync += self.bad_label.eq(~right)
        with m.FSM():
            with m.State("WAIT"):
                m.d.comb += self.label.ready.eq(logits.full & self.train & ~self.bad_label)
                with m.If(begin):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += read.eq(1)
                with m.If(logits.index == classes - 1):
                    m.next = "SUM"
            with m.State("SUM"), m.If(summed):
                m.next = "DIVIDE"
            with m.State("DIVIDE"):
                m.d.comb += divide.eq(1)
                with m.If(divided & told):
                    m.next = "WAIT"
        return m

    def _exponentials(self, m, logits, cost, target, begin, read):
        """Sums exp(z - greatest) and keeps them: their read port, and a pulse with the last one."""
        last = self.loss.classes - 1
        m.submodules.exponential = exponential = Exponential(self.loss.z)
        m.submodules.kept = memory = Memory(shape=exponential.e.shape(), depth=max(2, last + 1), init=[])
        writer, reader = memory.write_port(), memory.read_port()
        # Bit 0: the logit is there; bit 1: its distance from the greatest; then stages of the exponential.
        under_way = Signal(2 + exponential.latency)
        named, position = Signal.like(logits.index), Signal.like(logits.index)
        distance = logits.greatest - logits.value
        add = under_way[-1]
        m.d.sync += [under_way.eq(Cat(read, under_way)), named.eq(logits.index), exponential.d.eq(distance)]
        m.d.comb += [writer.addr.eq(position), writer.data.eq(exponential.e), writer.en.eq(add)]
        with m.If(read):
            m.d.sync += logits.index.eq(Mux(logits.index == last, 0, logits.index + 1))
            m.d.comb += logits.release.eq(logits.index == last)
        with m.If(under_way[0] & (named == target)):
            m.d.sync += cost.behind.eq(distance)
        with m.If(add):
            m.d.sync += [
                position.eq(Mux(position == last, 0, position + 1)),
                cost.total.eq(cost.total + exponential.e),
            ]
        with m.If(begin):
            m.d.sync += cost.total.eq(0)
        return reader, add & (position == last)

    def _errors(self, m, kept, total, target, divide):
        """Divides the exponentials one after the other; whether the last error has gone."""
        classes = self.loss.classes
        m.submodules.divider = divider = self.divider
        m.submodules.words = words = Relane(self.loss.dz.width, (classes, 1), (classes, self.lanes_out))
        wiring.connect(m, words.o, wiring.flipped(self.dz))
        m.d.comb += [
            divider.total.eq(total),
            words.i.payload[0].eq(divider.o.payload),
            words.i.valid.eq(divider.o.valid),
            divider.o.ready.eq(words.i.ready),
        ]
        move, fetched, hot = Signal(), Signal(), Signal()
        number, given = Signal(range(classes + 1)), Signal(range(classes + 1))
        m.d.comb += [move.eq(~divider.i.valid | divider.i.ready), kept.addr.eq(number), kept.en.eq(move)]
        with m.If(move):
            m.d.sync += [
                fetched.eq(divide & (number != classes)),
                hot.eq(number == target),
                divider.i.valid.eq(fetched),
                divider.i.payload.negative.eq(hot),
                divider.i.payload.numerator.eq(Mux(hot, total - kept.data, kept.data)),
            ]
            with m.If(divide & (number != classes)):
                m.d.sync += number.eq(number + 1)
        with m.If(words.i.valid & words.i.ready):
            m.d.sync += given.eq(given + 1)
        gone = Signal()
        m.d.comb += gone.eq((given + (words.i.valid & words.i.ready)) == classes)
        with m.If(~divide):
            m.d.sync += [number.eq(0), given.eq(0)]
        return gone

    def _result(self, m, logits, cost, prediction, divide):
        """Gives results; whether this sample's has gone into the output register."""
        free = ~self.result.valid | self.result.ready
        age = Signal(range(cost.latency + 2))
        told = age == cost.latency + 1
        tell = divide & (age == cost.latency) & free
        guess = logits.full & ~self.train & free
        with m.If(self.result.ready):
            m.d.sync += self.result.valid.eq(0)
        with m.If(tell | guess):
            m.d.sync += [
                self.result.valid.eq(1),
                self.result.payload.prediction.eq(Mux(guess, logits.winner, prediction)),
                self.result.payload.loss.eq(Mux(guess, 0, cost.loss)),
            ]
        with m.If(guess):
            m.d.comb += logits.release.eq(1)
        with m.If(~divide):
            m.d.sync += age.eq(0)
        with m.Elif(~told & ((age != cost.latency) | free)):
            m.d.sync += age.eq(age + 1)
        return told | tell
