"""The fastest plan of a network over a cluster: the least pace at which the boards reach the end of the line."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import ModelError
from ...ir.stage import Network
from ...target import Board, Cluster
from .. import latency as L
from ..layout import Storage
from .bound import NO_BOUND, Bound, lower_bound
from .cost import Line
from .fit import Room
from .flight import flights
from .layer import Share
from .memory import Flight
from .price import Prices, Taken
from .walk import Costs, Place, Step, walk

__all__ = ["Found", "Search", "fewest_boards", "search"]

log = logging.getLogger(__name__)
STEP, GROWTH = 0.004, 1.12
"""Relative distance of the first two paces that are tried, and of each further distance to the one before."""
MOST_PACE = 1 << 40
ROUNDS = 6
"""Times that the samples in flight are worked out anew from the plan."""
MARGIN = 1.02
NOMINAL = Flight(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Found:
    """A plan: cycles a sample, what every board takes and gives, samples in flight by stage, how stages are stored.

    ``bound`` is a pace that no plan goes below; ``tried`` paces were tried.
    """

    pace: int
    steps: tuple[Step, ...]
    taken: tuple[Taken, ...]
    flights: tuple[Flight, ...]
    storages: tuple[Storage, ...]
    bound: Bound = NO_BOUND
    tried: int = 0

    def shares(self, layers: int) -> list[list[tuple[int, Share, int]]]:
        """(board, share, place of its choice on the board) of every stage."""
        found: list[list[tuple[int, Share, int]]] = [[] for _ in range(layers)]
        for board, step in enumerate(self.steps):
            for k, share in enumerate(step.shares):
                found[share.layer].append((board, share, k))
        return found


class Search:
    """One network on one cluster, with one way to store each stage."""

    def __init__(self, network: Network, cluster: Cluster, storages: Sequence[Storage], paced_by_loss: bool = True):
        self.line = Line(network, cluster)
        self.storages = tuple(storages)
        self.floor = self.line.least_pace(paced_by_loss)
        self.tried = 0

    def at(self, pace: int, flown: Sequence[Flight], rooms: Sequence[Room] | None = None) -> Found | None:
        """The plan with the fewest boards at a pace; None if they do not reach the end."""
        line, used = self.line, rooms if rooms is not None else self.line.rooms
        prices = Prices(line.layers, pace, flown, self.storages)
        turns = line.turns(pace)

        def take(board: int, shares: tuple[Share, ...]) -> Taken | None:
            if not line.allowed(board, shares):
                return None
            return prices.take(used[board], shares, line.bases[board])

        costs = Costs(
            line.layers,
            lambda board, shares: take(board, shares) is not None,
            lambda board, place: line.crosses(board, place, pace, turns),
            turns,
            len(used),
            line.pinned,
        )
        self.tried += 1
        steps = walk(costs)
        log.debug("%s cycles: %s", pace, f"{len(steps)} boards" if steps else "no plan")
        if steps is None:
            return None
        taken = [take(board, step.shares) for board, step in enumerate(steps)]
        assert all(each is not None for each in taken)
        return Found(pace, tuple(steps), tuple(each for each in taken if each), tuple(flown), self.storages)

    def needed(self, found: Found) -> list[Flight]:
        """Samples in flight of a plan."""
        pairs = []
        for parts in found.shares(len(self.line.layers)):
            cycles = tuple(found.taken[board].choices[k].cycles for board, _, k in parts)
            pairs.append((tuple(share for _, share, _ in parts), cycles))
        return flights(self.line.layers, pairs, found.pace, self.line.hop, self.line.loss)

    def steady(self, pace: int, near: Sequence[Flight] | None = None) -> Found | None:
        """As :meth:`at`, with as many samples in flight as the plan itself needs."""
        flown = list(near) if near is not None else [NOMINAL] * len(self.line.layers)
        for _ in range(ROUNDS):
            found = self.at(pace, flown)
            if found is None:
                return None
            need = self.needed(found)
            if all(_within(n, f) for n, f in zip(need, flown, strict=True)):
                return found
            flown = [_above(n, f) for n, f in zip(need, flown, strict=True)]
        return None

    def run(self) -> Found | None:
        """The plan with the least pace; None if there is none however slow.

        Paces are tried upwards from the bound: whether the boards reach the end is not monotone in the pace, because
        samples in flight depend on the cuts.
        """
        bound = lower_bound(self.line, self.storages, self.floor, self._enough())
        below, pace, step = bound.pace, bound.pace, STEP
        found = self.steady(pace)
        while found is None:
            below, pace, step = pace, int(pace * (1 + step)) + 1, min(1.0, step * GROWTH)
            if pace > MOST_PACE:
                return None
            found = self.steady(pace)
        best = replace(found, pace=self._pace(found))
        for share in (0.25, 0.5, 0.75):
            between = int(below + share * (best.pace - below))
            if below < between < best.pace and (better := self.steady(between)) is not None:
                best = replace(better, pace=self._pace(better))
                break
        return replace(best, bound=bound, tried=self.tried)

    def _enough(self) -> int:
        """A pace far above any bound."""
        return MOST_PACE

    def _pace(self, found: Found) -> int:
        return self.line.pace_of(found.steps, found.taken, found.pace, self.floor)


def _within(need: Flight, given: Flight) -> bool:
    return need.x <= given.x and need.masks <= given.masks and need.argmax <= given.argmax


def _above(need: Flight, given: Flight) -> Flight:
    pairs = ((need.x, given.x), (need.masks, given.masks), (need.argmax, given.argmax))
    return Flight(*(max(MARGIN * new, old) for new, old in pairs))


def search(network: Network, cluster: Cluster, storages: Sequence[Storage] | None = None) -> Found:
    """The fastest plan of ``network`` on all boards of ``cluster``. Raises ModelError if there is none."""
    stored = storages if storages is not None else usual_storages(network)
    found = Search(network, cluster, stored).run()
    if found is None:
        raise ModelError(f"cluster: no plan of {network.name} fits {cluster}")
    return found


def usual_storages(network: Network) -> list[Storage]:
    """Weights once, masters beside them."""
    return [Storage() for _ in network.stages]


def fewest_boards(network: Network, board: Board, pace: int) -> int:
    """See search."""
    raise NotImplementedError
