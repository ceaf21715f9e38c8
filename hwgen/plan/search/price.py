"""Prices of shares at a pace: every folding worth considering as a load of a board, kept for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from ...target import Device
from ..fold import Folding
from ..layout import Storage
from ..rooms import Dealt, Load, Room, deal, load_of
from .held import Flight
from .layer import Layer, Share
from .logic import part_logic
from .memory import Buffers, weight_words
from .options import Choice, Near, Sizes, choices, near, sizes_of

__all__ = ["Kept", "Prices", "Taken"]

Key = tuple[object, ...]
MOST_KEPT = 150_000
"""Foldings of shares that are kept for other paces."""


@dataclass(frozen=True)
class Taken:
    """What a board gives its shares: a choice each, and what all of them take."""

    choices: tuple[Choice, ...]
    loads: tuple[Load, ...]
    dsp: int
    dealt: Dealt


@dataclass
class Kept:
    """What prices of one line of layers need again: ``made``, memories of foldings and what they take but for samples
    in flight, whatever the pace; ``parts``, foldings to consider at one ``pace``."""

    made: dict[tuple[Key, Folding, int], tuple[Buffers, Load]] = field(default_factory=dict)
    parts: dict[Key, _Part] = field(default_factory=dict)
    pace: int = 0

    def at(self, pace: int) -> Kept:
        """The same, without what is of another pace."""
        if self.pace != pace:
            self.pace, self.parts = pace, {}
        if len(self.made) > MOST_KEPT:
            self.made.clear()
        return self


@dataclass
class _Part:
    """A share at a pace, whatever is in flight; worked out as far as it is asked for."""

    key: Key
    device: Device
    layer: Layer
    axis: str
    sizes: Sizes
    last: bool
    storage: Storage
    pace: int
    made: dict[tuple[Key, Folding, int], tuple[Buffers, Load]]

    @cached_property
    def near(self) -> Near | None:
        """Foldings that keep the pace."""
        return near(self.layer, self.axis, self.sizes, self.pace, not self.storage.copy)

    @cached_property
    def dsp(self) -> int | None:
        """The fewest multipliers; None if no folding keeps the pace."""
        return None if self.near is None else self.near.pes * self.layer.dsps(self.device.dsp_widths)

    @cached_property
    def choices(self) -> list[Choice]:
        """Foldings, fewest multipliers first."""
        if self.near is None:
            return []
        words = [*weight_words(self.layer, self.storage).values()]
        return choices(self.layer, self.axis, self.sizes, self.near, words, self.storage)

    def standing(self, k: int) -> tuple[Buffers, Load]:
        """Memories of a choice, and what it takes but for samples in flight."""
        choice = self.choices[k]
        key = self.key, choice.folding, choice.stack
        if key not in self.made:
            layer, storage = self.layer, replace(self.storage, stack=choice.stack)
            buffers = Buffers(layer, self.axis, self.sizes, choice, self.last)
            logic = part_logic(layer, self.sizes, choice, storage, self.last, self.axis == "rows")
            dsp = layer.dsps(self.device.dsp_widths) * choice.pes
            self.made[key] = buffers, load_of(self.device, dsp, logic, buffers.standing(storage))
        return self.made[key]


@dataclass
class _Flown:
    """A part with its samples in flight."""

    part: _Part
    flight: Flight
    loads: dict[int, Load] = field(default_factory=dict)

    def load(self, k: int) -> Load:
        """What a choice takes."""
        if k not in self.loads:
            buffers, load = self.part.standing(k)
            memories = buffers.flying(self.part.storage, self.flight)
            self.loads[k] = load.with_memories(self.part.device, memories)
        return self.loads[k]


@dataclass
class Prices:
    """All prices at one pace; ``flights`` and ``storages`` by layer; ``kept`` from other prices of the same layers and
    storages.

    Devices are told apart as objects: Line makes equal ones one.
    """

    layers: Sequence[Layer]
    pace: int
    flights: Sequence[Flight]
    storages: Sequence[Storage]
    kept: Kept = field(default_factory=Kept)
    known: dict[Key, _Flown] = field(default_factory=dict)
    taken: dict[Key, Taken | None] = field(default_factory=dict)

    def of(self, device: Device, share: Share) -> list[tuple[Choice, Load]]:
        """Foldings of a share with their loads, fewest multipliers first."""
        flown = self._flown(device, share)
        return [(choice, flown.load(k)) for k, choice in enumerate(flown.part.choices)]

    def least_dsp(self, device: Device, share: Share) -> int | None:
        """The fewest multipliers of a share; None if it does not keep the pace."""
        return self._flown(device, share).part.dsp

    def _flown(self, device: Device, share: Share) -> _Flown:
        layer = self.layers[share.layer]
        last = share.axis != "input_channels" or share.high == layer.axes[share.axis]
        first, end = True, last
        if share.axis == "rows":
            first, end = share.low == 0, share.high == layer.axes[share.axis]
        key = (id(device), share.layer, share.axis, share.size, share.turns, first, end)
        if key not in self.known:
            flight, storage = self.flights[share.layer], self.storages[share.layer]
            if share.axis == "rows":
                flight = flight.at(share.low, share.high, layer.axes[share.axis])
            kept = self.kept.at(self.pace)
            if key not in kept.parts:
                sizes = sizes_of(layer, share.axis, share.size, share.turns, first, end)
                kept.parts[key] = _Part(
                    key, device, layer, share.axis, sizes, last, storage, self.pace, kept.made
                )
            self.known[key] = _Flown(kept.parts[key], flight)
        return self.known[key]

    def most_rows(self, room: Room, layer: int, turns: int, base: Load) -> int:
        """Rows of y that a board holds alone of a part between others, in equal turns; 0 if it holds none."""
        extent = self.layers[layer].axes["rows"]
        low, high = 0, extent // (2 * turns)
        while low < high:
            middle = (low + high + 1) // 2
            if self.take(room, [Share(layer, "rows", turns, turns + middle * turns, turns)], base):
                low = middle
            else:
                high = middle - 1
        return low * turns

    def take(self, room: Room, shares: Sequence[Share], base: Load) -> Taken | None:
        """The first choice of foldings with which a board holds its shares; None if there is none."""
        flown = [self._flown(room.device, share) for share in shares]
        key = (id(room), id(base), *(id(each) for each in flown))
        if key not in self.taken:
            self.taken[key] = self._take(room, flown, base)
        return self.taken[key]

    @staticmethod
    def _take(room: Room, flown: Sequence[_Flown], base: Load) -> Taken | None:
        least = [each.part.dsp for each in flown]
        if None in least or sum(dsp for dsp in least if dsp) > room.dsp:
            return None
        for picked in product(*(range(len(each.part.choices)) for each in flown)):
            standing = [each.part.standing(k)[1] for each, k in zip(flown, picked, strict=True)]
            dsp = sum(load.dsp for load in standing) + base.dsp
            if dsp > room.dsp or base.floor + sum(load.floor for load in standing) > room.bram:
                continue
            loads = (*(each.load(k) for each, k in zip(flown, picked, strict=True)), base)
            if sum(load.floor for load in loads) <= room.bram and (dealt := deal(room, loads)).fits(room):
                taken = tuple(each.part.choices[k] for each, k in zip(flown, picked, strict=True))
                return Taken(taken, loads, dsp, dealt)
        return None
