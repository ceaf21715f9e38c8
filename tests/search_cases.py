"""Small random networks and clusters for the search, and what an exhaustive search finds on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from math import ceil

import numpy as np

from hwgen import Model, nn
from hwgen.ir.stage import Network
from hwgen.plan.search.layer import Share
from hwgen.plan.search.search import ANY_ROWS, Search, usual_storages
from hwgen.plan.search.walk import Place
from hwgen.target import Board, Cluster, Device, Fill, Link

ALL = Fill(1.0, 1.0, 1.0, 1.0, 1.0)


def random_network(rng: np.random.Generator) -> Network:
    """One to three convolutions of few channels and a classifier."""
    height, width, channels = int(rng.integers(2, 7)), int(rng.integers(2, 7)), int(rng.integers(1, 4))
    layers: list[object] = []
    shape = (height, width, channels)
    for _ in range(int(rng.integers(1, 4))):
        groups = int(rng.choice([1, 1, 1, channels]))
        if groups > 2 and groups % 2 == 0:
            groups //= 2
        outputs = groups * int(rng.integers(1, 5))
        kernel = int(rng.choice([1, 3]))
        layers.append(nn.Conv2d(channels, outputs, kernel, padding=kernel // 2, groups=groups))
        channels = outputs
        if rng.integers(2):
            layers.append(nn.ReLU())
        if height >= 2 and width >= 2 and rng.integers(2):
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
    layers += [nn.Flatten(), nn.Linear(height * width * channels, 3)]
    optimizer = nn.SGD(lr=0.1, batch=int(rng.integers(1, 5)))
    return Model(input=shape, layers=layers, loss=nn.SoftmaxCrossEntropy(), optimizer=optimizer).network(0)


def random_board(rng: np.random.Generator, name: str) -> Board:
    """A board with a few DSPs and memories."""
    device = Device(
        name=name, vendor="xilinx", family="virtex7", part="x", dsp_kind="DSP48E1", dsp_widths=(25, 18),
        dsp=int(rng.integers(4, 60)), bram_kind="RAMB36E1", bram_bits=36_864, bram=int(rng.integers(0, 24)),
        lut=100_000, ff=200_000, clock_mhz=100.0, lut_ram_bits=64, lut_ram=int(rng.integers(100, 3000)),
    )  # fmt: skip
    return Board(name=name, device=device, fill=ALL, transceivers=16, transceiver_gbps=20.0)


def random_cluster(rng: np.random.Generator) -> Cluster:
    """One to four boards of one or two kinds."""
    kinds = [random_board(rng, "one"), random_board(rng, "two")]
    boards = tuple(kinds[int(rng.integers(2))] for _ in range(int(rng.integers(1, 5))))
    link = Link(lanes=1, gbps=float(rng.choice([0.5, 2.0, 10.0])), latency=int(rng.integers(0, 20)))
    return Cluster(boards, (link,) * (len(boards) - 1))


def random_search(seed: int) -> Search:
    """A network on a cluster."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    return Search(network, random_cluster(rng), usual_storages(network), paced_by_loss=False)


def least_pes(search: Search, share: Share, pace: int) -> int | None:
    """Fewest PEs of any folding of a share that keeps a pace: every (u, pc, pn) tried."""
    layer = search.line.layers[share.layer]
    stage = layer.stage
    cin, n, groups = stage.cin, stage.N, stage.groups
    rows, x_rows = stage.window.out_height, stage.window.height
    if share.axis == "input_channels":
        cin = share.size
    elif share.axis == "output_channels":
        n, groups = (share.size, 1) if share.size < n else (n, share.size // n)
    elif share.axis == "groups":
        groups = share.size
    best = None
    for u, pc, pn in product(layer.us, range(1, cin + 1), range(1, n + 1)):
        chunks, folds = ceil(cin / pc), ceil(n / pn)
        cycles = rows * stage.window.out_width * groups * (stage.window.positions // u) * chunks * folds
        streams = [cycles, x_rows * stage.window.width * groups * chunks]
        if stage.pool is not None and share.axis != "input_channels":
            pooled = stage.pool.pixels_out * stage.pool.positions
            streams += [pooled * groups * folds, rows * stage.window.out_width * groups * folds]
        if max(streams) <= pace and (best is None or u * pc * pn < best):
            best = u * pc * pn
    return best


def fewest(search: Search, pace: int, flown) -> int | None:
    """Fewest boards that reach the end at a pace, by trying every end of every board."""
    line = search.line
    probe = _Probe(search, pace, flown)

    @cache
    def from_here(board: int, place: Place) -> int | None:
        if board == len(line.rooms):
            return None
        counts = []
        for shares, end in _ends(search, place, probe.turns, probe.least):
            if end.layer == len(line.layers):
                if probe.fits(board, shares):
                    return 1
            elif line.crosses(board, end, pace) and probe.fits(board, shares):
                rest = from_here(board + 1, end)
                counts += [rest + 1] if rest is not None else []
        return min(counts, default=None)

    return from_here(0, Place(0))


class _Probe:
    def __init__(self, search: Search, pace: int, flown) -> None:
        self.search = search
        self.turns = [options[0] for options in search.line.turns(pace, ANY_ROWS.most_turns)]
        self.least = [max(pair) for pair in zip(self.turns, search.line.least_rows(pace), strict=True)]
        self.prices = search.prices(pace, flown)

    def fits(self, board: int, shares: tuple[Share, ...]) -> bool:
        line = self.search.line
        if not line.allowed(board, shares):
            return False
        return self.prices.take(line.rooms[board], shares, line.base(board, shares)) is not None


def _ends(search: Search, place: Place, turns, least) -> Iterator[tuple[tuple[Share, ...], Place]]:
    """All stretches of the line that begin at a place."""
    layers = search.line.layers
    shares: tuple[Share, ...] = ()
    while place.layer < len(layers):
        axes = layers[place.layer].axes
        n = layers[place.layer].stage.N
        for axis in [place.axis] if place.done else list(axes):
            own = turns[place.layer] if axis == "rows" else 1
            for end in range(place.done + 1, axes[axis]):
                if axis == "output_channels" and not _one_part(place.done, end, n):
                    continue
                if axis == "rows" and not _whole_turns(
                    end - place.done, axes[axis] - end, turns[place.layer], least[place.layer]
                ):
                    continue
                part = Share(place.layer, axis, place.done, end, own)
                yield (*shares, part), Place(place.layer, axis, end, own)
        rest = Share(place.layer, "whole", 0, 1)
        if place.axis == "output_channels" and not _one_part(place.done, axes[place.axis], n):
            return
        if place.done:
            rest = Share(place.layer, place.axis, place.done, axes[place.axis], place.turns)
        shares, place = (*shares, rest), Place(place.layer + 1)
        yield shares, place


def _one_part(low: int, high: int, n: int) -> bool:
    """Whether a board may have outputs low..high of groups of n: no piece of a group beside anything else."""
    pieces = [(max(low, g), min(high, g + n)) for g in range(0, high, n) if g + n > low]
    return len(pieces) == 1 or all(b - a == n for a, b in pieces)


def _whole_turns(rows: int, rest: int, turns: int, least: int) -> bool:
    """Whether a part of a cut by rows that is not the last may have so many, and leave the rest."""
    return rows % turns == 0 and rows >= least and rest >= least


def slower(cluster: Cluster, gbps: float) -> Cluster:
    """The same boards with slower cables."""
    return Cluster(cluster.boards, tuple(replace(link, gbps=gbps) for link in cluster.links))
