"""What a driver is told to do and what it brings back: a directory of small files, the same for every driver.

In: ``program.txt``, one operation a line (see :class:`Program`), registers by board·65536 + address;
``images.bin`` (beats of all images, 32-bit words), ``labels.bin``, ``order.bin`` (numbers of the images in the
order of feeding), ``words.bin`` (data to load), ``shape.bin`` (beats of an image, words of a beat), and the
files of hwgen.sim.surroundings.

Out: ``results.bin`` (prediction, loss, cycle low, cycle high), ``feeds.bin`` (cycle of the first and the last
beat of each image, 64 bits), ``reads.bin`` (all words read), ``marks.bin`` (cycle and nanoseconds since the
start, 64 bits each), a file each probe stream and further stream out of the device (32-bit words of every beat),
``outcome.txt`` (name and values a line), ``outputs.txt`` (outputs that are no streams, at the end). Little-endian.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ToolError
from ..plan.registers import GLOBAL
from .layout import Layout, Words, pack_lanes
from .ports import Ports

__all__ = [
    "ARRAY_WORDS",
    "BOARD_STRIDE",
    "Outcome",
    "Program",
    "Results",
    "read_outcome",
    "read_results",
    "write_program",
]

Ints = NDArray[np.int64]
BOARD_STRIDE = 1 << 16
"""Distance in program.txt between the same register of two boards."""


ARRAY_WORDS = {"master": 0, "grad_low": 1, "grad_high": 2}
"""What the driver reads in a rolled array, past the device's registers."""


def _address(board: int, register: str) -> int:
    return board * BOARD_STRIDE + GLOBAL[register].address


