"""Which folding every stage gets: the user's wishes first, the rest so that no stage is slower than those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from ..errors import ModelError
from ..ir.stage import Network, Stage
from .fold import Fold, Folding, legal_pc, legal_u, resolve_array
from .latency import loss_cycles
from .plan import image_words

__all__ = [
    "DEFAULT_MULTIPLIERS",
    "MAX_PES",
    "choose_foldings",
    "default_b",
    "divisor",
    "least_pace",
    "tile_lanes",
    "tile_of",
    "wish_problems",
]

DEFAULT_MULTIPLIERS = 256
"""Multipliers a board that a network without any ``array=`` may take."""
DEFAULT_B = 4
"""Pixels in a block unless asked for: a memory word is read and written once in so many cycles."""
MAX_PES = 1 << 16
"""The host numbers the PEs of a stage with 16 bits, and the words of a PE too."""
TILE = (9, 8)
"""Largest tile; bigger arrays are grids of equal tiles."""
STACKED_ROWS = 16
"""The most rows of a tile where several lie behind one another: few lanes leave block RAM half as wide as it is."""


def choose_foldings(
    network: Network, image_lanes: int = 1, multipliers: int = DEFAULT_MULTIPLIERS
) -> tuple[Folding, ...]:
    """One folding a stage; without any wish, of so many multipliers. Raises ModelError naming every illegal wish with
    its legal values."""
    problems: list[str] = []
    fixed = [_wished(stage, problems) for stage in network.stages]
    if problems:
        raise ModelError(problems)
    given = [Fold(s, f).cycles for s, f in zip(network.stages, fixed, strict=True) if f is not None]
    pace = max(
        least_pace(network, image_lanes),
        max(given) if given else _pace(network.stages, multipliers),
    )
    chosen = tuple(
        folding or _cheapest(stage, pace) for stage, folding in zip(network.stages, fixed, strict=True)
    )
    for stage, folding in zip(network.stages, chosen, strict=True):
        fold = Fold(stage, folding)
        if fold.depth > MAX_PES or fold.pk * fold.pn > MAX_PES:
            problems.append(
                f"{stage.name}: a folding of {fold.pk} × {fold.pn} PEs with {fold.depth} weights each; "
                f"the host can number {MAX_PES} of both; give a larger array"
                + (" or a smaller one" if fold.pk * fold.pn > MAX_PES else "")
            )
    if problems:
        raise ModelError(problems)
    return chosen


def wish_problems(network: Network) -> list[str]:
    """Every illegal wish of a folding, with its legal values."""
    problems: list[str] = []
    for stage in network.stages:
        _wished(stage, problems)
    return problems


def least_pace(network: Network, image_lanes: int = 1) -> int:
    """Cycles a sample that no array can go below: those of the loss, and of the image's stream."""
    return max(loss_cycles(network.loss), image_words(network.in_shape, image_lanes))


def default_b(stage: Stage) -> int:
    """Pixels in a block where nothing is asked for; in a cut by rows they do not cross rows."""
    if stage.place.split == "rows":
        return max(b for b in range(1, DEFAULT_B + 1) if stage.window.out_width % b == 0)
    return min(DEFAULT_B, stage.M)


def _wished(stage: Stage, problems: list[str]) -> Folding | None:
    """What the user asked for, completed; None if nothing of the array's shape."""
    wish, found = stage.wish, len(problems)
    b = default_b(stage) if wish.b is None else wish.b
    if not 1 <= b <= stage.M:
        problems.append(f"{stage.name}: b = {b} is outside 1..{stage.M}, the pixels of its output")
    if wish.u is not None and wish.u not in legal_u(stage):
        problems.append(f"{stage.name}: u = {wish.u} is not kw, kh·kw or 1; legal u: {legal_u(stage)}")
    if wish.pc is not None and wish.pc not in legal_pc(stage):
        problems.append(f"{stage.name}: pc = {wish.pc} is outside 1..{stage.cin}")
    if wish.pn is not None and not 1 <= wish.pn <= stage.N:
        problems.append(f"{stage.name}: pn = {wish.pn} is outside 1..{stage.N}")
    if len(problems) > found:
        return None
    if stage.array is not None:
        return _from_array(stage, b, problems)
    if wish.u is None and wish.pc is None and wish.pn is None:
        return None
    return Folding(wish.u or stage.window.kernel[1], wish.pc or 1, wish.pn or 1, b)


