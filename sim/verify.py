"""Compares everything that a run brought back with the reference, batch by batch in the order of
computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..plan.plan import StagePlan
from ..plan.registers import LINK_REGISTERS
from ..ref.executor import COUNTS, BatchTrace, Reference
from .boundary import AT_ONCE, Recording
from .compare import Comparison
from .layout import Words
from .program import Results
from .readback import Probe, counters, memories
from .session import Held, Session, StageWords
from .shares import Batch, own_share, part_counts

__all__ = ["Verifier", "counter_name"]

Ints = NDArray[np.int64]
Boundary = tuple[Recording, dict[str, Words]]
"""What should cross the links of a board alone, and what came out of them."""


def counter_name(count: str) -> str:
    """The device's name of a counter of ref.executor.COUNTS."""
    return count if count == "zero_updates" else f"{count}_saturated"


def _below(planned: StagePlan) -> int:
    """Bits of a master below those that are multiplied."""
    return planned.stage.master.width - planned.stage.w.width


class Verifier:
    """Walks a session beside a :class:`Reference` that starts from the same parameters.

    ``streams`` are the words of every probe. ``dump`` is a directory that gets one batch_NNNN.npz for every
    held batch: each tensor as the hardware ("conv1.y.hardware") and the reference ("conv1.y.reference") have
    it. ``boundary`` of a board alone is compared last.
    """

    def __init__(
        self, session: Session, reference: Reference, results: Results, streams: list[tuple[Probe, Words]],
        dump: Path | None = None, boundary: Boundary | None = None,
    ):  # fmt: skip
        self.session, self.reference, self.results, self.streams = session, reference, results, streams
        self.dump = dump
        self.comparison = Comparison()
        self.boundary = boundary
        self.totals = [dict.fromkeys(COUNTS, 0) for _ in session.plan.stages]
        self._dumped: dict[str, Ints] = {}
        self._sample = 0
        self._batch = 0

    def run(self) -> float | None:
        """Compares all; the accuracy of the evaluation, None without one. Raises MismatchError."""
        session, comparison = self.session, self.comparison
        fed = session.program.fed
        if len(self.results.predictions) != fed:
            comparison.equal("result", "number of results", len(self.results.predictions), fed)
        for probe, words in self.streams:
            if len(words) != session.recorded * probe.layout.beats:
                comparison.equal(
                    probe.name, "number of words", len(words), session.recorded * probe.layout.beats
                )
        for held in session.held:
            self._held(held)
        for samples in session.free:
            self._trace(samples, comparison)
        if session.trained:
            self._counters(session.counters, "at the end")
        for (board, side), part in session.links.items():
            overflow = int(self.results.reads[part][LINK_REGISTERS.index("overflow")])
            self.comparison.equal(f"board{board}.link{side}.overflow", "at the end", overflow, 0)
        accuracy = self._evaluate() if session.evaluated is not None else None
        if fed:
            self._memories(session.memories, "at the end")
        if self.boundary is not None:
            recording, crossed = self.boundary
            recording.compare(crossed, comparison)
        comparison.finish()
        return accuracy

    def _trace(self, samples: Ints, comparison: Comparison) -> BatchTrace:
        """Runs the reference on the next batch and compares its results within ``comparison``."""
        where = f"batch {self._batch}"
        reference, images = self.reference, self.session.images[samples]
        before, step = reference.parameters, reference.step
        trace = reference.train_batch(images, self.session.labels[samples])
        self._count(Batch(images, trace.y, before, step, trace))
        part = slice(self._sample, self._sample + len(samples))
        self._sample, self._batch = part.stop, self._batch + 1
        comparison.equal(
            "result.prediction", where, self.results.predictions[part], trace.predictions, samples=True
        )
        comparison.equal("result.loss", where, self.results.losses[part], trace.losses, samples=True)
        return trace

    def _count(self, batch: Batch) -> None:
        """Adds up what every part should count."""
        plan, trace = self.session.plan, batch.trace
        assert trace is not None
        for planned, totals in zip(plan.stages, self.totals, strict=True):
            whole = planned.part.cut == "whole"
            found = (
                trace.saturated[planned.stage.index] if whole else part_counts(plan.network, planned, batch)
            )
            for name, count in found.items():
                totals[name] += count

    def _held(self, held: Held) -> None:
        where, start = f"batch {self._batch}", self._sample
        plan = self.session.plan
        results = Comparison()
        trace = self._trace(held.samples, results)
        dz = trace.dz.reshape(len(held.samples), *plan.network.stages[-1].out_shape)
        wanted = {"y": trace.y, "dy": trace.dy, "dx": trace.dx, "dz": (dz,) * len(plan.network.stages)}
        for probe, words in self.streams:
            if probe.kind == "dz":
                self.comparison.add(results)  # results follow from the last y
            beats = probe.layout.beats
            got, padding = probe.tensors(words[start * beats : (start + len(held.samples)) * beats])
            planned = plan.stages[probe.stage]
            whole = np.asarray(wanted[probe.kind][planned.stage.index])
            if probe.kind != "dz":
                whole = own_share(planned.part, plan.whole(planned), probe.kind, whole)
            self._equal(probe.name, where, got, whole)
            self.comparison.zero(probe.name, where, padding)
        if not any(probe.kind == "dz" for probe, _ in self.streams):
            self.comparison.add(results)
        if held.gradients is not None:
            self._sums(held.gradients, trace, where)
        if held.memories is not None:
            self._memories(held.memories, f"after {where}")
        self._counters(held.counters, f"after {where}")
        if self.dump is not None:
            self.dump.mkdir(parents=True, exist_ok=True)
            np.savez(self.dump / f"batch_{self._batch - 1:04}.npz", **self._dumped)  # type: ignore[arg-type]
        self._dumped = {}

    def _equal(self, name: str, where: str, got: Ints, wanted: object, samples: bool = True) -> None:
        self.comparison.equal(name, where, got, wanted, samples)
        if self.dump is not None:
            self._dumped[f"{name}.hardware"] = got
            self._dumped[f"{name}.reference"] = np.asarray(wanted)

    def _memory(self, name: str, where: str, got: tuple[Ints, Ints], wanted: object) -> None:
        self._equal(name, where, got[0], wanted, samples=False)
        self.comparison.zero(name, where, got[1])

    def _sums(self, words: tuple[StageWords, ...], trace: BatchTrace, where: str) -> None:
        for i, planned in reversed(list(enumerate(self.session.plan.stages))):
            index = planned.stage.index
            wanted = self._part(planned, {"dw": trace.dw[index], "db": trace.db[index]})
            for name, got in memories(planned, words[i], self.results.reads).items():
                self._memory(f"{planned.stage.name}.{name}", where, got, wanted[name])

    def _memories(self, words: tuple[StageWords, ...], where: str) -> None:
        parameters = self.reference.parameters
        for i, (_, planned, _) in enumerate(self.session.parts):
            index = planned.stage.index
            wanted = self._part(
                planned,
                {
                    "weight": parameters.weights[index],
                    "multiplied": parameters.weights[index] >> _below(planned),
                    "bias": parameters.biases[index],
                },
            )
            for name, got in memories(planned, words[i], self.results.reads).items():
                self._memory(f"{planned.stage.name}.{name}", where, got, wanted[name])

    def _part(self, planned: StagePlan, tensors: dict[str, Ints | None]) -> dict[str, Ints | None]:
        """The share of a part in weights or their gradients [kh, kw, cin, Cout], and in biases or theirs [Cout]."""
        inputs, outputs = planned.part.weights(self.session.plan.whole(planned))
        return {
            name: None
            if tensor is None
            else tensor[:, :, inputs, outputs]
            if tensor.ndim == 4
            else tensor[outputs]
            for name, tensor in tensors.items()
        }

    def _counters(self, words: tuple[slice, ...], where: str) -> None:
        """Counters of every part, which counts its own channels; each has made every update."""
        for planned, part, totals in zip(self.session.plan.stages, words, self.totals, strict=True):
            name, got = planned.stage.name, counters(part, self.results.reads)
            updates = 0 if planned.stage.frozen else self.reference.step
            self.comparison.equal(f"{name}.updates", where, got["updates"], updates)
            for count, wanted in totals.items():
                found = counter_name(count)
                self.comparison.equal(f"{name}.{found}", where, got[found], wanted & 0xFFFFFFFF)

    def _evaluate(self) -> float:
        samples = self.session.evaluated
        assert samples is not None
        part = slice(self._sample, self._sample + len(samples))
        got = self.results.predictions[part]
        chunks = np.array_split(samples, range(AT_ONCE, len(samples), AT_ONCE))
        wanted = [self.reference.forward(self.session.images[chunk]).predictions for chunk in chunks]
        self.comparison.equal("result.prediction", "evaluation", got, np.concatenate(wanted), samples=True)
        self.comparison.equal(
            "result.loss", "evaluation", self.results.losses[part], np.zeros(len(samples)), samples=True
        )
        return float(np.mean(got == self.session.labels[samples])) if got.shape == samples.shape else 0.0
