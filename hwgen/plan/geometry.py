"""Where a window's pixels lie in banked row buffers, and how many row slots such a buffer needs at least."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..ir.window import Window2d

__all__ = [
    "Axis",
    "Geometry",
    "col_ports",
    "free_before",
    "min_col_rows",
    "min_rows",
    "port_shared",
    "touched_once",
]

Ints = NDArray[np.int64]
Place = TypeVar("Place", int, Ints)


@dataclass(frozen=True)
class Axis:
    """One axis of a banked buffer: where coordinate c lies when ``banks`` neighbouring taps are read at once.

    With B = banks > 1 and D = dilation: bank floor(c/D) mod B, index floor(c/(D·B))·D + c mod D, so the B
    taps of an output lie in B different banks, and one tap further is one bank further (the index grows by D
    where the bank number wraps). With B = 1 the index is c itself. ``starts`` as in Window2d.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    pad: int
    dilation: int
    banks: int
    starts: tuple[int, ...] | None = None

    @property
    def digit(self) -> int:
        """D: indices in which the same bank holds neighbouring coordinates before the next bank begins."""
        return self.dilation if self.banks > 1 else 1

    @property
    def taps(self) -> int:
        """Taps that are read one after the other; the others come from the banks at once."""
        return self.kernel // self.banks

    @property
    def span(self) -> int:
        """Distance from the first tap to the last."""
        return (self.kernel - 1) * self.dilation

    @property
    def slots(self) -> int:
        """Indices that the whole axis takes in every bank."""
        return math.ceil(self.size / (self.digit * self.banks)) * self.digit

    def bank(self, c: int) -> int:
        """Bank of a coordinate (which may be negative)."""
        return c // self.digit % self.banks

    def index(self, c: int) -> int:
        """Index of a coordinate within its bank (negative for a negative coordinate)."""
        return c // (self.digit * self.banks) * self.digit + c % self.digit

    def first(self, o: Place) -> Place:
        """Coordinate of the first tap of output ``o``; negative in the padding."""
        if self.starts is None:
            return o * self.stride - self.pad
        if isinstance(o, np.ndarray):
            return np.asarray(self.starts, dtype=np.int64)[o]
        return self.starts[o]

    def step(self, o: Ints) -> Ints:
        """From the first tap of output ``o`` to that of the next one; behind the last one to the end of the axis."""
        if self.starts is None:
            return np.full_like(o, self.stride)
        return np.diff(np.append(self.starts, max(self.size, self.starts[-1] + 1)))[o]

    def touching(self, c: Ints) -> Ints:
        """The last output that may touch a coordinate: the last one whose first tap is not behind it."""
        if self.starts is None:
            return np.minimum((c + self.pad) // self.stride, self.outputs - 1)
        return np.maximum(np.searchsorted(self.starts, c, side="right") - 1, 0).astype(np.int64)

    def below(self, c: Ints) -> Ints:
        """Slots that no coordinate from ``c`` on uses, as whole groups of D."""
        return np.clip(c // (self.digit * self.banks) * self.digit, 0, self.slots)

    def entered(self, c: Ints) -> Ints:
        """Slots that coordinates 0..c use when they are written in order; 0 for c < 0."""
        group = self.digit * self.banks
        return np.where(c < 0, 0, c // group * self.digit + np.minimum(c % group, self.digit - 1) + 1)

    def reached(self, c: Ints) -> Ints:
        """Slots that coordinates up to ``c`` may use, as whole groups of D."""
        return np.clip((c // (self.digit * self.banks) + 1) * self.digit, 0, self.slots)

    def left(self, c: Ints) -> Ints:
        """Slots free once coordinates 0..c-1 are read in order: a slot is left with its last bank, the rest
        with the end."""
        group = self.digit * self.banks
        done = c // group * self.digit + np.maximum(0, c % group - (self.banks - 1) * self.digit)
        return np.where(c >= self.size, self.slots, np.where(c < 0, 0, done))


@dataclass(frozen=True)
class Geometry:
    """Everything that the address generators of a layer or a pool need; see docs/gateware.md.

    ``u`` kernel positions × ``pc`` channels in a chunk, ``groups`` of ``cgs`` words each in a pixel, ``fn``
    folds over outputs, blocks of ``b`` output pixels. Raises ValueError where u is not 1, kw or kh·kw, or
    another number is below 1.
    """

    window: Window2d
    u: int
    pc: int
    groups: int = 1
    cgs: int = 1
    fn: int = 1
    b: int = 1

    def __post_init__(self) -> None:
        kh, kw = self.window.kernel
        if self.u not in (1, kw, kh * kw):
            raise ValueError(f"u = {self.u} is not one of {sorted({1, kw, kh * kw})} for a {kh}×{kw} kernel")
        for name in ("pc", "groups", "cgs", "fn", "b"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} is below 1")
        if self.window.out_height < 1 or self.window.out_width < 1:
            raise ValueError(f"{self.window} has no output")

    @cached_property
    def vertical(self) -> Axis:
        """Rows: kh banks if a chunk holds the whole kernel, else 1."""
        window = self.window
        banks = window.kernel[0] if self.u == window.positions else 1
        axis = (
            window.height,
            window.out_height,
            window.kernel[0],
            window.stride[0],
            window.pads[0],
            window.dilation[0],
        )
        return Axis(*axis, banks, window.starts)

    @cached_property
    def horizontal(self) -> Axis:
        """Columns: kw banks if a chunk holds more than one position, else 1."""
        window = self.window
        banks = window.kernel[1] if self.u > 1 else 1
        axis = (
            window.width,
            window.out_width,
            window.kernel[1],
            window.stride[1],
            window.pads[1],
            window.dilation[1],
        )
        return Axis(*axis, banks)

    @property
    def pgs(self) -> int:
        """Position groups kh·kw/u."""
        return self.window.positions // self.u

    @property
    def fk(self) -> int:
        """Chunks of one sum: pgs·cgs."""
        return self.pgs * self.cgs

    @property
    def words(self) -> int:
        """Words of pc lanes in an input pixel."""
        return self.groups * self.cgs

    @property
    def out_words(self) -> int:
        """Words in an output pixel: groups·fn."""
        return self.groups * self.fn

    @property
    def M(self) -> int:
        """Output pixels of a sample."""
        return self.window.pixels_out

    @property
    def blocks(self) -> int:
        """Blocks of a sample."""
        return math.ceil(self.M / self.b)

    @property
    def slots(self) -> int:
        """Row slots of a sample."""
        return self.vertical.slots

    @property
    def row_words(self) -> int:
        """Words in one row slot of one bank."""
        return self.horizontal.slots * self.words

    def _pixels(self) -> tuple[Ints, Ints, Ints]:
        """(oy, ox) of every output pixel in raster order, and the first pixel of every block."""
        pixel = np.arange(self.M, dtype=np.int64)
        return (*np.divmod(pixel, self.horizontal.outputs), pixel[:: self.b])


def min_rows(geometry: Geometry, order: str = "forward") -> int:
    """Least ``rows`` of a Window without deadlock (rows - 1 hangs); the same for both orders of the loop
    nest.

    A block frees nothing before its end, and it cannot end before the pixels of all its windows are written.
    """
    y, x = geometry.vertical, geometry.horizontal
    oy, ox, starts = geometry._pixels()
    last_row = np.minimum(y.first(oy) + y.span, y.size - 1)
    # A window whose columns all lie in the left padding waits for the rows above its last one only.
    need = y.entered(np.where(x.first(ox) + x.span < 0, last_row - 1, last_row))
    return max(1, int(np.max(np.maximum.reduceat(need, starts) - free_before(geometry))))


def free_before(geometry: Geometry) -> Ints:
    """Row slots that a Window has free of a sample before each of its blocks: what the blocks before left."""
    y = geometry.vertical
    free = y.below(y.first(np.arange(0, geometry.M, geometry.b) // geometry.horizontal.outputs))
    free[0] = 0  # rows above the first window go with its block
    return free


def min_col_rows(geometry: Geometry) -> int:
    """Least ``rows`` of a Col2im without deadlock (rows - 1 hangs).

    A block needs slots down to its last row while only the rows above its first output have been emitted.
    """
    y, x = geometry.vertical, geometry.horizontal
    oy, ox, starts = geometry._pixels()
    need = y.reached(y.first(oy) + y.span)
    above = y.first(oy[starts]) + np.where(x.first(ox[starts]) >= x.size, y.step(oy[starts]), 0)
    gone = y.left(above)
    gone[0] = 0
    return max(1, int(np.max(np.maximum.reduceat(need, starts) - gone)))


def col_ports(geometry: Geometry) -> str:
    """Who reads the sums of a Col2im through which ports: "two" (chunks that are added, and words that are given out),
    "shared" (one for both), or "emit" (words only).

    Nothing is read to be added where no two outputs touch the same pixel. Of chunks that take fn >= 2 cycles each, the
    other cycles are the words' own if they are enough for them, with a tenth to spare.
    """
    pixels, words = geometry.window.pixels_in, geometry.words
    chunks = geometry.M * geometry.groups * geometry.fk
    return (
        "emit"
        if touched_once(geometry.window)
        else "shared"
        if port_shared(pixels * words, chunks, geometry.fn)
        else "two"
    )


def touched_once(window: Window2d) -> bool:
    """Whether no two outputs touch the same pixel."""
    return all(
        k <= s and d == 1 for k, s, d in zip(window.kernel, window.stride, window.dilation, strict=True)
    )


def port_shared(words: int, chunks: int, fn: int) -> bool:
    """Whether ``words`` of a sample can be read while no chunk is added: ``chunks`` of them, every ``fn`` cycles."""
    return 10 * words <= 9 * chunks * (fn - 1)
