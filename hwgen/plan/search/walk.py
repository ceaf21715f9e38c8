"""The dynamic program: how far along the line of layers the boards reach at a pace, one board after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .layer import Layer, Share, ceil_div

__all__ = ["Costs", "Place", "Step", "walk"]


@dataclass(frozen=True)
class Place:
    """A place in the line: before stage ``layer`` (``done`` 0), or behind ``done`` units of ``axis`` of it; of rows in
    ``turns`` turns, which all parts have."""

    layer: int
    axis: str = ""
    done: int = 0
    turns: int = 1


@dataclass(frozen=True)
class Step:
    """What one board takes: the shares between two places."""

    start: Place
    end: Place
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Costs:
    """What the walk asks. ``fits(board, shares)``; ``crosses(board, place)``: the link behind the board carries it;
    ``turns[layer]`` of a cut by rows; ``axes[layer]`` to cut along."""

    layers: Sequence[Layer]
    fits: Callable[[int, tuple[Share, ...]], bool]
    crosses: Callable[[int, Place], bool]
    turns: Sequence[int]
    boards: int
    axes: Sequence[Sequence[str]]
    least: Sequence[int] = ()
    """Rows that a part of a cut by rows has at least, by layer, beside one a turn; () 1."""
    wide: bool = False
    """Keep nearer places too: with pins the furthest may be too far."""
    hints: dict[tuple[int, str, int, bool], int] = field(default_factory=dict)
    """Units that the last board took of a layer."""


def walk(costs: Costs) -> list[Step] | None:
    """Steps of boards 0, 1, ... to the end of the line, with the fewest boards; None if they do not reach it.

    After every board the furthest place of each axis is kept. That is enough: what lies behind a further place is a
    part of what lies behind a nearer one of the same axis, or in a later layer, and a part takes no more of any board.
    Whole groups can only follow whole groups, so of outputs the furthest such place is kept too.
    """
    front: dict[Place, list[Step]] = {Place(0): []}
    for board in range(costs.boards):
        reached: dict[tuple[int, str, bool], tuple[Place, list[Step]]] = {}
        for start, steps in front.items():
            for step in _reach(costs, board, start):
                end = step.end
                if end.layer == len(costs.layers):
                    return [*steps, step]
                closed = not end.done or costs.layers[end.layer].closes_group(end.axis, end.done)
                key = (end.layer, end.axis, closed)
                if key not in reached or reached[key][0].done < end.done:
                    reached[key] = (end, [*steps, step])
        if not reached:
            return None
        last = max(layer for layer, _, _ in reached)
        front = {
            place: steps for (layer, _, _), (place, steps) in reached.items() if costs.wide or layer == last
        }
    return None


def _reach(costs: Costs, board: int, start: Place) -> list[Step]:
    """The furthest places that one board reaches: behind whole layers, and inside the first that does not fit whole."""
    if (last := _to_the_end(costs, board, start)) is not None:
        return [last]
    found: list[Step] = []
    shares: tuple[Share, ...] = ()
    place = start
    while place.layer < len(costs.layers):
        for axis in [place.axis] if place.done else costs.axes[place.layer]:
            found += _inside(costs, board, start, place, shares, axis)
        rest = _rest(costs, place)
        if rest is None or not costs.fits(board, (*shares, rest)):
            break
        shares, place = (*shares, rest), Place(place.layer + 1)
        if costs.crosses(board, place):
            found.append(Step(start, place, shares))
    return found


def _to_the_end(costs: Costs, board: int, start: Place) -> Step | None:
    """All that is left of the line, if one board holds it: it needs no link to a next one, as every shorter stretch
    does."""
    if (rest := _rest(costs, start)) is None:
        return None
    shares = (rest, *(Share(layer, "whole", 0, 1) for layer in range(start.layer + 1, len(costs.layers))))
    return Step(start, Place(len(costs.layers)), shares) if costs.fits(board, shares) else None


def _rest(costs: Costs, place: Place) -> Share | None:
    """All that is left of a layer; None if that is more than a share."""
    if not place.done:
        return Share(place.layer, "whole", 0, 1)
    extent = costs.layers[place.layer].axes[place.axis]
    if extent not in costs.layers[place.layer].ends(place.axis, place.done):
        return None
    return Share(place.layer, place.axis, place.done, extent, place.turns)


def _inside(
    costs: Costs, board: int, start: Place, place: Place, shares: tuple[Share, ...], axis: str
) -> list[Step]:
    """The furthest place on ``axis`` inside the layer at ``place``; of outputs also the furthest behind a group."""
    layer = costs.layers[place.layer]
    ends = layer.ends(axis, place.done)
    found = [_furthest(costs, board, start, place, shares, axis, ends)]
    closed = layer.closed_ends(axis, place.done)
    if len(closed) < len(ends):
        found.append(_furthest(costs, board, start, place, shares, axis, closed))
    return [step for step in found if step is not None]


def _furthest(
    costs: Costs,
    board: int,
    start: Place,
    place: Place,
    shares: tuple[Share, ...],
    axis: str,
    ends: Sequence[int],
) -> Step | None:
    """The furthest of ``ends``."""
    extent = costs.layers[place.layer].axes[axis]
    turns = costs.turns[place.layer] if axis == "rows" else 1

    def part(end: int) -> Share:
        return Share(place.layer, axis, place.done, end, turns)

    pin = costs.layers[place.layer].stage.place.device
    after = pin[-1] - board if pin is not None else 1
    least = max(turns, costs.least[place.layer] if costs.least else 1) if axis == "rows" else 1
    most = extent - least * max(1, after)  # enough for every board that must have some
    if bounds := costs.layers[place.layer].bounds:
        most = min((bound for bound in bounds if place.done < bound < extent), default=place.done)
        ends = [most] if most in ends else []
    elif axis == "rows":
        ends = range(place.done + ceil_div(max(least, 1), turns) * turns, extent + 1, turns)
    key = place.layer, axis, len(shares), len(ends) == 1
    low = fitting = _last(
        lambda count: costs.fits(board, (*shares, part(ends[count - 1]))),
        bisect_right(ends, most),
        bisect_right(ends, place.done + costs.hints.get(key, 0)),
    )
    if low:
        costs.hints[key] = ends[low - 1] - place.done
    while low and not costs.crosses(board, Place(place.layer, axis, ends[low - 1], turns)):
        low -= 1
    if not low or (low != fitting and not costs.fits(board, (*shares, part(ends[low - 1])))):
        return None
    return Step(start, Place(place.layer, axis, ends[low - 1], turns), (*shares, part(ends[low - 1])))


def _last(fits: Callable[[int], bool], most: int, hint: int) -> int:
    """The largest count up to ``most`` that fits, as 0 does; first looked for near ``hint``: the next
    board of a chain mostly takes as much as the one before."""
    low, high, probe, step = 0, most, min(hint, most), 1
    while low < probe <= high:
        if fits(probe):
            low = probe
            if high < most:
                break
            probe = min(low + step, high)
        else:
            high = probe - 1
            if low:
                break
            probe = max(high - step + 1, 1)
        step *= 4
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
