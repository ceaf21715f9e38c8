"""When the pixels of a stage move whose rows are dealt to its parts; the rest of the model is in schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..ir.stage import Stage
from .links import Channel
from .plan import StagePlan

__all__ = ["Line", "Worker", "backward_rows", "forward_rows"]

Ints = NDArray[np.int64]


class Worker(Protocol):
    """A part of a stage, as schedule has it."""

    planned: StagePlan

    def take_x(self, arrival: Ints) -> Ints: ...
    def sums(self, x: Ints) -> Ints: ...
    def rectified(self, pixels: Ints) -> Ints: ...
    def pooled(self, pixels: Ints) -> Ints: ...
    def unpooled(self, dy: Ints) -> Ints: ...
    def masked(self, dy: Ints) -> Ints: ...
    def backward(self, dy: Ints) -> Ints | None: ...


class Line(Protocol):
    """What lies between the parts."""

    def cross(self, times: Ints, link: int, kind: str) -> Ints: ...
    def in_order(self, board: int, what: str, cost: int, ready: Ints, *sources: Ints) -> Ints: ...
    def channel(self, link: int, kind: str) -> Channel: ...


def _pixels(rows: Ints, among: Ints, width: int) -> Ints:
    """Where the pixels of ``rows`` stand among those of the rows ``among``."""
    first = np.searchsorted(among, rows) * width
    return np.ravel(first[:, None] + np.arange(width))


def _merged(rows: Ints, width: int, *parts: tuple[Ints, Ints]) -> Ints:
    """Times of the pixels of ``rows``, the latest where several parts (rows, times) have one."""
    found = np.full(len(rows) * width, -(1 << 40), dtype=np.int64)
    for own, times in parts:
        at = _pixels(own, rows, width)
        found[at] = np.maximum(found[at], times)
    return found


def _some(wanted: Ints, rows: Ints, times: Ints, width: int) -> tuple[Ints, Ints]:
    """Those of ``rows``, with the times of their pixels, that are wanted."""
    both = np.intersect1d(rows, wanted)
    return both, times[_pixels(both, rows, width)]


def _words(channel: Channel) -> int:
    """Channel words of a pixel, which pass one a cycle."""
    return math.ceil(channel.run / channel.lanes)


def forward_rows(line: Line, whole: Stage, parts: Sequence[Worker], x: Ints) -> Ints:
    """Pixels of y, from those of x where the first part stands."""
    rows, x_width, width = parts[0].planned.part.rows(whole), whole.window.width, whole.out_shape[1]
    y = passed = np.zeros(0, dtype=np.int64)
    for p, stage in enumerate(parts):
        link = stage.planned.board - 1
        if p:
            x = line.cross(x, link, "x")
        come = rows.x_from(p)
        conv = stage.rectified(stage.sums(stage.take_x(x[_pixels(rows.x(p), come, x_width)])))
        shared, conv_width = rows.shared(p), whole.window.out_width
        if len(shared):
            passed = line.cross(passed, link, "conv")
        parted = [(rows.conv(p), conv), (shared, passed)] if len(shared) else [(rows.conv(p), conv)]
        passed = _merged(
            rows.shared(p + 1), conv_width, *(_some(rows.shared(p + 1), *s, conv_width) for s in parted)
        )
        conv = _merged(rows.pooled(p), conv_width, *(_some(rows.pooled(p), *s, conv_width) for s in parted))
        if len(shared):
            conv = line.in_order(link + 1, "conv", 1, conv, *(times for _, times in parted))
        own = stage.pooled(conv)
        if p:
            y = line.cross(y, link, "y")
            before, after = rows.y_before(p), rows.y_before(p + 1)
            ready = _merged(after, width, (before, y), (rows.y(p), own))
            y = line.in_order(link + 1, "y", _words(line.channel(link, "y")), ready, own, y)
        else:
            y = own
        if p + 1 < len(parts):
            x = x[_pixels(rows.x_from(p + 1), come, x_width)]
    return y


def backward_rows(line: Line, whole: Stage, parts: Sequence[Worker], errors: Ints) -> Ints | None:
    """Pixels of dx, from those of the errors where the last part stands."""
    rows, x_width, width = parts[0].planned.part.rows(whole), whole.window.width, whole.out_shape[1]
    dx: Ints | None = None
    back, shared, conv_width = dx, np.zeros(0, dtype=np.int64), whole.window.out_width
    for p, stage in reversed(list(enumerate(parts))):
        board = stage.planned.board
        if p + 1 < len(parts):
            errors = line.cross(errors, board, "dy")
            back = line.cross(back, board, "back") if back is not None and len(back) else None
            dx = line.cross(dx, board, "dx") if dx is not None and len(dx) else None
        come = rows.y_before(p + 1)
        unpooled = stage.unpooled(errors[_pixels(rows.y(p), come, width)])
        if len(rows.shared(p + 1)):
            shared = line.cross(shared, board, "unpooled")
        if len(rows.shared(p + 1)) or len(rows.shared(p)):
            parted = [(rows.pooled(p), unpooled), (rows.shared(p + 1), shared)]
            added = np.union1d(rows.pooled(p), rows.shared(p + 1))
            ready = _merged(added, conv_width, *parted)
            ready = line.in_order(board, "unpooled", 1, ready, *(times for _, times in parted if len(times)))
            unpooled = ready[_pixels(rows.conv(p), added, conv_width)]
            shared = ready[_pixels(rows.shared(p), added, conv_width)]
        own = stage.backward(stage.masked(unpooled))
        errors = errors[_pixels(rows.y_before(p), come, width)]
        if own is None:
            continue
        shares = [(rows.x(p), own)] + ([(rows.back(p + 1), back)] if back is not None else [])
        summed = rows.summed(p)
        sums = line.in_order(
            board, "back", 1, _merged(summed, x_width, *shares), *(times for _, times in shares)
        )
        back = sums[_pixels(rows.back(p), summed, x_width)]
        shares = [(rows.rounded(p), sums[_pixels(rows.rounded(p), summed, x_width)])]
        shares += [(rows.dx(p + 1), dx)] if dx is not None else []
        cost = _words(line.channel(board, "dx")) if dx is not None else 1
        dx = line.in_order(board, "dx", cost, _merged(rows.dx(p), x_width, *shares), *(t for _, t in shares))
    return dx
