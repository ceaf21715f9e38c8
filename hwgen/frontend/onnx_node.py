"""One ONNX node as its operator reads it: attributes and constant inputs, wrong ones noted, none left unread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .chain import DAMAGED, Chain, Tensor
from .onnx_file import onnx_module

if TYPE_CHECKING:
    from onnx import NodeProto

__all__ = ["Node"]


class Node:
    """``batch`` is the input's fixed batch, None if it is open; ``last`` whether its output is the model's.

    Every attribute that is not read by the end is refused by :meth:`refuse_unread`.
    """

    def __init__(
        self, proto: NodeProto, chain: Chain, constants: Mapping[str, Tensor], batch: int | None, last: bool
    ):  # fmt: skip
        self.kind: str = proto.op_type
        self.inputs: tuple[str, ...] = tuple(proto.input)
        self.batch = batch
        self.last = last
        self._chain = chain
        self._constants = constants
        self._read: set[str] = set()
        self._attributes: dict[str, object] = {}
        for attribute in proto.attribute:
            try:
                self._attributes[attribute.name] = onnx_module().helper.get_attribute_value(attribute)
            except ValueError:
                chain.say(f"attribute {attribute.name!r} has no type; export the model again")

    def ints(self, name: str, count: int, default: int, low: int) -> tuple[int, ...]:
        """``count`` integers of at least ``low``."""
        value = self._take(name)
        if value is None:
            return (default,) * count
        if isinstance(value, Sequence) and len(value) == count and all(_whole(v) and v >= low for v in value):
            return tuple(value)
        least = "integers" if low < 0 else f"integers of at least {low}"
        self._chain.say(f"{name} = {_spell(value)}; give {count} {least}")
        return (default,) * count

    def whole(self, name: str, default: int) -> int:
        """An integer."""
        value = self._take(name)
        if isinstance(value, int):
            return value
        if value is not None:
            self._chain.say(f"{name} = {_spell(value)}; give an integer")
        return default

    def real(self, name: str, default: float) -> float:
        """A finite number."""
        value = self._take(name)
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        if value is not None:
            self._chain.say(f"{name} = {_spell(value)}; give a number")
        return default

    def only(self, name: str, wanted: object, advice: str) -> None:
        """Refuse every value of an attribute but ``wanted``, which is its default, too."""
        value = self._take(name)
        if value is not None and value != wanted:
            self._chain.say(f"{name} = {_spell(value)}; hwgen has {_spell(wanted)} only: {advice}")

    def text(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """One of some words."""
        value = self._take(name)
        word = value.decode(errors="replace") if isinstance(value, bytes) else value
        if word is None or word in allowed:
            return default if word is None else str(word)
        self._chain.say(f"{name} = {_spell(word)}; give {', '.join(allowed)}")
        return default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers of any length, None if it is not there."""
        value = self._take(name)
        if value is None or (isinstance(value, Sequence) and all(_whole(v) for v in value)):
            return None if value is None else tuple(value)
        self._chain.say(f"{name} = {_spell(value)}; give integers")
        return None

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def is_constant(self, index: int) -> bool:
        """Whether an input is constant."""
        return index < len(self.inputs) and self.inputs[index] in self._constants

    def constant(self, index: int, role: str) -> Tensor | None:
        """The numbers of an input that has to be constant; None, and a mistake, if they are not."""
        if not self.has(index):
            self._chain.say(f"input {index}, {role}, is missing; export the model again")
            return None
        found = self._constants.get(self.inputs[index])
        if found is None:
            self._chain.say(
                f"{role} is {self.inputs[index]!r}, which is computed from the data or given from outside; "
                "hwgen needs constant numbers there: an initializer"
            )
        return None if found is DAMAGED else found

    def whole_numbers(self, index: int, role: str) -> list[int] | None:
        """The integers of an input that has to be constant; None, and a mistake, if they are not."""
        found = self.constant(index, role)
        if found is not None and found.values.dtype.kind not in "iu":
            self._chain.say(f"{role} holds numbers of type {found.values.dtype}; give integers")
            return None
        return None if found is None else [int(number) for number in found.values.reshape(-1)]

    def refuse_unread(self) -> None:
        """Note attributes that the operator does not know."""
        known = ", ".join(sorted(self._read)) or "none"
        for name in sorted(self._attributes.keys() - self._read):
            self._chain.say(
                f"attribute {name} = {_spell(self._attributes[name])} is not known; hwgen takes {known} of {self.kind}"
            )

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._attributes.get(name)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _spell(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = list(value)
    text = " ".join((f'"{value}"' if isinstance(value, str) else str(value)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
