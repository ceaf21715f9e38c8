"""Prices of shares at a pace: every folding worth considering as a load of a board, kept for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from ...target import Device
from ..layout import Storage
from ..rooms import Dealt, Load, Room, deal, load_of
from .held import Flight
from .layer import Layer, Share
from .logic import part_logic
from .memory import Buffers
from .options import Choice, choices, sizes_of

__all__ = ["Prices", "Standing", "Taken"]

Standing = dict[tuple[object, ...], list[tuple[Choice, Buffers, Load]]]
"""Foldings of shares at one pace, their memories, and what they take but for samples in flight."""


@dataclass(frozen=True)
class Taken:
    """What a board gives its shares: a choice each, and what all of them take."""

    choices: tuple[Choice, ...]
    loads: tuple[Load, ...]
    dsp: int
    dealt: Dealt


@dataclass
class Prices:
    """All prices at one pace; ``flights`` and ``storages`` by layer; ``standing``: what does not depend on flights.

    Devices are told apart as objects: Line makes equal ones one.
    """

    layers: Sequence[Layer]
    pace: int
    flights: Sequence[Flight]
    storages: Sequence[Storage]
    standing: Standing = field(default_factory=dict)
    known: dict[tuple[object, ...], list[tuple[Choice, Load]]] = field(default_factory=dict)

    def of(self, device: Device, share: Share) -> list[tuple[Choice, Load]]:
        """Foldings of a share with their loads, fewest multipliers first."""
        layer = self.layers[share.layer]
        last = share.axis != "input_channels" or share.high == layer.axes[share.axis]
        ends = (share.low == 0, share.high == layer.axes[share.axis]) if share.axis == "rows" else (last,)
        key = (id(device), share.layer, share.axis, share.size, share.turns, *ends)
        if key not in self.known:
            flight, storage = self.flights[share.layer], self.storages[share.layer]
            if share.axis == "rows":
                flight = flight.at(share.low, share.high, layer.axes[share.axis])
            if key not in self.standing:
                self.standing[key] = self._standing(device, share, last)
            self.known[key] = [
                (choice, load.with_memories(device, buffers.flying(storage, flight)))
                for choice, buffers, load in self.standing[key]
            ]
        return self.known[key]

    def _standing(self, device: Device, share: Share, last: bool) -> list[tuple[Choice, Buffers, Load]]:
        layer, storage = self.layers[share.layer], self.storages[share.layer]
        first = share.low == 0 or share.axis != "rows"
        end = share.axis != "rows" or share.high == layer.axes[share.axis]
        sizes = sizes_of(layer, share.axis, share.size, share.turns, first, end)
        stage = layer.stage
        word = (stage.master.width if storage.master == "here" else stage.w.width) + layer.grad
        each = layer.dsps(device.dsp_widths)
        found = []
        for choice in choices(layer, share.axis, sizes, self.pace, word, not storage.copy):
            buffers = Buffers(layer, share.axis, sizes, choice, last)
            logic = part_logic(layer, sizes, choice, storage, last, share.axis == "rows")
            load = load_of(device, each * choice.pes, logic, buffers.standing(storage))
            found.append((choice, buffers, load))
        return found

    def take(self, room: Room, shares: Sequence[Share], base: Load) -> Taken | None:
        """The first choice of foldings with which a board holds its shares; None if there is none."""
        priced = [self.of(room.device, share) for share in shares]
        if not all(priced) or sum(each[0][1].dsp for each in priced) > room.dsp:
            return None
        if base.floor + sum(min(load.floor for _, load in each) for each in priced) > room.bram:
            return None
        for picked in product(*priced):
            loads = (*(load for _, load in picked), base)
            dsp = sum(load.dsp for load in loads)
            if dsp <= room.dsp and (dealt := deal(room, loads)).fits(room):
                return Taken(tuple(choice for choice, _ in picked), loads, dsp, dealt)
        return None
