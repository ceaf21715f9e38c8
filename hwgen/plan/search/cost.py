"""The line of layers and the chain of boards: rooms, links, pins, and what crosses where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from ...ir.stage import Network
from ...target import Cluster, Device
from .. import latency as L
from ..budget import LINK_SHARE
from ..chain import FRAME_WORDS
from ..plan import image_words
from ..rooms import Load, Memories, Room, load_of, room_of
from .layer import Layer, Share, ceil_div, layers_of, rows_read
from .logic import board_base
from .price import Taken
from .traffic import batch_words, words_across, words_between
from .walk import Place, Step

__all__ = ["Line", "comes_out"]

MOST_IMAGE_LANES = 64
LEAST = 0.35
"""Least rows of a part, as a share of those that all multipliers of the largest board keep busy."""
SHARE = 0.7
"""Share of a board's memory for the rows of a part, to weigh turns by."""
IN_FLIGHT = 2.8
"""Samples in flight of a stage near the host, to weigh turns by."""
CROSSED = 0.9
"""Share of an axis's places that a link must carry, so that the layer need not be cut by rows."""


class Line:
    """What the search knows of a network and a cluster, whatever the pace.

    ``rooms`` of its boards; ``longer`` with those of ``spare`` boards more like the last one, for walks that show what
    a longer chain would need. ``reserve``: share of block and ultra RAM that stays free.
    """

    def __init__(self, network: Network, cluster: Cluster, spare: int = 0, reserve: float = 0.0):
        self.network, self.cluster, self.count = network, cluster, len(cluster.boards)
        self.boards = (*cluster.boards, *[cluster.boards[-1]] * spare)
        self.links = (*cluster.links, *cluster.links[-1:] * spare)
        self.layers: list[Layer] = layers_of(network)
        # Equal ones are one object, by which prices tell them apart.
        same: dict[Device, Device] = {}
        kinds: dict[Room, Room] = {}
        loads: dict[Load, Load] = {}
        self.longer: list[Room] = []
        for board in self.boards:
            room = replace(room_of(board), device=same.setdefault(board.device, board.device))
            self.longer.append(kinds.setdefault(room, _reserved(room, reserve)))
        self.rooms = self.longer[: self.count]
        self.clock = min(board.device.clock_mhz for board in cluster.boards)
        self.room_gbps = [link.payload_gbps * LINK_SHARE for link in self.links]
        bases = ([self._base(board, last) for last in (False, True)] for board in range(len(self.boards)))
        self._bases = [[loads.setdefault(base, base) for base in each] for each in bases]
        self.loss = float(L.loss_cycles(network.loss))
        self.hop = max(
            (L.LINK + L.LINK_SPREAD + link.latency * self.clock / link.clock_mhz for link in cluster.links),
            default=0.0,
        )
        self.pinned = any(layer.stage.place.device is not None for layer in self.layers)
        self._paces: dict[tuple[int, str], float] = {}
        self._words: dict[tuple[int, Place], tuple[int, int]] = {}

    def base(self, board: int, shares: Sequence[Share] = ()) -> Load:
        """What a board takes beside its shares: with the end of the line it is the last one, however many follow."""
        return self._bases[board][bool(shares) and self._ends(shares[-1])]

    def _ends(self, share: Share) -> bool:
        layer = self.layers[share.layer]
        return layer is self.layers[-1] and share.high == layer.axes.get(share.axis, 1)

    def _base(self, board: int, last: bool) -> Load:
        """A board's link ends: replay memory and receive buffers for a round trip at full rate, twice for depths that
        are powers of two. The ``last`` one has none to the next, and the loss."""
        found: Memories = ()
        links = self.links[max(0, board - 1) : board + (not last)]
        for link in links:
            # Of a slow link fewer words come than cycles pass.
            rate = min(1.0, link.clock_mhz / self.clock)
            trip = math.ceil(
                (2 * math.ceil(link.latency * self.clock / link.clock_mhz) + 4 * FRAME_WORDS) * rate
            )
            replay = max(8 * FRAME_WORDS, 1 << (2 * link.latency + 4 * FRAME_WORDS - 1).bit_length())
            found += (
                ("replay", 1, replay, link.width, 1, False),
                ("received", 4, ceil_div(trip, 2), link.width, 1, False),
            )
        logic = board_base([link.width for link in links], last)
        return load_of(self.boards[board].device, 0, logic, found)

    def least_pace(self, paced_by_loss: bool) -> int:
        """Cycles a sample below which nothing goes: all multipliers always busy; loss and image."""
        dsp = sum(room.dsp for room in self.rooms)
        _, width, channels = self.network.in_shape
        image = image_words(self.network.in_shape, min(width * channels, MOST_IMAGE_LANES))
        loss = L.loss_cycles(self.network.loss) if paced_by_loss else 0
        return max(1, math.ceil(self.work / max(1, dsp)), image, loss)

    @cached_property
    def work(self) -> int:
        """Cycles a sample of all multipliers together."""
        each = (min(layer.dsps(room.device.dsp_widths) for room in self.rooms) for layer in self.layers)
        return sum(layer.stage.macs[0] * dsps for layer, dsps in zip(self.layers, each, strict=True))

    def image_lanes(self, pace: int) -> int:
        """The fewest lanes of the host's stream that keep a pace."""
        shape = self.network.in_shape
        most = min(shape[1] * shape[2], MOST_IMAGE_LANES)
        return next((n for n in range(1, most) if image_words(shape, n) <= pace), most)

    def least_rows(self, pace: int) -> list[int]:
        """Rows that a part of each layer cut by rows has at least: one that has few takes as long for each as another
        for many, and everything behind it waits."""
        return [
            max(1, int(LEAST * min(self._most_rows(layer, pace), layer.stage.out_shape[0] / 2)))
            for layer in self.layers
        ]

    def _most_rows(self, layer: Layer, pace: int) -> float:
        """Rows of y for which the multipliers of the largest board are enough."""
        room = max(room.dsp for room in self.rooms)
        each = layer.dsps(self.rooms[0].device.dsp_widths)
        return layer.stage.out_shape[0] * room * pace / (layer.stage.macs[0] * each)

    @cached_property
    def memory_bits(self) -> int:
        """Bits of the block and ultra RAM of the largest board."""
        return max(
            room.bram * room.device.bram_bits + room.uram * room.device.uram_bits for room in self.rooms
        )

    def x_bits(self, layer: int) -> int:
        """Bits of a sample's x of a layer."""
        stage = self.layers[layer].stage
        return stage.window.pixels_in * stage.in_channels * stage.x.width

    def turns(self, pace: int, most_turns: int) -> list[list[int]]:
        """Turns of a cut by rows of every layer, up to ``most_turns``, first those with which the fewest boards hold
        it, and on them the fewest bits. Parts have whole turns of equal rows: else all wait for the longest one.
        """
        found = []
        for layer in self.layers:
            height = layer.stage.out_shape[0]
            most = max(1, min(int(self._most_rows(layer, pace)), height // 2))
            options = range(1, min(most_turns, most) + 1)
            scores = [
                (_parts(layer, most, turns, SHARE * self.memory_bits, pace), turns) for turns in options
            ]
            found.append([turns for _, turns in sorted(scores)])
        return found

    def few_rows(self, pace: int) -> list[list[str]]:
        """Axes of every layer, rows only where a cut by channels is too much for the links: rows that wait for their
        turn are samples in flight."""
        found = []
        for index, layer in enumerate(self.layers):
            axes = list(layer.axes)
            if "rows" in axes and any(self._crossed(index, axis) <= pace for axis in axes if axis != "rows"):
                axes.remove("rows")
            found.append(axes)
        return found

    def _crossed(self, layer: int, axis: str) -> float:
        """The least pace at which nearly all places of an axis can be crossed by the first link."""
        if not self.links:
            return math.inf
        if (layer, axis) not in self._paces:
            places = [Place(layer, axis, done) for done in range(1, self.layers[layer].axes[axis])]
            words = (max(self.words(0, place)) for place in places)
            paces = sorted(
                max(most, self.least_paced(0, place, most)) for place, most in zip(places, words, strict=True)
            )
            self._paces[layer, axis] = paces[math.ceil(CROSSED * len(places)) - 1]
        return self._paces[layer, axis]

    def allowed(self, board: int, shares: Sequence[Share]) -> bool:
        """Whether the user's pins let these shares stand on a board."""
        return all(self._allowed(board, share) for share in shares)

    def _allowed(self, board: int, share: Share) -> bool:
        pin = self.layers[share.layer].stage.place
        if pin.split is not None and share.axis not in ("whole", pin.split):
            return False
        if pin.device is not None:
            if board not in pin.device or (len(pin.device) == 1) != (share.axis == "whole"):
                return False
            first, last = share.low == 0, share.high == self.layers[share.layer].axes.get(share.axis, 1)
            if first != (board == pin.device[0]) or last != (board == pin.device[-1]):
                return False
        if pin.shares is not None:
            bounds = [0]
            for size in pin.shares:
                bounds.append(bounds[-1] + size)
            return share.axis == pin.split and (share.low, share.high) in pairwise(bounds)
        return True

    def words(self, board: int, place: Place) -> tuple[int, int]:
        """Link words a sample behind ``board`` at a place, away from the host and towards it."""
        width = self.links[board].width
        key = (width, place)
        if key not in self._words:
            if place.done:
                share = Share(place.layer, place.axis, 0, place.done, place.turns)
                self._words[key] = words_across(self.layers[place.layer], share, width)
            else:
                self._words[key] = words_between(self.layers, place.layer, width)
        return self._words[key]

    def gbps(self, board: int, words: float, pace: int) -> float:
        """Gb/s of link words at a pace."""
        return words * self.links[board].width * self.clock / pace / 1e3

    def crosses(self, board: int, place: Place, pace: int) -> bool:
        """Whether the link behind a board carries what crosses at a place."""
        if board >= len(self.links):
            return False
        words = max(self.words(board, place))
        return words <= pace and self.least_paced(board, place, words) <= pace

    def least_paced(self, board: int, place: Place, words: float) -> float:
        """Cycles a sample in which the link behind a board carries ``words`` and what crosses at a place once a
        batch."""
        if place.done:
            words += batch_words(self.layers[place.layer], place.axis, self.links[board].width)
        return self.gbps(board, words, 1) / self.room_gbps[board]

    def pace_of(self, steps: Sequence[Step], taken: Sequence[Taken], pace: int, floor: int) -> int:
        """Cycles a sample of the slowest engine, stream or link of a plan made for ``pace``."""
        busy = [choice.busy for each in taken for choice in each.choices]
        for board, step in enumerate(steps[:-1]):
            words = max(self.words(board, step.end))
            busy += [words, math.ceil(self.least_paced(board, step.end, words))]
        return min(pace, max(floor, *busy))


def _reserved(room: Room, share: float) -> Room:
    return replace(room, bram=int(room.bram * (1 - share)), uram=int(room.uram * (1 - share)))


def _parts(layer: Layer, most: int, turns: int, room: float, pace: int) -> tuple[float, float]:
    """About how many parts a layer has if each has at most ``most`` rows in so many equal turns and ``room`` bits, and
    the bits of one; infinite where the last part would have too few rows, or none reads its halos within ``pace``."""
    stage, found = layer.stage, (math.inf, math.inf)
    height, words = stage.out_shape[0], stage.window.width * stage.groups
    for rows in range(most // turns * turns, 0, -turns):
        if rows_read(stage, rows * layer.conv_rows, turns) * words > pace:
            continue
        if not comes_out(height, rows, turns, max(turns, math.ceil(LEAST * most))):
            continue
        parts = ceil_div(height, rows)
        bits = _row_bits(layer, rows * layer.conv_rows, parts, turns)
        found = parts, bits
        if bits <= room:
            break
    return found


def comes_out(height: int, rows: int, turns: int, least: int) -> bool:
    """Whether parts of ``rows``, behind a first one of whole turns, leave none or ``least`` and more for the last."""
    rests = ((height - first) % rows for first in range(0, rows, turns))
    return any(rest == 0 or rest >= least for rest in rests)


def _row_bits(layer: Layer, rows: int, parts: int, turns: int) -> float:
    """About the bits that a part with so many rows of the convolution holds if they come in ``turns``: x in flight,
    halos included, for as much longer as turns wait; and what waits for its turn."""
    stage, window = layer.stage, layer.stage.window
    bits = window.width * stage.in_channels
    waits = 2 * (1 - 1 / parts) / turns
    x_rows = rows * window.stride[0] + turns * max(0, rows_read(stage, 1, 1) - window.stride[0])
    y_bits = stage.out_shape[1] * stage.out_channels / layer.conv_rows
    waiting = rows / turns * (bits * stage.x.width + y_bits * (1.5 * stage.y.width + stage.dy.width))
    if stage.dx is not None:
        waiting += rows / turns * bits * (0.5 * stage.col_bits + 1.5 * stage.dx.width)
    return x_rows * bits * stage.x.width * (IN_FLIGHT + waits) + waiting
