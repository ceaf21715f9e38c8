"""Whether boards and links can hold what a plan gives them: multipliers, memories, logic, bits a second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ..ir.stage import Network, Stage
from ..target import Board, Cluster, Device, Link
from .errors import BudgetError
from .links import Channel, LinkPlan
from .logic import board_logic, estimate, link_logic
from .memories import memories as stage_list
from .neighbours import LINK_SHARE, lent, lent_memories, master_channels
from .plan import Plan, StagePlan
from .rooms import NEVER, Load, Memory, deal, load_of, room_of

__all__ = [
    "LINK_SHARE",
    "BudgetError",
    "board_load",
    "check_budgets",
    "dsps",
    "multiplier_room",
    "needed_gbps",
    "pe_dsps",
    "waiting",
]

ROUNDING = 1e-9
"""Share by which a plan made for all of a link may seem to need more of it."""


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


def waiting(planned: StagePlan) -> Iterator[Memory]:
    """What waits for its turn in a cut by rows, beside plan.memories' "sums of a turn"."""
    stage, fold, depths = planned.stage, planned.fold, planned.depths
    dx = stage.dx.width if stage.dx is not None else 0
    x = (
        (depths.turn_x, stage.x),
        (depths.turn_back, stage.col_bits),
        (depths.turn_dx, dx),
        (depths.turn_dx_behind, dx),
    )
    y = (
        (depths.turn_y, stage.y),
        (depths.turn_y_before, stage.y),
        (depths.turn_dy, stage.dy),
        (depths.turn_conv, stage.y),
        (depths.turn_conv_in, stage.y),
        (depths.turn_unpooled, stage.pool_back_bits),
    )
    for pairs, words, lanes in ((x, fold.x_words, fold.folding.pc), (y, fold.y_words, fold.pn)):
        for pixels, element in pairs:
            if pixels:
                bits = element if isinstance(element, int) else element.width
                yield "turn", 1, pixels * words, lanes * bits, 1, False


def _at_end(link: LinkPlan, received: tuple[Channel, ...]) -> Iterator[Memory]:
    """Receive buffers and replay memory of one end of a link."""
    for depth in (*(channel.depth for channel in received), link.replay_words):
        yield "link", 1, depth, link.width, 1, False


def board_load(plan: Plan, index: int, device: Device) -> Load:
    """What board ``index`` takes of a device: DSPs, LUTs and flip-flops by the estimate of plan.logic, memories."""
    own, memories = plan.on(index), list[Memory]()
    for planned in own:
        memories += [
            (m.name, m.count, m.depth, m.width, m.reads, m.asynchronous)
            for m in stage_list(plan.network, planned)
        ]
        memories += waiting(planned)
    memories += lent_memories(plan, index)
    logic = [estimate(planned, plan.network) for planned in own]
    logic.append(board_logic(index == len(plan.boards) - 1))
    for link in plan.links:
        if index in (link.index, link.index + 1):
            memories += _at_end(link, link.down if link.index == index - 1 else link.up)
            logic.append(link_logic(link))
    luts, ffs = (sum(each) for each in zip(*logic, strict=True))
    need = sum(dsps(planned, device.dsp_widths) for planned in own)
    return load_of(device, need, (luts, ffs), tuple(memories))


def needed_gbps(link: LinkPlan, pace: int, clock_mhz: float, batch: int = 1) -> tuple[float, float]:
    """Gb/s of link words away from and towards the host, at ``pace`` cycles of ``clock_mhz`` a sample; what crosses
    once a ``batch`` is spread over it."""
    samples = clock_mhz * 1e6 / pace
    down, up = (
        sum(c.words(link.width) / (batch if c.batch else 1) for c in channels)
        for channels in (link.down, link.up)
    )
    return down * link.width * samples / 1e9, up * link.width * samples / 1e9


def _board_problems(plan: Plan, index: int, board: Board) -> Iterator[str]:
    """What a board has too little of."""
    device, fill, room = board.device, board.fill, room_of(board)
    load = board_load(plan, index, device)
    guests = [
        f"masters of {plan.stages[region.part].stage.name} (board {plan.stages[region.part].board})"
        for region in lent(plan, index)
    ]
    names = ", ".join([*(planned.stage.name for planned in plan.on(index)), *guests])
    where, advice = f"board {index} ({board.name})", "move a layer with device=, or add a board"
    if guests:
        advice = f'give master="here" or "memory" to what lends its masters here, {advice}'
    if load.dsp > room.dsp:
        yield (
            f"{where}: {names} need {load.dsp:,} {device.dsp_kind}, it has {device.dsp:,} × "
            f"{fill.dsp} = {room.dsp:,}; lower `array`, {advice}"
        )
    dealt = deal(room, [load])
    logic = (("LUTs", dealt.luts + load.tables, room.lut), ("flip-flops", dealt.ffs, room.ff))
    for what, need, have in logic:
        if need > have:
            yield (
                f"{where}: {names} need about {need:,} {what}, an estimate, it has {have:,} to use; lower `array`, "
                f"{advice}"
            )
    if load.tables > room.lut_ram:
        yield (
            f"{where}: {names} need {load.tables:,} LUTs as memory, it has {room.lut_ram:,} to use; lower `array`, "
            f"{advice}"
        )
    more = dealt.bram - room.bram
    if more > 0:
        others = f"{dealt.uram:,g} ultra RAMs and " if device.uram else ""
        blocks = f"{more:,g} block RAMs more than" if more < NEVER else "block RAMs beside"
        yield (
            f"{where}: memories of {names} need {blocks} the {room.bram:,} it has to use and "
            f"{others}{dealt.lut_ram:,} LUTs of distributed RAM; {advice}"
        )


def check_budgets(plan: Plan, cluster: Cluster, pace: int) -> None:
    """Raises BudgetError naming every board and link that cannot hold its part, what it needs, and what to do."""
    problems = [
        problem
        for index, board in enumerate(cluster.boards)
        for problem in _board_problems(plan, index, board)
    ]
    clock = min(board.device.clock_mhz for board in cluster.boards)
    for link, cable in zip(plan.links, cluster.links, strict=True):
        problems += _link_problems(plan, link, cable, pace, clock)
    if problems:
        raise BudgetError(problems)


def _link_problems(plan: Plan, link: LinkPlan, cable: Link, pace: int, clock: float) -> Iterator[str]:
    """Ways of a link that need more than it carries."""
    room, batch = cable.payload_gbps * LINK_SHARE, plan.network.update.batch
    masters = replace(link, down=tuple(master_channels(link.down)), up=tuple(master_channels(link.up)))
    needs, of_masters = (needed_gbps(each, pace, clock, batch) for each in (link, masters))
    for way, gbps, part in zip(("away from the host", "towards the host"), needs, of_masters, strict=True):
        if gbps > room * (1 + ROUNDING):
            more = (
                f', a larger batch, or master="here" or "memory" ({part:.2f} of them are masters)'
                if part
                else ""
            )
            yield (
                f"link {link.index} (board {link.index} to {link.index + 1}): {gbps:.2f} Gb/s needed {way} at "
                f"{pace} cycles of {clock:g} MHz a sample, it carries {room:.2f}; give more lanes or a "
                f"higher rate, cut elsewhere, or lower `array`{more}"
            )
