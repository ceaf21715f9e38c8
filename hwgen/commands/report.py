"""What commands show: progress on standard error, the result on standard output and in result.json."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from ..backend.writer import write_tree

__all__ = [
    "LINE_SECONDS",
    "RANDOM_DATA",
    "Progress",
    "above_zero",
    "amount",
    "cycles",
    "fraction",
    "natural",
    "period",
    "positive",
    "repeats",
    "seed",
    "show",
    "skew",
    "span",
    "table",
    "write_result",
]

LINE_SECONDS = 5.0
"""Time between two lines of progress where standard error is no terminal."""
REDRAW_SECONDS = 0.1
RANDOM_DATA = "the model file sets no data: images and labels are random, and losses mean nothing"
SEED_BITS = 32
MOST_REPEATS = 1_000_000
"""Batches or epochs of one run: what it does, and what is read back, is held in memory."""
MOST_LATENCY = 60_000
"""Cycles that the model of a cable can hold words back."""
MOST_SKEW = 10_000_000
"""Cycles from the first board's reset to the last one's: nothing else happens in them."""


class Progress:
    """Progress of long work: one line that is redrawn on a terminal, else a line now and then.

    Call it with a text, and with how much of how much is done where that is known. A step, which is a new
    text without numbers, is always shown. A context manager: leaving it clears the line.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._redraw = self._stream.isatty()
        self._next = 0.0
        self._step: str | None = None

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None:
        now = time.monotonic()
        step = text if done is None else None
        if now < self._next and (step is None or step == self._step):
            return
        self._step = step
        self._next = now + (REDRAW_SECONDS if self._redraw else LINE_SECONDS)
        if done is not None:
            text = f"{text} {done}" if total is None else f"{text} {done}/{total}"
        self._stream.write(f"\r\x1b[K{text}" if self._redraw else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._redraw:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Writes the result to standard output: as JSON, or the ``text`` for people."""
    sys.stdout.write(json.dumps(result, indent=1) + "\n" if as_json else text + "\n")
    sys.stdout.flush()


def write_result(directory: Path, result: Mapping[str, Any]) -> None:
    """Writes result.json. Raises BuildError if that cannot be done."""
    write_tree(directory, {"result.json": json.dumps(result, indent=1) + "\n"})


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def amount(value: float) -> str:
    """A number for people, with three digits, and a unit where it is large."""
    for unit, size in (("million", 1e6), ("thousand", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f}"


def positive(text: str) -> int:
    """An argument that is a whole number from 1."""
    return _whole(text, 1, None)


def repeats(text: str) -> int:
    """An argument that is a number of batches or epochs."""
    return _whole(text, 1, MOST_REPEATS)


def natural(text: str) -> int:
    """An argument that is a whole number from 0."""
    return _whole(text, 0, None)


def cycles(text: str) -> int:
    """An argument that is a time on a cable."""
    return _whole(text, 0, MOST_LATENCY)


def skew(text: str) -> int:
    """An argument that is a time between resets."""
    return _whole(text, 0, MOST_SKEW)


def seed(text: str) -> int:
    """An argument that is a seed: 32 bits, as wide as the device's register."""
    return _whole(text, 0, (1 << SEED_BITS) - 1)


def above_zero(what: str, most: float = math.inf) -> Callable[[str], float]:
    """A reader of arguments that are ``what``, above 0 and below ``most``."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0.0 < value < most:
            raise argparse.ArgumentTypeError(f"{text!r}; give {what} above 0")
        return value

    return read


def fraction(text: str) -> float:
    """An argument that is a probability below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r}; give a number of at least 0 and below 1")
    return value


def span(text: str) -> tuple[int, int]:
    """An argument that is a whole number or a range of them, "40..300"."""
    least, dots, most = text.partition("..")
    low = _whole(least, 0, MOST_LATENCY)
    high = _whole(most, 0, MOST_LATENCY) if dots else low
    if high < low:
        raise argparse.ArgumentTypeError(f"{text!r}; give the smaller number first")
    return low, high


def period(text: str) -> tuple[int, int]:
    """An argument that is a range of cycles, "20000..30000"."""
    first, dots, last = text.partition("..")
    if not dots:
        raise argparse.ArgumentTypeError(f"{text!r}; give two cycles, such as 20000..30000")
    begin, end = _whole(first, 0, None), _whole(last, 0, None)
    if end <= begin:
        raise argparse.ArgumentTypeError(f"{text!r}; give the earlier cycle first")
    return begin, end


def _whole(text: str, least: int, most: int | None) -> int:
    value = int(text) if text.isdecimal() and len(text) < 20 else -1
    if value < least or (most is not None and value > most):
        limits = f"from {least}" if most is None else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{text!r}; give a whole number {limits}")
    return value
