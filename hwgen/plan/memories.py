"""The memories that a stage's gateware has: name, words, bits, ports; without building it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.stage import Network, Stage
from . import latency as L
from .blocks import NOTHING, Rams, Taken
from .columns import shares_columns
from .geometry import Geometry, col_ports
from .pixels import pool_geometry
from .plan import StagePlan

__all__ = [
    "Memory",
    "memories",
    "stage_memories",
    "taken_by",
]

REGISTER_DEPTH = 32
"""FIFOs up to this depth are read asynchronously (gateware.stream)."""


@dataclass(frozen=True)
class Memory:
    """``count`` equal memories of ``depth`` words of ``width`` bits: one write port, ``reads`` read ports.

    ``kind`` as in layout.MEMORIES; ``asynchronous``: read without a clock, as only look-up tables can be.
    """

    name: str
    depth: int
    width: int
    count: int = 1
    reads: int = 1
    asynchronous: bool = False
    kind: str = "auto"

    @property
    def bits(self) -> int:
        """Bits of all of them."""
        return self.depth * self.width * self.count

    def taken(self, rams: Rams) -> Taken:
        """What they take of a device."""
        return rams.taken(self.depth, self.width, self.kind, self.reads, self.asynchronous) * self.count


def memories(network: Network, planned: StagePlan) -> tuple[Memory, ...]:
    """All memories of a stage under a plan (or of a board's part of one), but for tables of constants."""
    return stage_memories(planned, network.stages[planned.stage.index], network.update.batch)


def stage_memories(planned: StagePlan, whole: Stage, batch: int) -> tuple[Memory, ...]:
    """As :func:`memories`; ``whole`` is the stage that ``planned`` is (a part of)."""
    found = [*_weights(planned, batch), *_biases(planned, batch), *_forward(planned, whole)]
    if planned.stage.dx is not None or not planned.stage.frozen:
        found += _backward(planned, whole)
    return tuple(found)


def taken_by(found: tuple[Memory, ...], rams: Rams) -> Taken:
    """What memories take of a device together."""
    return sum((memory.taken(rams) for memory in found), NOTHING)


def _weights(planned: StagePlan, batch: int) -> Iterator[Memory]:
    stage, fold, storage = planned.stage, planned.fold, planned.storage
    rows = planned.tile[0] // storage.stack if shares_columns(storage, fold.depth) else 1
    count, words = fold.pk * fold.pn // (rows * storage.stack), max(2, fold.depth * storage.stack)
    widths = {"master": stage.master.width if storage.master == "here" else stage.w.width}
    if storage.copy:
        widths["forward weight"] = stage.w.width
    if not stage.frozen and fold.depth > 1:
        widths["grad"] = stage.grad_bits(batch)
    for name, width in widths.items():
        yield Memory(name, words, rows * width, count, kind=storage.weights)
    if storage.master != "here":
        yield from _fifo("sums of weights", stage.grad_bits(batch), L.peek_latency(planned) + 4)
        yield from _fifo("new masters", stage.master.width, 8)


def _biases(planned: StagePlan, batch: int) -> Iterator[Memory]:
    stage, fold = planned.stage, planned.fold
    if stage.bias is not None:
        yield Memory("bias", max(2, fold.y_words), stage.bias.width, fold.pn, reads=2)
        if not stage.frozen and fold.y_words > 1:
            yield Memory("bias grad", fold.y_words, stage.bias_grad_bits(batch), fold.pn)


def _forward(planned: StagePlan, whole: Stage) -> Iterator[Memory]:
    stage, fold, depths, part = planned.stage, planned.fold, planned.depths, planned.part
    geometry, pn = fold.geometry, fold.pn
    sums = whole.acc_bits if part.takes_sums and part.last else stage.acc_bits
    yield from _rows("window", geometry, depths.window_rows, stage.x.width)
    yield from _partial("sums", pn, sums, fold.b)
    yield from _fifo("sums fifo", pn * sums, L.sum_latency(planned) + 4)
    if fold.b > 1 and fold.y_words > 1:
        width = sums if part.cut == "input_channels" else stage.y.width
        yield Memory("reorder", _block_words(planned, depths.y_blocks), pn * width)
    if part.sends_sums:
        yield from _fifo("sums out", pn * whole.psum_bits, 2)
        return
    if stage.pool is not None:
        yield from _rows("pool", pool_geometry(planned, stage.pool), depths.pool_rows, stage.y.width)
    yield from _fifo("y", pn * stage.y.width, 2)


def _backward(planned: StagePlan, whole: Stage) -> Iterator[Memory]:
    stage, fold, depths, part = planned.stage, planned.fold, planned.depths, planned.part
    geometry, pn, pc = fold.geometry, fold.pn, fold.folding.pc
    if not stage.frozen:
        kind = planned.storage.samples
        yield from _rows("store", geometry, depths.store_rows, stage.x.width, kind)
    if stage.pool is not None:
        pool, position = pool_geometry(planned, stage.pool), max(1, (stage.pool.positions - 1).bit_length())
        yield from _fifo("argmax", pn * position, depths.argmax_words)
        yield from _sums("pool adjoint", pool, depths.pool_col_rows, stage.pool_back_bits)
    if stage.activation is not None:
        yield from _fifo("mask", pn, depths.mask_words)
    yield Memory("replay", _block_words(planned, depths.dy_blocks), pn * stage.dy.width)
    if part.takes_sums and part.last:
        yield from _fifo("masked", pn * stage.dy.width, 2)
    if stage.dx is None:
        return
    yield from _partial("back", fold.pk, stage.back_bits, fold.b)
    yield from _fifo("back fifo", fold.pk * stage.back_bits, L.back_latency(planned) + 4)
    if depths.col_rows:
        yield from _sums("col2im", geometry, depths.col_rows, stage.col_bits)
    if depths.turn_sums:
        yield from _fifo("sums of a turn", pc * whole.col_bits, depths.turn_sums * fold.x_words)
    if part.back_out(whole):
        yield from _fifo("back out", pc * whole.col_bits, 2)
    if part.rounds_dx(whole):
        yield from _fifo("dx", pc * stage.dx.width, 2)


def _rows(name: str, geometry: Geometry, rows: int, width: int, kind: str = "auto") -> Iterator[Memory]:
    """Banks of a Window."""
    banks = geometry.vertical.banks * geometry.horizontal.banks
    yield Memory(name, rows * geometry.row_words, geometry.pc * width, banks, kind=kind)


def _sums(name: str, geometry: Geometry, rows: int, width: int) -> Iterator[Memory]:
    """Banks of a Col2im, and their marks."""
    banks = geometry.vertical.banks * geometry.horizontal.banks
    depth = rows * geometry.row_words
    reads = 2 if col_ports(geometry) == "two" else 1
    yield Memory(name, depth, geometry.pc * width, banks, reads=reads)
    yield Memory(f"{name} marks", depth, 1, 2 * banks, reads=2, asynchronous=True)


def _partial(name: str, count: int, width: int, b: int) -> Iterator[Memory]:
    """A pass's sums over its folds, of the pixels of a block."""
    if b > 1:
        yield Memory(name, b, width, count, asynchronous=True)


def _fifo(name: str, width: int, depth: int) -> Iterator[Memory]:
    """A Fifo: of one word it is a register, of many their last is the read register."""
    if depth > REGISTER_DEPTH:
        yield Memory(name, depth - 1, width)
    elif depth > 1:
        yield Memory(name, depth, width, asynchronous=True)


def _block_words(planned: StagePlan, blocks: int) -> int:
    """Words of a Replay or a Reorder."""
    return blocks * min(planned.fold.b, planned.stage.M) * planned.fold.y_words
