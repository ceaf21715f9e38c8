"""Why no plan fits: the resource, the board, the amount, and the smallest change that would help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..errors import HwgenError
from ..ir.stage import Network, Place
from ..target import MAX_BOARDS, Board, Cluster
from .foldings import wish_problems
from .layout import Storage
from .rooms import Memories, Room
from .search.cost import Line
from .search.fewest import fewest_at_all
from .search.layer import Layer, Share
from .search.price import Prices
from .search.search import NOMINAL, Search

__all__ = ["pin_problems", "refusal", "slow_pace"]

MEGABIT = 1 << 20


def pin_problems(network: Network, cluster: Cluster) -> list[str]:
    """Layers that the user wants on boards that are not there, or folded as they cannot be."""
    count = len(cluster.boards)
    dealt = [
        f"{stage.name}: shares= or turns= of rows: hwgen plan deals rows itself; leave them out, "
        "or use hwgen build --cluster"
        for stage in network.stages
        if stage.place.split == "rows" and (stage.place.shares or stage.place.turns)
    ]
    return (
        wish_problems(network)
        + dealt
        + [
            f"{stage.name}: device={max(stage.place.device)}: no such board, the cluster has {count}; "
            f"give 0..{count - 1}"
            for stage in network.stages
            if stage.place.device is not None and max(stage.place.device) >= count
        ]
    )


def slow_pace(network: Network) -> int:
    """Cycles a sample of a single PE for the largest layer: nothing useful is slower."""
    return max(stage.M * stage.K * stage.N * stage.groups for stage in network.stages)


def refusal(network: Network, cluster: Cluster, storages: Sequence[Storage]) -> list[str]:
    """Problems that each alone forbid any plan; at least one."""
    line = Line(network, cluster)
    pace = slow_pace(network)
    prices = Prices(line.layers, pace, [NOMINAL] * len(line.layers), storages)
    problems = _long_links(line) or _too_large(line, prices) or _useless_boards(line, prices)
    if not problems and _unpinned(network, cluster, storages):
        problems = [_pinned(network)]
    return problems or [_more_boards(network, cluster, storages)]


def _smallest(layer: Layer, index: int) -> list[Share]:
    """The layer whole, and one unit of each axis that it may be cut along."""
    cuts = [Share(index, axis, 0, 1) for axis in layer.axes]
    return [Share(index, "whole", 0, 1), *cuts]


def _fits(line: Line, prices: Prices, board: int, index: int) -> bool:
    """Whether an empty board holds any part of a layer."""
    shares = _smallest(line.layers[index], index)
    return any(
        prices.take(line.rooms[board], (share,), line.base(board, (share,))) is not None for share in shares
    )


def _kinds(line: Line) -> dict[str, list[int]]:
    """Boards by their name."""
    found: dict[str, list[int]] = {}
    for index, board in enumerate(line.cluster.boards):
        found.setdefault(board.name, []).append(index)
    return found


def _long_links(line: Line) -> list[str]:
    """Boards whose links leave no room for anything else."""
    problems = []
    for boards in _kinds(line).values():
        board = boards[len(boards) // 2]
        need, room = _bits(line.base(board).memories), _room_bits(line.rooms[board])
        if need > room:
            problems.append(
                f"board {board} ({line.cluster.boards[board].name}): replay and receive buffers of its links take "
                f"{need / MEGABIT:.2f} Mb of the {room / MEGABIT:.2f} Mb of memory; give links of less latency"
            )
    return problems


def _too_large(line: Line, prices: Prices) -> list[str]:
    """Layers of which no board holds even the smallest part."""
    kinds = [boards[len(boards) // 2] for boards in _kinds(line).values()]
    problems = []
    for index, layer in enumerate(line.layers):
        if any(_fits(line, prices, board, index) for board in kinds):
            continue
        board = max(kinds, key=lambda board: line.rooms[board].bram)
        shares = _smallest(layer, index)
        needs = [(share, _lacks(line, prices, board, share)) for share in shares]
        share, what = needs[-1]
        part = (
            "it cannot be cut, and"
            if len(shares) == 1
            else f"even 1 of its {layer.axes[share.axis]} {_axis(share)}"
        )
        problems.append(
            f"{layer.stage.name}: {part} needs {what} of board {board} ({line.cluster.boards[board].name}), "
            "with the links' own memories; give a larger board"
        )
    return problems


def _axis(share: Share) -> str:
    return share.axis.replace("_", " ")


def _useless_boards(line: Line, prices: Prices) -> list[str]:
    """Boards that hold no part of any layer: every board of a chain must have one."""
    problems = []
    for name, boards in _kinds(line).items():
        for board in boards[:1]:
            if any(_fits(line, prices, board, index) for index in range(len(line.layers))):
                continue
            index = min(range(len(line.layers)), key=lambda i: line.layers[i].useful)
            what = _lacks(line, prices, board, _smallest(line.layers[index], index)[-1])
            problems.append(
                f"board {board} ({name}): holds no part of any layer; the smallest of "
                f"{line.layers[index].stage.name} needs {what}; leave the board out"
            )
    return problems


def _lacks(line: Line, prices: Prices, board: int, share: Share) -> str:
    """What a share needs that a board has not: "9 DSPs of 0"."""
    room = line.rooms[board]
    priced = prices.of(room.device, share)
    if not priced:
        return "more PEs, or weights a PE, than the host can number"
    load, base = priced[0][1], line.base(board, (share,))
    if load.dsp > room.dsp:
        return f"{load.dsp:,} DSPs of the {room.dsp:,}"
    luts, ffs = load.luts + base.luts, load.ffs + base.ffs
    if luts > room.lut:
        return f"{luts:,} LUTs of the {room.lut:,}"
    if ffs > room.ff:
        return f"{ffs:,} flip-flops of the {room.ff:,}"
    blocks = min(sum(mem[0] * mem[1] for mem in (*each.mems, *base.mems)) for _, each in priced)
    if not room.bram or math.isinf(blocks):
        least = min(_bits(each.memories) for _, each in priced) + _bits(base.memories)
        return f"{least / MEGABIT:.2f} Mb of memory of the {_room_bits(room) / MEGABIT:.2f} Mb"
    ultra = f"{room.uram:,} ultra RAMs and " if room.uram else ""
    others = f"{ultra}{room.lut_ram:,} LUTs as memory"
    return f"{blocks:,g} block RAMs, less what {others} hold, of the {room.bram:,}"


def _bits(memories: Memories) -> int:
    return sum(count * depth * width for _, count, depth, width, *_ in memories)


def _room_bits(room: Room) -> int:
    device = room.device
    return room.bram * device.bram_bits + room.uram * device.uram_bits + room.lut_ram * device.lut_ram_bits


def _unpinned(network: Network, cluster: Cluster, storages: Sequence[Storage]) -> bool:
    """Whether there is a plan without the user's pins."""
    if all(stage.place == Place() for stage in network.stages):
        return False
    free = replace(network, stages=tuple(replace(stage, place=Place()) for stage in network.stages))
    return Search(free, cluster, storages).run() is not None


