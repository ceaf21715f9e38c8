"""Where the rows of a tile's column lie in the lanes of its memories, and the ports that reach them there."""

from __future__ import annotations

from amaranth import *

from .step import select_row

__all__ = ["Lanes", "last_of", "port"]


class Lanes:
    """Rows of a column of a tile of ``tk`` × ``tn``, ``stack`` of them behind one another in each of ``count`` lanes.

    Row i lies in lane ``lane(i)``, its words behind those of ``group(i)`` other rows.
    """

    def __init__(self, tk: int, tn: int, stack: int):
        if tk % stack:
            raise ValueError(f"stack = {stack} does not divide the tile's {tk} rows")
        self.tk, self.tn, self.stack, self.count = tk, tn, stack, tk // stack
        self.bits = (stack - 1).bit_length()
        self.groups = range(stack)

    def group(self, row: int) -> int:
        """The place of a row within its lane, and the cycles by which it works later than row 0."""
        return row // self.count

    def lane(self, row: int) -> int:
        """The lane of a row."""
        return row % self.count

    def place(self, address, group):
        """Where in a memory the word at ``address`` of rows in ``group`` is."""
        return Cat(group if isinstance(group, Value) else Const(group, self.bits), address)

    def of_row(self, m, name, row):
        """(group, lane) of a row in a signal."""
        if self.stack == 1:
            return Const(0, 0), row
        groups = [Const(self.group(i), self.bits) for i in range(self.tk)]
        lanes = [Const(self.lane(i), range(max(2, self.count))) for i in range(self.tk)]
        return select_row(m, f"{name}_group", row, groups), select_row(m, f"{name}_lane", row, lanes)

    def of_pe(self, m, name, j, select):
        """(group, lane) of PE ``select`` of the tile, and whether it is in column j."""
        group, hit = Signal(self.bits, name=f"{name}_group"), Signal(name=f"{name}_hit")
        lane = Signal(range(max(2, self.count)), name=f"{name}_row")
        with m.Switch(select):
            for i in range(self.tk):
                with m.Case(i * self.tn + j):
                    m.d.comb += [group.eq(self.group(i)), lane.eq(self.lane(i)), hit.eq(1)]
        return group, lane, hit

    def word(self, m, name, j, peek, update, words):
        """Of a column's ``words`` that of the row that is peeked, as PE ``peek``, or updated, with ``update`` (whether,
        row); and whether the peek is of column j."""
        _, lane, hit = self.of_pe(m, name, j, peek)
        if update is not None:
            _, updated = self.of_row(m, f"{name}_updated", update[1])
            row = Signal.like(lane, name=f"{name}_lane")
            m.d.comb += row.eq(Mux(update[0], updated, lane))
            lane = row
        return select_row(m, f"{name}_selected", lane, words), hit

    def place_of(self, m, name, j, phase, peek, update):
        """Where a word lies that is peeked, of PE ``peek``, or updated, at the address in ``phase``."""
        if self.stack == 1:
            return phase.address
        group, _, _ = self.of_pe(m, f"{name}_place", j, peek)
        if update is not None:
            updated, _ = self.of_row(m, f"{name}_place_updated", update[1])
            group = Mux(update[0], updated, group)
        return self.place(phase.address, group)

    def sums(self, m, j, ends, totals):
        """The sums that visits leave, of the rows of a lane in the cycles in which those end."""
        if self.stack == 1:
            return totals
        sums = []
        for lane in range(self.count):
            total = Signal.like(totals[0], name=f"lane_sum_{lane}_{j}")
            m.d.comb += total.eq(totals[lane])
            for g, end in enumerate(ends[1:], 1):
                with m.If(end):
                    m.d.comb += total.eq(totals[g * self.count + lane])
            sums.append(total)
        return sums

    def select(self, select):
        """Of a one-hot ``select`` of PEs: that of lanes, lane l of column j at l·tn + j, and the group."""
        if self.stack == 1:
            return select, Const(0, 0)
        size = self.count * self.tn
        parts = [select[g * size : (g + 1) * size] for g in self.groups]
        lanes = parts[0]
        for part in parts[1:]:
            lanes = lanes | part
        return lanes, Cat(
            Cat(part.any() for g, part in enumerate(parts) if g >> k & 1).any() for k in range(self.bits)
        )


def last_of(uses):
    """(enable, address) of a port from those of its uses, the last of which counts."""
    enable, address = uses[0]
    for more, other in uses[1:]:
        enable, address = enable | more, Mux(more, other, address)
    return enable, address


def port(m, name, uses):
    """As last_of, in registers: a memory behind the choice of its address, in one cycle, would be too slow."""
    chosen, place = last_of(uses)
    enable, address = Signal(name=f"{name}_read"), Signal(len(place), name=f"{name}_place", reset_less=True)
    m.d.sync += [enable.eq(chosen), address.eq(place)]
    return enable, address
