"""The engines around a stage's array as counts of what their logic is made of: bits that are added, chosen, kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ..ir.stage import Stage
from ..ir.window import Window2d
from .geometry import touched_once

__all__ = ["Around", "Engines", "Features", "engines"]

Features = dict[str, float]
Engines = dict[str, list[tuple[str, Features]]]
"""By their place in a stage: parts of engines by the kind whose coefficients they have."""
CONTROL = 8
"""Bits that an op has beside numbers: gateware.loops.flags_layout."""


@dataclass(frozen=True)
class Around:
    """What the engines of a stage, or of a part of one, are made for.

    ``rows`` of the convolution and ``x_rows`` of its input; ``words`` and ``out_words`` of a pixel; ``acc``, ``back``,
    ``col``, ``bias``, ``bias_grad`` and ``rate`` bits, ``bias_step`` those of a bias's step, ``bias`` is 0 where there
    is none; ``depth`` weights a PE; ``last``: it rounds its sums.
    """

    stage: Stage
    u: int
    pc: int
    pn: int
    b: int
    fn: int
    depth: int
    words: int
    out_words: int
    rows: int
    x_rows: int
    acc: int
    col: int
    bias: int
    bias_grad: int
    bias_step: int
    rate: int
    last: bool = True

    @property
    def pk(self) -> int:
        """Rows of the array."""
        return self.u * self.pc

    @cached_property
    def banks(self) -> tuple[int, int]:
        """Of the row buffers, down and across."""
        kh, kw = self.stage.window.kernel
        return (kh if self.u == kh * kw else 1), (kw if self.u > 1 else 1)


def _bits(count: int) -> int:
    """Of a number below ``count``, at least one."""
    return max(1, (count - 1).bit_length())


def _loop(count: int) -> int:
    """Bits of a counter of ``count`` turns; none of one."""
    return (count - 1).bit_length()


def _nest(a: Around, window: Window2d, rows: int, chunks: int, words: int, fn: int) -> int:
    """Bits of the counters of a loop nest over ``chunks`` that are ``words`` of a pixel each, and ``fn`` folds."""
    pixel = _loop(rows) + _loop(window.out_width)
    return pixel * (2 if a.b > 1 else 1) + _loop(a.b) + _loop(chunks) + 2 * _loop(words) + 2 * _loop(fn)


@dataclass(frozen=True)
class _Ring:
    """A row buffer of ``banks`` down and across over a window of ``rows`` rows in and ``outputs`` out, of ``slots``
    rows."""

    window: Window2d
    rows: int
    outputs: int
    words: int
    banks: tuple[int, int]
    slots: int

    @cached_property
    def count(self) -> int:
        return self.banks[0] * self.banks[1]

    @cached_property
    def place(self) -> int:
        """Bits of an address in a bank."""
        return _bits(math.ceil(self.slots * self.window.width * self.words / self.count))

    @cached_property
    def counters(self) -> int:
        """Bits of the walk in raster order, of what is behind it, and of the slots in use."""
        rows = _bits(self.rows + 1)
        walk = _loop(self.rows) + _loop(self.window.width) + _loop(self.words)
        return walk + 3 * self.place + _bits(self.rows * self.window.width + 1) + 7 * rows

    @cached_property
    def constants(self) -> int:
        """Bits of the tables of addresses."""
        kh, kw = self.window.kernel
        return self.outputs * kh * _bits(self.rows * self.words) + self.window.out_width * kw * _bits(
            self.window.width * self.words
        )


def _span(window: Window2d) -> int:
    return window.dilation[0] * (window.kernel[0] - 1) + 1


def _row_buffer(a: Around, ring: _Ring, fn: int, bits: int) -> Features:
    """A Window that reads lanes of ``bits`` at once, folds of ``fn`` outputs one after the other."""
    op = _bits(a.depth) + _bits(a.out_words) + _bits(a.b) + CONTROL
    chunks = ring.window.positions // ring.count
    return {
        "engine": 1,
        "counter bit": ring.counters
        + _nest(a, ring.window, ring.outputs, chunks, ring.words, fn)
        + _bits(a.depth),
        "carried bit": 2 * (op + ring.count) + ring.count * ring.place,
        "bank · address bit": ring.count * ring.place,
        "constant bit": ring.constants,
        "lane bit": bits,
        "turned bit": bits * (sum(ring.banks) - 2),
        "block bit": bits if _in_blocks(ring, bits // ring.count) else 0,
        "compared bit": 0,
        "position bit": 0,
    }


def _in_blocks(ring: _Ring, bits: int) -> bool:
    """Whether words of so many bits lie in block RAM (see blocks.Rams.usual)."""
    depth = ring.slots * ring.window.width * ring.words / ring.count
    return depth > 64 and depth * bits * 4 > 18_432


def _col2im(
    a: Around, ring: _Ring, pc: int, add: int, width: int, position: int = 0, taken: int = 0
) -> Features:
    """A Col2im of chunks of ``pc`` lanes of ``add`` bits a bank, sums of ``width``."""
    count, pixels = ring.count, ring.outputs * ring.window.out_width
    chunks, bits = ring.window.positions // count, count * pc * width
    return {
        "engine": 1,
        "counter bit": ring.counters + _nest(a, ring.window, ring.outputs, chunks, ring.words, 1),
        "carried bit": 2 * count * (ring.place + pc * add) + 4 * _bits(pixels + 1),
        "bank · address bit": count * ring.place,
        "constant bit": ring.constants,
        "turned bit": count * pc * add * (sum(ring.banks) - 2),
        "sum bit": bits,
        "chosen bit": (count - 1) * pc * width,
        "met bit": 0 if touched_once(ring.window) else bits,
        "block bit": bits if _in_blocks(ring, pc * width) else 0,
        "position bit": position,
        "taken bit": taken,
    }


def _sums(lanes: int, width: int, a: Around, latency: int, word: int = 0) -> Features:
    """A pass: sums over folds, marks that go with ops for ``latency`` cycles, with ``word`` bits to ask for biases."""
    return {
        "engine": 1,
        "sum bit": lanes * width,
        "kept sum bit": lanes * width if a.b > 1 else 0,
        "stage of a mark": latency,
        "stage · pixel bit": latency * _loop(a.b),
        "stage · word bit": latency * word,
    }


def _round(lanes: int, width: int, shift: int, to: int) -> Features:
    """A Requantise of sums of ``width`` bits."""
    rounded = max(1, width - max(0, shift)) + 1
    return {
        "engine": 1,
        "lane": lanes,
        "sum bit": lanes * width,
        "rounded bit": lanes * rounded,
        "bit": lanes * to,
    }


def _fifo(words: float, bits: int) -> Features:
    """A Fifo deep enough for samples in flight."""
    block = words > 64 and words * bits * 4 > 18_432
    return {
        "engine": 1,
        "address bit": _bits(math.ceil(words)),
        "deep": words > 32,
        "block": block,
        "bit": bits,
    }


def _in_order(a: Around) -> bool:
    """Whether backward chunks are the words of dX themselves (fold.dx_in_order)."""
    window = a.stage.window
    whole = window.positions == 1 and window.stride == (1, 1) and window.pads == (0, 0, 0, 0)
    return whole and min(a.b, a.stage.M) == 1


def _bias(a: Around) -> Features:
    stage, pn = a.stage, a.pn
    gradient = not stage.frozen
    difference, product = max(a.bias, a.bias_step) + 1, a.bias_grad + a.rate
    kept = 2 * (a.bias + a.bias_grad) + product + a.bias_step + difference + 1
    return {
        "engine": 1,
        "kept bit": pn * (kept if gradient else a.bias) + a.bias + a.bias_grad,
        "product bit": pn * product if gradient else 0,
        "step bit": pn * (a.bias_step + difference) if gradient else 0,
        "bias bit": pn * a.bias,
        "gradient bit": pn * a.bias_grad,
        "met gradient bit": pn * a.bias_grad if a.out_words == 2 else 0,
    }


def _replay(a: Around) -> Features:
    window, place = a.stage.window, _bits(2 * a.b * a.out_words)
    op = _bits(a.depth) + _bits(a.out_words) + _bits(a.b) + CONTROL
    counted = _nest(a, window, a.rows, window.positions // a.u, a.words, a.fn) + 2 * _bits(a.depth)
    return {
        "engine": 1,
        "address bit": place,
        "counter bit": counted + 3 * place + 4 * _bits(2 * a.b),
        "carried bit": 2 * op + place,
        "bit": a.pn * a.stage.dy.width,
    }


def _reorder(a: Around, bits: int) -> Features:
    place = _bits(2 * a.b * a.out_words)
    counted = 3 * place + 3 * _bits(2 * a.b) + _nest(a, a.stage.window, a.rows, 1, a.out_words, 1)
    return {"engine": 1, "address bit": place, "counter bit": counted, "bit": bits}


def _ring(a: Around, whole: bool = False) -> _Ring:
    """The row buffer of x or dX; ``whole``: of samples."""
    window = a.stage.window
    slots = 2 * a.x_rows if whole else _span(window) + 2 * window.stride[0]
    return _Ring(window, a.x_rows, a.rows, a.words, a.banks, slots)


def engines(a: Around, latencies: tuple[int, int]) -> Engines:
    """Features of every engine that there is; ``latencies`` of forward and backward sums through the array."""
    stage, pn = a.stage, a.pn
    backs = not stage.frozen or stage.dx is not None
    activation, pool = stage.activation if a.last else None, stage.pool if a.last else None
    found: Engines = {
        "window": [("window", _row_buffer(a, _ring(a), a.fn, a.pk * stage.x.width))],
        "forward": [("sums", _sums(pn, a.acc, a, latencies[0], _loop(a.out_words) if a.bias else 0))],
        "stage": [
            (
                "stage",
                {
                    "stage": 1,
                    "with backward": stage.dx is not None,
                    "with pool": pool is not None and backs,
                    "with bias": a.bias > 0,
                    "address bit": _bits(a.depth),
                },
            )
        ],
    }
    if a.bias:
        found["bias"] = [("bias", _bias(a))]
    if a.last:
        found["after.round"] = [("round", _round(pn, a.acc, stage.acc_frac - stage.y.frac, stage.y.width))]
    if a.b > 1 and a.out_words > 1:
        found["after.reorder"] = [("reorder", _reorder(a, pn * stage.y.width))]
    if activation is not None:
        sloped, y, dy = activation.slope is not None, pn * stage.y.width, pn * stage.dy.width
        bounded = y if activation.high is not None else 0
        relu: Features = {"engine": 1, "bit": y, "bounded bit": bounded, "sloped bit": y if sloped else 0}
        found["after.relu"] = [("relu", relu)]
        if backs:
            words = 1.25 * a.rows * stage.window.out_width * a.out_words + 20
            found["before.mask"] = [("fifo", _fifo(words, pn))]
            found["before.relu"] = [
                ("relu adjoint", {"engine": 1, "bit": dy, "sloped bit": dy if sloped else 0})
            ]
    if pool is not None:
        found |= _pools(a, pool, backs)
    return found | (_backs(a, latencies[1]) if backs else {})


def _backs(a: Around, latency: int) -> Engines:
    """Engines behind errors, but for those of activation and pool."""
    stage = a.stage
    found: Engines = {"before.replay": [("replay", _replay(a))]}
    if not stage.frozen:
        found["store"] = [("store", _row_buffer(a, _ring(a, True), a.fn, a.pk * stage.x.width))]
    if stage.dx is not None:
        found["backward"] = [("sums", _sums(a.pk, stage.back_bits, a, latency))]
        if not _in_order(a):
            col = _col2im(a, _ring(a), a.pc, stage.back_bits, stage.col_bits)
            found["before.col2im"] = [("col2im", col)]
        found["before.round"] = [
            ("round", _round(a.pc, a.col, stage.back_frac - stage.dx.frac, stage.dx.width))
        ]
    return found


def _pools(a: Around, pool: Window2d, backs: bool) -> Engines:
    stage, pn = a.stage, a.pn
    position, slots = pn * _bits(pool.positions), _span(pool) + 2 * pool.stride[0]
    ring = _Ring(pool, a.rows, pool.out_height, a.out_words, (1, 1), slots)
    bits = pn * stage.y.width
    window = _row_buffer(a, ring, 1, bits) | {"compared bit": bits, "position bit": position}
    found: Engines = {"after.pool": [("window", window)]}
    if backs:
        found["before.argmax"] = [("fifo", _fifo(1.25 * pool.pixels_out * a.out_words + 4, position))]
        bits = pn * stage.dy.width
        col = _col2im(a, ring, pn, stage.dy.width, stage.pool_back_bits, position, bits)
        found["before.pool"] = [
            ("col2im", col),
            ("round", _round(pn, stage.pool_back_bits, 0, stage.dy.width)),
        ]
    return found
