"""A systolic tile: Tk × Tn processing elements with their weights, gradient sums and the update in place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .arithmetic import mix32, round_shift, saturate

__all__ = ["CHUNK", "ArrayShape", "Tile", "control_layout"]

CHUNK = 17
"""Bits of dW that one update cycle multiplies: with a sign they fill an 18-bit multiplier input (DSP48,
MULT18X18D)."""


@dataclass(frozen=True)
class ArrayShape:
    """Everything about a PE that its neighbours share: widths by type, passes that exist, the update rule.

    ``psum`` and ``back`` are the widths of sums over the whole K and N; ``shift`` and ``rate`` belong to the
    update step round(rate·dW / 2**shift), ``stochastic`` selects its rounding. ``shared``: sums of gradients can be
    loaded, because other boards add to them. Not ``in_place``: masters lie elsewhere, a PE has their top bits only
    (``master`` = ``w``) and gets its weights loaded.
    """

    depth: int
    x: int
    w: int
    dy: int
    master: int
    grad: int
    psum: int
    back: int
    rate: int
    shift: int
    backward: bool
    gradient: bool
    stochastic: bool = False
    shared: bool = False
    in_place: bool = True

    @property
    def updates(self) -> bool:
        """PEs change their weights themselves."""
        return self.gradient and self.in_place

    @property
    def chunks(self) -> int:
        """Multiplications, and cycles, of one weight's update: dW in pieces of 17 bits, the top one
        signed."""
        return max(1, math.ceil((self.grad - 1) / CHUNK))

    @property
    def address(self) -> int:
        """Bits of a weight address."""
        return max(1, (self.depth - 1).bit_length())

    @property
    def addresses(self) -> int:
        """Words to allocate; a memory of one word would have no address."""
        return max(2, self.depth)


def control_layout(shape: ArrayShape) -> data.StructLayout:
    """What travels with an op of the backward side: a gradient op, an update piece, or a peek.

    ``op``: dy and x are valid; ``first``/``last``: the ends of a visit to one weight word. ``update``:
    multiply piece ``chunk`` (counting down) of dW, ``first``/``last`` piece. ``peek``: read master and dW for
    the host. ``base`` is the logical index of the word's lane (0, 0), for stochastic rounding.
    """
    fields: dict[str, object] = dict.fromkeys(("op", "update", "peek", "first", "last"), 1)
    fields["address"] = shape.address
    fields["chunk"] = max(1, (shape.chunks - 1).bit_length())
    if shape.stochastic:
        fields["base"] = 32
    return data.StructLayout(fields)


class Tile(wiring.Component):
    """Multiply, add along columns and rows, collect dW, and update, all where the weight lies.

    Row i of the forward side works i cycles after row 0 (sums run down the columns through one register a
    PE), column j of the backward side j cycles after column 0; the gradient multiplies with the backward
    wave. Inputs and outputs are aligned, so that tiles may be placed side by side.

    Latency: forward ``tk + 2`` from f_x to f_sum, backward ``tn + 2`` from b_dy to b_sum; every cycle takes
    an op. A word's dW is read 1 cycle after its visit's first op and written 3 cycles after the last one. An
    update takes ``shape.chunks`` cycles a word; forward and backward must be idle meanwhile (tk, tn + 6
    cycles around it). Model: hwgen.ref.kernels (forward, backward, gradient), hwgen.numeric.scaled_step
    (update).

    Members: ``f_*`` forward op (load: read the weight word at ``f_address``), ``b_*`` backward op with
    ``b_control``, ``load_*`` host write of one PE's master (select is one-hot over i·tn + j; also sets the
    forward copy and clears dW; with ``load_sum`` sets dW to ``load_grad`` instead), ``peek_*`` the peeked words of PE
    ``peek_select``, one a cycle: dW ``tn + 2``, the master ``tn + 5`` cycles after the peek and its ``peek_select``;
    ``saturated``/``zeros``: PEs whose master clipped, or whose non-zero dW gave a zero step, in the last
    cycle.
    """

    def __init__(self, shape: ArrayShape, tk: int, tn: int, offsets: tuple[tuple[int, ...], ...] = ()):
        self.shape, self.tk, self.tn = shape, tk, tn
        self.offsets = offsets
        count = range(tk * tn + 1)
        members: dict[str, object] = {
            "f_load": In(1),
            "f_address": In(shape.address),
            "f_x": In(data.ArrayLayout(signed(shape.x), tk)),
            "f_sum": Out(data.ArrayLayout(signed(shape.psum), tn)),
            "b_control": In(control_layout(shape)),
            "load_select": In(tk * tn),
            "load_address": In(shape.address),
            "load_value": In(signed(shape.master)),
        }
        if shape.backward or shape.gradient:
            members["b_dy"] = In(data.ArrayLayout(signed(shape.dy), tn))
        if shape.backward:
            members["b_sum"] = Out(data.ArrayLayout(signed(shape.back), tk))
        members |= {"peek_select": In(range(max(2, tk * tn))), "peek_master": Out(signed(shape.master))}
        if shape.gradient:
            members |= {
                "b_x": In(data.ArrayLayout(signed(shape.x), tk)),
                "peek_grad": Out(signed(shape.grad)),
            }
        if shape.shared:
            members |= {"load_sum": In(1), "load_grad": In(signed(shape.grad))}
        if shape.updates:
            members |= {"rate": In(signed(shape.rate)), "saturated": Out(count), "zeros": Out(count)}
            if shape.stochastic:
                members |= {"key": In(32), "lane_base": In(32)}
        super().__init__(members)
        self.forward_latency = tk + 2
        self.backward_latency = tn + 2

    def elaborate(self, platform):
        m = Module()
        shape, tk, tn = self.shape, self.tk, self.tn

        # Control, delayed by 0.. cycles: column j sees phase p of an op in control[j + p].
        control = [self.b_control]
        for k in range(1, tn + 6):
            stage = Signal(control_layout(shape), name=f"control_{k}")
            m.d.sync += stage.eq(control[-1])
            control.append(stage)
        loads, addresses = [self.f_load], [self.f_address]
        for i in range(1, tk):
            load = Signal(name=f"load_{i}")
            address = Signal(shape.address, name=f"address_{i}", reset_less=True)
            m.d.sync += [load.eq(loads[-1]), address.eq(addresses[-1])]
            loads.append(load)
            addresses.append(address)

        x_rows = [self._delay(m, self.f_x[i], i + 1, f"x_{i}")[-1] for i in range(tk)]
        dy_columns = []
        if shape.backward or shape.gradient:
            dy_columns = [self._delay(m, self.b_dy[j], j + 1, f"dy_{j}")[-1] for j in range(tn)]
        x_stored = []
        if shape.gradient:
            x_stored = [self._delay(m, self.b_x[i], tn, f"xs_{i}") for i in range(tk)]

        masters, grads, saturated, zeros = [], [], [], []
        back_sums: list[Value] = [Const(0)] * tk
        forward_sums: list[Value] = [Const(0)] * tn
        for j in range(tn):
            phase = control[j:]
            for i in range(tk):
                pe = f"{i}_{j}"
                write, address, value, clear = self._write_port(m, phase, i, j)
                forward_sums[j] = self._forward(
                    m, pe, loads[i], addresses[i], x_rows[i], forward_sums[j], write, address, value
                )
                master, weight = self._master(m, pe, phase, write, address, value.master)
                masters.append(master)
                if shape.backward:
                    back_sums[i] = self._multiply_add(
                        m, f"back_{pe}", dy_columns[j], weight, back_sums[i], shape.back
                    )
                if shape.gradient:
                    grad, flags = self._gradient(
                        m, pe, phase, x_stored[i][j], dy_columns[j], master, value, clear, address, (i, j)
                    )
                    grads.append(grad)
                    saturated.append(flags[0])
                    zeros.append(flags[1])
        m.d.comb += [self.f_sum[j].eq(forward_sums[j]) for j in range(tn)]
        if shape.backward:
            m.d.comb += [self.b_sum[i].eq(back_sums[i]) for i in range(tk)]

        selects = [self.peek_select, *self._delay(m, self.peek_select, tn + 5, "peek_select")]
        self._peek(m, self.peek_master, masters, selects[5:], "master")
        if shape.gradient:
            self._peek(m, self.peek_grad, grads, selects[2:], "grad")
        if shape.updates:
            m.d.sync += [self.saturated.eq(sum(saturated)), self.zeros.eq(sum(zeros))]
        return m

    def _delay(self, m, value, cycles, name):
        """Registers in a row: the value after 1, 2, ... cycles."""
        stages = []
        for k in range(cycles):
            stage = Signal(value.shape(), name=f"{name}_{k}", reset_less=True)
            m.d.sync += stage.eq(value)
            stages.append(stage)
            value = stage
        return stages

    def _peek(self, m, port, words, selects, name):
        """A peeked word moves on a column a cycle, as peeks themselves do, so that one may follow the other."""
        word: Value = Const(0)
        for j in range(self.tn):
            moved = Signal(port.shape(), name=f"peeked_{name}_{j}", reset_less=True)
            m.d.sync += moved.eq(word)
            with m.Switch(selects[j]):
                for i in range(self.tk):
                    with m.Case(i * self.tn + j):
                        m.d.sync += moved.eq(words[j * self.tk + i])
            word = moved
        m.d.comb += port.eq(word)

    def _multiply_add(self, m, name, a, b, carry, width):
        """Product register, then sum register: the two pipeline registers of a DSP slice."""
        product = Signal(signed(len(a) + len(b)), name=f"{name}_product", reset_less=True)
        total = Signal(signed(width), name=f"{name}_sum", reset_less=True)
        m.d.sync += [product.eq(a * b), total.eq(carry + product)]
        return total

    def _memory(self, m, name, width):
        memory = Memory(MemoryData(shape=signed(width), depth=self.shape.addresses, init=[]))
        m.submodules[name] = memory
        return memory

    def _write_port(self, m, phase, i, j):
        """Who writes a PE's words: the update, 5 cycles behind its last piece, or the host."""
        shape = self.shape
        pe = f"{i}_{j}"
        value = _PEWrite(
            Signal(signed(shape.master), name=f"new_master_{pe}"),
            Signal(signed(shape.master), name=f"stepped_{pe}"),
        )
        chosen = self.load_select[i * self.tn + j]
        host = chosen & ~self.load_sum if shape.shared else chosen
        if not shape.updates:
            m.d.comb += value.master.eq(self.load_value)
            return host, self.load_address, value, chosen
        updated = phase[5].update & phase[5].last
        write = Signal(name=f"write_{pe}")
        address = Signal(shape.address, name=f"write_address_{pe}")
        m.d.comb += [
            write.eq(updated | host),
            address.eq(Mux(chosen, self.load_address, phase[5].address)),
            value.master.eq(Mux(host, self.load_value, value.stepped)),
        ]
        return write, address, value, (write | chosen) if shape.shared else write

    def _forward(self, m, pe, load, address, x, carry, write, write_address, value):
        shape = self.shape
        memory = self._memory(m, f"forward_weight_{pe}", shape.w)
        writer, reader = memory.write_port(), memory.read_port()
        m.d.comb += [
            writer.en.eq(write),
            writer.addr.eq(write_address),
            writer.data.eq(value.master >> (shape.master - shape.w)),
            reader.en.eq(load),
            reader.addr.eq(address),
        ]
        return self._multiply_add(m, f"forward_{pe}", x, reader.data, carry, shape.psum)

    def _master(self, m, pe, phase, write, write_address, value):
        shape = self.shape
        memory = self._memory(m, f"master_{pe}", shape.master)
        writer, reader = memory.write_port(), memory.read_port()
        late = phase[4].peek | (phase[4].update & phase[4].last if shape.updates else 0)
        early = phase[0].op & phase[0].first if shape.backward else Const(0)
        m.d.comb += [
            writer.en.eq(write),
            writer.addr.eq(write_address),
            writer.data.eq(value),
            reader.en.eq(late | early),
            reader.addr.eq(Mux(late, phase[4].address, phase[0].address)),
        ]
        weight = Signal(signed(shape.w), name=f"weight_{pe}")
        m.d.comb += weight.eq(reader.data >> (shape.master - shape.w))
        return reader.data, weight

    def _gradient(self, m, pe, phase, x, dy, master, value, clear, clear_address, place):
        """dW += x·dy over a visit; or step = round(rate·dW), master - step. Returns dW and (saturated, zero)
        flags."""
        shape = self.shape
        total = Signal(signed(shape.grad), name=f"grad_sum_{pe}", reset_less=True)
        old = self._gradient_memory(m, pe, phase, total, clear, clear_address)

        a, b, piece = self._operands(m, pe, phase[2], x, dy, old)
        product = Signal(signed(len(a) + len(b)), name=f"grad_product_{pe}", reset_less=True)
        m.d.sync += product.eq(a * b)
        with m.If(phase[2].op):
            keep = shape.depth == 1
            m.d.sync += total.eq((total if keep else Mux(phase[2].first, old, total)) + product)
        if shape.depth == 1:
            with m.If(clear):
                m.d.sync += total.eq(self._cleared)
        if not shape.updates:
            return old, (Const(0), Const(0))

        scaled = Signal(signed(shape.grad + shape.rate), name=f"scaled_{pe}", reset_less=True)
        some = Signal(name=f"some_{pe}", reset_less=True)
        step = Signal(
            signed(max(shape.grad + shape.rate - shape.shift, 1) + 1), name=f"step_{pe}", reset_less=True
        )
        was_some = Signal(name=f"was_some_{pe}", reset_less=True)
        with m.If(phase[2].update):
            m.d.sync += some.eq(Mux(phase[2].first, 0, some) | piece.any())
        with m.If(phase[3].update):
            m.d.sync += scaled.eq(Mux(phase[3].first, 0, (scaled << CHUNK)[: len(scaled)]) + product)
        random = self._random(m, phase[2], place) if shape.stochastic else None
        with m.If(phase[4].update):
            m.d.sync += step.eq(round_shift(scaled, shape.shift, random))
        some_late = Signal(name=f"some_late_{pe}", reset_less=True)
        m.d.sync += [some_late.eq(some), was_some.eq(some_late)]
        stepped, clipped = saturate(m, master - step, shape.master, f"stepped_{pe}")
        m.d.comb += value.stepped.eq(stepped)
        done = phase[5].update & phase[5].last
        return old, (done & clipped, done & was_some & (step == 0))

    @property
    def _cleared(self):
        """What dW becomes with a load."""
        return Mux(self.load_sum, self.load_grad, 0) if self.shape.shared else 0

    def _operands(self, m, pe, phase, x, dy, old):
        """What the gradient's multiplier takes, x and dy, in an update the rate and a piece of dW; and that piece."""
        shape = self.shape
        if not shape.updates:
            return x, dy, None
        # Horner's rule over the pieces of dW, top piece (signed) first.
        piece = Signal(signed(CHUNK + 1), name=f"piece_{pe}")
        with m.Switch(phase.chunk):
            for c in range(shape.chunks):
                with m.Case(c):
                    top = c == shape.chunks - 1
                    m.d.comb += piece.eq((old >> (CHUNK * c)) if top else old[CHUNK * c : CHUNK * (c + 1)])
        a = Signal(signed(max(shape.x, shape.rate)), name=f"grad_a_{pe}")
        b = Signal(signed(max(shape.dy, CHUNK + 1)), name=f"grad_b_{pe}")
        m.d.comb += [a.eq(x), b.eq(dy)]
        with m.If(phase.update):
            m.d.comb += [a.eq(self.rate), b.eq(piece)]
        return a, b, piece

    def _gradient_memory(self, m, pe, phase, total, clear, clear_address):
        """dW between visits; with one word only, the sum register is its own memory."""
        shape = self.shape
        if shape.depth == 1:
            return total
        memory = self._memory(m, f"grad_{pe}", shape.grad)
        writer = memory.write_port()
        # A word may come back one op after it was left when there are but two of them: then the read meets the write.
        reader = memory.read_port(transparent_for=[writer] if shape.depth == 2 else [])
        m.d.comb += [
            writer.en.eq((phase[3].op & phase[3].last) | clear),
            writer.addr.eq(Mux(clear, clear_address, phase[3].address)),
            writer.data.eq(Mux(clear, self._cleared, total)),
            reader.en.eq(((phase[1].op | phase[1].update) & phase[1].first) | phase[1].peek),
            reader.addr.eq(phase[1].address),
        ]
        return reader.data

    def _random(self, m, phase, place):
        """``shift`` random bits for lane (i, j), two cycles after ``phase``: a hash of key + logical index.

        Model: hwgen.numeric.hash_words. A register before and between its two rounds.
        """
        i, j = place
        shift = self.shape.shift
        index, mixed = Signal(32, name=f"index_{i}_{j}"), Signal(32, name=f"mixed_{i}_{j}")
        m.d.sync += [
            index.eq(self.key + phase.base + self.lane_base + self.offsets[i][j]),
            mixed.eq(mix32(m, index, f"hash_{i}_{j}")),
        ]
        bits = mix32(m, mixed, f"random_{i}_{j}")
        if shift <= 0:
            return Const(0, 1)
        return (bits >> (32 - shift)) if shift <= 32 else (bits << (shift - 32))


@dataclass(frozen=True)
class _PEWrite:
    """Values a PE's memories may take: what is written, and the updated master."""

    master: Signal
    stepped: Signal
