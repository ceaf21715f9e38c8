"""What a driver is told of a device's surroundings: clocks, resets, settings of cables, further streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import BuildError
from .ports import Ports

__all__ = [
    "Clock",
    "Reset",
    "Samples",
    "Setting",
    "Surroundings",
    "read_outputs",
    "read_sink",
    "write_surroundings",
]


@dataclass(frozen=True)
class Clock:
    """Bit ``index`` of the input ``name`` falls at ``phase`` + n·``period`` and rises half a period later (ps)."""

    name: str = "clk"
    index: int = 0
    period: int = 10_000
    phase: int = 0


@dataclass(frozen=True)
class Reset:
    """Bit ``index`` of ``name`` is 1 until the first fall of clock number ``clock`` at ``release`` (ps) or
    later."""

    name: str = "rst"
    index: int = 0
    release: int = 40_000
    clock: int = 0


@dataclass(frozen=True)
class Setting:
    """Bits ``low`` .. ``low`` + ``width`` - 1 (at most 64) of an input; from the start on, or from the fall of
    clock number ``clock`` after ``cycle`` of its rising edges."""

    name: str
    low: int
    width: int
    value: int
    clock: int | None = None
    cycle: int = 0


@dataclass(frozen=True)
class Samples:
    """What is fed to a further source: ``words`` [beats of all samples, words a beat] of 32 bits, ``beats`` a
    sample. Every ``feed`` queues as many samples as it names; one of inference only if ``inference``. What comes once
    in ``every`` samples is queued with the first of them."""

    words: NDArray[np.uint32]
    beats: int
    inference: bool = True
    every: int = 1


@dataclass(frozen=True)
class Surroundings:
    """All of it. The first clock is the host's, and the end of the first reset starts the program; without clocks
    there are ``clk`` and ``rst`` of a single device."""

    clocks: Sequence[Clock] = ()
    resets: Sequence[Reset] = ()
    settings: Sequence[Setting] = ()
    sources: Mapping[str, Samples] | None = None


def write_surroundings(directory: Path, around: Surroundings, ports: Ports) -> None:
    """Writes clocks.txt, settings.txt, sources.txt and a file a source.

    Raises BuildError if the device has no such input, bit or source, or a source has no samples.
    """
    sources = around.sources or {}
    lines = [f"clock {clock.name} {clock.index} {clock.period} {clock.phase}" for clock in around.clocks]
    lines += [f"reset {reset.name} {reset.index} {reset.release} {reset.clock}" for reset in around.resets]
    pins = [(clock.name, clock.index) for clock in around.clocks]
    pins += [(reset.name, reset.index) for reset in around.resets]
    for name, index in pins:
        _check(ports, name, index, 1)
    further = [name for name in ports.sources if name not in ("image", "label")]
    for name in sorted({*further} ^ {*sources}):
        what = "has no samples" if name in further else "is no stream into it"
        raise BuildError(f"device {ports.module}: {name} {what}; sources are {', '.join(further) or 'none'}")
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "clocks.txt", lines)
    lines = []
    for one in around.settings:
        _check(ports, one.name, one.low, one.width)
        when = f" {one.clock} {one.cycle}" if one.clock is not None else ""
        lines.append(f"{one.name} {one.low} {one.width} {one.value}{when}")
    _write(directory / "settings.txt", lines)
    _write(
        directory / "sources.txt",
        [f"{name} {one.beats} {int(one.inference)} {one.every}" for name, one in sources.items()],
    )
    for name, samples in sources.items():
        words = np.asarray(samples.words, dtype=np.uint32)
        if words.ndim != 2 or words.shape[1] != ports.words(name) or len(words) % samples.beats:
            raise BuildError(
                f"device {ports.module}: {name} takes samples of {samples.beats} beats of {ports.words(name)} words; "
                f"got an array of {words.shape}"
            )
        words.tofile(directory / f"{name}.bin")


def read_outputs(directory: Path) -> dict[str, int]:
    """Outputs that are no streams, as they were at the end: counters of the surroundings."""
    lines = (line.split() for line in (directory / "outputs.txt").read_text().splitlines())
    return {name: sum(int(word) << 32 * i for i, word in enumerate(words)) for name, *words in lines}


def read_sink(directory: Path, ports: Ports, name: str) -> NDArray[np.uint32]:
    """[words, 32-bit words of each] that a further stream out of the device gave."""
    words = np.fromfile(directory / f"{name}.bin", dtype=np.uint32)
    return words.reshape(-1, ports.words(name))


def _check(ports: Ports, name: str, low: int, width: int) -> None:
    if name not in ports.settings:
        raise BuildError(f"device {ports.module}: no input {name}; there are {', '.join(ports.settings)}")
    if low + width > ports.widths[name]:
        raise BuildError(
            f"device {ports.module}: bit {low + width - 1} of {name}, which has {ports.widths[name]} bits"
        )


def _write(path: Path, lines: list[str]) -> None:
    path.unlink(missing_ok=True)
    if lines:
        path.write_text("\n".join(lines) + "\n")
