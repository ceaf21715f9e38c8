"""A layer's array: a grid of equal tiles, registered fan-out and registered adders between them."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .emitted import Emitted
from .tile import ArrayShape, Tile, control_layout

__all__ = ["Array", "settle_cycles", "tree_depth"]


def tree_depth(leaves: int) -> int:
    """Registered adder levels for ``leaves`` summands."""
    return (leaves - 1).bit_length()


def settle_cycles(tn: int, stack: int = 1) -> int:
    """Cycles after the last op (or update piece) until every word is in its memory."""
    return 1 + tn + 9 + stack - 1


class Array(wiring.Component):
    """Pk × Pn processing elements as Gk × Gn tiles of tk × tn.

    Every tile gets its operands through one register; forward sums of a tile column are added over Gk tiles
    and backward sums of a tile row over Gn tiles in registered binary trees.

    Latency: forward ``forward_latency`` = 1 + that of a tile + ceil(log2 Gk), backward alike with Gn; an op a
    cycle. ``settle`` cycles after the last op every dW is in its memory. ``peek_grad`` has what a peek in ``b_control``
    asked for ``peek_latency`` cycles later, ``peek_master`` 4 cycles after that, a peek a cycle.

    Parameters: ``tile_name`` is the Verilog module of one tile, emitted once; None builds the tiles as
    submodules, for Amaranth's simulator. ``offsets[i][j]``: logical index of PE (i, j) relative to (0, 0).
    Members: as :class:`hwgen.gateware.tile.Tile`, for the whole array; ``peek_select`` and ``load_select``
    number PEs i·Pn + j.
    """

    def __init__(
        self,
        shape: ArrayShape,
        pk: int,
        pn: int,
        tile: tuple[int, int],
        offsets,
        tile_name: str | None = None,
    ):
        tk, tn = tile
        if pk % tk or pn % tn:
            raise ValueError(f"tile {tile} does not divide the array ({pk}, {pn})")
        self.shape, self.pk, self.pn, self.tk, self.tn = shape, pk, pn, tk, tn
        self.gk, self.gn = pk // tk, pn // tn
        self.offsets, self.tile_name = offsets, tile_name
        members: dict[str, object] = {
            "f_load": In(1),
            "f_address": In(shape.address),
            "f_x": In(data.ArrayLayout(signed(shape.x), pk)),
            "f_sum": Out(data.ArrayLayout(signed(shape.psum), pn)),
            "b_control": In(control_layout(shape)),
            "b_dy": In(data.ArrayLayout(signed(shape.dy), pn)),
            "b_x": In(data.ArrayLayout(signed(shape.x), pk)),
            "b_sum": Out(data.ArrayLayout(signed(shape.back), pk)),
            "rate": In(signed(shape.rate)),
            "key": In(32),
            "load": In(1),
            "load_select": In(range(max(2, pk * pn))),
            "load_address": In(shape.address),
            "load_value": In(signed(shape.master)),
            "load_sum": In(1),
            "load_grad": In(signed(shape.grad)),
            "peek_select": In(range(max(2, pk * pn))),
            "peek_master": Out(signed(shape.master)),
            "peek_grad": Out(signed(shape.grad)),
            "saturated": Out(range(pk * pn + 1)),
            "zeros": Out(range(pk * pn + 1)),
        }
        super().__init__(members)
        self.forward_latency = 1 + tk + 3 + shape.held + tree_depth(self.gk)
        self.backward_latency = 1 + tn + 3 + shape.held + shape.stack - 1 + tree_depth(self.gn)
        self.settle = settle_cycles(tn, shape.stack)
        self.peek_latency = tn + 6

    def make_tile(self) -> Tile:
        """The tile that this array repeats."""
        zero = self.offsets[0][0]
        local = tuple(tuple(self.offsets[i][j] - zero for j in range(self.tn)) for i in range(self.tk))
        return Tile(self.shape, self.tk, self.tn, local if self.shape.stochastic else ())

    def elaborate(self, platform):
        m = Module()
        shape, tk, tn = self.shape, self.tk, self.tn
        common = self._registered(
            m,
            (
                "f_load",
                "f_address",
                "b_control",
                "load_address",
                "load_value",
                "load_sum",
                "load_grad",
                "peek_select",
                "rate",
                "key",
                "f_x",
                "b_dy",
                "b_x",
            ),
        )
        select = Signal(self.pk * self.pn, name="select")
        m.d.sync += select.eq(Mux(self.load, 1 << self.load_select, 0))

        tiles = [[self._tile(m, r, c, common, select) for c in range(self.gn)] for r in range(self.gk)]
        for c in range(self.gn):
            for j in range(tn):
                terms = [tiles[r][c].f_sum[j] for r in range(self.gk)]
                m.d.comb += self.f_sum[c * tn + j].eq(self._tree(m, terms, shape.psum, f"f_{c}_{j}"))
        if shape.backward:
            for r in range(self.gk):
                for i in range(tk):
                    terms = [tiles[r][c].b_sum[i] for c in range(self.gn)]
                    m.d.comb += self.b_sum[r * tk + i].eq(self._tree(m, terms, shape.back, f"b_{r}_{i}"))

        flat = [tile for row in tiles for tile in row]
        self._peek(m, tiles, common["peek_select"])
        if shape.updates:
            for name in ("saturated", "zeros"):
                m.d.sync += getattr(self, name).eq(sum(getattr(tile, name) for tile in flat))
        return m

    def _registered(self, m, names):
        late = {}
        for name in names:
            port = getattr(self, name)
            late[name] = Signal(port.shape(), name=f"{name}_in", reset_less=name in ("f_x", "b_dy", "b_x"))
            m.d.sync += late[name].eq(port)
        return late

    def _tile(self, m, r, c, common, select):
        """One tile wired to its rows and columns; its operands come through one register."""
        shape, tk, tn = self.shape, self.tk, self.tn
        tile = self.make_tile() if self.tile_name is None else Emitted(self.make_tile(), self.tile_name)
        own = Signal(tk * tn, name=f"select_{r}_{c}")
        pes = [(r * tk + i) * self.pn + c * tn + j for i in range(tk) for j in range(tn)]
        m.d.comb += own.eq(Cat(select[pe] for pe in pes))
        # A PE's place within its tile; what a tile answers to another tile's number is not looked at.
        local = Signal(range(max(2, tk * tn)), name=f"peek_{r}_{c}")
        with m.Switch(common["peek_select"]):
            for number, pe in enumerate(pes):
                with m.Case(pe):
                    m.d.comb += local.eq(number)
        inputs = dict(common)
        inputs["f_x"] = Cat(common["f_x"][r * tk + i] for i in range(tk))
        inputs["b_x"] = Cat(common["b_x"][r * tk + i] for i in range(tk))
        inputs["b_dy"] = Cat(common["b_dy"][c * tn + j] for j in range(tn))
        inputs |= {"load_select": own, "peek_select": local}
        if shape.stochastic:
            inputs["lane_base"] = Const(self.offsets[r * tk][c * tn] & 0xFFFFFFFF, 32)
        m.submodules[f"tile_{r}_{c}"] = tile
        for name, member in tile.signature.members.items():
            if member.flow is In:
                m.d.comb += Value.cast(getattr(tile, name)).eq(Value.cast(inputs[name]))
        return tile

    def _tree(self, m, terms, width, name):
        level = 0
        while len(terms) > 1:
            sums = []
            for k in range(0, len(terms), 2):
                total = Signal(signed(width), name=f"{name}_tree_{level}_{k}", reset_less=True)
                m.d.sync += total.eq(sum(terms[k : k + 2]))
                sums.append(total)
            terms, level = sums, level + 1
        return terms[0]

    def _peek(self, m, tiles, select):
        """Of what all tiles show, that of the tile with the PE asked for."""
        number = Signal(range(max(2, self.gk * self.gn)), name="peek_tile")
        with m.Switch(select):
            for i in range(self.pk):
                for j in range(self.pn):
                    with m.Case(i * self.pn + j):
                        m.d.comb += number.eq((i // self.tk) * self.gn + j // self.tn)
        numbers = [number]
        for k in range(self.tn + 8):
            later = Signal.like(number, name=f"peek_tile_{k}", reset_less=True)
            m.d.sync += later.eq(numbers[-1])
            numbers.append(later)
        ports = {"peek_master": numbers[self.tn + 8]}
        if self.shape.gradient:
            ports["peek_grad"] = numbers[self.tn + 4]
        for name, which in ports.items():
            with m.Switch(which):
                for k, tile in enumerate(tile for row in tiles for tile in row):
                    with m.Case(k):
                        m.d.sync += getattr(self, name).eq(getattr(tile, name))
