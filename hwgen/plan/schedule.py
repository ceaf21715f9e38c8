"""When every pixel moves: a max-plus model of the pipeline, from which buffers and predictions come.

One event a pixel and sample. A sequential engine that takes ``cost`` cycles for what is ready at ``ready``
ends at end[j] = max(end[j-1], ready[j]) + cost[j]. Buffers are taken as large enough; the planner makes them
so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..ir.window import Window2d
from . import latency as L
from .geometry import Geometry
from .plan import Plan, StagePlan

__all__ = ["StageTimes", "Times", "needed_pixels", "run_schedule", "touching_pixels"]

Ints = NDArray[np.int64]


@dataclass
class StageTimes:
    """Cycles of one stage's events, one array a sample. ``x``: pixel of x written; ``forward``, ``backward``:
    end of each block (the cycle after its last op); ``relu``: pixel behind the ReLU; ``y``: pixel of y given;
    ``dy``: pixel of y's error taken; ``masked``: pixel into the array's replay; ``dx``: pixel of dx given.
    ``first_forward``, ``first_backward``: first op; ``update``: version after each batch.
    """

    x: list[Ints] = field(default_factory=list)
    forward: list[Ints] = field(default_factory=list)
    relu: list[Ints] = field(default_factory=list)
    y: list[Ints] = field(default_factory=list)
    dy: list[Ints] = field(default_factory=list)
    masked: list[Ints] = field(default_factory=list)
    backward: list[Ints] = field(default_factory=list)
    dx: list[Ints] = field(default_factory=list)
    first_forward: list[int] = field(default_factory=list)
    first_backward: list[int] = field(default_factory=list)
    update: list[int] = field(default_factory=list)


@dataclass
class Times:
    """All stages, the results, and when the device is idle after the last batch."""

    stages: list[StageTimes]
    results: list[int]
    idle: int


def chain(ready: Ints, cost: Ints | int, start: int) -> Ints:
    """Ends of a sequence of jobs, the first of which also waits for ``start``."""
    costs = np.broadcast_to(np.asarray(cost, dtype=np.int64), ready.shape)
    total = np.cumsum(costs)
    return total + np.maximum.accumulate(np.maximum(ready, start) - (total - costs))


def needed_pixels(geometry: Geometry) -> Ints:
    """For every output pixel, how many input pixels must be there: 1 + its last one, in raster order; at
    least 1."""
    y, x = geometry.vertical, geometry.horizontal
    oy, ox = np.divmod(np.arange(geometry.M), x.outputs)
    row = np.minimum(y.first(oy) + y.span, y.size - 1)
    column = np.clip(x.first(ox) + x.span + 1, 0, x.size)
    return np.maximum(np.where(row < 0, 0, row * x.size + column), 1)


def touching_pixels(geometry: Geometry) -> Ints:
    """For every input pixel, the last output pixel that may touch it."""
    y, x = geometry.vertical, geometry.horizontal
    iy, ix = np.divmod(np.arange(geometry.window.pixels_in), x.size)
    row = np.minimum((iy + y.pad) // y.stride, y.outputs - 1)
    last: Ints = row * x.outputs + np.minimum((ix + x.pad) // x.stride, x.outputs - 1)
    return last


def pool_geometry(planned: StagePlan, pool: Window2d) -> Geometry:
    """The pool of a stage as a depthwise window over words of Pn lanes."""
    return Geometry(pool, 1, planned.fold.pn, planned.fold.y_words)


class _Stage:
    """Recurrences of one stage; keeps the ends of its engines from sample to sample."""

    def __init__(self, planned: StagePlan):
        self.planned, self.fold = planned, planned.fold
        self.geometry = planned.fold.geometry
        stage, b = planned.stage, planned.fold.b
        pixels = np.arange(self.geometry.M)
        self.starts = pixels[::b]
        self.sizes: Ints = np.diff(np.append(self.starts, self.geometry.M))
        self.costs = self.sizes * (stage.groups * self.fold.fk * self.fold.fn)
        self.offset = pixels % b
        self.needed = needed_pixels(self.geometry) - 1
        self.touching = touching_pixels(self.geometry) // b
        self.pool = pool_geometry(planned, stage.pool) if stage.pool is not None else None
        self.times = StageTimes()
        engines = ("x", "forward", "sort", "pool", "dy", "pool_col", "unpool", "backward", "dx")
        self.end = dict.fromkeys(engines, -(1 << 40))
        self.version = -(1 << 40)

    def _after(self, name: str, ready: Ints, cost: Ints | int) -> Ints:
        ends = chain(ready, cost, self.end[name])
        self.end[name] = int(ends[-1])
        return ends

    def take_x(self, arrival: Ints) -> Ints:
        """Pixels of x written, a word a cycle: the cycle of each one's last word."""
        times = self._after("x", arrival - self.fold.x_words + 1, self.fold.x_words) - 1
        self.times.x.append(times)
        return times

    def sums(self, x: Ints) -> Ints:
        """Cycle in which the last forward sum of each pixel is given, in raster order."""
        planned, fold = self.planned, self.fold
        ready = np.maximum.reduceat(x[self.needed] + L.WINDOW - self.offset, self.starts)
        ready[0] = max(ready[0], self.version)
        ends = self._after("forward", ready, self.costs)
        self.times.forward.append(ends)
        self.times.first_forward.append(int(ends[0] - self.costs[0]))
        complete = np.repeat(ends, self.sizes) - 1 + L.sum_latency(planned) + L.ROUND
        if fold.b > 1 and fold.y_words > 1:
            pixels = self._after("sort", complete + 2, fold.y_words) - 1
        else:
            pixels = complete - (np.repeat(self.sizes, self.sizes) - 1 - self.offset)
        return pixels

    def activate(self, pixels: Ints) -> Ints:
        """Cycle in which the last word of each pixel of y is given, from that of its sums."""
        planned = self.planned
        if planned.stage.relu:
            pixels = pixels + L.RELU
        self.times.relu.append(pixels)
        if self.pool is not None:
            cost = self.pool.words * self.pool.window.positions
            pixels = self._after("pool", pixels[needed_pixels(self.pool) - 1] + L.WINDOW, cost)
        self.times.y.append(pixels + L.FIFO)
        return pixels + L.FIFO

    def mask(self, dy: Ints) -> Ints:
        """Cycle in which the masked errors of each pixel enter the array's replay."""
        planned, fold = self.planned, self.fold
        dy = self._after("dy", dy - fold.y_words + 1, fold.y_words) - 1
        self.times.dy.append(dy)
        if self.pool is not None:
            cost = self.pool.words * self.pool.window.positions
            added = self._after("pool_col", dy - fold.y_words + 1, cost) - 1
            ready = added[touching_pixels(self.pool)] + L.COL2IM + L.ROUND
            dy = self._after("unpool", ready, fold.y_words) - 1
        if planned.stage.relu:
            dy = dy + L.RELU
        self.times.masked.append(dy)
        return dy

    def backward(self, dy: Ints) -> Ints | None:
        """Cycle in which the last word of each pixel of dx is given (every word, if x is one pixel), from that of its
        masked errors; None: no dx."""
        planned, fold = self.planned, self.fold
        ready = np.maximum.reduceat(dy + L.REPLAY - self.offset, self.starts)
        ends = self._after("backward", ready, self.costs)
        self.times.backward.append(ends)
        self.times.first_backward.append(int(ends[0] - self.costs[0]))
        if planned.stage.dx is None:
            return None
        done = ends - 1 + L.back_latency(planned)
        if not fold.dx_in_order:
            dx = self._after("dx", done[self.touching] + L.COL2IM, fold.x_words) - 1
        elif len(done) == 1:
            # A flattened tensor leaves chunk by chunk, and the layer below need not wait for its end.
            dx = done - np.arange(fold.x_words - 1, -1, -1) * fold.fn
        else:
            dx = done
        self.times.dx.append(dx + L.ROUND + L.FIFO)
        return dx + L.ROUND + L.FIFO


