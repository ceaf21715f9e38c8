"""Reading a layer's arguments: bad ones are noted with what to give, and replaced by a harmless value."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real

__all__ = ["NAME", "Arguments", "is_whole", "spell"]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
_FOLDING = ("array", "u", "pc", "pn", "b")


LONGEST = 60


def spell(value: object) -> str:
    """A value as Python writes it, in one line that is not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def is_whole(value: object, low: int) -> bool:
    """Whether a value is an integer of at least ``low``; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= low


def _finite(value: object) -> float | None:
    """A finite number; None if it is none."""
    if not isinstance(value, bool) and isinstance(value, Real):
        with contextlib.suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    return None


class Arguments:
    """The arguments of one layer ``kind``; ``settings`` are its keywords, ``known`` all that it takes."""

    def __init__(self, kind: str, known: Sequence[str], settings: Mapping[str, object]):
        self._problems: list[str] = []
        self.vague = False
        """A size of the layer is not known, so that nothing behind it can be judged."""
        for key in settings:
            if key not in known:
                self.vague = True
                near = difflib.get_close_matches(key, known, n=1)
                advice = f"did you mean {near[0]}? " if near else ""
                self.say(f"{kind} has no option {key!r}; {advice}it takes {', '.join(known)}")

    def say(self, problem: str) -> None:
        """Note a mistake, "what; what to do"."""
        self._problems.append(problem)

    def found(self) -> tuple[str, ...]:
        """All mistakes so far."""
        return tuple(self._problems)

    def count(self, role: str, value: object) -> int:
        """A number of channels or features, at least 1; 0 if it is wrong."""
        wrong = not is_whole(value, 1)
        return self.whole(role, value, 1) - wrong

    def whole(self, role: str, value: object, low: int) -> int:
        """An integer of at least ``low``."""
        if is_whole(value, low):
            return int(value)  # type: ignore[call-overload, no-any-return]
        self.say(f"{role} = {spell(value)}; give an integer of at least {low}")
        self.vague = self.vague or role not in _FOLDING
        return low

    def optional_whole(self, role: str, value: object, low: int) -> int | None:
        """An integer of at least ``low``, or None."""
        return None if value is None else self.whole(role, value, low)

    def positive_real(self, role: str, value: object, fallback: float) -> float:
        """A finite number above 0."""
        if (found := _finite(value)) is not None and found > 0:
            return found
        self.say(f"{role} = {spell(value)}; give a number above 0")
        return fallback

    def real(self, role: str, value: object, fallback: float) -> float:
        """A finite number."""
        if (found := _finite(value)) is not None:
            return found
        self.say(f"{role} = {spell(value)}; give a number")
        return fallback

    def flag(self, role: str, value: object) -> bool:
        """True or False."""
        if not isinstance(value, bool):
            self.say(f"{role} = {spell(value)}; give True or False")
        return bool(value)

    def pair(self, role: str, value: object, low: int) -> Pair:
        """One integer for both axes, or (vertical, horizontal)."""
        if role != "array" and is_whole(value, low):
            return (int(value), int(value))  # type: ignore[call-overload]
        if isinstance(value, (tuple, list)) and len(value) == 2 and all(is_whole(v, low) for v in value):
            return (int(value[0]), int(value[1]))
        one = "" if role == "array" else "an integer or "
        self.vague = self.vague or role not in _FOLDING
        self.say(f"{role} = {spell(value)}; give {one}a pair of integers of at least {low}")
        return (low, low)

    def pads(self, role: str, value: object) -> Pads:
        """(top, left, bottom, right) from one integer, (vertical, horizontal), or all four."""
        if is_whole(value, 0):
            return (int(value),) * 4  # type: ignore[call-overload]
        if isinstance(value, (tuple, list)) and len(value) in (2, 4) and all(is_whole(v, 0) for v in value):
            sides = tuple(int(v) for v in value)
            return sides * (4 // len(sides))  # type: ignore[return-value]
        self.say(
            f"{role} = {spell(value)}; give an integer, (vertical, horizontal) or (top, left, bottom, right), "
            "0 or more"
        )
        self.vague = True
        return (0, 0, 0, 0)

    def name(self, value: object) -> str | None:
        """A name of letters, digits and underscores, or None."""
        if value is None or (isinstance(value, str) and NAME.fullmatch(value)):
            return value
        self.say(
            f"name = {spell(value)}; give up to 40 letters, digits and underscores, starting with a letter"
        )
        return None
