"""Tables of a banked row buffer's addresses: for the taps of a window, and for pixels in raster order."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..plan.geometry import Axis, Geometry
from .loops import bits
from .table import Table

__all__ = ["Banks", "RasterAddress", "Slots", "TapAddress", "tap_order", "turned", "wrapped"]


class Banks:
    """Sizes of a banked row buffer with ``rows`` row slots: By × Bx banks of ``depth`` words each."""

    def __init__(self, geometry: Geometry, rows: int):
        if rows < 1:
            raise ValueError(f"rows = {rows}; at least 1")
        self.geometry, self.rows = geometry, rows
        self.vertical, self.horizontal = geometry.vertical.banks, geometry.horizontal.banks
        self.count = self.vertical * self.horizontal
        self.depth = rows * geometry.row_words
        self.address = bits(self.depth)

    def row_address(self, index: int) -> int:
        """Address of a row index relative to the sample's first row, modulo the buffer."""
        return index % self.rows * self.geometry.row_words

    @property
    def sample_step(self) -> int:
        """Distance of the next sample's first row, modulo the buffer."""
        return self.row_address(self.geometry.slots)


def wrapped(m, name, base, offset, banks):
    """(base + offset) modulo the buffer, both below it."""
    total = Signal(range(2 * banks.depth), name=f"{name}_sum")
    result = Signal(banks.address, name=name)
    m.d.comb += [total.eq(base + offset), result.eq(Mux(total >= banks.depth, total - banks.depth, total))]
    return result


def turned(m, name, rotation, groups, *, back=False):
    """groups[(k + rotation) mod n] for every k, or with ``back`` its inverse; a group is a sequence of values."""
    count = len(groups)
    if count == 1:
        return groups
    out = [[Signal(len(v), name=f"{name}_{k}_{j}") for j, v in enumerate(groups[0])] for k in range(count)]
    with m.Switch(rotation):
        for r in range(count):
            with m.Case(r):
                for k in range(count):
                    source = groups[(k - r if back else k + r) % count]
                    m.d.comb += [o.eq(v) for o, v in zip(out[k], source, strict=True)]
    return out


def tap_order(axis: Axis, output: int, sequential: int) -> list[tuple[int, int]]:
    """For every bank (tap, coordinate) that it serves at an output and a first tap."""
    first = axis.first(output) + sequential * axis.dilation
    rotation = axis.bank(first)
    taps = [(bank - rotation) % axis.banks for bank in range(axis.banks)]
    return [(tap, first + tap * axis.dilation) for tap in taps]


class TapAddress(wiring.Component):
    """Addresses of one chunk in every bank, and which of them lie in the image.

    Latency 0. Members: ``oy``, ``ox``, ``ky``, ``kx``, ``x_word`` as in Nest; ``base`` address of the
    sample's first row; ``address`` and ``valid`` by bank (vertical outer); ``rotate_y``, ``rotate_x``: the
    bank of the chunk's first position; ``extra``: further fields by output row (``rows_extra``) and output
    column.
    """

    def __init__(
        self,
        banks: Banks,
        row_fields: dict[str, list[int]],
        column_fields: dict[str, list[int]] | None = None,
    ):
        self.banks = banks
        geometry = banks.geometry
        self.row_fields, self.column_fields = row_fields, column_fields or {}
        y, x = geometry.vertical, geometry.horizontal
        self.rows = Table(self._fields(y, self.row_fields, banks.row_address))
        self.columns = Table(self._fields(x, self.column_fields, lambda index: index * geometry.words))
        extra = {name: self.rows.signature.members[name].shape for name in self.row_fields}
        extra |= {name: self.columns.signature.members[name].shape for name in self.column_fields}
        super().__init__(
            {
                "oy": In(bits(y.outputs)),
                "ox": In(bits(x.outputs)),
                "ky": In(bits(y.taps)),
                "kx": In(bits(x.taps)),
                "x_word": In(bits(geometry.words)),
                "base": In(banks.address),
                "address": Out(banks.address).array(banks.count),
                "valid": Out(1).array(banks.count),
                "rotate_y": Out(bits(y.banks)),
                "rotate_x": Out(bits(x.banks)),
                **{name: Out(shape) for name, shape in extra.items()},
            }
        )

    def _fields(self, axis: Axis, extra: dict[str, list[int]], place) -> dict[str, list[int]]:
        """Index of the table: output · 2**(bits of the tap) + tap."""
        step = 1 << (axis.taps - 1).bit_length()
        fields: dict[str, list[int]] = {name: [] for name in ("rotate", *extra)}
        for bank in range(axis.banks):
            fields[f"at_{bank}"], fields[f"in_{bank}"] = [], []
        for output in range(axis.outputs):
            for tap in range(step):
                order = tap_order(axis, output, min(tap, axis.taps - 1))
                fields["rotate"].append(axis.bank(axis.first(output)))
                for name, values in extra.items():
                    fields[name].append(values[output])
                for bank, (_, c) in enumerate(order):
                    inside = 0 <= c < axis.size
                    fields[f"at_{bank}"].append(place(axis.index(c)) if inside else 0)
                    fields[f"in_{bank}"].append(int(inside))
        return fields

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows, m.submodules.columns = rows, columns = self.rows, self.columns
        y, x = self.banks.geometry.vertical, self.banks.geometry.horizontal
        for table, axis, tap, output in ((rows, y, self.ky, self.oy), (columns, x, self.kx, self.ox)):
            low = (axis.taps - 1).bit_length()
            m.d.comb += table.index.eq(output << low | (tap if low else 0))
        m.d.comb += [self.rotate_y.eq(rows.rotate), self.rotate_x.eq(columns.rotate)]
        for name in self.row_fields:
            m.d.comb += getattr(self, name).eq(getattr(rows, name))
        for name in self.column_fields:
            m.d.comb += getattr(self, name).eq(getattr(columns, name))
        row_at = [
            wrapped(m, f"row_{bank}", self.base, getattr(rows, f"at_{bank}"), self.banks)
            for bank in range(y.banks)
        ]
        for bank_y in range(y.banks):
            for bank_x in range(x.banks):
                bank = bank_y * x.banks + bank_x
                m.d.comb += [
                    self.address[bank].eq(row_at[bank_y] + getattr(columns, f"at_{bank_x}") + self.x_word),
                    self.valid[bank].eq(getattr(rows, f"in_{bank_y}") & getattr(columns, f"in_{bank_x}")),
                ]
        return m


