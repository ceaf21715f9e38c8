"""The fastest plan of a network over a cluster: the least pace at which the boards reach the end of the line."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...ir.stage import Network
from ...target import Cluster
from ..layout import Storage
from ..rooms import Room
from .bound import NO_BOUND, Bound, lower_bound
from .cost import Line, comes_out
from .flight import Stretch, flights
from .held import Flight
from .layer import Layer, Share, layers_of
from .price import Kept, Prices, Taken
from .walk import Costs, Step, walk

__all__ = ["MOST_PACE", "Found", "Search", "usual_storages"]

log = logging.getLogger(__name__)
STEP = 0.01
"""Relative distance of two paces that are tried one after the other."""
FINE = 15
"""So many times faster than one board's multipliers are paces beyond which they are tried further apart."""
MOST_PACE = 1 << 40
"""A network that no board holds at this pace has no plan."""
FEW = 16
"""Paces between one that works and one that does not, up to which every one is tried."""
ROUNDS = 8
"""Times that the samples in flight are worked out anew from the plan."""
UNSTEADY = 2
"""Rounds after which samples in flight only grow."""
MARGIN = 1.02
"""Room for samples in flight beyond what a plan needed, so that a like one needs no other round."""
LOOSE = 1.05
"""What is given beyond so many times the need is worth another round."""
SPARE = 0.5
"""Boards beyond those of the cluster, as a share of them, that a walk may use to show what a pace needs in flight."""
NOMINAL = Flight(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Way:
    """A way to walk: ``few_rows``, no cut by rows where links carry one by channels; ``most_turns`` of one,
    ``tried`` on a board rather than estimated."""

    few_rows: bool
    most_turns: int
    tried: bool = False


ANY_ROWS = Way(False, 5)
WAYS = (Way(True, 5), ANY_ROWS, Way(False, 3), Way(False, 5, True))
"""Few cuts by rows first: each adds samples in flight. Fewer turns keep fewer rows twice, and leave other rests."""


@dataclass(frozen=True)
class Found:
    """A plan: cycles a sample, what every board takes and gives, samples in flight by stage, how stages are stored.

    ``bound`` is a pace that no plan goes below; ``tried`` paces were tried; ``way`` it was found.
    """

    pace: int
    steps: tuple[Step, ...]
    taken: tuple[Taken, ...]
    flights: tuple[Flight, ...]
    storages: tuple[Storage, ...]
    bound: Bound = NO_BOUND
    tried: int = 0
    way: Way = ANY_ROWS

    def shares(self, layers: int) -> list[list[tuple[int, Share, int]]]:
        """(board, share, place of its choice on the board) of every stage."""
        found: list[list[tuple[int, Share, int]]] = [[] for _ in range(layers)]
        for board, step in enumerate(self.steps):
            for k, share in enumerate(step.shares):
                found[share.layer].append((board, share, k))
        return found

    def stretches(self, layers: Sequence[Layer]) -> list[Stretch]:
        """The shares of every stage with their cycles."""
        found, before = [], 0
        for layer, parts in zip(layers, self.shares(len(layers)), strict=True):
            cycles = tuple(self.taken[board].choices[k].cycles for board, _, k in parts)
            found.append(Stretch(layer, tuple(share for _, share, _ in parts), cycles, parts[0][0] != before))
            before = parts[-1][0]
        return found


class Search:
    """One network on one cluster, with one way to store each stage; ``reserve``: share of memory that stays free.

    ``failed``: the largest pace at which :meth:`run` found no plan before it found one.
    """

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        storages: Sequence[Storage],
        paced_by_loss: bool = True,
        reserve: float = 0.0,
    ):
        self.count = len(cluster.boards)
        pinned = any(stage.place.device is not None for stage in network.stages)
        spare = 0 if pinned or self.count == 1 else math.ceil(SPARE * self.count)
        self.line = Line(network, cluster, spare, reserve)
        self.storages = tuple(storages)
        self.floor = self.line.least_pace(paced_by_loss)
        self.tried = 0
        self.kept = Kept()
        self.failed = 0
        self._cut_by_rows = len(cluster.boards) > 1 and any(
            "rows" in layer.axes for layer in self.line.layers
        )

    def prices(self, pace: int, flown: Sequence[Flight]) -> Prices:
        """Prices of shares at a pace, with so many samples in flight."""
        return Prices(self.line.layers, pace, flown, self.storages, self.kept)

    def at(
        self,
        pace: int,
        flown: Sequence[Flight],
        rooms: Sequence[Room] | None = None,
        way: Way = ANY_ROWS,
        known: dict[tuple[object, ...], Found | None] | None = None,
    ) -> Found | None:
        """The plan with the fewest boards at a pace; None if they, or as many boards as ``rooms`` are given, do not
        reach the end. ``known``: what other ways have found at this pace.
        """
        line, used = self.line, rooms if rooms is not None else self.line.rooms
        prices = self.prices(pace, flown)
        turns = self._turns(prices, used, way)
        axes = line.few_rows(pace) if way.few_rows else [list(layer.axes) for layer in line.layers]
        # Ways often come to the same.
        key = tuple(turns), tuple(map(tuple, axes)), tuple(flown), len(used)
        if known is not None and key in known:
            return known[key]

        def take(board: int, shares: tuple[Share, ...]) -> Taken | None:
            if not line.allowed(board, shares):
                return None
            return prices.take(used[board], shares, line.base(board, shares))

        costs = Costs(
            line.layers,
            lambda board, shares: take(board, shares) is not None,
            lambda board, place: line.crosses(board, place, pace),
            turns,
            len(used),
            axes,
            line.least_rows(pace),
            line.pinned,
        )
        self.tried += 1
        steps = walk(costs)
        log.debug("%s cycles: %s", pace, f"{len(steps)} boards" if steps else "no plan")
        found = None
        if steps is not None:
            taken = [take(board, step.shares) for board, step in enumerate(steps)]
            assert all(each is not None for each in taken)
            found = Found(
                pace,
                tuple(steps),
                tuple(each for each in taken if each),
                tuple(flown),
                self.storages,
                way=way,
            )
        if known is not None:
            known[key] = found
        return found

    def _turns(self, prices: Prices, rooms: Sequence[Room], way: Way) -> list[int]:
        """Turns of a cut by rows of every layer: those with which it takes the fewest boards of the largest kind, and
        the layers before it the fewest for the samples that are under way while its parts wait for their turns."""
        line, least = self.line, self.line.least_rows(prices.pace)
        options = line.turns(prices.pace, way.most_turns)
        if not way.tried:
            return [each[0] for each in options]
        board = max(range(self.count), key=lambda board: rooms[board].dsp)
        room, before, found = rooms[board], 0, []
        for layer, each in enumerate(options):
            before += line.x_bits(layer)
            waits = 2 * before / max(1, line.memory_bits)
            scores = []
            for turns in each if "rows" in line.layers[layer].axes else ():
                height = line.layers[layer].axes["rows"]
                sizes = range(prices.most_rows(room, layer, turns, line.base(board)), 0, -turns)
                some = max(turns, least[layer])
                if rows := next((rows for rows in sizes if comes_out(height, rows, turns, some)), 0):
                    scores.append((height / rows + waits / turns, turns))
            found.append(min(scores)[1] if scores else 1)
        return found

    def needed(self, found: Found) -> list[Flight]:
        """Samples in flight of a plan."""
        return flights(found.stretches(self.line.layers), found.pace, self.line.hop, self.line.loss)

    def steady(self, pace: int) -> Found | None:
        """As :meth:`at`, with as many samples in flight as the plan itself needs; the first of WAYS that works.

        More boards of the same kind never keep fewer paces: nothing here depends on how many there are, but that a
        walk ends behind them and a plan may fill no more.
        """
        known: dict[tuple[object, ...], Found | None] = {}
        for way in WAYS if self._cut_by_rows else (ANY_ROWS,):
            if (found := self._steady(pace, way, known)) is not None:
                return replace(found, way=way)
        return None

    def _steady(self, pace: int, way: Way, known: dict[tuple[object, ...], Found | None]) -> Found | None:
        flown = [NOMINAL] * len(self.line.layers)
        for number in range(ROUNDS):
            # With the fewest in flight that may be, more boards than there are show nothing.
            found = self.at(pace, flown, self.line.longer if number else self.line.rooms, way, known)
            if found is None:
                return None
            need = self.needed(found)
            if _flies(found, need):
                if len(found.steps) <= self.count:
                    return found
                if not _loose(found, need):
                    return None
            # A plan that needs more than it was given may be followed by one that needs less, and so on.
            more = [n.times(MARGIN) for n in need]
            flown = [_above(n, f) for n, f in zip(more, flown, strict=True)] if number > UNSTEADY else more
        return None

    def run(self, cap: int = MOST_PACE, failed: int = 0) -> Found | None:
        """The plan with the least pace; None if there is none however slow, or none is found up to ``cap``.

        Paces are tried upwards from the bound: whether the boards reach the end is not monotone in the pace, because
        samples in flight depend on the cuts. Those up to ``failed`` have failed with more memory (see ``failed``).
        """
        bound = lower_bound(self.line, self.storages, self.floor, MOST_PACE)
        below, self.failed = 0, failed
        if bound.pace > cap:
            return None
        for pace in self._ladder():
            if pace >= bound.pace and pace > failed:
                if (found := self.steady(pace)) is not None:
                    best = self._finer(below, found, max(bound.pace, failed + 1))
                    return replace(self._spread(best), bound=bound, tried=self.tried)
                self.failed = pace
                if pace >= cap:
                    return None
            below = pace
        return None

    def slowly(self) -> Found | None:
        """Any plan at all: of the paces that ``run`` tries those that are twice the one before or more."""
        tried = lower_bound(self.line, self.storages, self.floor, MOST_PACE).pace / 2
        for pace in self._ladder():
            if pace >= 2 * tried:
                if (found := self.steady(pace)) is not None:
                    return found
                tried = pace
        return None

    def _ladder(self) -> Iterator[int]:
        """Paces that are tried, further apart where one board's multipliers would do: the same for any number of equal
        boards, so that more of them are never slower."""
        alone = self.line.work / max(1, self.line.rooms[0].dsp)
        pace = 1
        while pace < MOST_PACE:
            yield pace
            pace += math.ceil(pace * min(1.0, STEP * max(1.0, FINE * pace / alone)))

    def _finer(self, below: int, best: Found, least: int) -> Found:
        """The plan of a smaller pace above ``below``, but none under ``least``: of each one if they are few, else by
        halving."""
        if best.pace - below <= FEW:
            paces = (self.steady(pace) for pace in range(max(below + 1, least), best.pace))
            return next((better for better in paces if better is not None), best)
        while best.pace - below > 1:
            middle = (below + best.pace) // 2
            if middle >= least and (better := self.steady(middle)) is not None:
                best = better
            else:
                below = middle
        return best

    def _spread(self, found: Found) -> Found:
        """The same pace on all boards, if fewer do: each takes a smaller share of its multipliers.

        What is found with fewer boards stays if the network has no more parts.
        """
        rooms, count = self.line.rooms, self.count
        low, high = 0.0, 1.0
        while len(found.steps) < count and high - low > 1e-3:
            middle = (low + high) / 2
            spread = self.at(found.pace, found.flights, _narrow(rooms, [middle] * count), found.way)
            if spread is None:
                low = middle
            elif _flies(spread, self.needed(spread)):
                found, high = spread, middle
            else:
                break
        first, last = 0, count
        while len(found.steps) < count and last - first > 1:
            middle_board = (first + last) // 2
            narrow = _narrow(rooms, [low] * middle_board + [high] * (count - middle_board))
            spread = self.at(found.pace, found.flights, narrow, found.way)
            if spread is None or not _flies(spread, self.needed(spread)):
                last = middle_board
            else:
                found, first = spread, middle_board
        return found

    def pace_of(self, found: Found) -> int:
        """Cycles a sample that a plan takes: no more than the pace that it was made for."""
        return self.line.pace_of(found.steps, found.taken, found.pace, self.floor)