def _pinned(network: Network) -> str:
    pins = [
        f"{stage.name} ({', '.join(f'{name}={value!r}' for name, value in _given(stage.place))})"
        for stage in network.stages
        if stage.place != Place()
    ]
    return f"cluster: there are plans, but none with the pins of {', '.join(pins)}; change or drop some"


def _given(place: Place) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("device", place.device), ("split", place.split), ("shares", place.shares)
    ]  # fmt: skip
    return [(name, value) for name, value in pairs if value is not None]


def _more_boards(network: Network, cluster: Cluster, storages: Sequence[Storage]) -> str:
    """All boards together are too few, by memory if that can be shown; how many would do."""
    line = Line(network, cluster)
    need = sum(
        math.prod(layer.stage.weight_shape) * (layer.grad + _held(layer, storage))
        + (
            0
            if layer.stage.frozen
            else layer.stage.window.pixels_in * layer.stage.in_channels * layer.stage.x.width
        )
        for layer, storage in zip(line.layers, storages, strict=True)
    )
    room = sum(_room_bits(each) for each in line.rooms)
    short = (
        f"weights, gradients and one sample take {need / MEGABIT:,.1f} Mb at least, its boards have "
        f"{room / MEGABIT:,.1f} Mb of block, ultra and distributed RAM that a plan may use"
    )
    if need <= room:
        short += ", of which widths, depths and links waste too much"
    return f"cluster: {network.name} does not fit {cluster} at any pace: {short}; {_advice(network, cluster, storages)}"


def _held(layer: Layer, storage: Storage) -> int:
    """Bits of one weight beside its gradient."""
    stage = layer.stage
    master = stage.master.width if storage.master == "here" else stage.w.width
    return master + (stage.w.width if storage.copy else 0)


def _advice(network: Network, cluster: Cluster, storages: Sequence[Storage]) -> str:
    kinds: set[Board] = set(cluster.boards)
    if len(kinds) > 1:
        return "add boards"
    (board,) = kinds
    link = cluster.links[0] if cluster.links else board.link
    try:
        count = fewest_at_all(network, board, link, slow_pace(network), storages)
    except HwgenError:  # the board has no usual link
        return "give larger boards, or a cluster.toml with links"
    if count is None:
        return f"{MAX_BOARDS} such boards, the longest chain, are too few too; give larger boards"
    return f"{count} such boards are the fewest that hold it"
