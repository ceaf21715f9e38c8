"""Values as JSON and back, exact and strict: the annotations of dataclasses are the schema.

A field added to a dataclass is written and demanded at once.
"""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import BuildError

__all__ = ["decode", "encode"]

SCALARS: dict[type, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,), bool: (bool,)}
"""Which exact types a field may hold: numpy's would read back as Python's and change the build number."""


def encode(value: Any, kind: Any, where: str) -> Any:
    """What JSON holds of a value of type ``kind``. Raises TypeError naming the place of a field of another type."""
    if is_dataclass(kind):
        if type(value) is not kind:
            raise TypeError(f"{where}: {type(value).__name__}, declared {kind}")
        hints = get_type_hints(kind)
        return {
            f.name: encode(getattr(value, f.name), hints[f.name], f"{where}.{f.name}") for f in fields(kind)
        }
    if _optional(kind) is not None:
        return None if value is None else encode(value, _optional(kind), where)
    if get_origin(kind) is tuple:
        kinds = _items(kind, value) if type(value) is tuple else None
        if kinds is None:
            raise TypeError(f"{where}: {value!r}, declared {kind}")
        return [
            encode(item, each, f"{where}[{i}]")
            for i, (item, each) in enumerate(zip(value, kinds, strict=True))
        ]
    if type(value) not in SCALARS[kind]:
        raise TypeError(f"{where}: {value!r} is {type(value).__name__}, declared {kind.__name__}")
    return value


def decode(data: Any, kind: Any, where: str, advice: str = "build again") -> Any:
    """The value that :func:`encode` wrote. Raises BuildError naming the place, with the ``advice``, if it is none."""
    if is_dataclass(kind):
        return _decode_object(data, kind, where, advice)
    if _optional(kind) is not None:
        return None if data is None else decode(data, _optional(kind), where, advice)
    if get_origin(kind) is tuple:
        kinds = _items(kind, data) if isinstance(data, list) else None
        if kinds is None:
            raise BuildError(f"{where}: {_short(data)}, which is no {_spell(kind)}; {advice}")
        return tuple(
            decode(item, each, f"{where}[{i}]", advice)
            for i, (item, each) in enumerate(zip(data, kinds, strict=True))
        )
    if type(data) not in SCALARS[kind]:
        raise BuildError(f"{where}: {_short(data)}, which is no {kind.__name__}; {advice}")
    return data


def _decode_object(data: Any, kind: Any, where: str, advice: str) -> Any:
    if not isinstance(data, dict):
        raise BuildError(f"{where}: {_short(data)}, which is no {kind.__name__}; {advice}")
    names = [f.name for f in fields(kind)]
    missing = [name for name in names if name not in data]
    unknown = [name for name in data if name not in names]
    if missing or unknown:
        found = [
            f"{text}: {', '.join(keys)}"
            for text, keys in (("missing", missing), ("unknown", unknown))
            if keys
        ]
        raise BuildError(f"{where}: keys {'; '.join(found)}; {advice}")
    hints = get_type_hints(kind)
    return kind(**{name: decode(data[name], hints[name], f"{where}.{name}", advice) for name in names})


def _optional(kind: Any) -> Any:
    """X of ``X | None``, None for every other type."""
    if get_origin(kind) not in (types.UnionType, Union):
        return None
    (inner,) = (each for each in get_args(kind) if each is not type(None))
    return inner


def _items(kind: Any, value: Any) -> list[Any] | None:
    """The types of a tuple's items, None if the length is wrong."""
    kinds = get_args(kind)
    if kinds[-1] is Ellipsis:
        return [kinds[0]] * len(value)
    return list(kinds) if len(kinds) == len(value) else None


def _spell(kind: Any) -> str:
    kinds = get_args(kind)
    return "list" if kinds[-1] is Ellipsis else f"list of {len(kinds)}"


def _short(data: Any) -> str:
    text = json.dumps(data)
    return text if len(text) <= 40 else text[:37] + "..."
