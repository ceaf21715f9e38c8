"""Where a network is cut over a chain of boards: the choice, by the user's pins and a balance of multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ..errors import ModelError
from ..ir.stage import Network, Stage
from .fold import Fold, Folding
from .part import WHOLE, Part
from .rows import deal_cycles, deal_evenly, row_problems, uncut_problems, usual_turns

__all__ = [
    "BALANCED",
    "POSITIONS",
    "Chooser",
    "Cut",
    "axis_channels",
    "balanced_cuts",
    "groups_problem",
    "natural_axis",
    "parts_of",
    "within_groups",
]

BALANCED = 1.25
"""Cuts between stages are taken if no board then has more than so many times its share; else layers are cut too."""
POSITIONS = 32
"""Places inside a layer that the balance considers, evenly spread."""


@dataclass(frozen=True)
class Cut:
    """Where one stage stands: part p on board ``board`` + p, with channels bounds[p]..bounds[p+1] of the axis.

    For "rows" bounds[p+1] - bounds[p] is the number of its rows, and ``deal`` the turns of all parts.
    """

    board: int
    axis: str = "whole"
    bounds: tuple[int, ...] = ()
    deal: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Parts."""
        return max(1, len(self.bounds) - 1)


Chooser = Callable[[Network, Sequence[Folding], Sequence[int]], tuple[Cut, ...]]
"""What chooses cuts: network, foldings of the whole stages, multipliers that every board can hold → a cut a stage."""


def axis_channels(stage: Stage, axis: str) -> int:
    """Channels (or groups, or rows of y) along a cut's axis."""
    rows = stage.out_shape[0]
    return {
        "output_channels": stage.out_channels,
        "input_channels": stage.cin,
        "groups": stage.groups,
        "rows": rows,
    }[axis]


def legal_axes(stage: Stage) -> list[str]:
    """Axes of channels with two or more. A grouped layer is cut by whole groups, which share no sum, or by its outputs.

    Rows are cut only where the user or a search asks for it: every part then holds all weights.
    """
    axes = ["groups", "output_channels"] if stage.groups > 1 else ["output_channels", "input_channels"]
    return [axis for axis in axes if axis_channels(stage, axis) > 1]


def within_groups(stage: Stage, low: int, high: int) -> bool:
    """Whether outputs ``low``..``high`` are some of one group, or all of one or more."""
    return low // stage.N == (high - 1) // stage.N or not (low % stage.N or high % stage.N)


def groups_problem(stage: Stage, low: int, high: int) -> str:
    """Why outputs ``low``..``high`` are no part."""
    return (
        f"outputs {low}..{high} of groups of {stage.N}; a part has some of one group, or all of one or more; "
        f"end one at a multiple of {stage.N}"
    )


