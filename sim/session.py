"""What a simulation does, batch by batch, as a program for the drivers, and where its answers will lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset
from ..errors import DataError
from ..ir.initial import Parameters
from ..plan.plan import Plan, StagePlan
from ..plan.registers import (
    CONTROL_HOLD,
    CONTROL_TRAIN,
    GLOBAL,
    SPACES,
    STAGE_COUNTERS,
    STATUS_HELD,
    STATUS_IDLE,
    stage_register,
)  # fmt: skip
from ..plan.weights import bias_image, weight_image
from ..ref.trainer import batches
from .program import Program

__all__ = ["FREE_BATCHES", "Held", "Session", "Snapshot", "StageWords", "waiting_for"]

Ints = NDArray[np.int64]
FREE_BATCHES = 2
"""Batches that run without a hold behind the held ones; the second of them is measured."""

Words = slice | None


@dataclass(frozen=True)
class StageWords:
    """Slices of ``reads.bin`` that hold one stage's memories; None where one was not read.

    ``grad`` and ``bias_grad`` are (low, high) words; high is None where the low word holds the whole sum.
    """

    master: Words = None
    bias: Words = None
    grad: tuple[Words, Words] = (None, None)
    bias_grad: tuple[Words, Words] = (None, None)


@dataclass(frozen=True)
class Held:
    """A batch whose gradients (if ``gradients`` is not None) and memories were read; ``counters`` after its
    update."""

    samples: Ints
    gradients: tuple[StageWords, ...] | None
    memories: tuple[StageWords, ...] | None
    counters: tuple[slice, ...]


@dataclass(frozen=True)
class Snapshot:
    """Counters at one instant: ``cycle`` (low, high), ``stages[i]`` the first three (busy cycles of the
    passes)."""

    cycle: slice
    stages: tuple[slice, ...]


@dataclass
class Session:
    """The program of a simulation and what belongs to each of its parts, in the order of execution.

    Sample numbers index ``images`` and ``labels``: the training samples, then the held-out ones. ``start``
    and ``idle`` are the marks around the free-running batches.
    """

    plan: Plan
    images: Ints
    labels: Ints
    program: Program = field(default_factory=Program)
    build: slice = field(default_factory=lambda: slice(0))
    held: list[Held] = field(default_factory=list)
    free: list[Ints] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    start: int = 0
    idle: int = 0
    counters: tuple[slice, ...] = ()
    evaluated: Ints | None = None
    memories: tuple[StageWords, ...] = ()
    status: slice = field(default_factory=lambda: slice(0))

    @classmethod
    def prepare(
        cls, plan: Plan, parameters: Parameters, dataset: Dataset, *, batches: int | None, epochs: int | None,
        evaluate: bool, gradients: bool, seed: int,
    ) -> Session:  # fmt: skip
        """Loads ``parameters``, trains ``batches`` held and two free batches, or ``epochs`` free ones, and
        evaluates.

        ``dataset`` is quantised, ``seed`` orders the samples. Without ``gradients`` nothing is read between
        batches. Raises DataError if there are fewer training samples than a batch takes, or none to evaluate.
        """
        if evaluate and not len(dataset.test_images):
            raise DataError(
                "test_images: none to evaluate; give held-out samples or leave the evaluation out"
            )
        images, labels = [dataset.train_images], [dataset.train_labels]
        if evaluate:
            images.append(dataset.test_images)
            labels.append(dataset.test_labels)
        pictures, classes = np.concatenate(images).astype(np.int64), np.concatenate(labels).astype(np.int64)
        session = cls(plan, pictures, classes)
        session._set_up(parameters)
        count = len(dataset.train_images)
        order = _order(count, plan.network.update.batch, batches, epochs, seed)
        if batches is not None:
            for samples in islice(order, batches):
                session._hold(samples, gradients)
        session._run_free(list(order))
        session.counters = session._read_counters()
        if evaluate:
            session._evaluate(np.arange(count, len(pictures), dtype=np.int64))
        session.memories = session._read_memories()
        session.status = session.program.read(GLOBAL["status"].address)
        return session

    @property
    def trained(self) -> list[Ints]:
        """Sample numbers of all training batches."""
        return [*(held.samples for held in self.held), *self.free]

    @property
    def recorded(self) -> int:
        """Samples whose tensors the probes show: those of the held batches, which come first."""
        return sum(len(held.samples) for held in self.held)

    def _set_up(self, parameters: Parameters) -> None:
        program, update = self.program, self.plan.network.update
        self.build = program.read(GLOBAL["id"].address, 2, 1)
        for planned, weights, biases in zip(
            self.plan.stages, parameters.weights, parameters.biases, strict=True
        ):
            self._select(planned, "master")
            program.load("data", weight_image(planned.fold, weights))
            if biases is not None:
                self._select(planned, "bias")
                program.load("data", bias_image(planned.fold, biases).T)
        program.write("rate", update.rate)
        program.write("batch", update.batch)
        program.write("seed", update.seed)

    def _hold(self, samples: Ints, gradients: bool) -> None:
        program = self.program
        program.record(True)
        program.write("control", CONTROL_TRAIN | (CONTROL_HOLD if gradients else 0))
        program.feed(samples, train=True)
        program.results(program.fed)
        sums = None
        if gradients:
            program.status(STATUS_HELD, STATUS_HELD)
            sums = tuple(self._read_gradients(planned) for planned in self.plan.stages)
            program.write("control", CONTROL_TRAIN)
        program.status(STATUS_IDLE, STATUS_IDLE)
        program.record(False)
        memories = self._read_memories() if gradients else None
        self.held.append(Held(samples, sums, memories, self._read_counters()))

    def _run_free(self, free: list[Ints]) -> None:
        """All batches queued at once; the second one is measured where a batch is long enough."""
        program = self.program
        before = program.fed
        program.write("control", CONTROL_TRAIN)
        self.start = program.mark()
        self.free = free
        if free:
            program.feed(np.concatenate(free), train=True)
        first, last = self.plan.prediction.steady
        if len(free) >= FREE_BATCHES and first < last < len(free[1]):
            for steady in (first, last):
                program.results(before + len(free[0]) + steady + 1)
                self.snapshots.append(self._snapshot())
        program.results(program.fed)
        program.status(STATUS_IDLE, STATUS_IDLE)
        self.idle = program.mark()

    def _evaluate(self, samples: Ints) -> None:
        program = self.program
        program.write("control", 0)
        program.feed(samples, train=False)
        program.results(program.fed)
        program.status(STATUS_IDLE, STATUS_IDLE)
        self.evaluated = samples

    def _snapshot(self) -> Snapshot:
        self.program.write("snapshot", 0)
        cycle = self.program.read(GLOBAL["cycles_low"].address, 2, 1)
        passes = [
            self.program.read(stage_register(i, "forward_ops"), 3, 1) for i in range(len(self.plan.stages))
        ]
        return Snapshot(cycle, tuple(passes))

    def _read_counters(self) -> tuple[slice, ...]:
        self.program.write("snapshot", 0)
        first, count = STAGE_COUNTERS[0], len(STAGE_COUNTERS)
        return tuple(
            self.program.read(stage_register(i, first), count, 1) for i in range(len(self.plan.stages))
        )

    def _select(self, planned: StagePlan, space: str) -> None:
        self.program.write("space", planned.stage.index * 16 + SPACES[space])
        self.program.write("pointer", 0)

    def _read(self, planned: StagePlan, space: str) -> slice:
        fold = planned.fold
        weights = fold.pk * fold.pn * fold.depth
        self._select(planned, space)
        return self.program.read(
            GLOBAL["data"].address, fold.pn * fold.y_words if "bias" in space else weights
        )

    def _read_sums(self, planned: StagePlan, space: str, bits: int) -> tuple[slice, Words]:
        low = self._read(planned, f"{space}_low")
        return low, self._read(planned, f"{space}_high") if bits > 32 else None

    def _read_gradients(self, planned: StagePlan) -> StageWords:
        stage, batch = planned.stage, self.plan.network.update.batch
        if stage.frozen:
            return StageWords()
        grad = self._read_sums(planned, "grad", stage.grad_bits(batch))
        if stage.bias is None:
            return StageWords(grad=grad)
        return StageWords(
            grad=grad, bias_grad=self._read_sums(planned, "bias_grad", stage.bias_grad_bits(batch))
        )

    def _read_memories(self) -> tuple[StageWords, ...]:
        return tuple(
            StageWords(self._read(p, "master"), self._read(p, "bias") if p.stage.bias is not None else None)
            for p in self.plan.stages
        )


def _order(samples: int, batch: int, held: int | None, epochs: int | None, seed: int) -> Iterator[Ints]:
    """Sample numbers of every batch: ``epochs`` whole epochs, or ``held`` batches and FREE_BATCHES more, if
    any."""
    if held is None:
        return batches(samples, batch, epochs, seed) if epochs else iter(())
    wanted = held + FREE_BATCHES if held else 0
    needed = -(-wanted // max(1, samples // batch))
    return islice(batches(samples, batch, needed, seed), wanted)


def waiting_for(program: Program, op: int) -> str:
    """What the program's line ``op`` waits for, in words."""
    if op >= len(program.lines):
        return "the end"
    name, *numbers = program.lines[op].split()
    if name == "results":
        return f"result {numbers[0]}"
    if name == "status":
        return {STATUS_HELD: "all gradients of a batch", STATUS_IDLE: "the device to be idle"}[
            int(numbers[0])
        ]
    return f"register {numbers[0]}"
