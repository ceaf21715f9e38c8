"""The fastest plan of a network over a cluster: the least pace at which the boards reach the end of the line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...ir.stage import Network
from ...target import Cluster
from .. import latency as L
from ..budget import LINK_SHARE
from ..foldings import least_pace
from ..layout import Storage
from .fit import Load, Room, room_of
from .flight import flights
from .layer import TURN_ROWS, Layer, Share, layers_of
from .memory import Flight
from .price import Prices, Taken
from .traffic import words_across, words_between
from .walk import Costs, Place, Step, walk

__all__ = ["Found", "search"]


@dataclass(frozen=True)
class Found:
    """A plan at a pace: what every board takes, and how."""

    pace: int
    steps: tuple[Step, ...]
    taken: tuple[Taken, ...]
    flights: tuple[Flight, ...]


class Search:
    def __init__(self, network: Network, cluster: Cluster, storages: Sequence[Storage] | None = None):
        self.network, self.cluster = network, cluster
        self.layers = layers_of(network)
        self.storages = list(storages) if storages else [Storage(copy=layer.b < 2) for layer in self.layers]
        self.rooms = [room_of(board) for board in cluster.boards]
        self.clock = min(board.device.clock_mhz for board in cluster.boards)
        self.gbps = [link.payload_gbps * LINK_SHARE for link in cluster.links]
        self.base = Load(0, 4000, 6000, (), 0.0)
        self._words: dict[tuple[int, Place, int], tuple[int, int]] = {}
        self.log: Callable[[str], None] = lambda _: None

    def turns(self, pace: int) -> list[int]:
        """Turns of a cut by rows: so many that a full board's turn has about TURN_ROWS rows of the convolution."""
        found = []
        room = max(room.dsp for room in self.rooms)
        for layer in self.layers:
            height = layer.stage.window.out_height
            each = layer.dsps(self.rooms[0].device.dsp_widths)
            boards = sum(layer.stage.macs[:1]) * each / (room * pace)
            rows = height / max(1.0, boards)
            found.append(max(1, round(rows / TURN_ROWS)))
        return found

    def crosses(self, board: int, place: Place, pace: int, turns: Sequence[int]) -> bool:
        """Whether the link behind a board carries what crosses at a place."""
        if board >= len(self.cluster.links):
            return False
        words = max(self.words(board, place, turns))
        width = self.cluster.links[board].width
        return words <= pace and words * width * self.clock * 1e6 / pace / 1e9 <= self.gbps[board]

    def words(self, board: int, place: Place, turns: Sequence[int]) -> tuple[int, int]:
        width = self.cluster.links[board].width
        count = turns[place.layer]
        key = (width, place, count)
        if key not in self._words:
            if place.done:
                share = Share(place.layer, place.axis, 0, place.done, count)
                self._words[key] = words_across(self.layers[place.layer], share, width)
            else:
                self._words[key] = words_between(self.layers, place.layer, width)
        return self._words[key]

    def at(self, pace: int, flown: Sequence[Flight]) -> Found | None:
        prices = Prices(self.layers, pace, flown, self.storages)
        turns = self.turns(pace)
        costs = Costs(
            self.layers,
            lambda board, shares: prices.take(self.rooms[board], shares, self.base) is not None,
            lambda board, place: self.crosses(board, place, pace, turns),
            turns,
            len(self.rooms),
        )
        steps = walk(costs)
        if steps is None:
            return None
        taken = []
        for board, step in enumerate(steps):
            got = prices.take(self.rooms[board], step.shares, self.base)
            assert got is not None
            taken.append(got)
        return Found(pace, tuple(steps), tuple(taken), tuple(flown))

    def flown(self, found: Found) -> list[Flight]:
        shares: list[list[Share]] = [[] for _ in self.layers]
        cycles: list[list[int]] = [[] for _ in self.layers]
        for step, taken in zip(found.steps, found.taken, strict=True):
            for share, choice in zip(step.shares, taken.choices, strict=True):
                shares[share.layer].append(share)
                cycles[share.layer].append(choice.cycles)
        pairs = [(tuple(s), tuple(c)) for s, c in zip(shares, cycles, strict=True)]
        return flights(self.layers, pairs, found.pace, self.hop(), float(L.loss_cycles(self.network.loss)))

    def hop(self) -> float:
        if not self.cluster.links:
            return 0.0
        return max(
            L.LINK + L.LINK_SPREAD + link.latency * self.clock / link.clock_mhz for link in self.cluster.links
        )

    def least(self) -> int:
        dsp = sum(room.dsp for room in self.rooms)
        need = sum(layer.useful * layer.dsps(self.rooms[0].device.dsp_widths) / max(1, sum(1 for m in layer.stage.macs if m)) for layer in self.layers)
        return int(need / dsp)

    def run(self, tolerance: float = 1e-4) -> Found | None:
        low = self.least()
        flown = [Flight(3.0, 3.0, 3.0)] * len(self.layers)
        best: Found | None = None
        high = low
        for _ in range(4):
            # a pace that works
            step = 1.02
            while True:
                found = self.at(high, flown)
                self.log(f"try {high} {found is not None}")
                if found is not None:
                    break
                low = high + 1
                high = int(high * step) + 1
                step = min(2.0, step * 1.5)
                if high > 1 << 40:
                    return None
            high = max(c.cycles for t in found.taken for c in t.choices)
            high = found.pace
            best = found
            while high - low > max(1, tolerance * high):
                middle = (low + high) // 2
                found = self.at(middle, flown)
                self.log(f"try {middle} {found is not None}")
                if found is None:
                    low = middle + 1
                else:
                    best, high = found, middle
            new = self.flown(best)
            if all(n.x <= f.x and n.masks <= f.masks and n.argmax <= f.argmax for n, f in zip(new, flown, strict=True)) and _ > 0:
                break
            flown = [Flight(*(round(1.02 * v + 0.02, 3) for v in (n.x, n.masks, n.argmax))) for n in new]
            low = int(best.pace * 0.97)
            high = best.pace
        return best


def search(network: Network, cluster: Cluster) -> Found | None:
    """See module."""
    return Search(network, cluster).run()