def natural_axis(stage: Stage) -> str | None:
    """The legal axis over which the fewest bits cross at half of the layer; None if there is none."""
    x = stage.window.pixels_in * stage.in_channels
    y = math.prod(stage.out_shape)
    conv = stage.M * stage.out_channels
    backs = not (stage.frozen and stage.dx is None)
    dy, dx = (stage.dy.width if backs else 0), (stage.dx.width if stage.dx else 0)
    crossing = {
        "output_channels": (
            x * stage.x.width + y // 2 * stage.y.width,
            y // 2 * dy + x * (stage.col_bits if stage.dx else 0),
        ),
        "input_channels": (x // 2 * stage.x.width + conv * stage.psum_bits, conv * dy + x // 2 * dx),
        "groups": (x // 2 * stage.x.width + y // 2 * stage.y.width, y // 2 * dy + x // 2 * dx),
    }
    return min(legal_axes(stage), key=lambda axis: max(crossing[axis]), default=None)


def parts_of(cut: Cut) -> list[Part]:
    """The parts of a stage, in the order of the boards."""
    if cut.count == 1:
        return [WHOLE]
    bounds = list(pairwise(cut.bounds))
    if cut.axis == "rows":
        return [Part("rows", p, len(bounds), 0, high - low, cut.deal) for p, (low, high) in enumerate(bounds)]
    return [Part(cut.axis, p, len(bounds), low, high) for p, (low, high) in enumerate(bounds)]


@dataclass(frozen=True)
class _Place:
    """A stage's pins, checked: its axis, the inner places where it may (or must) be cut, the first board or None.

    ``step``: a part of a multiple of so many channels leaves no multiplier idle that the whole stage uses. ``deal``
    are the turns of rows where they are known, ``turns`` the number of turns of a part where it is asked for.
    """

    axis: str | None
    inner: tuple[int, ...]
    must: bool
    board: int | None
    step: int = 1
    deal: tuple[int, ...] = ()
    turns: int | None = None

    def open(self, inside: str) -> tuple[int, ...]:
        """Inner places to consider: "none", "aligned" or "any"; forced ones always."""
        if self.must or inside == "any":
            return self.inner
        return tuple(c for c in self.inner if inside == "aligned" and c % self.step == 0)


def balanced_cuts(
    network: Network, foldings: Sequence[Folding], capacities: Sequence[int]
) -> tuple[Cut, ...]:
    """Pins kept, the rest so that the fullest board is as empty as it can be, in multipliers of its capacity.

    Cuts between stages if they balance, else inside layers where their folds divide, else anywhere in them. Each is
    exact (dynamic program over POSITIONS places a layer). Raises ModelError naming every illegal pin, and if the
    boards are more than the network has parts for.
    """
    problems: list[str] = []
    folds = [Fold(s, f) for s, f in zip(network.stages, foldings, strict=True)]
    places = [_place(fold, len(capacities), problems) for fold in folds]
    if problems:
        raise ModelError(problems)
    weights = [fold.multipliers for fold in folds]
    share = sum(weights) / sum(capacities)
    found = None
    for inside in ("none", "aligned", "any"):
        found = _search(network.stages, places, weights, capacities, inside) or found
        if found is not None and (inside == "aligned" or found[0] <= BALANCED * share):
            return found[1]
    if found is None:
        raise ModelError(_impossible(network, places, len(capacities)))
    return found[1]


def _impossible(network: Network, places: Sequence[_Place], boards: int) -> str:
    pinned = [
        f"{stage.name} from board {place.board} on"
        for stage, place in zip(network.stages, places, strict=True)
        if place.board is not None
    ]
    if pinned:
        return (
            f"cluster: no way to lay the layers in their order over {boards} boards, none empty, with "
            f"{', '.join(pinned)}; change device or shares"
        )
    most = sum(1 + len(place.inner) for place in places)
    return f"cluster: {boards} boards, but the network has parts for {most} at most; take fewer boards"


def _place(fold: Fold, boards: int, problems: list[str]) -> _Place:
    stage = fold.stage
    pin, found = stage.place, len(problems)
    axes = [*legal_axes(stage), "rows"] if pin.split == "rows" else legal_axes(stage)
    axis = natural_axis(stage)
    wanted = len(pin.device) if pin.device else len(pin.shares) if pin.shares else 1
    if pin.split is not None:
        axis = pin.split
        if axis not in axes:
            one = "it has one group" if axis == "groups" else "there is but one channel"
            why = "it has groups" if stage.groups > 1 else one
            legal = f"legal: {', '.join(axes)}" if axes else "it cannot be cut"
            problems.append(f"{stage.name}: split={pin.split!r}: {why}; {legal}")
    if pin.device is not None and max(pin.device) >= boards:
        problems.append(
            f"{stage.name}: device={max(pin.device)}: no such board, the cluster has {boards}; "
            f"give 0..{boards - 1}"
        )
    if axis is None and wanted > 1:
        problems.append(f"{stage.name}: {wanted} boards, but it cannot be cut; give one board")
    if len(problems) > found:
        return _Place(None, (), False, None)
    first = pin.device[0] if pin.device else None
    if axis is None or (pin.device is not None and wanted == 1):
        return _Place(axis, (), False, first)
    channels = axis_channels(stage, axis)
    if axis == "rows":
        return _place_rows(fold, wanted, first, problems)
    if wanted == 1:
        folds = {"output_channels": fold.fn, "input_channels": fold.cgs, "groups": 1}[axis]
        every, aligned = max(1, channels // POSITIONS), folds * max(1, channels // folds // POSITIONS)
        inner = {*range(every, channels, every), *range(aligned, channels, aligned)}
        if axis == "output_channels":
            inner |= {*range(stage.N, channels, stage.N)}
        return _Place(axis, tuple(sorted(inner)), False, None, aligned)
    shares = pin.shares or _even(channels, wanted)
    if axis == "output_channels" and pin.shares is None and stage.groups > 1:
        shares = _even_in_groups(stage, wanted)
    if sum(shares) != channels or min(shares) < 1:
        what = "groups" if axis == "groups" else f"{axis.replace('_', ' ')}"
        problems.append(
            f"{stage.name}: shares={shares} of {channels} {what}; give {wanted} that sum to {channels}"
        )
        return _Place(None, (), False, None)
    bounds = (0, *accumulate(shares))
    if axis == "output_channels":
        crossed = [pair for pair in pairwise(bounds) if not within_groups(stage, *pair)]
        problems += [f"{stage.name}: shares={shares}: {groups_problem(stage, *pair)}" for pair in crossed]
    return _Place(axis, bounds[1:-1], True, first)


def _even(units: int, parts: int) -> tuple[int, ...]:
    """Shares of so many parts, as alike as can be."""
    return tuple(units * (p + 1) // parts - units * p // parts for p in range(parts))


def _even_in_groups(stage: Stage, parts: int) -> tuple[int, ...]:
    """Shares of outputs: whole groups to each part, or as many parts as can be alike to each group."""
    if parts <= stage.groups:
        return tuple(groups * stage.N for groups in _even(stage.groups, parts))
    return tuple(share for count in _even(parts, stage.groups) for share in _even(stage.N, count))


def _place_rows(fold: Fold, wanted: int, first: int | None, problems: list[str]) -> _Place:
    """The place of a stage that is to be cut by rows, over ``wanted`` boards, 1: as many as balance."""
    stage, pin, found = fold.stage, fold.stage.place, len(problems)
    height = stage.out_shape[0]
    if wanted == 1:
        problems += uncut_problems(stage, fold.b)
        inner = tuple(range(max(1, height // POSITIONS), height, max(1, height // POSITIONS)))
        return _Place("rows", () if len(problems) > found else inner, False, None, turns=pin.turns)
    if pin.shares is not None:
        deal = deal_cycles(height, pin.shares)
    else:
        totals = [height * (p + 1) // wanted - height * p // wanted for p in range(wanted)]
        deal = deal_evenly(totals, pin.turns or usual_turns(stage, wanted))
    problems += row_problems(stage, deal, wanted, fold.b)
    if len(problems) > found:
        return _Place(None, (), False, None)
    inner = tuple(accumulate(sum(deal[p::wanted]) for p in range(wanted)))[:-1]
    return _Place("rows", inner, True, first, deal=deal)


Point = tuple[int, int]
"""(stage, channel of its axis): a place in the line of all layers; (stage, 0) stands before it."""


def _search(
    stages: Sequence[Stage],
    places: Sequence[_Place],
    weights: Sequence[int],
    capacities: Sequence[int],
    inside: str,
) -> tuple[float, tuple[Cut, ...]] | None:
    """The least greatest load over the capacities, and its cuts; None if no way keeps the pins."""
    points: list[Point] = []
    for i, place in enumerate(places):
        points += [(i, 0), *((i, c) for c in place.open(inside))]
    points.append((len(stages), 0))
    at = [_weight(stages, places, weights, point) for point in points]
    least: dict[int, tuple[float, int, tuple[Point, ...]]] = {0: (0.0, 0, (points[0],))}
    for board, capacity in enumerate(capacities):
        following: dict[int, tuple[float, int, tuple[Point, ...]]] = {}
        for start, (load, cuts, way) in least.items():
            for end in range(start + 1, len(points)):
                if not _fits(stages, places, points[start], points[end], board):
                    continue
                worst = max(load, (at[end] - at[start]) / capacity)
                option = (worst, cuts + (points[end][1] > 0), (*way, points[end]))
                if end not in following or option[:2] < following[end][:2]:
                    following[end] = option
        least = following
    found = least.get(len(points) - 1)
    return None if found is None else (found[0], _cuts(places, stages, found[2]))


def _weight(stages: Sequence[Stage], places: Sequence[_Place], weights: Sequence[int], point: Point) -> float:
    """Multipliers before a point."""
    stage, channel = point
    before = float(sum(weights[:stage]))
    if channel:
        axis = places[stage].axis
        assert axis is not None
        before += weights[stage] * channel / axis_channels(stages[stage], axis)
    return before


def _fits(stages: Sequence[Stage], places: Sequence[_Place], start: Point, end: Point, board: int) -> bool:
    """Whether ``board`` may hold what lies between two points."""
    last = end[0] if end[1] else end[0] - 1
    for i in range(start[0], last + 1):
        place = places[i]
        low = start[1] if i == start[0] else 0
        high = end[1] if i == end[0] and end[1] else None
        if place.axis == "output_channels":
            stage = stages[i]
            if not within_groups(stage, low, stage.out_channels if high is None else high):
                return False
        if place.must:
            inner = (0, *place.inner)
            if low not in inner or high != (*place.inner, None)[inner.index(low)]:
                return False  # exactly one part of it
        if place.board is not None:
            part = (0, *place.inner).index(low) if place.must else 0
            if board != place.board + part:
                return False
            if not place.must and (low or high is not None):
                return False
    return True


def _cuts(places: Sequence[_Place], stages: Sequence[Stage], way: Sequence[Point]) -> tuple[Cut, ...]:
    found = []
    for i, place in enumerate(places):
        inner = [point[1] for point in way if point[0] == i and point[1] > 0]
        board = max(k for k, point in enumerate(way) if point <= (i, 0))
        if inner and place.axis is not None:
            bounds = (0, *inner, axis_channels(stages[i], place.axis))
            deal = place.deal
            if place.axis == "rows" and not deal:
                totals = [high - low for low, high in pairwise(bounds)]
                deal = deal_evenly(totals, place.turns or usual_turns(stages[i], len(totals)))
            found.append(Cut(board, place.axis, bounds, deal))
        else:
            found.append(Cut(board))
    return tuple(found)
