"""A systolic tile: Tk × Tn processing elements with their weights, gradient sums and the update in place."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .lanes import Lanes, last_of, port
from .pipeline import delayed, kept, multiply_add, passed_on
from .shape import CHUNK, ArrayShape, control_layout
from .step import operands, piece_of, random_bits, select_row, step_of, stepped
from .words import Column, Words, column_loads

__all__ = ["CHUNK", "ArrayShape", "Tile", "control_layout"]


class Tile(wiring.Component):
    """Multiply, add along columns and rows, collect dW, and update, all where the weight lies.

    Row i of the forward side works i cycles after row 0 (sums run down the columns through one register a
    PE), column j of the backward side j cycles after column 0; the gradient multiplies with the backward
    wave. Inputs and outputs are aligned, so that tiles may be placed side by side.

    Latency: forward ``tk + 3`` from f_x to f_sum, backward ``tn + 3`` from b_dy to b_sum, one more where both take
    turns at the weights (:class:`hwgen.gateware.shape.ArrayShape`), and backward ``stack - 1`` more; every cycle takes
    an op. In the first cycle the addresses of memories are chosen, which they have in a register then. A word's dW is
    read 2 cycles after its visit's first op and written 4 cycles after the last one, of rows behind others in a lane a
    cycle later for each. An update takes ``shape.row_cycles`` cycles a word, or a row of a word where
    ``shape.rows`` > 1; forward and backward must be idle meanwhile (tk + 1, tn + 9 cycles around it), and at loads and
    peeks. Model: hwgen.ref.kernels (forward, backward, gradient), hwgen.numeric.scaled_step (update).

    Members: ``f_*`` forward op (load: read the weight word at ``f_address``), ``b_*`` backward op with
    ``b_control``, ``load_*`` host write of one PE's master (select is one-hot over i·tn + j; also sets the
    forward copy and clears dW; with ``load_sum`` sets dW to ``load_grad`` instead), ``peek_*`` the peeked words of PE
    ``peek_select``, one a cycle: dW ``tn + 4``, the master ``tn + 8`` cycles after the peek and its ``peek_select``;
    ``saturated``/``zeros``: PEs whose master clipped, or whose non-zero dW gave a zero step, in the last
    cycle.
    """

    def __init__(self, shape: ArrayShape, tk: int, tn: int, offsets: tuple[tuple[int, ...], ...] = ()):
        self.shape, self.tk, self.tn = shape, tk, tn
        if shape.rows not in (1, tk):
            raise ValueError(f"rows = {shape.rows}; a unit updates all {tk} rows of a column or one")
        self.lanes = Lanes(tk, tn, shape.stack)
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
        self.forward_latency = tk + 3 + shape.held
        self.backward_latency = tn + 3 + shape.held + shape.stack - 1

    def elaborate(self, platform):
        m = Module()
        shape, tk, tn = self.shape, self.tk, self.tn

        # Control, delayed by 0.. cycles: column j asks its memories for phase p of an op with asked[j + p], and sees
        # it in control[j + p], a cycle later.
        asked = [self.b_control]
        for k in range(1, tn + 9 + shape.stack):
            stage = Signal(control_layout(shape), name=f"control_{k}")
            m.d.sync += stage.eq(asked[-1])
            asked.append(stage)
        control = asked[1:]
        held, behind, lanes = shape.held, shape.stack - 1, self.lanes
        x_rows = [delayed(m, self.f_x[i], i + 2 + held, f"x_{i}")[-1] for i in range(tk)]
        dy = []
        if shape.backward or shape.gradient:
            late = held if shape.backward else 0
            delays = [max(j + 1 + late, j + 2 * shape.gradient) + behind + 1 for j in range(tn)]
            dy = [delayed(m, self.b_dy[j], delays[j], f"dy_{j}")[1:] for j in range(tn)]
        x_stored = []
        if shape.gradient:
            x_stored = [delayed(m, self.b_x[i], tn + 2 + lanes.group(i), f"xs_{i}")[1:] for i in range(tk)]

        moves = self._moves(m)
        loads = column_loads(m, shape, self, lanes)
        asking = [self.peek_select, *delayed(m, self.peek_select, tn + 8, "peek_select")]
        selects = asking[1:]
        masters, grads, saturated, zeros = [], [], [], []
        back_sums: list[Value] = [Const(0)] * tk
        forward_sums: list[Value] = [Const(0)] * tn
        for j in range(tn):
            phase, load = control[j:], loads[j]
            column = self._masters(m, j, asked, load, asking[j + 6], moves)
            masters.append(
                lanes.word(m, f"master_{j}", j, selects[j + 7], self._updating(phase[7]), column.words)
            )
            weights = self._forward_weights(m, j, column, moves)
            for i in range(tk):
                forward_sums[j] = multiply_add(
                    m, f"forward_{i}_{j}", x_rows[i], weights[i], forward_sums[j], shape.psum
                )
            if shape.backward:
                weights = self._back_weights(m, j, control, column)
                for i in range(tk):
                    error = dy[j][j + late + lanes.group(i)]
                    back_sums[i] = multiply_add(
                        m, f"back_{i}_{j}", error, weights[i], back_sums[i], shape.back
                    )
            if shape.gradient:
                totals, old = self._gradient_memory(
                    m, j, asked[j:], column, load, asking[j + 2 - shape.registered]
                )
                grads.append(lanes.word(m, f"grad_{j}", j, selects[j + 3], self._updating(phase[3]), old))
                selected = grads[-1][0], masters[-1][0]
                flags = self._gradients(m, j, phase, x_stored, dy[j], column, load, totals, old, selected)
                saturated += [clipped for clipped, _ in flags]
                zeros += [zero for _, zero in flags]
        m.d.comb += [self.f_sum[j].eq(forward_sums[j]) for j in range(tn)]
        if shape.backward:
            for i, total in enumerate(back_sums):
                early = delayed(m, total, behind - lanes.group(i), f"back_early_{i}")
                m.d.comb += self.b_sum[i].eq([total, *early][-1])

        passed_on(m, self.peek_master, masters, "master")
        if shape.gradient:
            passed_on(m, self.peek_grad, grads, "grad")
        if shape.updates:
            for count, each in ((self.saturated, saturated), (self.zeros, zeros)):
                m.d.sync += count.eq(sum(delayed(m, Cat(each), 1, f"{count.name}_late")[-1]))
        return m

    def _updating(self, phase):
        """The update, and its row, of columns that have a unit; else None."""
        return (phase.update, phase.row) if self.shape.rows > 1 else None

    def _words(self, m, name, width, transparent=False):
        shape = self.shape
        return Words(
            m, name, self.lanes.count, width, shape.addresses,
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
        for i in range(1, self.tk + shape.held + 1 if not (shape.copy and shape.columns) else 2):
            load = Signal(name=f"load_{i}")
            m.d.sync += load.eq(loads[-1])
            loads.append(load)
            if not shape.columns or i < shape.stack + shape.copy:
                address = Signal(shape.address, name=f"address_{i}", reset_less=True)
                m.d.sync += address.eq(addresses[-1])
                addresses.append(address)
        return loads, addresses

    def _masters(self, m, j, asked, load, peek, moves):
        """A column's masters; written by the update, 8 cycles behind its last piece (9, a row at a time, where the
        column has one unit), and by the host."""
        shape, rows, lanes = self.shape, range(self.lanes.count), self.lanes
        ask, phase = asked[j:], asked[j + 1 :]
        in_turn = shape.rows > 1
        memory = self._words(m, f"master_{j}", shape.master)
        written = phase[9] if in_turn else phase[8]
        updated = written.update & written.last if shape.updates else Const(0)
        turns, backs = asked[j - shape.early(j) :], Const(int(shape.backward))
        uses = [
            (turns[g].op & turns[g].first & backs, lanes.place(turns[g].address, g)) for g in lanes.groups
        ]
        late = ask[6].peek | (ask[6].update & ask[6].last if in_turn else 0)
        place = lanes.place_of(m, f"late_master_{j}", j, ask[6], peek, self._updating(ask[6]))
        uses.append((late, place))
        if shape.updates and not in_turn:
            step = ask[6 - shape.registered]
            uses.append((step.update & step.last, step.address))
        if in_turn:  # once more, for the rows that are written back as they are
            again, _ = lanes.of_row(m, f"again_{j}", ask[8].row)
            uses.append((ask[8].update & ask[8].last, lanes.place(ask[8].address, again)))
        if shape.columns:
            uses.append((load.reading, load.reading_address))
        if not shape.copy:
            uses += [(moves[0][g], lanes.place(moves[1][g], g)) for g in lanes.groups]
        words = memory.read(*port(m, f"master_{j}", uses))
        late_words = words
        if shape.registered and (shape.copy or (shape.updates and not in_turn)):
            late_words = [delayed(m, word, 1, f"late_{i}_{j}")[-1] for i, word in enumerate(words)]

        write_address = Signal(shape.place, name=f"write_address_{j}")
        group, lane = (
            lanes.of_row(m, f"written_{j}", written.row) if in_turn else (Const(0, lanes.bits), None)
        )
        own = (
            Mux(load.some, load.address, lanes.place(written.address, group))
            if shape.updates
            else load.address
        )
        m.d.comb += write_address.eq(own)
        new = [Signal(signed(shape.master), name=f"new_master_{i}_{j}") for i in rows]
        stepped = [
            Signal(signed(shape.master), name=f"next_master_{i}_{j}") for i in rows[: 1 if in_turn else None]
        ]
        for i in rows:
            value = Mux(load.some, load.value, stepped[0]) if in_turn else load.value
            if shape.columns:
                chosen = load.chosen[i] | (updated & (lane == i) if in_turn else 0)
                as_it_was = Mux(load.kept_masters[i], load.kept_value, words[i])
                value = Mux(chosen, value, as_it_was)
            if shape.updates and not in_turn:
                value = Mux(load.some if shape.columns else load.masters[i], value, stepped[i])
            m.d.comb += new[i].eq(value)
        enables = [updated | (load.master if shape.columns else one) for one in load.masters]
        memory.write(enables, write_address, new)
        # A unit's dW are cleared with the last row of a word: its memory's output has them until then.
        cleared = updated & (lane == lanes.count - 1) if in_turn else updated
        resets = Signal(name=f"resets_{j}")
        if shape.updates:
            before = phase[8] if in_turn else phase[7]
            last_row = before.row == self.tk - 1 if in_turn else 1
            m.d.comb += resets.eq(before.update & before.last & last_row)
        return Column(words, late_words, new, stepped, enables, cleared, resets, write_address)

    def _forward_weights(self, m, j, column, moves):
        """What the forward multipliers of a column take; row i a cycle after row i - 1."""
        shape, (loads, addresses), lanes = self.shape, moves, self.lanes
        if not shape.copy:
            words = self._top(column.words)
            return [
                self._keep(m, f"weight_{i}_{j}", words[lanes.lane(i)], i - lanes.group(i), loads[i + 2])
                for i in range(self.tk)
            ]
        memory = self._words(m, f"forward_weight_{j}", shape.w)
        memory.write(column.enables, column.address, self._top(column.new))
        words = (
            memory.read(loads[1], addresses[1]) if shape.columns else memory.read(loads[1:], addresses[1:])
        )
        waits = [shape.registered + (i if shape.columns else 0) for i in range(self.tk)]
        return [[word, *delayed(m, word, waits[i], f"weight_{i}_{j}")][-1] for i, word in enumerate(words)]

    def _back_weights(self, m, j, control, column):
        """What the backward multipliers of a column take."""
        if self.shape.copy:
            return self._top(column.late_words)
        top, early, found = self._top(column.words), self.shape.early(j), []
        for i in range(self.tk):
            weight, group, name = top[self.lanes.lane(i)], self.lanes.group(i), f"back_weight_{i}_{j}"
            load, sooner = (control[j + 1 + group - e] for e in (0, early))
            if early > 1:
                weight = kept(m, f"{name}_early", weight, sooner.op & sooner.first)
            found.append(self._keep(m, name, weight, int(early == 1), load.op & load.first))
        return found

    def _keep(self, m, name, weight, cycles, load):
        """A register that takes the weight of ``cycles`` cycles ago."""
        return kept(m, name, [weight, *delayed(m, weight, cycles, name)][-1], load)

    def _gradients(self, m, j, phase, x, dy, column, load, totals, old, selected):
        """Sums of a column, and its update; (saturated, zero) flags of each unit that updates: of every PE or of the
        column, which takes dW and masters as they are ``selected``."""
        shape = self.shape
        dw, master = selected
        if shape.rows > 1:
            piece = Signal(signed(CHUNK + 1), name=f"piece_late_{j}", reset_less=True)
            m.d.sync += piece.eq(piece_of(m, shape, f"piece_{j}", phase[3].chunk, dw))
        flags = []
        for i, total in enumerate(totals):
            group, word = self.lanes.group(i), old[self.lanes.lane(i)]
            name, before = f"{i}_{j}", (x[i][j + group], dy[j + group])
            if shape.updates and shape.rows == 1:
                piece = piece_of(m, shape, f"piece_{name}", phase[3].chunk, old[i])
                a, b = operands(m, shape, name, phase[3].update, *before, self.rate, piece)
            elif shape.rows > 1 and i == 0:
                a, b = operands(m, shape, name, phase[4].update, *before, self.rate, piece)
            else:
                a, b = x[i][j + group + 1], dy[j + group + 1]
            product = Signal(signed(len(a) + len(b)), name=f"grad_product_{name}", reset_less=True)
            m.d.sync += product.eq(Mux(load.sums.soon, 0, a * b) if shape.through_sums else a * b)
            self._add(m, i, phase[group:], product, column, load, word, total)
            if shape.updates and shape.rows == 1:
                flags.append(self._update(m, i, j, phase[2:], piece, product, column))
            elif shape.rows > 1 and i == 0:
                flags.append(self._update_rows(m, j, phase[3:], piece, product, master, column))
        return flags

    def _add(self, m, i, phase, product, column, load, old, total):
        """dW += x·dy over a visit; on the way of all dW where ``through_sums``."""
        shape, op, first = self.shape, phase[3].op, phase[3].first
        if shape.through_sums:
            op, first = op | load.sums.some, first | load.sums.some
        with m.If(op):
            m.d.sync += total.eq((total if shape.depth == 1 else Mux(first, old, total)) + product)
        if shape.depth == 1:
            with m.If(column.clears(load, i)):
                m.d.sync += total.eq(load.sums.grad)
        if shape.through_sums:
            with m.If(column.resets | load.sums.resets[i]):
                m.d.sync += total.eq(0)

    def _update(self, m, i, j, phase, piece, product, column):
        """A PE's own master - step; ``phase`` as step_of has it. Returns (saturated, zero) flags."""
        shape, name = self.shape, f"{i}_{j}"
        index = self._index(phase[2], self.offsets[i][j]) if shape.stochastic else None
        random = random_bits(m, shape, name, index) if shape.stochastic else None
        step, some = step_of(m, shape, name, phase, piece, product, random)
        old, zero = column.late_words[i], some & (step == 0)
        return stepped(m, shape, name, phase, old - step, zero, column.stepped[i])

    def _update_rows(self, m, j, phase, piece, product, master, column):
        """master - step of a column's rows, one after the other; ``phase`` as step_of has it."""
        shape, name, random = self.shape, f"rows_{j}", None
        if shape.stochastic:
            offsets = [Const(offsets[j], 32) for offsets in self.offsets]
            offset = select_row(m, f"offset_{j}", phase[2].row, offsets)
            random = random_bits(m, shape, name, self._index(phase[2], offset))
        step, some = step_of(m, shape, name, phase, piece, product, random)
        old = Signal(signed(shape.master), name=f"old_master_{j}", reset_less=True)
        m.d.sync += old.eq(master)
        return stepped(m, shape, name, phase, old - step, some & (step == 0), column.stepped[0])

    def _index(self, phase, offset):
        """Key and logical index of a weight, for stochastic rounding."""
        return self.key + phase.base + self.lane_base + offset

    def _gradient_memory(self, m, j, ask, column, load, peek):
        """Sums of dW, and dW between visits; with one word only, the sum registers are their own memory."""
        shape = self.shape
        totals = [
            Signal(signed(shape.grad), name=f"grad_sum_{i}_{j}", reset_less=True) for i in range(self.tk)
        ]
        if shape.depth == 1:
            return totals, totals
        # A word may come back one op after it was left when there are but two of them: then the read meets the write.
        memory = self._words(m, f"grad_{j}", shape.grad, shape.depth == 2)
        lanes, asked, phase = self.lanes, ask[2 - shape.registered :], ask[1:]
        updates = asked[0].update & asked[0].first
        if shape.rows > 1:
            _, lane = lanes.of_row(m, f"updated_{j}", asked[0].row)
            updates &= lane == 0
        uses = [(asked[g].op & asked[g].first, lanes.place(asked[g].address, g)) for g in lanes.groups]
        place = lanes.place_of(m, f"grad_{j}", j, asked[0], peek, self._updating(asked[0]))
        uses.append((updates | asked[0].peek, place))
        if shape.columns:
            uses.append((load.sums.reading, load.sums.reading_address))
        old = memory.read(*port(m, f"grad_{j}", uses))
        if shape.registered:
            old = [delayed(m, word, 1, f"old_{i}_{j}")[-1] for i, word in enumerate(old)]
        done = [
            (phase[4 + g].op & phase[4 + g].last, lanes.place(phase[4 + g].address, g)) for g in lanes.groups
        ]
        values = lanes.sums(m, j, [end for end, _ in done], totals)
        stored, place = load.sums.some, load.sums.address
        if shape.through_sums:
            stored, place = load.sums.stored, load.sums.stored_address
        other, address = column.cleared | stored, Mux(stored, place, column.address)
        if not shape.through_sums:
            values = [
                self._loaded(i, column, load, word, total)
                for i, (word, total) in enumerate(zip(old, values, strict=True))
            ]
        ends, end_address = last_of(done)
        enables = [ends | (other if shape.columns else column.clears(load, i)) for i in range(lanes.count)]
        memory.write(enables, Mux(other, address, end_address), values)
        return totals, old

    def _loaded(self, i, column, load, word, total):
        """What is written as dW of a lane: the sum of a visit, what is loaded, or as it was."""
        sums = load.sums
        value = Mux(column.clears(load, i), sums.grad, total)
        if self.shape.columns:
            for kept, grad in sums.kept[i]:
                word = Mux(kept, grad, word)
            value = Mux(sums.some & ~sums.chosen[i], word, value)
        return value
