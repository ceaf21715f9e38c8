"""Samples of every stage in flight, from a timeline of rows: so deep will buffers be that nothing waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...ir.stage import Stage
from .. import latency as L
from ..rows import Rows, deal_evenly
from ..turns import turn_rows
from .held import Flight, Waits
from .layer import Layer, Share

__all__ = ["SAMPLES", "Stretch", "flights", "passages"]

Floats = NDArray[np.float64]
OTHERS = ("y_before", "sums", "back", "dx", "dx_behind", "conv", "conv_in", "unpooled")
"""Fields of Waits in rows, after those that are shares."""
TURN_MARGIN = 0.3
"""Rows that blocks and pipelines take of a FIFO beyond what coarse pixels show."""
SAMPLES = 10
"""Samples of the timeline; the last is taken as steady state."""


@dataclass(frozen=True)
class Stretch:
    """The shares of one stage, and cycles that one sample takes of each; ``apart``: the stage before ends on another
    board."""

    layer: Layer
    shares: tuple[Share, ...]
    cycles: tuple[int, ...]
    apart: bool


def _owner(sizes: Sequence[int], turns: int) -> NDArray[np.int64]:
    """For every row, the part that it is dealt to."""
    deal = deal_evenly(sizes, turns)
    return np.repeat(np.arange(len(deal), dtype=np.int64) % len(sizes), deal)


def _engine(ready: Floats, cost: float) -> Floats:
    """Ends of jobs one after the other (flat over samples)."""
    total = np.arange(1, len(ready) + 1, dtype=np.float64) * cost
    ends: Floats = total + np.maximum.accumulate(ready - (total - cost))
    return ends


def _most(written: Floats, freed: Floats) -> int:
    """Most rows held: written at one time each, freed at another (sample-major)."""
    order = np.sort(freed)
    held = np.arange(1, len(written) + 1) - np.searchsorted(order, np.sort(written), side="left")
    return int(held[len(held) // 2 :].max())


class _Timeline:
    def __init__(self, stretches: Sequence[Stretch], pace: int, hop: float):
        self.stretches, self.pace, self.hop = stretches, pace, hop
        self.x: list[Floats] = []  # rows of x arrive at the first part, [sample, row]
        self.conv: list[Floats] = []  # rows of the convolution done
        self.y: list[Floats] = []
        self.dy: list[Floats] = []
        self.back: list[Floats] = []
        self.owners: list[NDArray[np.int64]] = []

    def forward(self) -> None:
        first = self.stretches[0].layer.stage
        offered = np.arange(SAMPLES)[:, None] * float(self.pace)
        # As if the host sent rows at the pace: earlier ones would wait for room, and nothing would wait for them.
        x = offered + np.arange(1, first.window.height + 1) * (self.pace / first.window.height)
        for stretch in self.stretches:
            stage = stretch.layer.stage
            x = self._taken(x + stretch.apart * self.hop, stage.window.height)
            self.x.append(x)
            window = stage.window
            rows = np.arange(window.out_height)
            last = rows * window.stride[0] - window.pads[0] + (window.kernel[0] - 1) * window.dilation[0]
            done = self._passes(stretch, x[:, np.clip(last, 0, window.height - 1)], forward=True)
            self.conv.append(done)
            y = done + self.hop * (len(stretch.shares) - 1) + L.WINDOW
            y = np.maximum.accumulate(y, axis=1)
            if stage.pool is not None:
                pool = stage.pool
                last = np.arange(pool.out_height) * pool.stride[0] - pool.pads[0] + pool.kernel[0] - 1
                y = y[:, np.clip(last, 0, window.out_height - 1)]
            self.y.append(y)
            x = y

    def backward(self, loss: float) -> None:
        dy = np.repeat(self.y[-1][:, -1:] + loss, self.y[-1].shape[1], axis=1)
        for stretch in reversed(self.stretches):
            stage = stretch.layer.stage
            if not stretch.layer.backs:
                dy = np.full(self.y[len(self.stretches) - 1 - len(self.dy)].shape, dy[:, :1])
                self.dy.insert(0, dy)
                self.back.insert(0, dy)
                continue
            rows = self.y[len(self.stretches) - 1 - len(self.dy)].shape[1]
            dy = self._taken(dy, rows)
            self.dy.insert(0, dy)
            masked = dy
            if stage.pool is not None:
                above = np.minimum(np.arange(stage.window.out_height) // stage.pool.stride[0], rows - 1)
                masked = dy[:, above]
            done = self._passes(stretch, masked, forward=False)
            self.back.insert(0, done)
            window = stage.window
            touching = np.minimum(
                (np.arange(window.height) + window.pads[0]) // window.stride[0], window.out_height - 1
            )
            dx = np.maximum.accumulate(done, axis=1)[:, touching] + self.hop * (len(stretch.shares) - 1)
            dy = dx + stretch.apart * self.hop + L.COL2IM

    @staticmethod
    def _taken(rows: Floats, height: int) -> Floats:
        """Rows as the next stage sees them: a flattened map is one row, whose error comes for all rows at once."""
        return rows if rows.shape[1] == height else np.repeat(rows[:, -1:], height, axis=1)

    def _passes(self, stretch: Stretch, ready: Floats, forward: bool) -> Floats:
        """When each row of the convolution is done, by the part that does it."""
        rows = ready.shape[1]
        parts = len(stretch.shares)
        if parts == 1 or stretch.shares[0].axis != "rows":
            return _engine(ready.reshape(-1), max(stretch.cycles) / rows).reshape(ready.shape)
        done = np.zeros_like(ready)
        owner = self._owner(stretch, rows)
        for part, cycles in enumerate(stretch.cycles):
            own = np.flatnonzero(owner == part)
            hops = self.hop * (part if forward else parts - 1 - part)
            done[:, own] = _engine((ready[:, own] + hops).reshape(-1), cycles / len(own)).reshape(SAMPLES, -1)
        return done

    @staticmethod
    def _owner(stretch: Stretch, rows: int) -> NDArray[np.int64]:
        owner = _owner([share.size for share in stretch.shares], stretch.shares[0].turns)
        owner = np.repeat(owner, stretch.layer.conv_rows)[:rows]
        return np.append(owner, np.full(rows - len(owner), owner[-1]))

    def flight(self, k: int) -> Flight:
        """Samples of stage k in flight; of a cut by rows those of the fullest part over its own rows."""
        stretch = self.stretches[k]
        layer, stage = stretch.layer, stretch.layer.stage
        if not layer.backs:
            return Flight(0.0, 0.0, 0.0)
        window = stage.window
        last_user = np.minimum(
            (np.arange(window.height) + window.pads[0]) // window.stride[0], window.out_height - 1
        )
        x, freed = self.x[k], np.maximum.accumulate(self.back[k], axis=1)[:, last_user]
        pooled = self.dy[k]
        masked = pooled
        if stage.pool is not None:
            above = np.minimum(np.arange(window.out_height) // stage.pool.stride[0], pooled.shape[1] - 1)
            masked = pooled[:, above]
        conv = self.conv[k]
        if len(stretch.shares) == 1 or stretch.shares[0].axis != "rows":
            hops = 2 * self.hop * (len(stretch.shares) - 1)
            return Flight(
                _most(x.reshape(-1), freed.reshape(-1) + hops) / window.height,
                _most(conv.reshape(-1), masked.reshape(-1) + hops) / window.out_height,
                _most(self.y[k].reshape(-1), pooled.reshape(-1) + hops) / pooled.shape[1],
            )
        return self._dealt(stretch, k, masked)

    def _dealt(self, stretch: Stretch, k: int, masked: Floats) -> Flight:
        window = stretch.layer.stage.window
        owner = self._owner(stretch, window.out_height)
        x_row = np.clip(np.arange(window.out_height) * window.stride[0], 0, window.height - 1)
        found: list[Flight] = []
        for part, waits in enumerate(_waits(stretch, 2 * self.hop / self.pace)):
            own = np.flatnonzero(owner == part)
            kept = _most(self.x[k][:, x_row[own]].reshape(-1), self.back[k][:, own].reshape(-1))
            bits = _most(self.conv[k][:, own].reshape(-1), masked[:, own].reshape(-1))
            found.append(Flight(kept / len(own), bits / len(own), bits / len(own), waits))
        return Flight.of_parts(found)


def _waits(stretch: Stretch, trip: float) -> list[Waits]:
    """What waits for its turn in every part; ``trip``: share of a sample's time to a neighbour and back."""
    stage = stretch.layer.stage
    deal = deal_evenly([share.size for share in stretch.shares], stretch.shares[0].turns)
    rows = Rows(stage, deal, len(stretch.shares))
    found = []
    for part, waiting in enumerate(_turn_rows(stage, deal, len(stretch.shares))):
        x, y = len(rows.x(part)), stretch.shares[part].size
        margin = TURN_MARGIN + trip * stage.window.height

        def of(
            name: str, rows: int = 1, waiting: dict[str, float] = waiting, margin: float = margin
        ) -> float:
            return (waiting[f"turn_{name}"] + margin) / rows if f"turn_{name}" in waiting else 0.0

        others = (of(name) for name in OTHERS)
        found.append(Waits(of("x", x), of("y", y), of("dy", y), *others))
    return found


@lru_cache(maxsize=4096)
def _turn_rows(stage: Stage, deal: tuple[int, ...], count: int) -> list[dict[str, float]]:
    return turn_rows(stage, deal, count)


def flights(stretches: Sequence[Stretch], pace: int, hop: float, loss: float) -> list[Flight]:
    """Samples in flight of every stage; ``hop`` cycles between two boards, ``loss`` from the last output to the first
    error."""
    line = _timeline(stretches, pace, hop, loss)
    return [line.flight(k) for k in range(len(stretches))]


def passages(stretches: Sequence[Stretch], pace: int, hop: float, loss: float) -> list[float]:
    """Cycles of a sample at every stage, from its first row of x to the end of its backward pass; as flights."""
    line = _timeline(stretches, pace, hop, loss)
    return [float(back[-1].max() - x[-1].min()) for x, back in zip(line.x, line.back, strict=True)]


def _timeline(stretches: Sequence[Stretch], pace: int, hop: float, loss: float) -> _Timeline:
    line = _Timeline(stretches, pace, hop)
    line.forward()
    line.backward(loss)
    return line
