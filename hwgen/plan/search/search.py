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
from .cost import Line
from .fit import Room
from .flight import flights
from .layer import Share
from .memory import Flight
from .price import Prices, Taken
from .walk import Costs, Place, Step, walk

__all__ = ["Found", "Search", "fewest_boards", "search"]

log = logging.getLogger(__name__)
TOLERANCE = 1e-4
"""Relative distance of the pace found to one that was found not to work."""
ROUNDS = 5
"""Times that the samples in flight are worked out anew from the plan."""
MARGIN = 1.02
NOMINAL = Flight(3.0, 3.0, 3.0)


@dataclass(frozen=True)
class Found:
    """A plan: cycles a sample, what every board takes and gives, samples in flight by stage, how stages are stored.

    ``tried`` paces were tried; ``refused`` is the largest of them at which the boards did not reach the end, 0 if none.
    """

    pace: int
    steps: tuple[Step, ...]
    taken: tuple[Taken, ...]
    flights: tuple[Flight, ...]
    storages: tuple[Storage, ...]
    tried: int = 0
    refused: int = 0

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
        self.tried = self.refused = 0

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
            self.refused = max(self.refused, pace)
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

    def run(self) -> Found | None:
        """The plan with the least pace; None if there is none however slow."""
        flown = [NOMINAL] * len(self.line.layers)
        best: Found | None = None
        low = self.floor
        for _ in range(ROUNDS):
            found = self._least(low, flown, best.pace if best else None)
            if found is None:
                return best
            best = found
            need = self.needed(best)
            if all(_within(n, f) for n, f in zip(need, flown, strict=True)):
                return replace(best, tried=self.tried, refused=self.refused)
            # Never below what an earlier round needed: else two plans could take turns.
            flown = [_above(n, f) for n, f in zip(need, flown, strict=True)] if _ else [_wider(n) for n in need]
            low, self.refused = max(self.floor, int(best.pace * 0.97)), 0
        return None if best is None else replace(best, tried=self.tried, refused=self.refused)

    def _least(self, low: int, flown: Sequence[Flight], guess: int | None) -> Found | None:
        found, high, step = None, guess or low, 1.02
        while found is None:
            found = self.at(high, flown)
            if found is None:
                low, high, step = high + 1, int(high * step) + 1, min(2.0, step * step)
                if high > 1 << 44:
                    return None
        high = self._pace(found)
        while high - low > TOLERANCE * high:
            middle = (low + high) // 2
            better = self.at(middle, flown)
            if better is None:
                low = middle + 1
            else:
                found, high = better, self._pace(better)
        return replace(found, pace=high)


    def _pace(self, found: Found) -> int:
        return self.line.pace_of(found.steps, found.taken, found.pace, self.floor)


def _within(need: Flight, given: Flight) -> bool:
    return need.x <= given.x and need.masks <= given.masks and need.argmax <= given.argmax


def _wider(need: Flight) -> Flight:
    return Flight(need.x * MARGIN, need.masks * MARGIN, need.argmax * MARGIN)


def _above(need: Flight, given: Flight) -> Flight:
    wide = _wider(need)
    return Flight(max(wide.x, given.x), max(wide.masks, given.masks), max(wide.argmax, given.argmax))


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
