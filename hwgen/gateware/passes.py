"""The two sides of an array as streams: ops in, sums out, with credits instead of stalls inside the array."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .array import Array
from .stream import Fifo, lanes
from .tile import control_layout

__all__ = ["BackwardPass", "ForwardPass"]

FLAGS = data.StructLayout({"valid": 1, "first": 1, "last": 1})


class _Sums(wiring.Component):
    """Adds the array's sums over its folds, for b interleaved pixels; one cycle, every cycle.

    total[m] = start + Σ sums from an op with ``first`` to one with ``last``; ``start`` is taken with
    ``first``.
    """

    def __init__(self, count: int, in_width: int, width: int, b: int):
        self.count, self.in_width, self.width, self.b = count, in_width, width, b
        super().__init__(
            {
                "flags": In(FLAGS),
                "m": In(range(max(2, b))),
                "i": In(lanes(count, in_width)),
                "start": In(lanes(count, width)),
                "valid": Out(1),
                "o": Out(lanes(count, width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.valid.eq(self.flags.valid & self.flags.last)
        for k in range(self.count):
            total = Signal(signed(self.width), name=f"total_{k}")
            if self.b == 1:
                held = self.o[k]
            else:
                memory = Memory(shape=signed(self.width), depth=self.b, init=[])
                m.submodules[f"partial_{k}"] = memory
                writer, reader = memory.write_port(), memory.read_port(domain="comb")
                held = reader.data
                m.d.comb += [
                    reader.addr.eq(self.m),
                    writer.addr.eq(self.m),
                    writer.data.eq(total),
                    writer.en.eq(self.flags.valid),
                ]
            m.d.comb += total.eq(Mux(self.flags.first, self.start[k], held) + self.i[k])
            with m.If(self.flags.valid):
                m.d.sync += self.o[k].eq(total)
        return m


class _Credits(wiring.Component):
    """Room for results that are still in the array: at most ``depth`` may be on their way or in the FIFO."""

    def __init__(self, depth: int):
        self.depth = depth
        super().__init__({"take": In(1), "give": In(1), "room": Out(1)})

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(self.depth + 1))
        m.d.sync += count.eq(count + self.take - self.give)
        # One is kept back, so that `room` is a register.
        m.d.sync += self.room.eq(count + self.take - self.give < self.depth)
        return m


def _turn(m, array, visit_first, cycle):
    """Whether an op may enter: a visit begins in cycle ``cycle`` of every ``period``, where both passes take turns."""
    period = array.shape.period
    if period == 1:
        return Const(1)
    slot = Signal(range(period), name="slot")
    m.d.sync += slot.eq(Mux(slot == period - 1, 0, slot + 1))
    return ~visit_first | (slot == cycle)


def _delayed(m, value, cycles, name):
    """The value ``cycles`` cycles later, and one cycle before that."""
    early = value
    for k in range(cycles):
        late = Signal(value.shape(), name=f"{name}_{k}")
        m.d.sync += late.eq(value)
        early, value = value, late
    return value, early


class ForwardPass(wiring.Component):
    """Feeds Window ops to the forward side of an array and sums over kf.

    Model: hwgen.ref.kernels.conv_forward (exact sums, bias included). Latency ``latency`` from an op to
    ``o``; an op a cycle, but where both passes take turns at the weights, visits begin only at every ``period``-th.
    ``i.ready`` depends on registers, and then on the op's ``visit_first``.

    Members: ``i`` ops {flags, x, inside} in order block, g, nf, kf, m; ``o`` sums lanes(Pn, width) in order
    block, g, nf, m; ``f_*`` to the array; ``word``/``word_enable`` ask for a bias word, ``bias`` has it two
    cycles later (aligned to the sums); ``busy``, ``blocked``, ``starved``: what the multipliers do in this
    cycle.
    """

    def __init__(self, op_layout, array: Array, width: int, b: int):
        self.array, self.width, self.b = array, width, b
        self.op_layout = op_layout
        shape = array.shape
        self.latency = array.forward_latency + 2
        self.depth = self.latency + 4
        super().__init__(
            {
                "i": In(stream.Signature(op_layout)),
                "o": Out(stream.Signature(lanes(array.pn, width))),
                "f_load": Out(1),
                "f_address": Out(shape.address),
                "f_x": Out(lanes(array.pk, shape.x)),
                "f_sum": In(lanes(array.pn, shape.psum)),
                "word": Out(op_layout["flags"].shape["word"].shape),
                "word_enable": Out(1),
                "bias": In(lanes(array.pn, width)),
                "busy": Out(1),
                "blocked": Out(1),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = Fifo(lanes(self.array.pn, self.width), self.depth)
        m.submodules.credits = credits = _Credits(self.depth)
        m.submodules.sums = sums = _Sums(self.array.pn, self.array.shape.psum, self.width, self.b)
        flags = self.i.payload.flags
        take, ready = Signal(), Signal()
        m.d.comb += [
            ready.eq(credits.room & _turn(m, self.array, flags.visit_first, 0)),
            take.eq(self.i.valid & ready),
            self.i.ready.eq(ready),
            self.f_load.eq(take & flags.visit_first),
            self.f_address.eq(flags.waddr),
            self.f_x.eq(self.i.payload.x),
            credits.take.eq(take & flags.last),
            credits.give.eq(fifo.o.valid & fifo.o.ready),
            self.busy.eq(take),
            self.blocked.eq(self.i.valid & ~ready),
            self.starved.eq(~self.i.valid),
        ]
        mark = Signal(FLAGS)
        m.d.comb += [mark.valid.eq(take), mark.first.eq(flags.first), mark.last.eq(flags.last)]
        latency = self.array.forward_latency
        before, early = _delayed(m, mark, latency - 1, "mark")
        late, _ = _delayed(m, before, 1, "mark_late")
        pixel, _ = _delayed(m, flags.m, latency, "pixel")
        _, word = _delayed(m, flags.word, latency - 1, "word")
        m.d.comb += [
            self.word.eq(word),
            self.word_enable.eq(early.valid & early.first),
            sums.flags.eq(late),
            sums.m.eq(pixel),
            sums.i.eq(self.f_sum),
            sums.start.eq(self.bias),
            fifo.i.valid.eq(sums.valid),
            fifo.i.payload.eq(sums.o),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        return m


class BackwardPass(wiring.Component):
    """Feeds errors, and stored samples, to the backward side of an array and sums over nf.

    Model: hwgen.ref.kernels.conv_backward, conv_gradient. Latency ``latency`` from an op to ``o``; an op a
    cycle.

    Members: ``dy`` ops {flags, dy} in order block, g, kf, nf, m; ``x`` ops {flags, x, inside} in the same
    order (if the layer has a gradient); ``o`` chunks lanes(Pk, back) in order block, g, kf, m (if it has
    backward data); ``inject`` control of update pieces and peeks, taken in cycles without an op (``pause``
    makes them so); ``taken`` the op taken in this cycle (for the bias); ``done`` pulse: last op of a sample taken.
    """

    def __init__(self, dy_layout, x_layout, array: Array, b: int):
        shape = array.shape
        self.array, self.b = array, b
        self.latency = array.backward_latency + 2
        self.depth = self.latency + 4
        members: dict[str, object] = {
            "dy": In(stream.Signature(dy_layout)),
            "inject": In(control_layout(shape)),
            "pause": In(1),
            "taken": Out(1),
            "done": Out(1),
            "b_control": Out(control_layout(shape)),
            "b_dy": Out(lanes(array.pn, shape.dy)),
            "b_x": Out(lanes(array.pk, shape.x)),
            "b_sum": In(lanes(array.pk, shape.back)),
            "busy": Out(1),
            "blocked": Out(1),
            "starved": Out(1),
        }
        if shape.gradient:
            members["x"] = In(stream.Signature(x_layout))
        if shape.backward:
            members["o"] = Out(stream.Signature(lanes(array.pk, shape.back)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        shape = self.array.shape
        flags = self.dy.payload.flags
        room = Signal()
        ready = Signal()
        have = Signal()
        take = Signal()
        turn = _turn(m, self.array, flags.visit_first, shape.stack % shape.period)
        m.d.comb += [ready.eq(room & ~self.pause & turn), take.eq(have & ready), self.taken.eq(take)]
        if shape.gradient:
            m.d.comb += [
                have.eq(self.dy.valid & self.x.valid),
                self.dy.ready.eq(ready & self.x.valid),
                self.x.ready.eq(ready & self.dy.valid),
                self.b_x.eq(self.x.payload.x),
            ]
        else:
            m.d.comb += [have.eq(self.dy.valid), self.dy.ready.eq(ready)]
        control = self.b_control
        m.d.comb += [
            control.eq(self.inject),
            self.b_dy.eq(self.dy.payload.dy),
            self.done.eq(take & flags.sample_last),
            self.busy.eq(take),
            self.blocked.eq(have & ~ready),
            self.starved.eq(~have),
        ]
        with m.If(take):
            m.d.comb += [
                control.op.eq(1),
                control.update.eq(0),
                control.peek.eq(0),
                control.first.eq(flags.visit_first),
                control.last.eq(flags.visit_last),
                control.address.eq(flags.waddr),
            ]
        if not shape.backward:
            m.d.comb += room.eq(1)
            return m

        m.submodules.fifo = fifo = Fifo(lanes(self.array.pk, shape.back), self.depth)
        m.submodules.credits = credits = _Credits(self.depth)
        m.submodules.sums = sums = _Sums(self.array.pk, shape.back, shape.back, self.b)
        mark = Signal(FLAGS)
        m.d.comb += [
            room.eq(credits.room),
            credits.take.eq(take & flags.last),
            credits.give.eq(fifo.o.valid & fifo.o.ready),
            mark.valid.eq(take),
            mark.first.eq(flags.first),
            mark.last.eq(flags.last),
        ]
        late, _ = _delayed(m, mark, self.array.backward_latency, "mark")
        pixel, _ = _delayed(m, flags.m, self.array.backward_latency, "pixel")
        m.d.comb += [
            sums.flags.eq(late),
            sums.m.eq(pixel),
            sums.i.eq(self.b_sum),
            fifo.i.valid.eq(sums.valid),
            fifo.i.payload.eq(sums.o),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        return m
