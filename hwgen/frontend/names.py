"""Names of imported nodes as names of layers: legal, different from one another and from hwgen's own."""

from __future__ import annotations

import re

from .dsl import RESERVED

__all__ = ["Names"]

LONGEST = 40


class Names:
    """The names given so far."""

    def __init__(self) -> None:
        self._taken = {*RESERVED}

    def legal(self, wanted: str, prefix: str) -> str:
        """A free legal name like ``wanted``: other signs become underscores, a number gets ``prefix`` before it, a name
        that is taken a number behind it; an empty one is ``prefix`` and a number."""
        name = re.sub(r"[^A-Za-z0-9_]+|_{2,}", "_", wanted, flags=re.ASCII).strip("_")
        if not name:
            return self._free(prefix, 1, "")
        if not name[0].isalpha():
            name = f"{prefix}_{name}"
        name = name[:LONGEST]
        return self._take(name) if name not in self._taken else self._free(name, 2, "_")

    def _free(self, stem: str, number: int, between: str) -> str:
        while (name := f"{stem[: LONGEST - len(f'{between}{number}')]}{between}{number}") in self._taken:
            number += 1
        return self._take(name)

    def _take(self, name: str) -> str:
        self._taken.add(name)
        return name
