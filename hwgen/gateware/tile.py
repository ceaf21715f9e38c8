"""A systolic tile: Tk × Tn processing elements with their weights, gradient sums and the update in place."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .arithmetic import mix32, round_shift, saturate
from .shape import CHUNK, ArrayShape, control_layout
from .words import Column, Words, column_loads

__all__ = ["CHUNK", "ArrayShape", "Tile", "control_layout"]


class Tile(wiring.Component):
    """Multiply, add along columns and rows, collect dW, and update, all where the weight lies.

    Row i of the forward side works i cycles after row 0 (sums run down the columns through one register a
    PE), column j of the backward side j cycles after column 0; the gradient multiplies with the backward
    wave. Inputs and outputs are aligned, so that tiles may be placed side by side.

    Latency: forward ``tk + 2`` from f_x to f_sum, backward ``tn + 2`` from b_dy to b_sum, one more where both take
    turns at the weights (:class:`hwgen.gateware.shape.ArrayShape`); every cycle takes an op. A word's dW is read
    1 cycle after its visit's first op and written 3 cycles after the last one. An update takes ``shape.chunks`` cycles
    a word; forward and backward must be idle meanwhile (tk, tn + 6 cycles around it), and at loads and peeks. Model:
    hwgen.ref.kernels (forward, backward, gradient), hwgen.numeric.scaled_step (update).

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
        self.forward_latency = tk + 2 + shape.held
        self.backward_latency = tn + 2 + shape.held

    def elaborate(self, platform):
        m = Module()
        shape, tk, tn = self.shape, self.tk, self.tn

        # Control, delayed by 0.. cycles: column j sees phase p of an op in control[j + p].
        control = [self.b_control]
        for k in range(1, tn + 6):
            stage = Signal(control_layout(shape), name=f"control_{k}")
            m.d.sync += stage.eq(control[-1])
            control.append(stage)
        held = shape.held
        x_rows = [self._delay(m, self.f_x[i], i + 1 + held, f"x_{i}")[-1] for i in range(tk)]
        dy = []
        if shape.backward or shape.gradient:
            late = held if shape.backward else 0
            dy = [self._delay(m, self.b_dy[j], j + 1 + late, f"dy_{j}") for j in range(tn)]
        x_stored = []
        if shape.gradient:
            x_stored = [self._delay(m, self.b_x[i], tn, f"xs_{i}") for i in range(tk)]

        moves = self._moves(m)
        loads = column_loads(m, shape, self)
        masters, grads, saturated, zeros = [], [], [], []
        back_sums: list[Value] = [Const(0)] * tk
        forward_sums: list[Value] = [Const(0)] * tn
        for j in range(tn):
            phase, load = control[j:], loads[j]
            column = self._masters(m, j, control, load)
            masters.append(column.words)
            weights = self._forward_weights(m, j, column, moves)
            for i in range(tk):
                forward_sums[j] = self._multiply_add(
                    m, f"forward_{i}_{j}", x_rows[i], weights[i], forward_sums[j], shape.psum
                )
            if shape.backward:
                weights = self._back_weights(m, j, phase, column.words)
                for i in range(tk):
                    back_sums[i] = self._multiply_add(
                        m, f"back_{i}_{j}", dy[j][-1], weights[i], back_sums[i], shape.back
                    )
            if shape.gradient:
                x = [x_stored[i][j] for i in range(tk)]
                old, flags = self._gradients(m, j, phase, x, dy[j][j], column, load)
                grads.append(old)
                saturated += [clipped for clipped, _ in flags]
                zeros += [zero for _, zero in flags]
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
                        m.d.sync += moved.eq(words[j][i])
            word = moved
        m.d.comb += port.eq(word)

    def _multiply_add(self, m, name, a, b, carry, width):
        """Product register, then sum register: the two pipeline registers of a DSP slice."""
        product = Signal(signed(len(a) + len(b)), name=f"{name}_product", reset_less=True)
        total = Signal(signed(width), name=f"{name}_sum", reset_less=True)
        m.d.sync += [product.eq(a * b), total.eq(carry + product)]
        return total

    def _words(self, m, name, width, transparent=False):
        shape = self.shape
        return Words(
            m, name, self.tk, width, shape.addresses,
            together=shape.columns, transparent=transparent, kind=shape.style,
        )  # fmt: skip

    def _top(self, words):
        """The weights of masters."""
        shape = self.shape
        return [word[shape.master - shape.w :].as_signed() for word in words]

    def _moves(self, m):
        """The forward op's load and address 0, 1, ... cycles later, as far as rows need them."""
        shape = self.shape
        loads, addresses = [self.f_load], [self.f_address]
        for i in range(1, self.tk + shape.held if not (shape.copy and shape.columns) else 1):
            load = Signal(name=f"load_{i}")
            m.d.sync += load.eq(loads[-1])
            loads.append(load)
            if not shape.columns:
                address = Signal(shape.address, name=f"address_{i}", reset_less=True)
                m.d.sync += address.eq(addresses[-1])
                addresses.append(address)
        return loads, addresses

    def _early(self, j):
        """Whether a column would read for backward when it reads for forward, and so reads a cycle earlier."""
        shape = self.shape
        return not shape.copy and shape.backward and (j + 1) % shape.period == 0

    def _masters(self, m, j, control, load):
        """A column's masters; written by the update, 5 cycles behind its last piece, and by the host."""
        shape, phase = self.shape, control[j:]
        memory = self._words(m, f"master_{j}", shape.master)
        turn = control[j - 1] if self._early(j) else phase[0]
        updated = phase[5].update & phase[5].last if shape.updates else Const(0)
        late = phase[4].peek | (phase[4].update & phase[4].last if shape.updates else 0)
        enable = late | (turn.op & turn.first if shape.backward else 0)
        address = Mux(late, phase[4].address, turn.address)
        if shape.columns:
            enable, address = enable | load.reading, Mux(load.reading, self.load_address, address)
        if not shape.copy:
            enable, address = enable | self.f_load, Mux(self.f_load, self.f_address, address)
        words = memory.read(enable, address)

        write_address = Signal(shape.address, name=f"write_address_{j}")
        own = Mux(load.some, load.address, phase[5].address) if shape.updates else load.address
        m.d.comb += write_address.eq(own)
        new = [Signal(signed(shape.master), name=f"new_master_{i}_{j}") for i in range(self.tk)]
        stepped = [Signal(signed(shape.master), name=f"next_master_{i}_{j}") for i in range(self.tk)]
        for i in range(self.tk):
            value = load.value
            if shape.columns:
                value = load.merged(i, words[i], value, load.kept_masters, load.kept_value)
            if shape.updates:
                value = Mux(load.some if shape.columns else load.masters[i], value, stepped[i])
            m.d.comb += new[i].eq(value)
        enables = [updated | (load.master if shape.columns else one) for one in load.masters]
        memory.write(enables, write_address, new)
        clears = [updated | one for one in load.chosen]
        return Column(words, new, stepped, enables, clears, updated | load.some, write_address)

    def _forward_weights(self, m, j, column, moves):
        """What the forward multipliers of a column take; row i a cycle after row i - 1."""
        shape, (loads, addresses) = self.shape, moves
        if not shape.copy:
            return [
                self._keep(m, f"weight_{i}_{j}", weight, i, loads[i + 1])
                for i, weight in enumerate(self._top(column.words))
            ]
        memory = self._words(m, f"forward_weight_{j}", shape.w)
        memory.write(column.enables, column.address, self._top(column.new))
        if not shape.columns:
            return memory.read(loads, addresses)
        words = memory.read(self.f_load, self.f_address)
        return [[word, *self._delay(m, word, i, f"weight_{i}_{j}")][-1] for i, word in enumerate(words)]

    def _back_weights(self, m, j, phase, words):
        """What the backward multipliers of a column take."""
        if self.shape.copy:
            return self._top(words)
        load = phase[1].op & phase[1].first
        return [
            self._keep(m, f"back_weight_{i}_{j}", weight, int(self._early(j)), load)
            for i, weight in enumerate(self._top(words))
        ]

    def _keep(self, m, name, weight, cycles, load):
        """A register that takes the weight of ``cycles`` cycles ago."""
        kept = Signal(signed(self.shape.w), name=name, reset_less=True)
        late = [weight, *self._delay(m, weight, cycles, name)][-1]
        with m.If(load):
            m.d.sync += kept.eq(late)
        return kept

    def _gradients(self, m, j, phase, x, dy, column, load):
        """dW of a column; (saturated, zero) flags of each PE."""
        shape = self.shape
        totals = [
            Signal(signed(shape.grad), name=f"grad_sum_{i}_{j}", reset_less=True) for i in range(self.tk)
        ]
        old = self._gradient_memory(m, j, phase, totals, column, load)
        flags = [
            self._gradient(m, i, j, phase, x[i], dy, column, load, old[i], totals[i]) for i in range(self.tk)
        ]
        return old, flags

    def _gradient(self, m, i, j, phase, x, dy, column, load, old, total):
        """dW += x·dy over a visit; or step = round(rate·dW), master - step. Returns (saturated, zero) flags."""
        shape, pe = self.shape, f"{i}_{j}"
        a, b, piece = self._operands(m, pe, phase[2], x, dy, old)
        product = Signal(signed(len(a) + len(b)), name=f"grad_product_{pe}", reset_less=True)
        m.d.sync += product.eq(a * b)
        with m.If(phase[2].op):
            keep = shape.depth == 1
            m.d.sync += total.eq((total if keep else Mux(phase[2].first, old, total)) + product)
        if shape.depth == 1:
            with m.If(column.clears[i]):
                m.d.sync += total.eq(load.grad)
        if not shape.updates:
            return Const(0), Const(0)

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
        random = self._random(m, phase[2], (i, j)) if shape.stochastic else None
        with m.If(phase[4].update):
            m.d.sync += step.eq(round_shift(scaled, shape.shift, random))
        some_late = Signal(name=f"some_late_{pe}", reset_less=True)
        m.d.sync += [some_late.eq(some), was_some.eq(some_late)]
        stepped, clipped = saturate(m, column.words[i] - step, shape.master, f"stepped_{pe}")
        m.d.comb += column.stepped[i].eq(stepped)
        done = phase[5].update & phase[5].last
        return done & clipped, done & was_some & (step == 0)

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

    def _gradient_memory(self, m, j, phase, totals, column, load):
        """dW between visits; with one word only, the sum registers are their own memory."""
        shape = self.shape
        if shape.depth == 1:
            return totals
        # A word may come back one op after it was left when there are but two of them: then the read meets the write.
        memory = self._words(m, f"grad_{j}", shape.grad, shape.depth == 2)
        enable = ((phase[1].op | phase[1].update) & phase[1].first) | phase[1].peek
        address = phase[1].address
        if shape.columns:
            enable, address = enable | load.reading, Mux(load.reading, self.load_address, address)
        old = memory.read(enable, address)
        done, values = phase[3].op & phase[3].last, []
        for i, total in enumerate(totals):
            value = Mux(column.clears[i], load.grad, total)
            if shape.columns:
                value = Mux(load.some, load.merged(i, old[i], load.grad, load.kept, load.kept_grad), value)
            values.append(value)
        enables = [done | (column.writes if shape.columns else clear) for clear in column.clears]
        memory.write(enables, Mux(column.writes, column.address, phase[3].address), values)
        return old

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
