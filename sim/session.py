"""What a simulation does, batch by batch, as a program for the drivers, and where its answers will lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset
from ..errors import DataError
from ..ir.initial import Parameters
from ..plan.links import SIDE_DOWN, SIDE_UP
from ..plan.memory import Region, own_region, regions
from ..plan.plan import Plan, StagePlan
from ..plan.registers import (
    CONTROL_HOLD,
    CONTROL_TRAIN,
    GLOBAL,
    LINK_REGISTERS,
    SPACES,
    STAGE_COUNTERS,
    STATUS_HELD,
    STATUS_IDLE,
    link_register,
    stage_register,
)  # fmt: skip
from ..plan.weights import bias_image, weight_image
from ..ref.trainer import batches
from .boundary import BoundaryStream
from .program import ARRAY_WORDS, Program

__all__ = ["FREE_BATCHES", "Held", "Session", "Snapshot", "StageWords", "waiting_for"]

Ints = NDArray[np.int64]
FREE_BATCHES = 2
"""Batches that run without a hold behind the held ones; the second of them is measured."""

Words = slice | None


@dataclass(frozen=True)
class StageWords:
    """Slices of ``reads.bin`` that hold one stage's memories; None where one was not read.

    ``region`` has the masters where they are elsewhere, ``master`` then only the weights. ``grad`` and ``bias_grad``
    are (low, high) words; high is None where the low word holds the whole sum.
    """

    master: Words = None
    region: Words = None
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
    """Counters of every board at one instant of its own: ``cycles[board]`` (low, high), ``stages[i]`` the first three
    (busy cycles of the passes)."""

    cycles: tuple[slice, ...]
    stages: tuple[slice, ...]


@dataclass
class Session:
    """The program of a simulation and what belongs to each of its parts, in the order of execution.

    ``chain`` is the plan of all boards where ``plan`` is that of one of them. Sample numbers index
    ``images`` and ``labels``: the training samples, then the held-out ones. ``start``
    and ``idle`` are the marks around the free-running batches. ``build`` and ``status`` hold a slice a board, ``links``
    the registers of link ends by (board, side). ``sinks``: further streams out of the device, whose words belong to
    the samples fed.
    """

    plan: Plan
    images: Ints
    labels: Ints
    batch: int
    backdoor: bool = False
    program: Program = field(default_factory=Program)
    build: tuple[slice, ...] = ()
    held: list[Held] = field(default_factory=list)
    free: list[Ints] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    start: int = 0
    idle: int = 0
    counters: tuple[slice, ...] = ()
    evaluated: Ints | None = None
    memories: tuple[StageWords, ...] = ()
    status: tuple[slice, ...] = ()
    links: dict[tuple[int, int], slice] = field(default_factory=dict)
    sinks: Sequence[BoundaryStream] = ()
    chain: Plan | None = None
    _due: list[int] = field(default_factory=list)

    @classmethod
    def prepare(
        cls, plan: Plan, parameters: Parameters, dataset: Dataset, *, batches: int | None, epochs: int | None,
        evaluate: bool, gradients: bool, seed: int, sinks: Sequence[BoundaryStream] = (), chain: Plan | None = None,
        batch: int | None = None, timing: bool = True, backdoor: bool = False,
    ) -> Session:  # fmt: skip
        """Loads ``parameters``, trains ``batches`` held and, if ``timing``, two free batches, or ``epochs`` free ones,
        and evaluates.

        ``dataset`` is quantised, ``seed`` orders the samples. Without ``gradients`` nothing is read between
        batches. ``batch`` samples make a batch, None: as many as the plan says. ``backdoor``: the driver itself reads
        and writes the memories of arrays, which are rolled, and external memory. Raises DataError if there are fewer
        training samples than a batch takes, or none to evaluate.
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
        size = batch or plan.network.update.batch
        session = cls(
            plan, pictures, classes, size, backdoor, sinks=sinks, chain=chain, _due=[0] * len(sinks)
        )
        session._set_up(parameters)
        count = len(dataset.train_images)
        order = _order(count, size, batches, epochs, seed, timing)
        if batches is not None:
            for samples in islice(order, batches):
                session._hold(samples, gradients)
        session._run_free(list(order))
        session.counters = session._read_counters()
        if evaluate:
            session._evaluate(np.arange(count, len(pictures), dtype=np.int64))
        session.memories = session._read_memories()
        session._read_links()
        status = GLOBAL["status"].address
        session.status = tuple(session.program.read(status, board=board) for board in session.boards)
        return session

    @property
    def boards(self) -> tuple[int, ...]:
        """Numbers of the boards."""
        return self.plan.present

    @property
    def parts(self) -> list[tuple[int, StagePlan, bool]]:
        """Number in the whole chain, plan, and whether it is here itself, of every part that has memories here: all of
        ``plan.stages``, then those of boards beside whose masters lie here."""
        chain = self.chain or self.plan
        first = chain.stages.index(self.plan.stages[0])
        own = range(first, first + len(self.plan.stages))
        guests = [r.part for r in regions(chain) if r.board in self.boards and r.part not in own]
        return [(k, chain.stages[k], k in own) for k in (*own, *guests)]

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
        self.build = tuple(program.read(GLOBAL["id"].address, 2, 1, board=board) for board in self.boards)
        for i, (number, planned, here) in enumerate(self.parts):
            whole, index = self.plan.whole(planned), planned.stage.index
            inputs, outputs = planned.part.weights(whole)
            weights, biases = parameters.weights[index], parameters.biases[index]
            own = weights[:, :, inputs, outputs]
            self._load_region(number, own)
            if not here:
                continue
            if planned.storage.master != "here":
                own = own >> (planned.stage.master.width - planned.stage.w.width)
            image = weight_image(planned.fold, own)
            if self.backdoor:
                program.poke_array(self.plan.numbers[i], image, planned.board)
            else:
                self._select(i, "master")
                program.load("data", image, planned.board)
            if biases is not None and planned.stage.bias is not None:
                self._select(i, "bias")
                program.load("data", bias_image(planned.fold, biases[outputs]).T, planned.board)
        for name, value in (("rate", update.rate), ("batch", self.batch), ("seed", update.seed)):
            self._write_all(name, value)

    def _write_all(self, register: str, value: int) -> None:
        for board in self.boards:
            self.program.write(register, value, board)

    def _wait_all(self, bits: int) -> None:
        """Until the status of every board has ``bits``; the first board's also tells that all results are out."""
        for board in self.boards:
            self.program.status(bits, bits, board)

    def _feed(self, samples: Ints, train: bool) -> None:
        self.program.feed(samples, train)
        for i, stream in enumerate(self.sinks):
            if train or stream.inference:
                self._due[i] += len(samples) // stream.every * stream.words

    def _finish(self, held: bool = False) -> None:
        """Until all results and all words of further streams are out; new masters only where no update is held."""
        self.program.results(self.program.fed)
        for i, words in enumerate(self._due):
            if not (held and self.sinks[i].channel.kind.startswith("updates_")):
                self.program.received(i, words)

    def _hold(self, samples: Ints, gradients: bool) -> None:
        program = self.program
        program.record(True)
        self._write_all("control", CONTROL_TRAIN | (CONTROL_HOLD if gradients else 0))
        self._feed(samples, train=True)
        self._finish(held=gradients)
        sums = None
        if gradients:
            self._wait_all(STATUS_HELD)
            sums = tuple(self._read_gradients(i) for i in range(len(self.plan.stages)))
            self._write_all("control", CONTROL_TRAIN)
        self._wait_all(STATUS_IDLE)
        program.record(False)
        memories = self._read_memories() if gradients else None
        self.held.append(Held(samples, sums, memories, self._read_counters()))

    def _run_free(self, free: list[Ints]) -> None:
        """All batches queued at once; the second one is measured where a batch is long enough."""
        program = self.program
        before = program.fed
        self._write_all("control", CONTROL_TRAIN)
        self.start = program.mark()
        self.free = free
        if free:
            self._feed(np.concatenate(free), train=True)
        first, last = self.plan.prediction.steady
        if len(free) >= FREE_BATCHES and first < last < len(free[1]):
            for steady in (first, last):
                program.results(before + len(free[0]) + steady + 1)
                self.snapshots.append(self._snapshot())
        self._finish()
        self._wait_all(STATUS_IDLE)
        self.idle = program.mark()

    def _evaluate(self, samples: Ints) -> None:
        self._write_all("control", 0)
        self._feed(samples, train=False)
        self._finish()
        self._wait_all(STATUS_IDLE)
        self.evaluated = samples

    def _snapshot(self) -> Snapshot:
        self._write_all("snapshot", 0)
        low = GLOBAL["cycles_low"].address
        cycles = tuple(self.program.read(low, 2, 1, board=board) for board in self.boards)
        return Snapshot(cycles, tuple(self._counters("forward_ops", 3)))

    def _counters(self, first: str, count: int) -> list[slice]:
        """Reads ``count`` counters of every stage from ``first`` on."""
        places = zip(self.plan.stages, self.plan.numbers, strict=True)
        return [
            self.program.read(stage_register(number, first), count, 1, board=planned.board)
            for planned, number in places
        ]

    def _read_counters(self) -> tuple[slice, ...]:
        self._write_all("snapshot", 0)
        return tuple(self._counters(STAGE_COUNTERS[0], len(STAGE_COUNTERS)))

    def _read_links(self) -> None:
        """State, peer and counters of the link ends at all boards, as of the last snapshot."""
        for link in self.plan.cables:
            for board, side in ((link.index, SIDE_DOWN), (link.index + 1, SIDE_UP)):
                if board in self.boards:
                    first = link_register(side, LINK_REGISTERS[0])
                    self.links[board, side] = self.program.read(first, len(LINK_REGISTERS), 1, board=board)

    def _select(self, i: int, space: str) -> None:
        board = self.plan.stages[i].board
        self.program.write("space", self.plan.numbers[i] * 16 + SPACES[space], board)
        self.program.write("pointer", 0, board)

    def _select_region(self, part: int) -> Region | None:
        """Selects the masters of a part of the chain if they are elsewhere, on a board that is simulated: their
        region."""
        found = own_region(self.chain or self.plan, part)
        if found is None or found[0].board not in self.boards:
            return None
        region, number = found
        self.program.write("space", len(self.plan.on(region.board)) + number << 4, region.board)
        self.program.write("pointer", 0, region.board)
        return region

    def _load_region(self, part: int, masters: Ints) -> None:
        region = self._select_region(part)
        if region is not None and self.backdoor and region.external:
            self.program.poke_memory(region.base, region.stride, masters, region.board)
        elif region is not None:
            self.program.load("data", masters, region.board)

    def _read_region(self, part: int) -> Words:
        region = self._select_region(part)
        if region is None:
            return None
        data = GLOBAL["data"].address
        if not (self.backdoor and region.external):
            return self.program.read(data, region.count, board=region.board)
        self.program.read(data, board=region.board)  # answered when all updates are in memory
        return self.program.peek_memory(region.base, region.stride, region.bits, region.count, region.board)

    def _read(self, i: int, space: str) -> slice:
        planned = self.plan.stages[i]
        fold = planned.fold
        words = fold.pn * fold.y_words if "bias" in space else fold.pk * fold.pn * fold.depth
        if self.backdoor and space in ARRAY_WORDS:
            return self.program.peek_array(self.plan.numbers[i], ARRAY_WORDS[space], words, planned.board)
        self._select(i, space)
        return self.program.read(GLOBAL["data"].address, words, board=planned.board)

    def _read_sums(self, i: int, space: str, bits: int) -> tuple[slice, Words]:
        low = self._read(i, f"{space}_low")
        return low, self._read(i, f"{space}_high") if bits > 32 else None

    def _read_gradients(self, i: int) -> StageWords:
        stage, batch = self.plan.stages[i].stage, self.plan.network.update.batch
        if stage.frozen:
            return StageWords()
        grad = self._read_sums(i, "grad", stage.grad_bits(batch))
        if stage.bias is None:
            return StageWords(grad=grad)
        return StageWords(grad=grad, bias_grad=self._read_sums(i, "bias_grad", stage.bias_grad_bits(batch)))

    def _read_memories(self) -> tuple[StageWords, ...]:
        """Of all ``parts``."""
        return tuple(
            StageWords(
                self._read(i, "master") if here else None,
                self._read_region(number),
                self._read(i, "bias") if here and planned.stage.bias is not None else None,
            )
            for i, (number, planned, here) in enumerate(self.parts)
        )


def _order(
    samples: int, batch: int, held: int | None, epochs: int | None, seed: int, timing: bool
) -> Iterator[Ints]:
    """Sample numbers of every batch: ``epochs`` whole epochs, or ``held`` batches and FREE_BATCHES more, if any and
    ``timing``."""
    if held is None:
        return batches(samples, batch, epochs, seed) if epochs else iter(())
    wanted = held + FREE_BATCHES * timing if held else 0
    needed = -(-wanted // max(1, samples // batch))
    return islice(batches(samples, batch, needed, seed), wanted)


def waiting_for(program: Program, op: int, sinks: Sequence[BoundaryStream] = ()) -> str:
    """What the program's line ``op`` waits for, in words."""
    if op >= len(program.lines):
        return "the end"
    name, *numbers = program.lines[op].split()
    if name == "results":
        return f"result {numbers[0]}"
    if name == "received":
        return f"word {numbers[1]} of {sinks[int(numbers[0])].name}"
    if name == "status":
        return {STATUS_HELD: "all gradients of a batch", STATUS_IDLE: "the device to be idle"}[
            int(numbers[0])
        ]
    return f"register {numbers[0]}"
