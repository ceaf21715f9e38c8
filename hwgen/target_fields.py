"""Checks of one object's fields: good values are kept in their exact type, all bad ones are told together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from .errors import TargetError

__all__ = ["NAME", "PART", "TEXT", "Fields", "is_real", "is_whole", "shorten"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""Names of boards and clocks: safe in files, Verilog and constraints."""
TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,59}")
"""Names of devices and families: safe in scripts of the vendors' tools."""
PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,59}")
"""Names of parts: the same, and Gowin's have a slash."""
_LONGEST = 60


def shorten(value: object) -> str:
    """A value as Python writes it, in one line that is not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


class Fields:
    """The fields of a frozen ``owner``; ``where`` starts every message.

    Each method checks one field and stores it as a plain int, float, str or tuple, so that equal targets have
    an equal ``repr``. :meth:`done` raises TargetError with everything that was wrong.
    """

    def __init__(self, owner: object, where: str):
        self._owner = owner
        self._where = where
        self.problems: list[str] = []

    def say(self, problem: str) -> None:
        """Note a mistake, "what; what to do"."""
        self.problems.append(f"{self._where}: {problem}")

    def whole(self, name: str, low: int, high: int) -> None:
        """An integer in low..high."""
        value = getattr(self._owner, name)
        if is_whole(value, low, high):
            self.store(name, int(value))
        else:
            self.say(f"{name} = {shorten(value)}; give an integer in {low:,}..{high:,}")

    def wholes(self, name: str, count: int, low: int, high: int) -> None:
        """A tuple of ``count`` integers in low..high."""
        value = getattr(self._owner, name)
        if (
            isinstance(value, (tuple, list))
            and len(value) == count
            and all(is_whole(v, low, high) for v in value)
        ):
            self.store(name, tuple(int(v) for v in value))
        else:
            self.say(f"{name} = {shorten(value)}; give {count} integers in {low:,}..{high:,}")

    def real(self, name: str, low: float, high: float, unit: str = "", *, above: bool = False) -> None:
        """A finite number from ``low`` (``above``: more than it) to ``high``."""
        value = getattr(self._owner, name)
        if is_real(value, low, high, above):
            self.store(name, float(value))
        else:
            lower = f"above {low:g} and up to" if above else f"in {low:g} to"
            self.say(f"{name} = {shorten(value)}; give a number {lower} {high:g}{unit and ' ' + unit}")

    def choice(self, name: str, legal: Sequence[str]) -> None:
        """One of ``legal``."""
        value = getattr(self._owner, name)
        if value not in legal:
            self.say(f"{name} = {shorten(value)}; give {', '.join(legal[:-1])} or {legal[-1]}")

    def text(self, name: str, pattern: re.Pattern[str], what: str) -> None:
        """A text that ``pattern`` matches as a whole."""
        value = getattr(self._owner, name)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.say(f"{name} = {shorten(value)}; give {what}")

    def items(self, name: str, kind: type) -> None:
        """A tuple of objects of a kind."""
        value = getattr(self._owner, name)
        if isinstance(value, (tuple, list)) and all(isinstance(item, kind) for item in value):
            self.store(name, tuple(value))
        else:
            self.say(f"{name} = {shorten(value)}; give a tuple of {kind.__name__}")

    def pairs(self, name: str, keys: re.Pattern[str], what: str) -> list[tuple[str, object]]:
        """A tuple of (name, value) with names that ``keys`` matches, none twice; [] if it is none."""
        value = getattr(self._owner, name)
        items: list[Any] = list(value) if isinstance(value, (tuple, list)) else [None]
        good = all(
            isinstance(item, (tuple, list))
            and len(item) == 2
            and isinstance(item[0], str)
            and keys.fullmatch(item[0])
            for item in items
        )
        if not good or len({item[0] for item in items}) < len(items):
            self.say(f"{name} = {shorten(value)}; give {what}, no name twice")
            return []
        return [(item[0], item[1]) for item in items]

    def store(self, name: str, value: object) -> None:
        """Keep a value in its exact type."""
        object.__setattr__(self._owner, name, value)

    def done(self) -> None:
        """Raises TargetError if anything was wrong."""
        if self.problems:
            raise TargetError(self.problems)


def is_whole(value: Any, low: int, high: int) -> bool:
    """Whether a value is an integer in low..high; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return low <= int(value) <= high


def is_real(value: Any, low: float, high: float, above: bool) -> bool:
    """Whether a value is a finite number from ``low`` (``above``: more than it) to ``high``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number: Any = value
    return bool(number <= high and (number > low if above else number >= low))
