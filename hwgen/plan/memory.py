"""Where master weights lie that are not beside their weights: regions of external memories and of neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..target import Cluster
from .columns import load_pace
from .errors import CapacityError
from .links import master_lanes
from .plan import Plan

__all__ = [
    "AXI_ADDRESS",
    "AXI_BITS",
    "BURST_BEATS",
    "PAGE",
    "Region",
    "board_bytes",
    "board_regions",
    "check_memories",
    "element_bytes",
    "memory_cycles",
    "own_region",
    "regions",
]

AXI_BITS = 64
"""Data width of a board's memory port."""
AXI_ADDRESS = 40
"""Bits of its addresses."""
BURST_BEATS = 16
"""Most words of a burst."""
MEMORY_SHARE = 0.7
"""Share of a memory's peak rate that bursts of BURST_BEATS words, reads and writes mixed, may expect."""
PAGE = 4096
"""Regions begin at multiples of it; an AXI burst must not cross one."""


@dataclass(frozen=True)
class Region:
    """The masters of part ``part`` (its number in plan.stages) on ``board``: ``count`` elements of ``bits``,
    [ky, kx, c, n] of the part with n fastest.

    In external memory if ``external``, an element in ``stride`` bytes from byte ``base`` on. Else in a memory of
    ``kind`` on the chip, of a board beside that of the part: ``words`` of ``lanes`` elements, as they cross the link.
    """

    part: int
    board: int
    count: int
    bits: int
    external: bool
    base: int = 0
    stride: int = 0
    lanes: int = 1
    kind: str = "auto"

    @property
    def words(self) -> int:
        """Words of ``lanes`` elements."""
        return -(-self.count // self.lanes)

    @property
    def bytes(self) -> int:
        """What it takes of an external memory."""
        return self.count * self.stride


def element_bytes(bits: int) -> int:
    """Bytes of an element in external memory: 1, 2, 4 or 8, so that none crosses a word."""
    return 1 << max(0, math.ceil(bits / 8) - 1).bit_length()


def regions(plan: Plan) -> tuple[Region, ...]:
    """All regions, in the order of plan.stages."""
    found: list[Region] = []
    ends = [0] * len(plan.boards)
    for number, planned in enumerate(plan.stages):
        where = planned.storage.master
        if where == "here":
            continue
        count, bits = math.prod(planned.stage.weight_shape), planned.stage.master.width
        if where == "memory":
            base, stride = ends[planned.board], element_bytes(bits)
            region = Region(number, planned.board, count, bits, True, base, stride)
            ends[planned.board] = math.ceil((base + region.bytes) / PAGE) * PAGE
        else:
            board = planned.board + (1 if where == "down" else -1)
            lanes = master_lanes(count, bits, plan.links[min(board, planned.board)].width)
            kind = planned.storage.weights if planned.storage.weights in ("block", "ultra") else "auto"
            region = Region(number, board, count, bits, False, lanes=lanes, kind=kind)
        found.append(region)
    return tuple(found)


def own_region(plan: Plan, part: int) -> tuple[Region, int] | None:
    """The region of a part and its number among those of its board; None if its masters are beside its weights."""
    everywhere = regions(plan)
    for region in everywhere:
        if region.part == part:
            return region, board_regions(plan, region.board).index(region)
    return None


def board_regions(plan: Plan, board: int) -> tuple[Region, ...]:
    """Those of a board, in the order of their numbers, which follow those of its stages: in external memory, then on
    the chip."""
    own = [region for region in regions(plan) if region.board == board]
    return tuple(sorted(own, key=lambda region: not region.external))


def board_bytes(plan: Plan, board: int) -> int:
    """Bytes of external memory that a board uses, from address 0 on."""
    own = [region for region in board_regions(plan, board) if region.external]
    return max((region.base + region.bytes for region in own), default=0)


def _traffic(plan: Plan, board: int) -> int:
    """Bytes a batch between a board and its memory: every master read and written."""
    return sum(2 * region.bytes for region in board_regions(plan, board) if region.external)


def memory_cycles(plan: Plan, cluster: Cluster) -> int:
    """Cycles by which the update takes longer where a memory gives and takes fewer weights than it walks over; of the
    board that loses most, its stages one after the other."""
    late = [0]
    for index, board in enumerate(cluster.boards):
        own = [region for region in board_regions(plan, index) if region.external]
        walked = sum(region.count * load_pace(plan.stages[region.part]) for region in own)
        rate = board.memory_gbytes_per_s * MEMORY_SHARE * 1e3 / board.device.clock_mhz
        if walked and rate:
            late.append(math.ceil(_traffic(plan, index) / rate) - walked)
    return max(late)


def _where(plan: Plan, index: int, cluster: Cluster) -> str:
    names = ", ".join(planned.stage.name for planned in plan.on(index) if planned.storage.master == "memory")
    return f"board {index} ({cluster.boards[index].name}): masters of {names} in memory"


def check_memories(plan: Plan, cluster: Cluster, pace: int) -> None:
    """Raises CapacityError naming every board whose external memory is missing, too small, or so slow that the update
    takes longer than all samples of a batch at ``pace`` cycles each."""
    problems, batch = [], plan.network.update.batch
    for index, board in enumerate(cluster.boards):
        need, where = board_bytes(plan, index), _where(plan, index, cluster)
        seconds = batch * pace / (board.device.clock_mhz * 1e6)
        rate, room = _traffic(plan, index) / seconds / 1e9, board.memory_gbytes_per_s * MEMORY_SHARE
        if need and not board.memory_bytes:
            problems.append(f'{where}, but it has none; give master="here", or another board')
        elif need > board.memory_bytes:
            problems.append(
                f"{where} need {need:,} bytes, it has {board.memory_bytes:,}; move a layer with device=, or add a board"
            )
        elif rate > room:
            problems.append(
                f"{where} need {rate:.3f} GB/s at {batch} samples a batch of {pace} cycles, it gives "
                f'{board.memory_gbytes_per_s:g} × {MEMORY_SHARE} = {room:.3f}; give a larger batch, or master="here"'
            )
    if problems:
        raise CapacityError(problems)
