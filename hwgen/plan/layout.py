"""Which part of which stage stands where, how it is folded and stored: what a search chooses and a plan is made of."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ModelError
from ..ir.stage import MASTERS, Network, Stage
from .fold import Folding
from .part import WHOLE, Part
from .rows import row_problems

__all__ = [
    "MEMORIES",
    "STACKS",
    "UPDATES",
    "USUAL",
    "Layout",
    "Placement",
    "Storage",
    "check_layout",
    "check_storage",
]

MEMORIES = ("auto", "distributed", "block", "ultra")
"""Kinds of on-chip memory; "auto" leaves it to the synthesis."""

UPDATES = ("auto", "pe", "column")
"""What updates masters beside the weights; "auto" takes the unit a column where it has the time."""


@dataclass(frozen=True)
class Storage:
    """How a part keeps its weights and samples. No choice here changes a bit of any result.

    ``copy``: forward has a memory of weights of its own; False: forward and backward take turns at one (b >= 2).
    ``master`` is one of ir.stage.MASTERS, ``weights`` and ``samples`` one of MEMORIES. ``again``: of a cut by output
    channels only the first part keeps the samples, and sends them again for the gradient; the same for all parts.
    ``update``, one of UPDATES: where a tile's column shares memories, a unit in every PE or one that takes its rows in
    turn. ``stack``: rows of a tile's column that lie behind one another in a lane of its memories, a power of two; they
    take turns at it (gateware.shape.ArrayShape).
    """

    copy: bool = True
    master: str = "here"
    weights: str = "auto"
    samples: str = "auto"
    again: bool = False
    update: str = "auto"
    stack: int = 1


STACKS = (1, 2, 4, 8)
"""Rows of a tile that may lie behind one another."""

USUAL = Storage()
"""What a plan without a search takes."""


@dataclass(frozen=True)
class Placement:
    """One part of stage ``stage`` on board ``board``."""

    stage: int
    board: int
    folding: Folding
    part: Part = WHOLE
    storage: Storage = USUAL


def check_storage(stage: Stage, placement: Placement) -> None:
    """Raises ModelError unless the part can keep its weights as its storage says."""
    storage, pixels = placement.storage, min(placement.folding.b, stage.M)
    for name, value, legal in (
        ("master", storage.master, MASTERS),
        ("weights", storage.weights, MEMORIES),
        ("samples", storage.samples, MEMORIES),
        ("update", storage.update, UPDATES),
        ("stack", storage.stack, STACKS),
    ):
        if value not in legal:
            raise ModelError(f"layout: {stage.name}: {name} = {value!r}; give one of {legal}")
    if not storage.copy and stage.dx is not None and pixels < 2:
        raise ModelError(
            f"layout: {stage.name}: copy = False with blocks of {pixels} pixel; forward and backward then take "
            "turns at the weights, which needs b >= 2 and as many output pixels; keep the copy"
        )


Layout = tuple[Placement, ...]
"""All parts of a network in the order of the chain."""


def check_layout(network: Network, layout: Layout, boards: int) -> None:
    """Raises ModelError unless every stage is there, in order, its parts on consecutive boards and no board empty, and
    rows are dealt as they can be."""
    expected, board = [], -1
    for placement in layout:
        part = placement.part
        expected.append((placement.stage, part.index))
        step = placement.board - board
        if step not in (0, 1) or (not part.first and step != 1):
            raise ModelError(
                f"layout: part {part.index} of stage {placement.stage} on board {placement.board} behind {board}; "
                "parts stand in a line, those of one stage on consecutive boards, and no board is empty"
            )
        board = placement.board
        check_storage(network.stages[placement.stage], placement)
    counts = {placement.stage: placement.part.count for placement in layout}
    if expected != [(i, p) for i in range(len(network.stages)) for p in range(counts.get(i, 1))]:
        raise ModelError(
            f"layout: parts {expected} are not those of {len(network.stages)} stages in their order"
        )
    _check_masters(network, layout, boards)
    if board != boards - 1:
        raise ModelError(f"layout: {board + 1} boards used of {boards}; take fewer boards")
    _check_rows(network, layout)


def _check_rows(network: Network, layout: Layout) -> None:
    problems: list[str] = []
    for placement in layout:
        part, stage = placement.part, network.stages[placement.stage]
        deals = {other.part.deal for other in layout if other.stage == placement.stage}
        if part.cut != "rows" and not part.deal:
            continue
        own = sum(part.deal[part.index :: part.count])
        if len(deals) > 1 or part.cut != "rows" or (part.low, part.high) != (0, own):
            problems.append(
                f"{stage.name}: rows: part {part.index} has {part.low}..{part.high} of the {own} rows that its turns "
                f'{part.deal} give it; all parts of a stage have cut="rows", the same deal, low = 0 and high = own rows'
            )
        else:
            problems += row_problems(stage, part.deal, part.count, placement.folding.b)
    if problems:
        raise ModelError(list(dict.fromkeys(problems)))


def _check_masters(network: Network, layout: Layout, boards: int) -> None:
    """Raises ModelError naming every part whose masters cannot be where the layout has them, or shall not be there."""
    problems = []
    for placement in layout:
        stage, where = network.stages[placement.stage], placement.storage.master
        if where != "here" and stage.frozen:
            problems.append(
                f'{stage.name}: master = "{where}" of a frozen layer, which has none; give "here"'
            )
        elif stage.place.master not in (None, where):
            problems.append(
                f'{stage.name}: master = "{where}" in the layout, the model asks for "{stage.place.master}"; '
                "drop one of them"
            )
        elif (where, placement.board) in (("up", 0), ("down", boards - 1)):
            problems.append(_no_neighbour(stage.name, where, placement.board, boards))
    if problems:
        raise ModelError(problems)


def _no_neighbour(name: str, where: str, board: int, boards: int) -> str:
    which, side = ("first", "before") if where == "up" else ("last", "behind")
    others = [other for other in MASTERS if other != where and (boards > 1 or other in ("here", "memory"))]
    return (
        f'{name}: master = "{where}" on board {board}, the {which} one: there is no board {side} it; '
        f"give one of {', '.join(others)}{', or another board with device=' if boards > 1 else ''}"
    )
