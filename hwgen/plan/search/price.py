"""Prices of shares at a pace: every folding worth considering as a load of a board, kept for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from ...target import Device
from ..layout import Storage
from ..rooms import Dealt, Load, Room, deal, load_of
from .layer import Layer, Share
from .logic import part_logic
from .memory import Flight, memories
from .options import Choice, choices, sizes_of

__all__ = ["Prices", "Taken"]


@dataclass(frozen=True)
class Taken:
    """What a board gives its shares: a choice each, and what all of them take."""

    choices: tuple[Choice, ...]
    loads: tuple[Load, ...]
    dsp: int
    dealt: Dealt


@dataclass
class Prices:
    """All prices at one pace; ``flights`` and ``storages`` by layer.

    Devices are told apart as objects: Line makes equal ones one.
    """

    layers: Sequence[Layer]
    pace: int
    flights: Sequence[Flight]
    storages: Sequence[Storage]
    known: dict[tuple[object, ...], list[tuple[Choice, Load]]] = field(default_factory=dict)

    def of(self, device: Device, share: Share) -> list[tuple[Choice, Load]]:
        """Foldings of a share with their loads, fewest multipliers first."""
        layer = self.layers[share.layer]
        last = share.axis != "input_channels" or share.high == layer.axes[share.axis]
        first = share.low == 0 or share.axis != "rows"
        key = (id(device), share.layer, share.axis, share.size, share.turns, last, first)
        if key not in self.known:
            self.known[key] = self._price(device, share, last, first)
        return self.known[key]

    def _price(self, device: Device, share: Share, last: bool, first: bool) -> list[tuple[Choice, Load]]:
        layer, storage = self.layers[share.layer], self.storages[share.layer]
        sizes = sizes_of(layer, share.axis, share.size, share.turns, first)
        stage = layer.stage
        word = (stage.master.width if storage.master == "here" else stage.w.width) + layer.grad
        each = layer.dsps(device.dsp_widths)
        found = []
        for choice in choices(layer, share.axis, sizes, self.pace, word, not storage.copy):
            own = memories(layer, share.axis, sizes, choice, self.flights[share.layer], storage, last)
            logic = part_logic(layer, sizes, choice, storage, last, share.axis == "rows")
            found.append((choice, load_of(device, each * choice.pes, logic, own)))
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