def _through(times: Ints, source: tuple[int, int], target: tuple[int, int]) -> Ints:
    """Through a Relane: the last word of a pixel makes as many target words as it has room for."""
    return times if source == target else times + L.RELANE + max(1, -(-source[1] // target[1])) - 1


def _up(times: Ints, pixels: int) -> Ints:
    """Pixels of the next layer's x; a flattened tensor is one."""
    return times if len(times) == pixels else times[-1:]


def _down(times: Ints, stage: _Stage, source: tuple[int, int]) -> Ints:
    """Pixels of a layer's errors through a Relane; where the layer above has flattened them, from its words."""
    own = (stage.planned.stage.N, stage.fold.pn)
    pixels = len(stage.times.y[-1])
    if len(times) == pixels:
        return _through(times, source, own)
    last = np.arange(1, pixels + 1) * stage.planned.stage.out_channels - 1
    word, lane = np.divmod(last, source[1])
    arrived: Ints = times[np.minimum(word, len(times) - 1)] + L.RELANE + lane // own[1]
    return arrived


class _Chain:
    """The stages of a plan, their parts and the links between them."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.stages = [_Stage(planned) for planned in plan.stages]
        self.ends: dict[tuple[int, str], int] = {}

    def wholes(self) -> list[list[_Stage]]:
        """The parts of every stage of the network."""
        found: list[list[_Stage]] = [[] for _ in self.plan.network.stages]
        for stage in self.stages:
            found[stage.planned.stage.index].append(stage)
        return found

    def cross(self, times: Ints, link: int, kind: str) -> Ints:
        """Pixels of a channel on the other side of a link."""
        plan = self.plan.links[link]
        (channel,) = (each for each in (*plan.down, *plan.up) if each.kind == kind)
        cost = -(-channel.words(plan.width) // len(times))
        ends = chain(times, cost, self.ends.get((link, kind), -(1 << 40)))
        self.ends[link, kind] = int(ends[-1])
        return ends + L.LINK + plan.latency

    def forward(self, parts: list[_Stage], x: Ints, side: tuple[int, int]) -> tuple[Ints, tuple[int, int]]:
        """Pixels of y, and their layout, from those of x where the first part stands."""
        y: Ints | None = None
        for stage in parts:
            planned = stage.planned
            if not planned.part.first:
                x = self.cross(x, planned.board - 1, "x")
            own = (planned.stage.cin, stage.fold.folding.pc)
            taken = stage.take_x(_up(_through(x, side, own), planned.stage.window.pixels_in))
            pixels = stage.sums(taken)
            if planned.part.takes_sums and y is not None:
                pixels = np.maximum(pixels, self.cross(y, planned.board - 1, "sums"))
            if planned.part.sends_sums:
                stage.times.relu.append(pixels)
                stage.times.y.append(pixels)
                y = pixels
                continue
            own_y = stage.activate(pixels)
            if y is not None and planned.part.cut != "input_channels":
                own_y = np.maximum(own_y, self.cross(y, planned.board - 1, "y"))
            y = own_y
        assert y is not None
        return y, (parts[-1].planned.stage.N, parts[-1].fold.pn)

    def backward(self, parts: list[_Stage], dy: Ints, side: tuple[int, int]) -> Ints | None:
        """Pixels of dx from those of the error of y where the last part stands."""
        dx: Ints | None = None
        errors = _down(dy, parts[-1], side)
        for stage in reversed(parts):
            planned = stage.planned
            if not planned.part.last:
                errors = self.cross(errors, planned.board, "dy")
            masked = stage.mask(errors)
            if planned.part.cut == "input_channels":
                errors = masked
            own = stage.backward(masked)
            if own is None:
                continue
            if dx is not None:
                came = self.cross(dx, planned.board, "back" if planned.part.takes_back else "dx")
                own = np.maximum(own, came if len(came) == len(own) else came[-1])
            dx = own
        return dx

    def update(self, parts: list[_Stage]) -> list[int]:
        """First forward op of the next version, of every part that trains; a batch is over."""
        rule = self.plan.network.update
        done = [int(stage.times.backward[-1][-1]) - 1 for stage in parts]
        if parts[0].planned.part.shares_weights:
            placed = self._totals(parts, done)
            done = [at - L.settle(stage.planned) for at, stage in zip(placed, parts, strict=True)]
        for at, stage in zip(done, parts, strict=True):
            stage.version = at + L.update_cycles(stage.planned, rule)
            stage.times.update.append(stage.version)
        return [stage.version for stage in parts]

    def _totals(self, parts: list[_Stage], done: list[int]) -> list[int]:
        """When the total of the last element is in its place, of every part; first and last elements on their way."""
        whole = self.plan.whole(parts[0].planned)
        count = math.prod(whole.weight_shape) + (whole.out_channels if whole.bias is not None else 0)
        first = last = 0
        for at, stage in zip(done, parts, strict=True):
            planned = stage.planned
            own = at + L.settle(planned) + L.sums_latency(planned)
            if not planned.part.first:
                first, last = self._cross_batch(first, last, planned.board - 1, "grads")
            first = max(first, own) + 1
            last = max(last + 1, first + count - 1)
        placed = [last + 2]
        for stage in parts[:0:-1]:
            first, last = self._cross_batch(first, last, stage.planned.board - 1, "totals")
            placed.append(last + 2)
        return placed[::-1]

    def _cross_batch(self, first: int, last: int, link: int, kind: str) -> tuple[int, int]:
        """First and last words of a channel that crosses once a batch, on the other side."""
        plan = self.plan.links[link]
        (channel,) = (each for each in (*plan.down, *plan.up) if each.kind == kind)
        beats, way = channel.beats(plan.width), L.LINK + plan.latency
        return first + beats - 1 + way, max(last, first + beats * (channel.pixels - 1)) + beats - 1 + way


def run_schedule(plan: Plan, samples: int, pace: int = 0) -> Times:
    """Times of ``samples`` training samples in batches, sample s offered at cycle s·``pace`` or later.

    Results are those at the host's port."""
    network, line = plan.network, _Chain(plan)
    stages, wholes = line.stages, line.wholes()
    batch = network.update.batch
    height, width, channels = network.in_shape
    beats = -(-channels // plan.image_lanes)
    classes = network.loss.classes
    home = sum(L.LINK + link.latency for link in plan.links)
    results: list[int] = []
    loss_end = image_end = -(1 << 40)
    last = 0
    for sample in range(samples):
        offered = np.full(height * width, sample * pace, dtype=np.int64)
        y = chain(offered, beats, max(image_end, 0)) - 1
        image_end = int(y[-1]) + 1
        y = y + L.FRAME
        side = (channels, plan.image_lanes)
        for i, parts in enumerate(wholes):
            board = parts[0].planned.board
            if i and board != wholes[i - 1][-1].planned.board:
                y = line.cross(y, board - 1, "x")
            y, side = line.forward(parts, y, side)
        taken = max(int(y[-1]) + min(classes, side[1]) - 1, loss_end)
        loss_end = taken + L.loss_cycles(network.loss)
        results.append(taken + L.result_latency(network.loss) + home)
        first = taken + L.dz_latency(network.loss, side[1])
        last_error = first + max(0, classes - side[1]) * (L.dz_latency(network.loss, 1) - classes - 12)
        dy: Ints | None = np.full(len(y), last_error, dtype=np.int64)
        for i, parts in reversed(list(enumerate(wholes))):
            own = parts[0].planned
            if dy is None or (own.stage.frozen and own.stage.dx is None):
                break
            dy = line.backward(parts, dy, side)
            side = (own.stage.cin, parts[0].fold.folding.pc)
            if dy is not None and i and wholes[i - 1][-1].planned.board != own.board:
                dy = line.cross(dy, own.board - 1, "dy")
        if (sample + 1) % batch == 0 or sample == samples - 1:
            trained = [parts for parts in wholes if not parts[0].planned.stage.frozen]
            last = max([last, *(version for parts in trained for version in line.update(parts))])
    return Times([stage.times for stage in stages], results, max(last, results[-1]))
