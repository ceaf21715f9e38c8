"""From cuts to a chain: every board's parts with their foldings, and what each link carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..errors import ModelError
from ..ir.stage import Network, Stage
from ..target import Cluster
from .buffers import least_depths
from .cuts import Cut, parts_of
from .fold import Fold, Folding
from .foldings import tile_of
from .layout import Layout, Placement, Storage
from .links import Channel, LinkPlan, channel_lanes, master_lanes, masters_kind, row_run, updates_kind
from .part import Part, part_stage
from .plan import Depths, StagePlan
from .stack import stack_problem

__all__ = [
    "COMMAND_BITS",
    "FRAME_WORDS",
    "chain_links",
    "cut_layout",
    "layout_stages",
    "part_folding",
    "with_channel_depths",
]

COMMAND_BITS = 57
LABEL_BITS = 16
RESULT_BITS = 48
REPLY_BITS = 32
FRAME_WORDS = 64
"""Most payload words of a frame: 3 % of the words are then header and trailer."""
MANAGEMENT_DEPTH = 256
"""Commands and replies under way: a read-back then keeps a register bus busy over long chains."""
SAMPLE_DEPTH = 16
LEAST_DEPTH = 64


def part_folding(whole: Fold, part: Part) -> Folding:
    """The folding of a part: as many folds as the whole stage has, over fewer rows or columns."""
    folding, channels = whole.folding, part.high - part.low
    if part.cut == "output_channels":
        return replace(folding, pn=math.ceil(min(channels, whole.stage.N) / whole.fn))
    if part.cut == "input_channels":
        return replace(folding, pc=math.ceil(channels / whole.cgs))
    return folding


def cut_layout(network: Network, foldings: Sequence[Folding], cuts: Sequence[Cut]) -> Layout:
    """All parts in the order of the chain, folded as their whole stages are."""
    return tuple(
        Placement(i, cut.board + part.index, part_folding(Fold(stage, folding), part), part, _storage(stage))
        for i, (stage, folding, cut) in enumerate(zip(network.stages, foldings, cuts, strict=True))
        for part in parts_of(cut)
    )


def _storage(stage: Stage) -> Storage:
    """As the user wants it, else as usual."""
    return Storage(master=stage.place.master or "here")


def layout_stages(network: Network, layout: Layout) -> tuple[StagePlan, ...]:
    """All parts in the order of the chain, with the least depths.

    Raises ModelError naming every part whose rows cannot lie behind one another as its storage has them.
    """
    found, problems = [], []
    for place in layout:
        own = part_stage(network.stages[place.stage], place.part, place.board)
        none = Depths(1, 1, 1, 1, 1, 1, 1)
        planned = StagePlan(own, place.folding, (1, 1), none, place.part, place.board, place.storage)
        planned = replace(planned, tile=tile_of(planned.fold, place.storage.stack))
        problems.append(stack_problem(planned, network.update.batch))
        found.append(replace(planned, depths=least_depths(planned, 2, 2)))
    if any(problems):
        raise ModelError([problem for problem in dict.fromkeys(problems) if problem is not None])
    return tuple(found)


def chain_links(network: Network, stages: Sequence[StagePlan], cluster: Cluster) -> tuple[LinkPlan, ...]:
    """Every cable with its channels, least depths."""
    links = []
    for index, cable in enumerate(cluster.links):
        last = [planned for planned in stages if planned.board == index][-1]
        following = next(planned for planned in stages if planned.board == index + 1)
        lent, returned = _masters(stages, index, cable.width)
        down, up = _crossing(network, last, following, cable.width)
        down, up = (*down, *lent), (*up, *returned)
        clock = cluster.boards[index].device.clock_mhz
        latency = math.ceil(cable.latency * clock / cable.clock_mhz)
        replay = 1 << (2 * cable.latency + 4 * FRAME_WORDS - 1).bit_length()
        links.append(
            LinkPlan(index, cable.width, down, up, FRAME_WORDS, max(replay, 8 * FRAME_WORDS), latency)
        )
    return tuple(links)


def _fixed(kind: str, bits: int, depth: int, words: int) -> Channel:
    """A channel of one word each: ``words`` a sample."""
    return Channel(kind, -1, 0, 0, words, 1, bits, 1, depth)


def _crossing(
    network: Network, last: StagePlan, following: StagePlan, width: int
) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
    """Channels of a boundary, away from the host and towards it; the table of docs/chain.md."""
    whole, part = network.stages[last.stage.index], last.part
    behind = network.stages[following.stage.index]
    down = [
        _fixed("management", COMMAND_BITS, MANAGEMENT_DEPTH, 0),
        _fixed("label", LABEL_BITS, SAMPLE_DEPTH, 1),
    ]
    up = [
        _fixed("management", REPLY_BITS, MANAGEMENT_DEPTH, 0),
        _fixed("result", RESULT_BITS, SAMPLE_DEPTH, 1),
    ]

    def tensor(kind: str, stage: Stage, pixels: int, low: int, high: int, bits: int) -> Channel:
        run = high - low
        packed = row_run(stage.window.width, run, bits, width) if kind == "x" else 1
        run, pixels = packed * run, pixels // packed
        return Channel(
            kind, stage.index, low, high, pixels, run, bits, channel_lanes(run, bits, width), LEAST_DEPTH
        )

    inputs, outputs = whole.in_channels, whole.out_channels
    x_pixels, y_pixels = whole.window.pixels_in, math.prod(whole.out_shape[:2])
    backs = not (whole.frozen and whole.dx is None)
    dx_bits = whole.dx.width if whole.dx is not None else 0
    x_end, y_end = part.inputs(whole).stop, part.outputs(whole).stop
    if part.cut == "rows" and not part.last:
        # Whole channels of some rows: x of the parts behind, y of those before, dx complete or as sums.
        rows, behind_it = part.rows(whole), part.index + 1
        x_width, y_width = whole.window.width, whole.out_shape[1]
        x_pixels, y_pixels = len(rows.x_from(behind_it)) * x_width, len(rows.y_before(behind_it)) * y_width
        down += [
            tensor("x", whole, x_pixels, 0, inputs, whole.x.width),
            tensor("y", whole, y_pixels, 0, outputs, whole.y.width),
        ]
        up += [tensor("dy", whole, y_pixels, 0, outputs, whole.dy.width)] if backs else []
        shared = len(rows.shared(behind_it)) * whole.window.out_width
        if shared:
            down.append(tensor("conv", whole, shared, 0, outputs, whole.y.width))
            up += [tensor("unpooled", whole, shared, 0, outputs, whole.pool_back_bits)] if backs else []
        for kind, own, bits in (
            ("dx", rows.dx(behind_it), dx_bits),
            ("back", rows.back(behind_it), whole.col_bits),
        ):
            up += [tensor(kind, whole, len(own) * x_width, 0, inputs, bits)] if dx_bits and len(own) else []
    elif part.last:
        pixels = behind.window.pixels_in
        down.append(tensor("x", behind, pixels, 0, behind.in_channels, behind.x.width))
        if behind.dx is not None:
            up.append(tensor("dy", whole, pixels, 0, behind.in_channels, behind.dx.width))
    elif part.cut == "input_channels":
        down += [
            tensor("x", whole, x_pixels, x_end, inputs, whole.x.width),
            tensor("sums", whole, whole.M, 0, outputs, whole.psum_bits),
        ]
        up += [tensor("dy", whole, whole.M, 0, outputs, whole.dy.width)] if backs else []
        up += [tensor("dx", whole, x_pixels, x_end, inputs, dx_bits)] if dx_bits else []
    else:
        wanted = following.part.inputs(whole).start
        down += [
            tensor("x", whole, x_pixels, wanted, inputs, whole.x.width),
            tensor("y", whole, y_pixels, 0, y_end, whole.y.width),
        ]
        up += [tensor("dy", whole, y_pixels, 0, y_end, whole.dy.width)] if backs else []
        if dx_bits and part.back_in(whole):
            up.append(tensor("back", whole, x_pixels, wanted, x_end, whole.col_bits))
        if dx_bits and x_end < inputs:
            up.append(tensor("dx", whole, x_pixels, x_end, inputs, dx_bits))
    if part.shares_weights and not part.last and not whole.frozen:
        down.append(_sums("grads", whole, network.update.batch))
        up.append(_sums("totals", whole, network.update.batch))
    return tuple(down), tuple(up)


def _sums(kind: str, whole: Stage, batch: int) -> Channel:
    """dW and db of a whole stage, an element a word."""
    count = math.prod(whole.weight_shape) + (whole.out_channels if whole.bias is not None else 0)
    return Channel(kind, whole.index, 0, 0, count, 1, whole.grad_bits(batch), 1, LEAST_DEPTH, batch=True)


def _masters(
    stages: Sequence[StagePlan], index: int, width: int
) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
    """Channels of link ``index`` for masters that lie on the other side of it, away from the host and towards it."""
    down, up = list[Channel](), list[Channel]()
    for number, planned in enumerate(stages):
        where = (planned.storage.master, planned.board)
        if where not in (("up", index + 1), ("down", index)):
            continue
        count, bits = math.prod(planned.stage.weight_shape), planned.stage.master.width
        lanes = master_lanes(count, bits, width)
        # A word of its own asks, or tells that all are in memory.
        run = lanes * (1 + math.ceil(count / lanes))
        masters, updates = (
            Channel(kind, planned.stage.index, 0, 0, 1, run, bits, lanes, LEAST_DEPTH, batch=True)
            for kind in (masters_kind(number), updates_kind(number))
        )
        comes, goes = (down, up) if where[0] == "up" else (up, down)
        comes.append(masters)
        goes.append(updates)
    return tuple(down), tuple(up)


def with_channel_depths(links: Sequence[LinkPlan], pace: int) -> tuple[LinkPlan, ...]:
    """Receive buffers that hold what comes in a round trip at ``pace`` cycles a sample, a frame and a pixel more."""

    def deep(link: LinkPlan, channel: Channel) -> Channel:
        if channel.kind in ("management", "label", "result"):
            return channel
        trip = 2 * link.latency + 4 * link.frame_words
        if channel.batch:  # as fast as the parts can
            # An element a cycle; a word of several comes all the slower, but with its frame.
            ahead = math.ceil(trip / channel.lanes) + (link.frame_words if channel.lanes > 1 else 0)
            most = min(channel.words(link.width), channel.beats(link.width) * ahead)
            return replace(channel, depth=1 << (max(most, LEAST_DEPTH) - 1).bit_length())
        words = math.ceil(channel.words(link.width) * trip / pace)
        pixel = channel.words(link.width) // channel.pixels
        depth = words + link.frame_words + 2 * pixel
        return replace(channel, depth=1 << (depth - 1).bit_length())

    return tuple(
        replace(
            link,
            down=tuple(deep(link, channel) for channel in link.down),
            up=tuple(deep(link, channel) for channel in link.up),
        )
        for link in links
    )
