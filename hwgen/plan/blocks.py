"""How many block RAMs, UltraRAMs or look-up tables a memory takes on a device, whose shapes may be mixed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

from ..target import Device

__all__ = ["NOTHING", "Rams", "Taken", "rams_of"]

Shapes = tuple[tuple[int, int, int], ...]
"""(words, bits, price) of every shape of one kind of memory, one port to write and one to read."""

KIB18 = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""RAMB18E1/E2 (half a RAMB36; UG473, UG573), DP16KD (FPGA-TN-02204), Gowin's BSRAM."""
M20K = ((512, 40), (1024, 20), (2048, 10), (4096, 5), (8192, 2), (16384, 1))
M10K = ((256, 40), (512, 20), (1024, 10), (2048, 5), (4096, 2), (8192, 1))
BLOCK_SHAPES = {18_432: KIB18, 36_864: KIB18, 20_480: M20K, 10_240: M10K}
"""Shapes of the smallest piece, by the bits of a block."""
ULTRA = ((4096, 72, 1),)

SEVEN = ((32, 6, 4), (64, 3, 4), (32, 1, 2), (64, 1, 2))
"""RAM32M, RAM64M, RAM32X1D, RAM64X1D in look-up tables (UG474)."""
PLUS = ((32, 14, 8), (64, 7, 8), *SEVEN)
"""RAM32M16 and RAM64M8 beside them (UG574)."""
SMALL = ((16, 4, 4),)
"""16 × 4 in four tables, beside which two more make the write port (ECP5's DPR16X4, Gowin's RAM16SDP4)."""
MLAB = ((32, 20, 20),)
"""Intel: an MLAB is 10 modules of two tables."""
LUT_INPUTS = {"lattice": 4, "gowin": 4}


@dataclass(frozen=True)
class Taken:
    """What memories take: ``bram`` blocks (halves are exact), ``uram``, ``tables`` used as memory, ``lut`` as logic
    around it, ``ff``."""

    bram: float = 0
    uram: int = 0
    tables: int = 0
    lut: int = 0
    ff: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            self.bram + other.bram, self.uram + other.uram, self.tables + other.tables, self.lut + other.lut,
            self.ff + other.ff,
        )  # fmt: skip

    def __mul__(self, count: int) -> Taken:
        return Taken(
            self.bram * count, self.uram * count, self.tables * count, self.lut * count, self.ff * count
        )


NOTHING = Taken()


@dataclass(frozen=True, eq=False)
class Rams:
    """The memories of a device: shapes of a piece of block RAM (``pieces`` of them are one block), of UltraRAM and of
    look-up tables. ``tables``: how many tables may be memory. One object a device, from :func:`rams_of`."""

    block: Shapes
    pieces: int
    ultra: Shapes
    cells: Shapes
    lut_inputs: int
    tables: int
    _known: dict[tuple[int, int, str, int, bool], Taken] = field(default_factory=dict)

    def taken(
        self, depth: int, width: int, kind: str = "auto", reads: int = 1, asynchronous: bool = False
    ) -> Taken:
        """What a memory of ``depth`` words of ``width`` bits takes, with one write port and ``reads`` read ports.

        ``kind`` is one of layout.MEMORIES; "auto" says what synthesis usually takes (see :meth:`usual`). Only look-up
        tables can be read asynchronously: then ``kind`` is not asked.
        """
        key = (depth, width, kind, reads, asynchronous)
        if key not in self._known:
            self._known[key] = self._count(*key)
        return self._known[key]

    def usual(self, depth: int, width: int) -> str:
        """The kind that "auto" stands for: tables up to 64 words, or for less than a quarter of a block's piece."""
        piece = max(words * bits for words, bits, _ in self.block) if self.block else math.inf
        return "distributed" if depth <= 64 or 4 * depth * width < piece else "block"

    def _count(self, depth: int, width: int, kind: str, reads: int, asynchronous: bool) -> Taken:
        if depth < 1 or width < 1 or reads < 1:
            raise ValueError(f"a memory of {depth} × {width} bits with {reads} read ports; all at least 1")
        if asynchronous:
            kind = "distributed"
        elif kind == "auto":
            kind = self.usual(depth, width)
        if kind == "distributed":
            price, layers = _layers(self.cells, width * reads).cover(depth)
            ff = 0 if asynchronous else width * reads
            ports = price // 2 if self.cells is SMALL else 0
            return Taken(tables=price, lut=ports + self._select(layers, width * reads), ff=ff)
        shapes = self.block if kind == "block" else self.ultra
        if not shapes:
            raise ValueError(f"this device has no memory of kind {kind!r}")
        price, layers = _layers(shapes, width).cover(depth)
        lut = reads * self._select(layers, width)
        if kind == "ultra":
            return Taken(uram=price * reads, lut=lut)
        return Taken(bram=price * reads / self.pieces, lut=lut)

    def _select(self, layers: int, width: int) -> int:
        """Tables that choose one of ``layers`` words; a six-input table goes from four to one."""
        return math.ceil((layers - 1) / (3 if self.lut_inputs == 6 else 1)) * width


