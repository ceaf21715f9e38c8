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
    def activate(self, pixels: Ints) -> Ints: ...
    def mask(self, dy: Ints) -> Ints: ...
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


def _words(channel: Channel) -> int:
    """Channel words of a pixel, which pass one a cycle."""
    return math.ceil(channel.run / channel.lanes)


def forward_rows(line: Line, whole: Stage, parts: Sequence[Worker], x: Ints) -> Ints:
    """Pixels of y, from those of x where the first part stands."""
    rows, x_width, width = parts[0].planned.part.rows(whole), whole.window.width, whole.out_shape[1]
    y = np.zeros(0, dtype=np.int64)
    for p, stage in enumerate(parts):
        link = stage.planned.board - 1
        if p:
            x = line.cross(x, link, "x")
        come = rows.x_from(p)
        own = stage.activate(stage.sums(stage.take_x(x[_pixels(rows.x(p), come, x_width)])))
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
    back = dx
    for p, stage in reversed(list(enumerate(parts))):
        board = stage.planned.board
        if p + 1 < len(parts):
            errors = line.cross(errors, board, "dy")
            back = line.cross(back, board, "back") if back is not None and len(back) else None
            dx = line.cross(dx, board, "dx") if dx is not None and len(dx) else None
        come = rows.y_before(p + 1)
        own = stage.backward(stage.mask(errors[_pixels(rows.y(p), come, width)]))
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