def _from_array(stage: Stage, b: int, problems: list[str]) -> Folding | None:
    assert stage.array is not None
    wish = stage.wish
    try:
        folding = resolve_array(stage, stage.array, b)
    except ModelError as error:
        problems += error.problems
        return None
    if wish.u is not None or wish.pc is not None:
        pk = stage.array[0]
        u = wish.u if wish.u is not None else pk // (wish.pc or 1)
        pc = wish.pc if wish.pc is not None else pk // u
        folding = Folding(u, pc, stage.array[1], b)
        if u * pc != pk or u not in legal_u(stage) or pc not in legal_pc(stage):
            pairs = [(u, pk // u) for u in legal_u(stage) if pk % u == 0 and pk // u in legal_pc(stage)]
            problems.append(
                f"{stage.name}: array={stage.array} with u = {wish.u}, pc = {wish.pc}: "
                f"Pk = {pk} is u·pc for (u, pc) in {pairs}; give one of these, or leave u and pc out"
            )
    if wish.pn is not None and wish.pn != stage.array[1]:
        problems.append(f"{stage.name}: array={stage.array} and pn = {wish.pn} disagree; give one of them")
    return folding


def _options(stage: Stage) -> list[Folding]:
    """Foldings worth considering: for every (u, pc) and every number of folds over n the fewest columns."""
    b = default_b(stage)
    columns = sorted({math.ceil(stage.N / folds) for folds in range(1, stage.N + 1)})
    channels = sorted({math.ceil(stage.cin / folds) for folds in range(1, stage.cin + 1)})
    return [Folding(u, pc, pn, b) for u in legal_u(stage) for pc in channels for pn in columns]


def _key(stage: Stage, folding: Folding) -> tuple[int, int, Folding]:
    fold = Fold(stage, folding)
    return fold.multipliers, fold.cycles, folding


def _cheapest(stage: Stage, pace: int) -> Folding:
    """The fewest multipliers that keep the pace; the fastest folding if none does."""
    options = _options(stage)
    fitting = [
        folding for folding in options if _fits(Fold(stage, folding)) and Fold(stage, folding).cycles <= pace
    ]
    if fitting:
        return min(fitting, key=lambda folding: _key(stage, folding))
    return min(options, key=lambda folding: (Fold(stage, folding).cycles, folding))


def _fits(fold: Fold) -> bool:
    return fold.depth <= MAX_PES and fold.pk * fold.pn <= MAX_PES


def _pace(stages: Sequence[Stage], multipliers: int) -> int:
    """The least cycles a sample that so many multipliers allow (or the fewest multipliers at all)."""
    table = [
        [(Fold(stage, f).cycles, Fold(stage, f).multipliers) for f in _options(stage)] for stage in stages
    ]
    candidates = sorted({cycles for rows in table for cycles, _ in rows})
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        pace = candidates[middle]
        need = [min((m for cycles, m in rows if cycles <= pace), default=multipliers + 1) for rows in table]
        if sum(need) <= multipliers:
            high = middle
        else:
            low = middle + 1
    return candidates[low]


@cache
def divisor(count: int, most: int) -> int:
    """The largest divisor of ``count`` up to ``most``."""
    return max(d for d in range(1, min(count, most) + 1) if count % d == 0)


def tile_of(fold: Fold, stack: int = 1) -> tuple[int, int]:
    """The largest tile that divides the array, with a multiple of ``stack`` rows if the array has one."""
    behind = stack if fold.pk % stack == 0 else 1
    return behind * tile_lanes(fold.pk, behind), divisor(fold.pn, TILE[1])


def tile_lanes(pk: int, stack: int = 1) -> int:
    """Lanes of the memories of a tile's column in an array of ``pk`` rows, ``stack`` of which share one."""
    return divisor(pk // stack, STACKED_ROWS // stack if stack > 1 else TILE[0])
