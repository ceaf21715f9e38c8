"""Prices of shares at a pace: every folding worth considering as a load of a board, kept for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from ...target import Device
from ..layout import Storage
from .blocks_tmp import bram36, luts, uram
from .fit import Load, Room, deal
from .layer import Layer, Share
from .memory import Flight, memories
from .options import Choice, choices, sizes_of

__all__ = ["Prices", "Taken"]

PE_LUTS, PE_FFS = 60, 200
STAGE_LUTS, STAGE_FFS = 3000, 4000


@dataclass(frozen=True)
class Taken:
    """What a board gives its shares: a choice each, and what memories take in all."""

    choices: tuple[Choice, ...]
    dsp: int
    bram: float
    uram: float
    lut_ram: int
    luts: int


@dataclass
class Prices:
    """All prices at one pace; ``flights`` and ``storages`` by layer."""

    layers: Sequence[Layer]
    pace: int
    flights: Sequence[Flight]
    storages: Sequence[Storage]
    known: dict[tuple[object, ...], list[tuple[Choice, Load]]] = field(default_factory=dict)

    def of(self, device: Device, share: Share) -> list[tuple[Choice, Load]]:
        """Foldings of a share with their loads, fewest multipliers first."""
        layer = self.layers[share.layer]
        last = share.axis != "input_channels" or share.high == layer.axes[share.axis]
        key = (device.name, share.layer, share.axis, share.size, share.turns, last)
        if key not in self.known:
            self.known[key] = self._price(device, share, last)
        return self.known[key]

    def _price(self, device: Device, share: Share, last: bool) -> list[tuple[Choice, Load]]:
        layer, storage = self.layers[share.layer], self.storages[share.layer]
        sizes = sizes_of(layer, share.axis, share.size, share.turns)
        stage = layer.stage
        word = (stage.master.width if storage.master == "here" else stage.w.width) + layer.grad
        found = []
        for choice in choices(layer, share.axis, sizes, self.pace, word):
            mems = memories(layer, share.axis, sizes, choice, self.flights[share.layer], storage, last)
            taken = tuple(
                (count, bram36(depth, width), uram(depth, width), luts(depth, width))
                for _, count, depth, width in mems
            )
            floor = sum(c * b for c, b, _, each in taken if each >= 400 * b)
            load = Load(
                layer.dsps(device.dsp_widths) * choice.pes,
                PE_LUTS * choice.pes + STAGE_LUTS,
                PE_FFS * choice.pes + STAGE_FFS,
                taken,
                floor,
            )
            found.append((choice, load))
        return found

    def take(self, room: Room, shares: Sequence[Share], base: Load | None = None) -> Taken | None:
        """The first choice of foldings with which a board holds its shares; None if there is none."""
        priced = [self.of(room.device, share) for share in shares]
        if not all(priced) or sum(each[0][1].dsp for each in priced) > room.dsp:
            return None
        if sum(min(load.floor for _, load in each) for each in priced) > room.bram and not room.uram:
            return None
        extra = [base] if base is not None else []
        for picked in product(*priced):
            loads = [load for _, load in picked]
            dsp = sum(load.dsp for load in loads)
            if dsp > room.dsp:
                continue
            dealt = deal(room, [*loads, *extra])
            if dealt is not None:
                logic = sum(load.luts for load in [*loads, *extra])
                return Taken(tuple(choice for choice, _ in picked), dsp, dealt[0], dealt[1], dealt[2], logic)
        return None
