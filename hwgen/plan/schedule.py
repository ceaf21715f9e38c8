"""When every pixel moves: a max-plus model of the pipeline, from which buffers and predictions come.

One event a pixel and sample. A sequential engine that takes ``cost`` cycles for what is ready at ``ready``
ends at end[j] = max(end[j-1], ready[j]) + cost[j]. Buffers are taken as large enough; the planner makes them so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import latency as L
from .crossing import arrivals, least_crossing
from .links import Channel, channel_of
from .pixels import needed_pixels, pool_geometry, touching_pixels
from .plan import Plan, StagePlan
from .repeats import Series, Watch
from .row_schedule import backward_rows, forward_rows
from .times import StageTimes, Times
from .totals import totals_placed

__all__ = ["StageTimes", "Times", "run_schedule"]

Ints = NDArray[np.int64]


def chain(ready: Ints, cost: Ints | int, start: int) -> Ints:
    """Ends of a sequence of jobs, the first of which also waits for ``start``."""
    costs = np.broadcast_to(np.asarray(cost, dtype=np.int64), ready.shape)
    total = np.cumsum(costs)
    return total + np.maximum.accumulate(np.maximum(ready, start) - (total - costs))


class _Stage:
    """Recurrences of one stage; keeps the ends of its engines from sample to sample."""

    def __init__(self, planned: StagePlan, number: int, watch: Watch):
        self.planned, self.fold = planned, planned.fold
        self.number, self.watch = number, watch
        self.geometry = planned.fold.geometry
        stage, b = planned.stage, planned.fold.b
        pixels = np.arange(self.geometry.M)
        self.starts = pixels[::b]
        self.sizes: Ints = np.diff(np.append(self.starts, self.geometry.M))
        self.costs = np.maximum(self.sizes, planned.period) * (stage.groups * self.fold.fk * self.fold.fn)
        self.offset = pixels % b
        self.needed = needed_pixels(self.geometry) - 1
        self.touching = touching_pixels(self.geometry) // b
        self.pool = pool_geometry(planned, stage.pool) if stage.pool is not None else None
        if self.pool is not None:
            self.pool_needed = needed_pixels(self.pool) - 1
            self.pool_touching = touching_pixels(self.pool)
        self.times = StageTimes()
        engines = ("x", "forward", "sort", "pool", "dy", "pool_col", "unpool", "backward", "dx")
        self.end: dict[Any, int] = dict.fromkeys(engines, -(1 << 40))
        self.version = -(1 << 40)

    def _after(self, name: str, ready: Ints, cost: Ints | int) -> Ints:
        ends = chain(ready, cost, self.end[name])
        self.end[name] = int(ends[-1])
        return self.watch.see((self.number, name), ends, ready)

    def take_x(self, arrival: Ints) -> Ints:
        """Pixels of x written, a word a cycle: the cycle of each one's last word."""
        times = self._after("x", arrival - self.fold.x_words + 1, self.fold.x_words) - 1
        self.times.x.append(times)
        return times

    def sums(self, x: Ints) -> Ints:
        """Cycle in which the last forward sum of each pixel is given, in raster order."""
        planned, fold = self.planned, self.fold
        arrived = np.maximum.reduceat(x[self.needed] + L.WINDOW - self.offset, self.starts)
        ready = arrived.copy()
        ready[0] = max(ready[0], self.version)
        self.watch.see((self.number, "version"), ready, arrived)
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
        return self.pooled(self.rectified(pixels))

    def rectified(self, pixels: Ints) -> Ints:
        """The same of each pixel before the pool."""
        pixels = pixels + L.RELU if self.planned.stage.activation is not None else pixels
        self.times.relu.append(pixels)
        return pixels

    def pooled(self, pixels: Ints) -> Ints:
        """Pixels of y, from those that the pool takes."""
        if self.pool is not None:
            cost = self.pool.words * self.pool.window.positions
            pixels = self._after("pool", pixels[self.pool_needed] + L.WINDOW + L.POOL, cost)
        self.times.y.append(pixels + L.FIFO)
        return pixels + L.FIFO

    def mask(self, dy: Ints) -> Ints:
        """Cycle in which the masked errors of each pixel enter the array's replay."""
        return self.masked(self.unpooled(dy))

    def unpooled(self, dy: Ints) -> Ints:
        """Cycle of the errors of each pixel that the pool took."""
        fold = self.fold
        dy = self._after("dy", dy - fold.y_words + 1, fold.y_words) - 1
        self.times.dy.append(dy)
        if self.pool is not None:
            cost = self.pool.words * self.pool.window.positions
            added = self._after("pool_col", dy + L.POOL - fold.y_words + 1, cost) - 1
            ready = added[self.pool_touching] + L.COL2IM + L.ROUND
            dy = self._after("unpool", ready, fold.y_words) - 1
        return dy

    def masked(self, dy: Ints) -> Ints:
        """Masked errors, from those of each pixel before the pool."""
        dy = dy + L.RELU if self.planned.stage.activation is not None else dy
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


