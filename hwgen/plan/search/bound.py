"""A pace that no plan can go below: boards that never waste a bit of memory or a multiplier between layers, and links
that carry everything.

Every step of a real board is a step here, and going further never hurts; so boards that do not reach the end here
do not reach it in any plan of these foldings, cuts and storages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..layout import Storage
from ..rooms import Room
from .cost import Line
from .held import Flight
from .layer import Share
from .price import Prices

__all__ = ["NO_BOUND", "Bound", "lower_bound"]


@dataclass(frozen=True)
class Bound:
    """``pace`` cycles a sample; ``held_by`` what binds most boards there ("multipliers", "memory", "loss or image")."""

    pace: int
    held_by: str


NO_BOUND = Bound(0, "nothing")


@dataclass(frozen=True)
class _Need:
    """What a whole layer takes at least: DSPs, bits of memory; ``most`` share of it that one board holds by itself;
    ``word`` bits beside a weight."""

    dsp: float
    bits: float
    most: float
    word: int


def lower_bound(line: Line, storages: Sequence[Storage], floor: int, above: int) -> Bound:
    """The largest pace up to ``above`` below which the boards do not reach the end, by bisection."""
    low, high = floor, above
    if _reaches(line, storages, low):
        return Bound(low, "multipliers, loss or image")
    while high - low > max(1, high // 20000):
        # Geometric: nothing is known of the size of the answer.
        middle = max(low + 1, int((low * high) ** 0.5)) if high > 2 * low else (low + high) // 2
        if _reaches(line, storages, middle):
            high = middle
        else:
            low = middle
    memory = _reaches(line, storages, low, memory=False)
    return Bound(low + 1, "memory" if memory else "multipliers")


def _reaches(line: Line, storages: Sequence[Storage], pace: int, memory: bool = True) -> bool:
    needs = _needs(line, storages, pace)
    layer, done = 0, 0.0
    for room in line.rooms:
        dsp = float(room.dsp)
        device = room.device
        bits = float(
            room.bram * device.bram_bits + room.uram * device.uram_bits + room.lut_ram * device.lut_ram_bits
        )
        # A PE with one weight keeps its sum in a register.
        bits += room.dsp * max(need.word for need in needs)
        if not memory:
            bits = float("inf")
        alone = done > 0
        while layer < len(needs):
            need = needs[layer]
            share = min(1.0 - done, dsp / need.dsp, bits / need.bits)
            if alone and share < 1.0 - done:
                share = min(share, max(need.most, 0.0))
            dsp, bits, done = dsp - share * need.dsp, bits - share * need.bits, done + share
            if done < 1.0 - 1e-9:
                break
            layer, done, alone = layer + 1, 0.0, False
        if layer == len(needs):
            return True
    return False


def _needs(line: Line, storages: Sequence[Storage], pace: int) -> list[_Need]:
    """Of every layer, over all devices of the cluster."""
    found = []
    rooms = {id(room.device): room for room in line.rooms}.values()
    prices = Prices(line.layers, pace, [Flight(1.0, 1.0, 1.0)] * len(line.layers), storages)
    for index, (layer, storage) in enumerate(zip(line.layers, storages, strict=True)):
        stage = layer.stage
        each = min(layer.dsps(room.device.dsp_widths) for room in rooms)
        products = stage.macs[0]
        dsp = max(each * products / pace, 1e-9)
        word = (stage.master.width if storage.master == "here" else stage.w.width) + layer.grad
        weights = stage.K * stage.N * stage.groups
        bits = weights * (word + (stage.w.width if storage.copy else 0))
        if not stage.frozen:
            bits += line.x_bits(index)
        most = max(
            _most_alone(prices, room, index, axis) for room in rooms for axis in layer.axes or ("whole",)
        )
        found.append(_Need(dsp, bits, most, word))
    return found


def _most_alone(prices: Prices, room: Room, index: int, axis: str) -> float:
    """The largest share of a layer, cut along ``axis``, for which a board has the multipliers."""
    layer = prices.layers[index]
    extent = layer.axes.get(axis, 1)
    # Of rows a part between others: the first one computes more rows before the pool.
    start = 1 if axis == "rows" and extent > 2 else 0
    ends = (
        [start, *(end for end in layer.ends(axis, 0) if start < end < extent)] if axis in layer.axes else [0]
    )
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        dsp = prices.least_dsp(room.device, Share(index, axis, start, ends[middle]))
        if dsp is not None and dsp <= room.dsp:
            low = middle
        else:
            high = middle - 1
    if start and low == len(ends) - 1:
        return 1.0
    return (ends[low] - start) / extent