@dataclass
class Program:
    """Operations in order. A read waits for all its answers; a write is done when the device has taken the
    command, not when it has come to its board; ``feed`` queues samples and goes on. So that samples never
    overtake the registers they depend on, ``feed`` first reads a word back from every board with such writes.

    ``reads`` counts the words that the read operations so far will have brought; each ``read`` returns the
    slice of ``reads.bin`` that its words will take.
    """

    lines: list[str] = field(default_factory=list)
    words: list[NDArray[np.uint32]] = field(default_factory=list)
    order: list[NDArray[np.uint32]] = field(default_factory=list)
    loaded: int = 0
    fed: int = 0
    reads: int = 0
    marks: int = 0
    unsettled: set[int] = field(default_factory=set)

    def write(self, register: str, value: int, board: int = 0) -> None:
        """Write a global register."""
        self.lines.append(f"write {_address(board, register)} {value & 0xFFFFFFFF}")
        self.unsettled.add(board)

    def load(self, register: str, values: Ints, board: int = 0) -> None:
        """Write all ``values`` to one register, one after the other."""
        self.lines.append(f"load {_address(board, register)} {self._hold(values)}")
        self.unsettled.add(board)

    def poke_array(self, stage: int, values: Ints, board: int = 0) -> None:
        """Put weights into a rolled array, those of a PE after those of the one before; its dW become 0."""
        self.lines.append(f"poke_array {board} {stage} {self._hold(values)}")

    def peek_array(self, stage: int, what: int, count: int, board: int = 0) -> slice:
        """Read a rolled array (``what`` of ARRAY_WORDS) in that order."""
        return self._peek(f"peek_array {board} {stage} {what}", count)

    def poke_memory(self, base: int, stride: int, values: Ints, board: int = 0) -> None:
        """Put elements of ``stride`` bytes into a board's external memory from byte ``base`` on."""
        self.lines.append(f"poke_memory {board} {base} {stride} {self._hold(values)}")

    def peek_memory(self, base: int, stride: int, bits: int, count: int, board: int = 0) -> slice:
        """Read signed elements of ``bits`` in the same way."""
        return self._peek(f"peek_memory {board} {base} {stride} {bits}", count)

    def _hold(self, values: Ints) -> str:
        flat = (np.asarray(values, dtype=np.int64).reshape(-1) & 0xFFFFFFFF).astype(np.uint32)
        self.words.append(flat)
        self.loaded += len(flat)
        return f"{self.loaded - len(flat)} {len(flat)}"

    def _peek(self, line: str, count: int) -> slice:
        self.lines.append(f"{line} {count}")
        self.reads += count
        return slice(self.reads - count, self.reads)

    def read(self, address: int, count: int = 1, step: int = 0, board: int = 0) -> slice:
        """Read ``count`` registers at ``address``, ``address`` + ``step``, ..."""
        self.lines.append(f"read {board * BOARD_STRIDE + address} {count} {step}")
        self.reads += count
        self.unsettled.discard(board)
        return slice(self.reads - count, self.reads)

    def feed(self, samples: Ints, train: bool) -> None:
        """Queue images (numbers into the program's images), with their labels if ``train``."""
        for board in sorted(self.unsettled):
            self.read(GLOBAL["id"].address, board=board)
        self.lines.append(f"feed {self.fed} {len(samples)} {int(train)}")
        self.order.append(np.asarray(samples).astype(np.uint32))
        self.fed += len(samples)

    def results(self, total: int) -> None:
        """Wait until the device has given ``total`` results since reset."""
        self.lines.append(f"results {total}")

    def status(self, mask: int, value: int, board: int = 0) -> None:
        """Wait until a board's status & ``mask`` equals ``value``."""
        self.lines.append(f"status {mask} {value} {board}")
        self.unsettled.discard(board)

    def received(self, sink: int, words: int) -> None:
        """Wait until the further stream out of the device with that number (of Ports.sinks) has given ``words``."""
        self.lines.append(f"received {sink} {words}")

    def record(self, on: bool) -> None:
        """Start or stop the recording of the probe streams."""
        self.lines.append(f"record {int(on)}")

    def mark(self) -> int:
        """Note the cycle and the time at which the program came here; the number of the mark."""
        self.lines.append("mark")
        self.marks += 1
        return self.marks - 1


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``end`` is "done", "watchdog" or "limit"; bits of the channels in its last cycle.

    ``op`` is the number of the program's line that was waiting, ``fed`` and ``unfed`` count images handed to
    the driver and those that the device has not taken, ``bus_waits`` tells of a command that is not taken or
    has no answer. ``status`` is the status register after a hang, None where it was not asked or gave no answer.
    """

    end: str
    cycles: int
    seconds: float
    op: int
    fed: int
    unfed: int
    results: int
    bus_waits: bool
    valid: int
    ready: int
    status: int | None = None


@dataclass(frozen=True)
class Results:
    """What came out: [results] each; ``feeds`` is [images, 2] cycles of first and last beat, ``marks``
    [marks, 2] cycle and nanoseconds."""

    predictions: Ints
    losses: Ints
    cycles: Ints
    feeds: Ints
    reads: Words
    marks: Ints


def write_program(
    directory: Path, program: Program, ports: Ports, layout: Layout, images: Ints, labels: Ints
) -> None:
    """Writes all input files but those of hwgen.sim.surroundings. ``images`` is [N, H, W, C] in the input format,
    laid out by ``layout``; a device without an image port gets none."""
    directory.mkdir(parents=True, exist_ok=True)
    if "image" in ports.sources:
        beats = layout.to_lanes(images.reshape(len(images), *layout.shape)).reshape(-1, layout.lanes)
        words = pack_lanes(beats, layout.width, ports.words("image"))
        last = layout.lanes * layout.width
        words[layout.beats - 1 :: layout.beats, last // 32] |= np.uint32(1 << last % 32)
        words.tofile(directory / "images.bin")
        np.asarray([layout.beats, words.shape[1]], dtype=np.uint32).tofile(directory / "shape.bin")
    labels.astype(np.uint32).tofile(directory / "labels.bin")
    empty = [np.zeros(0, dtype=np.uint32)]
    np.concatenate([*program.order, *empty]).tofile(directory / "order.bin")
    np.concatenate([*program.words, *empty]).tofile(directory / "words.bin")
    (directory / "program.txt").write_text("\n".join(program.lines) + "\n")


def _join(values: list[str]) -> int:
    return sum(int(value) << (32 * i) for i, value in enumerate(values))


def read_outcome(directory: Path) -> Outcome:
    """Reads outcome.txt. Raises ToolError if the driver left none."""
    path = directory / "outcome.txt"
    if not path.exists():
        raise ToolError(f"simulation: no {path.name}; the driver ended before the program did")
    fields = {words[0]: words[1:] for line in path.read_text().splitlines() if (words := line.split())}
    number = {name: int(fields[name][0]) for name in ("cycles", "op", "fed", "unfed", "results", "bus_waits")}
    return Outcome(
        end=fields["end"][0], seconds=float(fields["seconds"][0]), valid=_join(fields["valid"]),
        ready=_join(fields["ready"]), cycles=number["cycles"], op=number["op"], fed=number["fed"],
        unfed=number["unfed"], results=number["results"], bus_waits=bool(number["bus_waits"]),
        status=int(fields["status"][0]) if "status" in fields else None,
    )  # fmt: skip


def read_results(directory: Path) -> Results:
    """Reads the drivers' output files (those of an interrupted run hold what came until then)."""
    raw = np.fromfile(directory / "results.bin", dtype=np.uint32)
    table = raw[: len(raw) // 4 * 4].reshape(-1, 4).astype(np.int64)
    return Results(
        predictions=table[:, 0],
        losses=table[:, 1],
        cycles=table[:, 2] | table[:, 3] << 32,
        feeds=np.fromfile(directory / "feeds.bin", dtype=np.int64).reshape(-1, 2),
        reads=np.fromfile(directory / "reads.bin", dtype=np.uint32),
        marks=np.fromfile(directory / "marks.bin", dtype=np.int64).reshape(-1, 2),
    )
