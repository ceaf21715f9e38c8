"""The line of layers and the chain of boards: rooms, links, pins, and what crosses where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...ir.stage import Network
from ...target import Cluster, Device
from .. import latency as L
from ..budget import LINK_SHARE
from ..chain import FRAME_WORDS
from ..rooms import Load, Memories, load_of, room_of
from .layer import TURN_ROWS, Layer, Share, ceil_div, layers_of
from .logic import board_base
from .price import Taken
from .traffic import words_across, words_between
from .walk import Place, Step

__all__ = ["Line"]

MOST_IMAGE_LANES = 64
MOST_TURNS = 4
"""Turns that a board's rows come in even where each is shorter than TURN_ROWS: the next turn waits for all others."""
CROSSED = 0.9
"""Share of an axis's places that a link must carry, so that the layer need not be cut by rows."""


class Line:
    """What the search knows of a network and a cluster, whatever the pace."""

    def __init__(self, network: Network, cluster: Cluster):
        self.network, self.cluster = network, cluster
        self.layers: list[Layer] = layers_of(network)
        same: dict[Device, Device] = {}
        self.rooms = [
            replace(room_of(board), device=same.setdefault(board.device, board.device))
            for board in cluster.boards
        ]
        self.clock = min(board.device.clock_mhz for board in cluster.boards)
        self.room_gbps = [link.payload_gbps * LINK_SHARE for link in cluster.links]
        self.bases = [self._base(board) for board in range(len(cluster.boards))]
        self.loss = float(L.loss_cycles(network.loss))
        self.hop = max(
            (L.LINK + L.LINK_SPREAD + link.latency * self.clock / link.clock_mhz for link in cluster.links),
            default=0.0,
        )
        self.pinned = any(layer.stage.place.device is not None for layer in self.layers)
        self._words: dict[tuple[int, Place, int], tuple[int, int]] = {}

    def _base(self, board: int) -> Load:
        """A board's link ends: replay memory and receive buffers for a round trip at full rate, twice for depths that
        are powers of two."""
        found: Memories = ()
        for link in self.cluster.links[max(0, board - 1) : board + 1]:
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
        widths = [link.width for link in self.cluster.links[max(0, board - 1) : board + 1]]
        logic = board_base(widths, board == len(self.cluster.boards) - 1)
        return load_of(self.cluster.boards[board].device, 0, logic, found)

    def least_pace(self, paced_by_loss: bool) -> int:
        """Cycles a sample below which nothing goes: all multipliers always busy; loss and image."""
        dsp = sum(room.dsp for room in self.rooms)
        need = 0.0
        for layer in self.layers:
            each = min(layer.dsps(room.device.dsp_widths) for room in self.rooms)
            need += layer.stage.macs[0] * each
        height, width, channels = self.network.in_shape
        image = height * width * ceil_div(channels, MOST_IMAGE_LANES)
        loss = L.loss_cycles(self.network.loss) if paced_by_loss else 0
        return max(1, math.ceil(need / max(1, dsp)), image, loss)

    def image_lanes(self, pace: int) -> int:
        """The fewest lanes of the host's stream that keep a pace."""
        height, width, channels = self.network.in_shape
        return next(
            n
            for n in range(1, channels + 1)
            if height * width * ceil_div(channels, n) <= max(pace, height * width)
        )

    def turns(self, pace: int) -> list[int]:
        """Turns of a cut by rows of every layer: so many that a full board's turn has about TURN_ROWS rows."""
        found = []
        room = max(room.dsp for room in self.rooms)
        for layer in self.layers:
            each = layer.dsps(self.rooms[0].device.dsp_widths)
            boards = max(1.0, layer.stage.macs[0] * each / (max(1, room) * pace))
            rows = layer.stage.window.out_height / boards
            most = max(1, int(rows / (2 * layer.conv_rows)))
            found.append(max(1, min(most, max(MOST_TURNS, round(rows / TURN_ROWS)))))
        return found

    def few_rows(self, pace: int, turns: Sequence[int]) -> list[list[str]]:
        """Axes of every layer, rows only where a cut by channels is too much for the links: rows that wait for their
        turn are samples in flight."""
        found = []
        for index, layer in enumerate(self.layers):
            axes = list(layer.axes)
            if "rows" in axes and any(
                self._narrow(index, axis, pace, turns) for axis in axes if axis != "rows"
            ):
                axes.remove("rows")
            found.append(axes)
        return found

    def _narrow(self, layer: int, axis: str, pace: int, turns: Sequence[int]) -> bool:
        """Whether nearly all places of an axis can be crossed by the first link."""
        places = range(1, self.layers[layer].axes[axis])
        crossed = sum(self.crosses(0, Place(layer, axis, done), pace, turns) for done in places)
        return crossed >= CROSSED * len(places)

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

    def words(self, board: int, place: Place, turns: Sequence[int]) -> tuple[int, int]:
        """Link words a sample behind ``board`` at a place, away from the host and towards it."""
        width = self.cluster.links[board].width
        count = turns[place.layer] if place.axis == "rows" else 1
        key = (width, place, count)
        if key not in self._words:
            if place.done:
                share = Share(place.layer, place.axis, 0, place.done, count)
                self._words[key] = words_across(self.layers[place.layer], share, width)
            else:
                self._words[key] = words_between(self.layers, place.layer, width)
        return self._words[key]

    def gbps(self, board: int, words: int, pace: int) -> float:
        """Gb/s of link words at a pace."""
        return words * self.cluster.links[board].width * self.clock / pace / 1e3

    def crosses(self, board: int, place: Place, pace: int, turns: Sequence[int]) -> bool:
        """Whether the link behind a board carries what crosses at a place."""
        if board >= len(self.cluster.links):
            return False
        words = max(self.words(board, place, turns))
        return words <= pace and self.gbps(board, words, pace) <= self.room_gbps[board]

    def pace_of(self, steps: Sequence[Step], taken: Sequence[Taken], pace: int, floor: int) -> int:
        """Cycles a sample of the slowest engine, stream or link of a plan made for ``pace``."""
        turns = self.turns(pace)
        busy = [choice.busy for each in taken for choice in each.choices]
        for board, step in enumerate(steps[:-1]):
            words = max(self.words(board, step.end, turns))
            rate = words * self.cluster.links[board].width * self.clock / 1e3 / self.room_gbps[board]
            busy += [words, math.ceil(rate)]
        return min(pace, max(floor, *busy))