def _down(times: Ints, stage: _Stage, source: tuple[int, int], pixels: int) -> Ints:
    """Pixels of a layer's errors through a Relane; where the layer above has flattened them, from its words."""
    own = (stage.planned.stage.N, stage.fold.pn)
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
        self.watch = Watch()
        self.stages = [_Stage(planned, k, self.watch) for k, planned in enumerate(plan.stages)]
        self.ends: dict[Any, int] = {}
        self.wholes: list[list[_Stage]] = [[] for _ in plan.network.stages]
        for stage in self.stages:
            self.wholes[stage.planned.stage.index].append(stage)

    def sample(self, offered: int) -> int:
        """The next sample through the whole chain, offered at that cycle; when its result is at the host."""
        network = self.plan.network
        y, side = self._through_stages(self._image(offered), self.plan.image_side)
        taken = y[-1:] + min(network.loss.classes, side[1]) - 1
        taken = self.watch.see("loss", np.maximum(taken, self.ends.get((-1, "loss"), -(1 << 40))), taken)
        self.ends[-1, "loss"] = int(taken[-1]) + L.loss_cycles(network.loss)
        self._errors(int(taken[-1]), len(y), side)
        home = sum(least_crossing(link, self.channel(link.index, "result")) for link in self.plan.links)
        return int(taken[-1]) + L.result_latency(network.loss) + home

    def _image(self, offered: int) -> Ints:
        """Pixels of an image, checked."""
        channels, (run, lanes) = self.plan.network.in_shape[2], self.plan.image_side
        words = np.full(self.plan.image_words, offered, dtype=np.int64)
        ends = chain(words, 1, self.ends.get((-1, "image"), 0))
        self.ends[-1, "image"] = int(ends[-1])
        last = (np.arange(channels, run + 1, channels) - 1) // lanes
        pixels: Ints = self.watch.see("image", ends, words).reshape(-1, -(-run // lanes))[:, last].ravel()
        return pixels - 1 + L.FRAME

    def _through_stages(self, y: Ints, side: tuple[int, int]) -> tuple[Ints, tuple[int, int]]:
        """Pixels of the last y, and their layout."""
        for i, parts in enumerate(self.wholes):
            board = parts[0].planned.board
            if i and board != self.wholes[i - 1][-1].planned.board:
                y = self.cross(y, board - 1, "x")
            y, side = self.forward(parts, y, side)
        return y, side

    def _errors(self, taken: int, pixels: int, side: tuple[int, int]) -> None:
        """The errors of a sample whose logits the loss has taken, back to the first layer that wants them."""
        loss = self.plan.network.loss
        slower = L.dz_latency(loss, 1) - loss.classes - 12
        last = taken + L.dz_latency(loss, side[1]) + max(0, loss.classes - side[1]) * slower
        dy: Ints | None = np.full(pixels, last, dtype=np.int64)
        for i, parts in reversed(list(enumerate(self.wholes))):
            own = parts[0].planned
            if dy is None or (own.stage.frozen and own.stage.dx is None):
                break
            dy = self.backward(parts, dy, side)
            side = (own.stage.cin, parts[0].fold.folding.pc)
            if dy is not None and i and self.wholes[i - 1][-1].planned.board != own.board:
                dy = self.cross(dy, own.board - 1, "dy")

    def marks(self) -> list[dict[Any, int]]:
        """Ends of all engines."""
        return [dict(ends) for ends in self._engines()]

    def _engines(self) -> list[dict[Any, int]]:
        return [self.ends, *(stage.end for stage in self.stages)]

    def repeat(self, count: int, before: list[dict[Any, int]]) -> None:
        """``count`` more samples that repeat the last one, before which ``marks`` were those."""
        for then, now in zip(before, self._engines(), strict=True):
            for name in now:
                now[name] += count * (now[name] - then[name])
        for stage in self.stages:
            for series in stage.times.samples:
                series.repeat(count)

    def cross(self, times: Ints, link: int, kind: str) -> Ints:
        """Pixels of a channel on the other side of a link."""
        plan, channel = self.plan.links[link], self.channel(link, kind)
        if channel.run > channel.high - channel.low:
            return self._cross_rows(times, link, channel)
        cost = -(-channel.words(plan.width) // len(times))
        ends = chain(times, cost, self.ends.get((link, kind), -(1 << 40)))
        self.ends[link, kind] = int(ends[-1])
        return arrivals(plan, channel, self.watch.see((link, kind), ends, times), cost)

    def _cross_rows(self, times: Ints, link: int, channel: Channel) -> Ints:
        """The same where channel words hold parts of several pixels of a row."""
        plan, each = self.plan.links[link], channel.high - channel.low
        edges = np.arange(channel.lanes, channel.run + channel.lanes, channel.lanes)
        ready = times.reshape(channel.pixels, -1)[:, (np.minimum(edges, channel.run) - 1) // each].ravel()
        ends = chain(ready, channel.beats(plan.width), self.ends.get((link, channel.kind), -(1 << 40)))
        self.ends[link, channel.kind] = int(ends[-1])
        ends = self.watch.see((link, channel.kind), ends, ready)
        there = arrivals(plan, channel, ends, channel.beats(plan.width)).reshape(channel.pixels, -1)
        return there[:, (np.arange(each, channel.run + 1, each) - 1) // channel.lanes].ravel()

    def channel(self, link: int, kind: str) -> Channel:
        """A channel of a link that carries something of a stage."""
        return channel_of(self.plan.links[link], kind)

    def in_order(self, board: int, what: str, cost: int, ready: Ints, *sources: Ints) -> Ints:
        """What follows each other, ``cost`` cycles each, and is ready when the last of ``sources`` is."""
        if not len(ready):
            return ready
        ends = chain(ready - cost, cost, self.ends.get((board, f"rows {what}"), -(1 << 40)))
        self.ends[board, f"rows {what}"] = int(ends[-1])
        return self.watch.see((board, f"rows {what}"), ends, *sources)

    def latest(self, stage: _Stage, what: str, *sources: Ints) -> Ints:
        """When all of them are there."""
        return self.watch.see((stage.number, f"latest {what}"), np.maximum(*sources), *sources)

    def forward(self, parts: list[_Stage], x: Ints, side: tuple[int, int]) -> tuple[Ints, tuple[int, int]]:
        """Pixels of y, and their layout, from those of x where the first part stands."""
        y: Ints | None = None
        if parts[0].planned.part.cut == "rows":
            first = parts[0].planned
            through = _through(x, side, (first.stage.cin, first.folding.pc))
            y = forward_rows(self, self.plan.whole(first), parts, through)
            return y, (parts[-1].planned.stage.N, parts[-1].fold.pn)
        for stage in parts:
            planned = stage.planned
            if not planned.part.first:
                x = self.cross(x, planned.board - 1, "x")
            own = (planned.stage.cin, stage.fold.folding.pc)
            taken = stage.take_x(_up(_through(x, side, own), planned.stage.window.pixels_in))
            pixels = stage.sums(taken)
            if planned.part.takes_sums and y is not None:
                pixels = self.latest(stage, "sums", pixels, self.cross(y, planned.board - 1, "sums"))
            if planned.part.sends_sums:
                stage.times.relu.append(pixels)
                stage.times.y.append(pixels)
                y = pixels
                continue
            own_y = stage.activate(pixels)
            if y is not None and planned.part.cut != "input_channels":
                own_y = self.latest(stage, "y", own_y, self.cross(y, planned.board - 1, "y"))
            y = own_y
        assert y is not None
        return y, (parts[-1].planned.stage.N, parts[-1].fold.pn)

    def backward(self, parts: list[_Stage], dy: Ints, side: tuple[int, int]) -> Ints | None:
        """Pixels of dx from those of the error of y where the last part stands."""
        dx: Ints | None = None
        back: Ints | None = None
        whole = self.plan.whole(parts[0].planned)
        errors = _down(dy, parts[-1], side, math.prod(whole.out_shape[:2]))
        if parts[0].planned.part.cut == "rows":
            return backward_rows(self, whole, parts, errors)
        for stage in reversed(parts):
            planned = stage.planned
            part = planned.part
            if not part.last:
                errors = self.cross(errors, planned.board, "dy")
                dx = self.cross(dx, planned.board, "dx") if dx is not None else None
                back = self.cross(back, planned.board, "back") if back is not None else None
            masked = stage.mask(errors)
            if part.cut == "input_channels":
                errors = masked
            own = stage.backward(masked)
            if own is None:
                continue
            if back is not None:
                own = self.latest(stage, "back", own, back if len(back) == len(own) else back[-1:])
            back = own if part.back_out(whole) else None
            if back is None and dx is not None:
                own = self.latest(stage, "dx", own, dx if len(dx) == len(own) else dx[-1:])
            dx = own if back is None else dx
        return dx

    def update(self, parts: list[_Stage], begin: int) -> list[int]:
        """First forward op of the next version, of every part that trains, behind a batch from sample ``begin`` on."""
        rule = self.plan.network.update
        done = [int(stage.times.backward[-1][-1]) - 1 for stage in parts]
        if parts[0].planned.part.shares_weights:
            placed = totals_placed(self.plan, [stage.planned for stage in parts], done)
            done = [at - L.settle(stage.planned) for at, stage in zip(placed, parts, strict=True)]
        for at, stage in zip(done, parts, strict=True):
            asked = stage.times.first_forward[begin]
            came = L.masters_come(stage.planned, asked, self.plan.links)
            stage.version = max(at + L.update_cycles(stage.planned, rule), came)
            stage.times.update.append(stage.version)
        return [stage.version for stage in parts]


def run_schedule(plan: Plan, samples: int, pace: int = 0) -> Times:
    """Times of ``samples`` training samples in batches, sample s offered at cycle s·``pace`` or later.

    Results are those at the host's port. Samples of a batch that repeat the one before, later, are not computed."""
    line, results = _Chain(plan), Series[int]()
    batch, last, sample = plan.network.update.batch, 0, 0
    while sample < samples:
        line.watch.begin(sample % batch == 0)
        before = line.marks()
        results.append(line.sample(sample * pace))
        end = min((sample // batch + 1) * batch, samples)
        if (more := end - sample - 1) and line.watch.steady:
            line.repeat(more, before)
            results.repeat(more)
            sample += more
        sample += 1
        if sample == end:
            trained = [parts for parts in line.wholes if not parts[0].planned.stage.frozen]
            begin = (sample - 1) // batch * batch
            last = max([last, *(version for parts in trained for version in line.update(parts, begin))])
    return Times([stage.times for stage in line.stages], results, max(last, results[-1]))
