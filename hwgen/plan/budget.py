"""Whether boards and links can hold what a plan gives them: multipliers, memory bits, bits a second."""

from __future__ import annotations

import math

from ..ir.stage import Network, Stage
from ..target import Board, Cluster
from .errors import BudgetError
from .links import Channel, LinkPlan
from .plan import Plan, StagePlan

__all__ = [
    "LINK_SHARE",
    "BudgetError",
    "check_budgets",
    "dsps",
    "memory_bits",
    "multiplier_room",
    "needed_gbps",
    "pe_dsps",
]

LINK_SHARE = 0.96
"""Share of a link's words that carry payload, frames of full length: header, trailer, acknowledgements."""
ROUNDING = 1e-9
"""Share by which a plan made for all of a link may seem to need more of it."""
LUT_RAM_BITS = 16
"""Bits of memory that a look-up table is worth on average over a device, for what is too small for block RAM."""


def _tiles(a: int, b: int, widths: tuple[int, int]) -> int:
    """DSP multipliers of ``widths`` bits for one signed product of a × b bits; either way round."""

    def count(first: int, second: int) -> int:
        return math.ceil((a - 1) / (first - 1)) * math.ceil((b - 1) / (second - 1))

    return min(count(*widths), count(*reversed(widths)))


def pe_dsps(stage: Stage, widths: tuple[int, int]) -> int:
    """DSPs of one PE."""
    forward = _tiles(stage.x.width, stage.w.width, widths)
    backward = _tiles(stage.dy.width, stage.w.width, widths) if stage.dx is not None else 0
    return forward + backward + (0 if stage.frozen else _tiles(stage.x.width, stage.dy.width, widths))


def dsps(planned: StagePlan, widths: tuple[int, int]) -> int:
    """DSPs of a stage's array."""
    return planned.fold.pk * planned.fold.pn * pe_dsps(planned.stage, widths)


def multiplier_room(network: Network, board: Board) -> int:
    """Multipliers that a board can hold, at the widths of the network's widest stage."""
    widths = board.device.dsp_widths
    each = max(_tiles(max(s.x.width, s.dy.width), max(s.w.width, s.dy.width), widths) for s in network.stages)
    return max(1, board.available("dsp") // each)


def memory_bits(planned: StagePlan, batch: int) -> int:
    """Bits of a stage's memories: weights with their copy and sums, rows, samples, masks. What it takes at least."""
    stage, fold, depths = planned.stage, planned.fold, planned.depths
    weight = stage.master.width if planned.storage.master == "here" else stage.w.width
    weight += stage.w.width if planned.storage.copy else 0
    weight += 0 if stage.frozen else stage.grad_bits(batch)
    x_row = stage.window.width * fold.x_words * fold.folding.pc
    rows = (depths.window_rows + depths.store_rows) * stage.x.width + depths.col_rows * stage.col_bits
    bits = fold.pk * fold.pn * fold.depth * weight + x_row * rows
    bits += depths.mask_words * fold.pn
    if stage.pool is not None:
        y_row = stage.pool.width * fold.y_words * fold.pn
        bits += y_row * (depths.pool_rows * stage.y.width + depths.pool_col_rows * stage.pool_back_bits)
        bits += depths.argmax_words * fold.pn * max(1, (stage.pool.positions - 1).bit_length())
    return bits + _turn_bits(planned)


def _turn_bits(planned: StagePlan) -> int:
    """Bits of what waits for its turn in a cut by rows."""
    stage, depths = planned.stage, planned.depths
    bits = stage.in_channels * (
        depths.turn_x * stage.x.width + (depths.turn_sums + depths.turn_back) * stage.col_bits
    )
    y = (depths.turn_y + depths.turn_y_before) * stage.y.width + depths.turn_dy * stage.dy.width
    bits += stage.out_channels * y
    if stage.dx is not None:
        bits += stage.in_channels * (depths.turn_dx + depths.turn_dx_behind) * stage.dx.width
    return bits


def _link_bits(link: LinkPlan, received: tuple[Channel, ...]) -> int:
    """Bits of one end's receive buffers and replay memory."""
    return link.width * (sum(channel.depth for channel in received) + link.replay_words)


def needed_gbps(link: LinkPlan, pace: int, clock_mhz: float, batch: int = 1) -> tuple[float, float]:
    """Gb/s of link words away from and towards the host, at ``pace`` cycles of ``clock_mhz`` a sample; what crosses
    once a ``batch`` is spread over it."""
    samples = clock_mhz * 1e6 / pace
    down, up = (
        sum(c.words(link.width) / (batch if c.batch else 1) for c in channels)
        for channels in (link.down, link.up)
    )
    return down * link.width * samples / 1e9, up * link.width * samples / 1e9


def check_budgets(plan: Plan, cluster: Cluster, pace: int) -> None:
    """Raises BudgetError naming every board and link that cannot hold its part, what it needs, and what to do."""
    problems: list[str] = []
    for index, board in enumerate(cluster.boards):
        device, own = board.device, plan.on(index)
        names = ", ".join(planned.stage.name for planned in own)
        need = sum(dsps(planned, device.dsp_widths) for planned in own)
        if need > (room := board.available("dsp")):
            problems.append(
                f"board {index} ({board.name}): {names} need {need:,} {device.dsp_kind}, it has {device.dsp:,} × "
                f"{board.fill.dsp} = {room:,}; lower `array`, move a layer with device=, or add a board"
            )
        bits = sum(memory_bits(planned, plan.network.update.batch) for planned in own)
        bits += sum(_link_bits(link, link.down) for link in plan.links if link.index == index - 1)
        bits += sum(_link_bits(link, link.up) for link in plan.links if link.index == index)
        room = board.available("bram") * device.bram_bits + board.available("uram") * device.uram_bits
        room += board.available("lut") * LUT_RAM_BITS
        if bits > room:
            problems.append(
                f"board {index} ({board.name}): memories of {names} need at least {bits:,} bits, block, ultra and "
                f"distributed RAM give {room:,}; move a layer with device=, or add a board"
            )
    clock = min(board.device.clock_mhz for board in cluster.boards)
    for link, cable in zip(plan.links, cluster.links, strict=True):
        room_gbps = cable.payload_gbps * LINK_SHARE
        for way, gbps in zip(
            ("away from the host", "towards the host"),
            needed_gbps(link, pace, clock, plan.network.update.batch),
            strict=True,
        ):
            if gbps > room_gbps * (1 + ROUNDING):
                problems.append(
                    f"link {link.index} (board {link.index} to {link.index + 1}): {gbps:.2f} Gb/s needed {way} at "
                    f"{pace} cycles of {clock:g} MHz a sample, it carries {room_gbps:.2f}; give more lanes or a "
                    f"higher rate, cut elsewhere, or lower `array`"
                )
    if problems:
        raise BudgetError(problems)