class RasterAddress(wiring.Component):
    """Walks the words of an image in raster order, sample after sample: their banks and addresses.

    ``step`` goes to the next word. Latency 0. Members: ``address``, ``bank`` (number, vertical outer) of the
    current word; ``pixel_last``, ``row_last``, ``sample_last``: it is the last word of its pixel, row,
    sample; further fields by row and by column.
    """

    def __init__(
        self,
        banks: Banks,
        row_fields: dict[str, list[int]],
        column_fields: dict[str, list[int]] | None = None,
    ):
        self.banks = banks
        self.row_fields, self.column_fields = row_fields, column_fields or {}
        geometry = banks.geometry
        y, x = geometry.vertical, geometry.horizontal
        rows = {"at": [banks.row_address(y.index(c)) for c in range(y.size)]}
        rows["bank"] = [y.bank(c) * x.banks for c in range(y.size)]
        columns = {
            "at": [x.index(c) * geometry.words for c in range(x.size)],
            "bank": [x.bank(c) for c in range(x.size)],
        }
        self.rows, self.columns = Table(rows | self.row_fields), Table(columns | self.column_fields)
        extra = {name: self.rows.signature.members[name].shape for name in self.row_fields}
        extra |= {name: self.columns.signature.members[name].shape for name in self.column_fields}
        super().__init__(
            {
                "step": In(1),
                "address": Out(banks.address),
                "bank": Out(bits(banks.count)),
                "pixel_last": Out(1),
                "row_last": Out(1),
                "sample_last": Out(1),
                **{name: Out(shape) for name, shape in extra.items()},
            }
        )

    def elaborate(self, platform):
        m = Module()
        geometry, banks = self.banks.geometry, self.banks
        m.submodules.rows, m.submodules.columns = rows, columns = self.rows, self.columns
        row, column = (
            Signal(range(geometry.vertical.size), name="row"),
            Signal(range(geometry.horizontal.size), name="column"),
        )
        word = Signal(bits(geometry.words), name="word")
        base = Signal(banks.address, name="base")
        following = wrapped(m, "next_base", base, banks.sample_step, banks)
        m.d.comb += [
            rows.index.eq(row),
            columns.index.eq(column),
            self.address.eq(wrapped(m, "row_address", base, rows.at, banks) + columns.at + word),
            self.bank.eq(rows.bank + columns.bank),
            self.pixel_last.eq(word == geometry.words - 1),
            self.row_last.eq(self.pixel_last & (column == geometry.horizontal.size - 1)),
            self.sample_last.eq(self.row_last & (row == geometry.vertical.size - 1)),
        ]
        for table, names in ((rows, self.row_fields), (columns, self.column_fields)):
            for name in names:
                m.d.comb += getattr(self, name).eq(getattr(table, name))
        with m.If(self.step):
            m.d.sync += word.eq(Mux(self.pixel_last, 0, word + 1))
            with m.If(self.pixel_last):
                m.d.sync += column.eq(Mux(self.row_last, 0, column + 1))
            with m.If(self.row_last):
                m.d.sync += row.eq(Mux(self.sample_last, 0, row + 1))
            with m.If(self.sample_last):
                m.d.sync += base.eq(following)
        return m


class Slots(wiring.Component):
    """Row slots between the one who fills the buffer and the one who frees it.

    ``distance`` = first slot of the filling side's sample - first slot not yet freed (negative while the
    freeing side is ahead within that sample). Members: ``sample`` pulse: the filling side goes to its next
    sample; ``freed``: slots freed in this cycle; ``need``: the filling side wants slots up to there
    (exclusive) of its sample, ``room``: it may; ``use``: it does; ``high``: most slots in use.
    """

    def __init__(self, rows: int, slots: int):
        self.rows, self.slots = rows, slots
        super().__init__(
            {
                "sample": In(1),
                "freed": In(range(slots + 1)),
                "need": In(range(slots + 1)),
                "use": In(1),
                "room": Out(1),
                "high": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        limit = max(self.rows, self.slots) + 1
        distance = Signal(range(-2 * limit, 2 * limit + 1))
        used = Signal(range(-2 * limit, 3 * limit + 1))
        m.d.sync += distance.eq(distance + Mux(self.sample, self.slots, 0) - self.freed)
        m.d.comb += [used.eq(distance + self.need), self.room.eq(used <= self.rows)]
        with m.If(self.use & (used > self.high)):
            m.d.sync += self.high.eq(used)
        return m