def _narrow(rooms: Sequence[Room], shares: Sequence[float]) -> list[Room]:
    """Rooms with a share of their multipliers each; equal ones are one object."""
    known: dict[tuple[int, float], Room] = {}
    for room, share in zip(rooms, shares, strict=True):
        if (id(room), share) not in known:
            known[id(room), share] = replace(room, dsp=max(1, int(room.dsp * share)))
    return [known[id(room), share] for room, share in zip(rooms, shares, strict=True)]


def _pairs(found: Found, need: Sequence[Flight]) -> Iterator[tuple[Flight, Flight]]:
    """What is needed and what was given, of every stage or kind of part of one."""
    for needs, given in zip(need, found.flights, strict=True):
        mine = needs.parts or (needs,)
        yield from zip(
            mine, given.parts if needs.parts and given.parts else (given,) * len(mine), strict=True
        )


def _flies(found: Found, need: Sequence[Flight]) -> bool:
    """Whether a plan has room for its samples in flight."""
    return all(needs.within(given) for needs, given in _pairs(found, need))


def _loose(found: Found, need: Sequence[Flight]) -> bool:
    """Whether a plan was given clearly more than it needs of anything."""
    return not all(given.within(needs.times(LOOSE)) for needs, given in _pairs(found, need))


def _above(need: Flight, given: Flight) -> Flight:
    """The most of both, part for part if either has parts."""
    mine, theirs = need.parts or (need,) * 3, given.parts or (given,) * 3
    parts = tuple(n.most(g) for n, g in zip(mine, theirs, strict=True)) if need.parts or given.parts else ()
    return replace(need.most(given), parts=parts)


def usual_storages(network: Network, copy: bool = True, master: str = "here") -> list[Storage]:
    """The same storage for all stages: a forward ``copy`` of weights only where blocks of one pixel need one; masters
    where the model asks for them, of frozen stages beside their weights."""
    return [
        Storage(copy or layer.b < 2, "here" if stage.frozen else stage.place.master or master)
        for layer, stage in zip(layers_of(network), network.stages, strict=True)
    ]
