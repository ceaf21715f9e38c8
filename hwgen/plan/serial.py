"""A plan as JSON text and back: exact, strict, the same text for the same plan."""

from __future__ import annotations

import json

from ..errors import BuildError
from .codec import decode, encode
from .part import part_stage
from .plan import Plan

__all__ = ["plan_from_json", "plan_to_json"]


def plan_to_json(plan: Plan) -> str:
    """The plan as JSON text, ending in a line feed.

    Raises TypeError if a field holds a value of another type than it declares: a fault of the planner.
    """
    return json.dumps(encode(plan, Plan, "plan"), indent=1, allow_nan=False) + "\n"


def plan_from_json(text: str) -> Plan:
    """The plan that :func:`plan_to_json` wrote, equal to it in every field and in ``repr``.

    Raises BuildError naming the place of what is missing, unknown or of a wrong type.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BuildError(f"plan: no JSON ({error}); build again") from None
    plan = decode(data, Plan, "plan")
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
