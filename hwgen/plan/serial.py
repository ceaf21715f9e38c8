"""A plan as JSON text and back: exact, strict, the same text for the same plan.

The dataclasses' annotations are the schema, so a field added to one of them is written and demanded at once.
"""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import BuildError
from .part import part_stage
from .plan import Plan

__all__ = ["plan_from_json", "plan_to_json"]

SCALARS: dict[type, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,), bool: (bool,)}
"""Which exact types a field may hold: numpy's would read back as Python's and change the build number."""


def plan_to_json(plan: Plan) -> str:
    """The plan as JSON text, ending in a line feed.

    Raises TypeError if a field holds a value of another type than it declares: a fault of the planner.
    """
    return json.dumps(_encode(plan, Plan, "plan"), indent=1, allow_nan=False) + "\n"


def plan_from_json(text: str) -> Plan:
    """The plan that :func:`plan_to_json` wrote, equal to it in every field and in ``repr``.

    Raises BuildError naming the place of what is missing, unknown or of a wrong type.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BuildError(f"plan: no JSON ({error}); build again") from None
    plan = _decode(data, Plan, "plan")
    assert isinstance(plan, Plan)
    stages = plan.network.stages
    for i, planned in enumerate(plan.stages):
        index, last = planned.stage.index, len(plan.boards) - 1
        if not (0 <= index < len(stages) and 0 <= planned.board <= last):
            raise BuildError(f"plan.stages[{i}]: stage {index} on board {planned.board}; build again")
        if planned.stage != part_stage(stages[index], planned.part, planned.board):
            raise BuildError(f"plan.stages[{i}]: differs from plan.network.stages[{index}]; build again")
    if sorted({planned.stage.index for planned in plan.stages}) != list(range(len(stages))):
        raise BuildError("plan.stages: not every stage of plan.network is there; build again")
    return plan


def _encode(value: Any, kind: Any, where: str) -> Any:
    if is_dataclass(kind):
        if type(value) is not kind:
            raise TypeError(f"{where}: {type(value).__name__}, declared {kind}")
        hints = get_type_hints(kind)
        return {
            f.name: _encode(getattr(value, f.name), hints[f.name], f"{where}.{f.name}") for f in fields(kind)
        }
    if _optional(kind) is not None:
        return None if value is None else _encode(value, _optional(kind), where)
    if get_origin(kind) is tuple:
        kinds = _items(kind, value) if type(value) is tuple else None
        if kinds is None:
            raise TypeError(f"{where}: {value!r}, declared {kind}")
        return [
            _encode(item, each, f"{where}[{i}]")
            for i, (item, each) in enumerate(zip(value, kinds, strict=True))
        ]
    if type(value) not in SCALARS[kind]:
        raise TypeError(f"{where}: {value!r} is {type(value).__name__}, declared {kind.__name__}")
    return value


def _decode(data: Any, kind: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _decode_object(data, kind, where)
    if _optional(kind) is not None:
        return None if data is None else _decode(data, _optional(kind), where)
    if get_origin(kind) is tuple:
        kinds = _items(kind, data) if isinstance(data, list) else None
        if kinds is None:
            raise BuildError(f"{where}: {_short(data)}, which is no {_spell(kind)}; build again")
        return tuple(
            _decode(item, each, f"{where}[{i}]")
            for i, (item, each) in enumerate(zip(data, kinds, strict=True))
        )
    if type(data) not in SCALARS[kind]:
        raise BuildError(f"{where}: {_short(data)}, which is no {kind.__name__}; build again")
    return data


def _decode_object(data: Any, kind: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise BuildError(f"{where}: {_short(data)}, which is no {kind.__name__}; build again")
    names = [f.name for f in fields(kind)]
    missing = [name for name in names if name not in data]
    unknown = [name for name in data if name not in names]
    if missing or unknown:
        found = [
            f"{text}: {', '.join(keys)}"
            for text, keys in (("missing", missing), ("unknown", unknown))
            if keys
        ]
        raise BuildError(f"{where}: keys {'; '.join(found)}; build again")
    hints = get_type_hints(kind)
    return kind(**{name: _decode(data[name], hints[name], f"{where}.{name}") for name in names})


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
