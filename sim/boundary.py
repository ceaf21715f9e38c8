"""What crosses the links of one board, as the reference computes it: recorded words to feed, and words to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..ir.initial import Parameters
from ..ir.stage import Stage
from ..plan.links import Channel, LinkPlan
from ..plan.part import Part
from ..plan.plan import Plan
from ..ref.executor import Reference
from .compare import Comparison
from .layout import Layout, Words, pack_lanes, unpack_lanes
from .shares import (
    Batch,
    backward_sums,
    conv_rows,
    errors,
    forward_sums,
    gradient_sums,
    gradient_totals,
    inputs,
    new_masters,
    old_masters,
    row_sums,
    unpooled_sums,
)
from .surroundings import Samples

__all__ = ["AT_ONCE", "BoundaryStream", "Recording", "boundary_streams", "record"]

Ints = NDArray[np.int64]
AT_ONCE = 256
"""Samples of an evaluation that the reference takes at once."""
FORWARD = ("x", "y", "sums", "conv", "result")
"""Channels that carry something in inference, too."""
HOST = ("management", "label", "result")
"""Channels that the host's own ports stand for, towards the host."""


@dataclass(frozen=True)
class BoundaryStream:
    """A channel of a board's link, as the stream ``port`` of its top (see alone_top) in link words; something crosses
    once in ``every`` samples."""

    port: str
    link: LinkPlan
    channel: Channel
    every: int = 1

    @property
    def name(self) -> str:
        """As messages have it."""
        way = "down" if self.channel in self.link.down else "up"
        return f"link {self.link.index} {way}.{self.channel.kind}"

    @property
    def inference(self) -> bool:
        """It carries something in inference."""
        return self.channel.kind in FORWARD

    @property
    def words(self) -> int:
        """Link words at a time; of management none come."""
        return self.channel.words(self.link.width)

    @property
    def _layout(self) -> Layout:
        channel = self.channel
        return Layout((self.channel.pixels, 1, channel.run), 1, channel.lanes, channel.bits)

    def pack(self, values: Ints) -> Words:
        """[times, pixels, run] integers → link words [times·words, 32-bit words of each]."""
        layout, width = self._layout, self.link.width
        lanes = layout.to_lanes(values.reshape(len(values), self.channel.pixels, 1, self.channel.run))
        words = self.channel.beats(width) * width // 32
        return pack_lanes(lanes.reshape(-1, layout.lanes), layout.width, words).reshape(-1, width // 32)

    def unpack(self, words: Words) -> Ints:
        """Inverse of :meth:`pack`, of whole samples."""
        layout, width = self._layout, self.link.width
        whole = words.reshape(-1, self.channel.beats(width) * width // 32)
        values = layout.to_tensors(unpack_lanes(whole, layout.lanes, layout.width))
        return values.reshape(-1, self.channel.pixels, self.channel.run)


def boundary_streams(
    plan: Plan, board: int, batch: int | None = None
) -> tuple[list[BoundaryStream], list[BoundaryStream]]:
    """Streams into and out of a board's neighbours that are not the host's ports; ``batch`` samples make a batch, None:
    as many as the plan says."""
    sources, sinks = [], []
    batch = batch or plan.network.update.batch
    for side, index in (("up", board - 1), ("down", board)):
        if not 0 <= index < len(plan.links):
            continue
        link = plan.links[index]
        into, out = (link.down, link.up) if side == "up" else (link.up, link.down)
        host = HOST if side == "up" else ()
        never = () if side == "up" else ("management",)
        sources += [
            BoundaryStream(f"source_{side}_{channel.kind}", link, channel, batch if channel.batch else 1)
            for channel in into
            if channel.kind not in (*host, *never)
        ]
        sinks += [
            BoundaryStream(f"sink_{side}_{channel.kind}", link, channel, batch if channel.batch else 1)
            for channel in out
            if channel.kind not in host
        ]
    return sources, sinks


@dataclass
class Recording:
    """Words of every stream, in the order of feeding: ``fed`` by port, and ``wanted`` with the batch they belong
    to, (where, samples, words)."""

    plan: Plan
    board: int
    sources: Sequence[BoundaryStream]
    sinks: Sequence[BoundaryStream]
    fed: dict[str, list[Words]] = field(default_factory=dict)
    wanted: dict[str, list[tuple[str, int, Words]]] = field(default_factory=dict)

    def samples(self) -> dict[str, Samples]:
        """What the driver feeds."""
        empty = [np.zeros((0, stream.link.width // 32), np.uint32) for stream in self.sources]
        return {
            stream.port: Samples(
                np.concatenate([*self.fed[stream.port], none]), stream.words, stream.inference, stream.every
            )
            for stream, none in zip(self.sources, empty, strict=True)
        }

    def add(self, where: str, batch: Batch, labels: Ints, results: Ints) -> None:
        """Records a batch; ``results`` [B] as they cross."""
        for stream in self.sources:
            if batch.trace is not None or stream.inference:
                self.fed[stream.port].append(stream.pack(self._values(stream, batch, labels, results)))
        for stream in self.sinks:
            if stream.words and (batch.trace is not None or stream.inference):
                words = stream.pack(self._values(stream, batch, labels, results))
                self.wanted[stream.port].append((where, len(labels) // stream.every, words))

    def compare(self, got: dict[str, Words], comparison: Comparison) -> None:
        """Compares the words that came out of every sink with the recorded ones."""
        for stream in self.sinks:
            start, words = 0, got[stream.port]
            for where, count, wanted in self.wanted[stream.port]:
                part = words[start : start + len(wanted)]
                start += len(wanted)
                if len(part) != len(wanted):
                    break
                values = stream.unpack(part)
                comparison.equal(stream.name, where, values, stream.unpack(wanted), samples=True)
                stray = part ^ stream.pack(values)
                comparison.zero(stream.name, where, stray.reshape(count, -1).astype(np.int64))
            total = sum(len(wanted) for _, _, wanted in self.wanted[stream.port])
            comparison.equal(stream.name, "number of words", len(words), total)

    def _values(self, stream: BoundaryStream, batch: Batch, labels: Ints, results: Ints) -> Ints:
        """[times, pixels·run] in raster order."""
        plan, channel, count = self.plan, stream.channel, len(labels) // stream.every
        if channel.kind in ("label", "result"):
            return labels if channel.kind == "label" else results
        if channel.kind.startswith(("masters_", "updates_")):
            return self._masters(channel, batch).reshape(count, -1)
        stage = plan.network.stages[channel.stage]
        own = slice(channel.low, channel.high)
        # The part before the boundary tells what a channel of one kind carries.
        last = next(p for p in reversed(plan.stages) if p.board == stream.link.index)
        trace = batch.trace
        found: Ints | None
        if last.part.cut == "rows" and not last.part.last:
            return self._rows(last.part, stage, channel.kind, batch).reshape(count, -1)
        if channel.kind == "x":
            found = inputs(stage, batch)[..., own]
        elif channel.kind == "y":
            found = batch.y[stage.index][..., own]
        elif channel.kind == "sums":
            found = forward_sums(stage, batch, last.part.inputs(stage).stop)
        elif channel.kind == "back":
            found = backward_sums(stage, batch, last.part.outputs(stage).stop)
        elif channel.kind == "dx":
            assert trace is not None
            dx = trace.dx[stage.index]
            found = None if dx is None else dx[..., own]
        elif last.part.sends_sums:
            assert trace is not None
            found = trace.dy[stage.index]
        else:
            error = errors(plan.network, stage, batch)
            found = error if error is None or last.part.last else error[..., own]
        assert found is not None
        return np.ascontiguousarray(found).reshape(count, -1)

    def _masters(self, channel: Channel, batch: Batch) -> Ints:
        """All masters and a receipt; a request and all new masters."""
        kind, _, part = channel.kind.partition("_")
        planned, found = self.plan.stages[int(part)], np.zeros((channel.run,), np.int64)
        if kind == "masters":
            old = old_masters(self.plan.whole(planned), planned, batch).reshape(-1)
            found[: len(old)] = old
        else:
            new = new_masters(self.plan.network, planned, batch).reshape(-1)
            found[channel.lanes : channel.lanes + len(new)] = new
        return found

    def _rows(self, part: Part, stage: Stage, kind: str, batch: Batch) -> Ints:
        """What crosses behind a part of the rows of a stage."""
        rows, behind, trace = part.rows(stage), part.index + 1, batch.trace
        if kind == "x":
            return inputs(stage, batch)[:, rows.x_from(behind)]
        if kind == "y":
            return batch.y[stage.index][:, rows.y_before(behind)]
        if kind == "conv":
            return conv_rows(stage, batch)[:, rows.shared(behind)]
        assert trace is not None
        if kind == "unpooled":
            windows = np.concatenate([rows.y(p) for p in range(behind, part.count)])
            return unpooled_sums(self.plan.network, stage, batch, windows)[:, rows.shared(behind)]
        own = [rows.conv(p) for p in range(part.count)]
        if kind == "grads":
            return gradient_sums(stage, batch, np.concatenate(own[:behind]))
        if kind == "totals":
            return gradient_totals(stage, batch)
        if kind == "back":
            return row_sums(stage, batch, np.concatenate(own[behind:]))[:, rows.back(behind)]
        found = trace.dx[stage.index] if kind == "dx" else errors(self.plan.network, stage, batch)
        assert found is not None
        return np.ascontiguousarray(found[:, rows.dx(behind) if kind == "dx" else rows.y_before(behind)])


def record(
    plan: Plan, board: int, parameters: Parameters, images: Ints, labels: Ints, trained: Sequence[Ints],
    evaluated: Ints | None, batch: int | None = None,
) -> Recording:  # fmt: skip
    """Runs the reference over all batches of a simulation, sample numbers into ``images`` and ``labels``; ``batch``
    as boundary_streams has it."""
    sources, sinks = boundary_streams(plan, board, batch)
    recording = Recording(plan, board, sources, sinks)
    recording.fed = {stream.port: [] for stream in sources}
    recording.wanted = {stream.port: [] for stream in sinks}
    reference = Reference(plan.network, parameters)
    for number, samples in enumerate(trained):
        before, step = reference.parameters, reference.step
        trace = reference.train_batch(images[samples], labels[samples])
        found = Batch(images[samples], trace.y, before, step, trace)
        recording.add(f"batch {number}", found, labels[samples], trace.predictions | trace.losses << 16)
    chunks = [] if evaluated is None else np.split(evaluated, range(AT_ONCE, len(evaluated), AT_ONCE))
    for samples in chunks:
        forward = reference.forward(images[samples])
        found = Batch(images[samples], forward.y, reference.parameters, reference.step, None)
        recording.add("evaluation", found, labels[samples], forward.predictions)
    return recording