def rams_of(device: Device) -> Rams:
    """The memories of ``device``; the same object every time."""
    bits = device.bram_bits if device.bram else 0
    return _rams(device.vendor, device.family, bits, device.uram, device.lut_ram)


@cache
def _rams(vendor: str, family: str, bram_bits: int, uram: int, lut_ram: int) -> Rams:
    shapes = BLOCK_SHAPES.get(bram_bits) or _plain(bram_bits)
    cells = {"xilinx": PLUS if "plus" in family else SEVEN, "intel": MLAB}.get(vendor, SMALL)
    return Rams(
        block=tuple((words, bits, 1) for words, bits in shapes),
        pieces=max(1, bram_bits // 18_432) if shapes is KIB18 else 1,
        ultra=ULTRA if uram else (),
        cells=cells,
        lut_inputs=LUT_INPUTS.get(vendor, 6),
        tables=lut_ram,
    )


def _plain(bits: int) -> tuple[tuple[int, int], ...]:
    """Shapes of a block that is not known: powers of two without parity, up to 32 bits wide."""
    widths = [width for width in (32, 16, 8, 4, 2, 1) if bits // width >= 1]
    return tuple((1 << (bits // width).bit_length() - 1, width) for width in widths) if bits else ()


class _Layers:
    """Prices of one width by depth, worked out as far as they were asked for."""

    def __init__(self, shapes: Shapes, width: int) -> None:
        self.shapes, self.width = shapes, width
        self.words = sorted({words for words, _, _ in shapes})
        self.best = [(0, 0)]

    def cover(self, depth: int) -> tuple[int, int]:
        """Least price of pieces that cover ``depth`` words, and the layers of pieces (few, at that price).

        Strips of one shape each, side by side; or layers of such strips, one as deep as a shape.
        """
        step = self.words[0]
        for units in range(len(self.best), math.ceil(depth / step) + 1):
            options = []
            if units * step <= 2 * self.words[-1]:
                options.append(_strips(self.shapes, units * step, self.width))
            for words in self.words:
                if words < units * step:
                    above, below = self.best[units - words // step], _strips(self.shapes, words, self.width)
                    options.append((above[0] + below[0], above[1] + below[1]))
            self.best.append(min(options))
        return self.best[math.ceil(depth / step)]


@cache
def _layers(shapes: Shapes, width: int) -> _Layers:
    return _Layers(shapes, width)


def _strips(shapes: Shapes, depth: int, width: int) -> tuple[int, int]:
    """Price and layers of strips of one shape each. Wide memories repeat the strip that costs least a bit."""
    row = _row(shapes, depth)
    if width < len(row):
        return row[width]
    price, bits = min(
        ((math.ceil(depth / words) * price, bits) for words, bits, price in shapes),
        key=lambda strip: (strip[0] / strip[1], strip[1]),
    )
    repeats = (width - len(row)) // bits + 1
    rest, layers = row[width - repeats * bits]
    return rest + repeats * price, layers


@cache
def _row(shapes: Shapes, depth: int) -> list[tuple[int, int]]:
    """Price and layers of strips for every width up to eight times the widest shape's."""
    strips = [
        (bits, math.ceil(depth / words) * price, math.ceil(depth / words)) for words, bits, price in shapes
    ]
    row = [(0, 0)]
    for width in range(1, 8 * max(bits for _, bits, _ in shapes) + 1):
        before = [(row[max(0, width - bits)], price, layers) for bits, price, layers in strips]
        row.append(min((rest[0] + price, max(rest[1], layers)) for rest, price, layers in before))
    return row
