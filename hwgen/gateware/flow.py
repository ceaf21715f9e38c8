"""How tensors flow on one board: from stage to stage, to the loss and back, and over both of its links."""

from __future__ import annotations

import math

from amaranth import unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..plan.links import Channel, LinkPlan
from ..plan.plan import Plan, StagePlan
from .channels import MergeChannels, SplitChannels
from .loss import RESULT
from .relane import Relane
from .rows import RowDeal, RowMerge
from .stream import Fifo, Fork, lanes

__all__ = ["Flow", "boundary_ports", "channel_shape"]


def channel_shape(channel: Channel):
    """Payload of a channel word."""
    if channel.kind == "label":
        return unsigned(16)
    return RESULT if channel.kind == "result" else lanes(channel.lanes, channel.bits)


def boundary_ports(link: LinkPlan, side: str) -> dict[str, object]:
    """Ports of a board's core towards a link ("up": the board before, "down": the one behind), management left out."""
    ports: dict[str, object] = {}
    for channels, away in ((link.down, True), (link.up, False)):
        for channel in channels:
            if channel.kind != "management":
                flow = Out if away == (side == "down") else In
                ports[f"{side}_{channel.kind}"] = flow(stream.Signature(channel_shape(channel)))
    return ports


class Flow:
    """Connects the stages of a board. ``layout``: (run, lanes) of a stream, as in Relane.

    ``core`` has the boundary ports; ``stages`` are what carries the stages' ports, in order.
    """

    def __init__(self, m, plan: Plan, board: int, core: wiring.Component, stages):
        self.m, self.plan, self.core, self.stages = m, plan, core, stages
        self.planned = plan.on(board)
        self.channels: dict[str, Channel] = {}
        for side, link in (("up", board - 1), ("down", board)):
            if 0 <= link < len(plan.links):
                both = (*plan.links[link].down, *plan.links[link].up)
                self.channels |= {f"{side}_{channel.kind}": channel for channel in both}

    def boundary(self, name: str):
        """A boundary stream and its layout; None if this board has no such channel."""
        if name not in self.channels:
            return None
        channel = self.channels[name]
        return wiring.flipped(getattr(self.core, name)), (channel.run, channel.lanes)

    def join(self, name: str, width: int, source, target) -> None:
        """Connects one (stream, layout) to another, through a Relane where the layouts differ."""
        (o, before), (i, behind) = source, target
        if before == behind:
            wiring.connect(self.m, o, i)
            return
        relane = Relane(width, before, behind)
        self.m.submodules[name] = relane
        wiring.connect(self.m, o, relane.i)
        wiring.connect(self.m, relane.o, i)

    def forward(self, image):
        """Connects all stages forward, from (stream, layout) of the image, None on a board that gets none.

        Returns the last stage's y, None if its part hands on something else.
        """
        x = image or self.boundary("up_x")
        for i, planned in enumerate(self.planned):
            x = self._x(i, planned, x)
        if x is not None and self.boundary("down_x") is not None and self.planned[-1].part.last:
            self.join("to_next", self.planned[-1].stage.y.width, x, self.boundary("down_x"))
            return None
        return x

    def backward(self, dz) -> None:
        """Connects all stages backward, from (stream, layout) of the loss's error, None on a board without a loss."""
        error = dz or self.boundary("down_dy")
        for i, planned in reversed(list(enumerate(self.planned))):
            error = self._dy(i, planned, error)
        if error is not None and self.boundary("up_dy") is not None and self.planned[0].part.first:
            self.join("to_previous", self.planned[0].stage.dx.width, error, self.boundary("up_dy"))

    def share_sums(self) -> None:
        """Connects the sums of gradients that parts add up once a batch."""
        ways = (("grads_in", "up_grads"), ("totals_out", "up_totals"))
        ways += (("grads_out", "down_grads"), ("totals_in", "down_totals"))
        for ports in self.stages:
            for name, boundary in ways:
                if name in ports.signature.members:
                    wiring.connect(self.m, getattr(ports, name), wiring.flipped(getattr(self.core, boundary)))

    def _x(self, i: int, planned: StagePlan, x):
        """x of stage i from ``x``, and what passes it; its y, complete as far as this board knows it."""
        stage, part, ports = planned.stage, planned.part, self.stages[i]
        own = (ports.x, (stage.cin, planned.fold.folding.pc))
        if part.cut == "rows":
            self._x_rows(i, planned, x, own)
        elif part.last:
            self.join(f"x_{i}", stage.x.width, x, own)
        elif part.cut == "output_channels":
            self._x_outputs(i, planned, x, own)
        else:
            self._x_split(i, planned, x, own)
        if part.takes_sums:
            whole = self.plan.whole(planned)
            behind = (ports.sums_in, (stage.N, planned.fold.pn))
            self.join(f"sums_in_{i}", whole.psum_bits, self.boundary("up_sums"), behind)
        if part.sends_sums:
            sums = (ports.sums_out, (stage.N, planned.fold.pn))
            self.join(f"sums_out_{i}", self.plan.whole(planned).psum_bits, sums, self.boundary("down_sums"))
            return None
        y = (ports.y, (stage.N, planned.fold.pn))
        if part.cut == "rows":
            return self._y_rows(i, planned, y)
        if part.cut in ("output_channels", "groups"):
            if not part.first:
                before = self.boundary("up_y")
                counts = (before[1][0], stage.out_channels)
                y = self._merge(f"y_merge_{i}", stage.y.width, before, y, counts)
            if not part.last:
                self.join(f"y_out_{i}", stage.y.width, y, self.boundary("down_y"))
                return None
        return y

    def _dy(self, i: int, planned: StagePlan, error):
        """Errors of stage i from ``error``, and what passes it; its dx, complete as far as this board knows it."""
        stage, part, ports = planned.stage, planned.part, self.stages[i]
        if "dy" not in ports.signature.members:
            return None
        own = (ports.dy, (stage.N, planned.fold.pn))
        if part.cut == "rows":
            self._dy_rows(i, planned, error, own)
        elif part.first or (part.takes_sums and part.last):
            self.join(f"dy_{i}", stage.dy.width, error, own)
        elif part.cut == "input_channels":
            self._fork(f"dy_fork_{i}", stage.dy.width, error, own, self.boundary("up_dy"))
        else:
            onward = self.boundary("up_dy")
            counts = (onward[1][0], stage.out_channels)
            self._split(f"dy_split_{i}", stage.dy.width, error, onward, own, counts)
        if "masked_out" in ports.signature.members:
            masked = (ports.masked_out, (stage.N, planned.fold.pn))
            self.join(f"masked_{i}", stage.dy.width, masked, self.boundary("up_dy"))
        if stage.dx is None:
            return None
        return self._dx(i, planned)

    def _dx(self, i: int, planned: StagePlan):
        stage, part, ports = planned.stage, planned.part, self.stages[i]
        own, bits = (stage.cin, planned.fold.folding.pc), self.plan.whole(planned).col_bits
        if part.cut == "rows":
            return self._dx_rows(i, planned, own, bits)
        names = ports.signature.members
        if "back_in" in names:
            self.join(f"back_in_{i}", bits, self.boundary("down_back"), (ports.back_in, own))
        if "back_out" in names:
            self.join(f"back_out_{i}", bits, (ports.back_out, own), self.boundary("up_back"))
        # Channels of parts behind that are complete there; none of those that this part adds to.
        behind = None if part.last else self.boundary("down_dx")
        dx = (ports.dx, own) if "dx" in names else behind
        if behind is not None and "dx" in names:
            counts = (stage.in_channels, behind[1][0])
            dx = self._merge(f"dx_merge_{i}", stage.dx.width, dx, behind, counts)
        if part.first:
            return dx
        if dx is not None:
            self.join(f"dx_out_{i}", stage.dx.width, dx, self.boundary("up_dx"))
        return None

    def _x_outputs(self, i: int, planned: StagePlan, x, own) -> None:
        """x of a part of the outputs: parts behind it want the channels of its last group too, if they share it."""
        stage, onward = planned.stage, self.boundary("down_x")
        if not planned.part.back_in(self.plan.whole(planned)):
            self._x_split(i, planned, x, own)
            return
        rest = self._channels("down_x") - stage.in_channels
        if not rest:
            self._fork(f"x_fork_{i}", stage.x.width, x, own, onward)
            return
        counts = (stage.in_channels, rest)
        P = min(sum(counts), max(layout[1] for _, layout in (x, own, onward)))
        takers = [3] * math.ceil(counts[0] / P) + [2] * math.ceil(rest / P)
        deal = RowDeal(lanes(P, stage.x.width), 1, takers)
        self.m.submodules[f"x_deal_{i}"] = deal
        self.join(f"x_deal_{i}_i", stage.x.width, x, (deal.i, (counts, P)))
        self.join(f"x_deal_{i}_own", stage.x.width, (deal.o[0], (counts[0], P)), own)
        self.join(f"x_deal_{i}_onward", stage.x.width, (deal.o[1], (counts, P)), onward)

    def _channels(self, name: str) -> int:
        """Channels of the tensor that a boundary carries."""
        channel = self.channels[name]
        return channel.high - channel.low

    def _x_split(self, i: int, planned: StagePlan, x, own) -> None:
        """The first channels of x to the part, the others onward."""
        onward = self.boundary("down_x")
        counts = (planned.stage.in_channels, self._channels("down_x"))
        self._split(f"x_split_{i}", planned.stage.x.width, x, own, onward, counts)

    def _fork(self, name, width, source, first, second) -> None:
        """Both get every word."""
        fork = Fork(source[0].payload.shape(), 2)
        self.m.submodules[name] = fork
        wiring.connect(self.m, source[0], fork.i)
        self.join(f"{name}_0", width, (fork.o[0], source[1]), first)
        self.join(f"{name}_1", width, (fork.o[1], source[1]), second)

    def _split(self, name, width, source, low, high, counts) -> None:
        """The first channels of every pixel to ``low``, the others to ``high``."""
        P = min(sum(counts), max(layout[1] for _, layout in (source, low, high)))
        split = SplitChannels(width, *counts, P)
        self.m.submodules[name] = split
        self.join(f"{name}_i", width, source, (split.i, (sum(counts), P)))
        self.join(f"{name}_low", width, (split.o[0], (counts[0], P)), low)
        self.join(f"{name}_high", width, (split.o[1], (counts[1], P)), high)

    def _merge(self, name, width, low, high, counts):
        """The channels of ``low``, then those of ``high``, as one (stream, layout)."""
        P = max(low[1][1], high[1][1])
        merge = MergeChannels(width, *counts, P)
        self.m.submodules[name] = merge
        self.join(f"{name}_low", width, low, (merge.i[0], (counts[0], P)))
        self.join(f"{name}_high", width, high, (merge.i[1], (counts[1], P)))
        return merge.o, (sum(counts), P)

    def _x_rows(self, i, planned, x, own) -> None:
        """The rows that a part reads to it, those that parts behind read onward."""
        rows, p, stage = planned.part.rows(self.plan.whole(planned)), planned.part.index, planned.stage
        come, mine, others = (values.tolist() for values in (rows.x_from(p), rows.x(p), rows.x_from(p + 1)))
        takers = [(row in {*mine}) + 2 * (row in {*others}) for row in come]
        size = (stage.window.width, stage.in_channels)
        onward = None if planned.part.last else self.boundary("down_x")
        self._deal(f"x_{i}", stage.x.width, x, own, onward, takers, size, planned.depths.turn_x)

    def _y_rows(self, i, planned, y):
        """Own rows of y among those of the parts before."""
        part, stage, depths = planned.part, planned.stage, planned.depths
        rows = part.rows(self.plan.whole(planned))
        mine, all_rows = {*rows.y(part.index).tolist()}, rows.y_before(part.index + 1).tolist()
        ports, layout = self.stages[i], y[1]
        if "conv_in" in ports.signature.members:
            self.join(f"conv_in_{i}", stage.y.width, self.boundary("up_conv"), (ports.conv_in, layout))
        if "conv_out" in ports.signature.members:
            self.join(f"conv_out_{i}", stage.y.width, (ports.conv_out, layout), self.boundary("down_conv"))
        size = (stage.out_shape[1], stage.out_channels)
        if not part.first:
            sources = ((self.boundary("up_y"), depths.turn_y_before), (y, depths.turn_y))
            y = self._gather(f"y_{i}", stage.y.width, sources, [int(row in mine) for row in all_rows], size)
        if part.last:
            return y
        self.join(f"y_out_{i}", stage.y.width, y, self.boundary("down_y"))
        return None

    def _dy_rows(self, i, planned, error, own) -> None:
        """Errors of own rows to the part, those of the parts before onward."""
        rows, p, stage = planned.part.rows(self.plan.whole(planned)), planned.part.index, planned.stage
        mine, come = {*rows.y(p).tolist()}, rows.y_before(p + 1).tolist()
        size = (stage.out_shape[1], stage.out_channels)
        takers = [1 if row in mine else 2 for row in come]
        onward, ports, bits = (
            None if planned.part.first else self.boundary("up_dy"),
            self.stages[i],
            stage.pool_back_bits,
        )
        if "unpooled_in" in ports.signature.members:
            self.join(f"unpooled_in_{i}", bits, self.boundary("down_unpooled"), (ports.unpooled_in, own[1]))
        if "unpooled_out" in ports.signature.members:
            self.join(f"unpooled_out_{i}", bits, (ports.unpooled_out, own[1]), self.boundary("up_unpooled"))
        self._deal(f"dy_{i}", stage.dy.width, error, own, onward, takers, size, planned.depths.turn_dy)

    def _dx_rows(self, i, planned, own, bits):
        """Sums from behind and to the parts before; rows completed here among those completed behind."""
        whole, part, stage, depths = self.plan.whole(planned), planned.part, planned.stage, planned.depths
        ports, rows, size = self.stages[i], part.rows(whole), (stage.window.width, stage.in_channels)
        if part.back_in(whole):
            back = self._wait(f"back_{i}", bits, self.boundary("down_back"), depths.turn_back, size[1])
            self.join(f"back_in_{i}", bits, back, (ports.back_in, own))
        if part.back_out(whole):
            self.join(f"back_out_{i}", bits, (ports.back_out, own), self.boundary("up_back"))
        behind = None if part.last else self.boundary("down_dx")
        dx = (ports.dx, own) if part.rounds_dx(whole) else behind
        if behind is not None and part.rounds_dx(whole):
            mine = {*rows.rounded(part.index).tolist()}
            givers = [int(row not in mine) for row in rows.dx(part.index).tolist()]
            sources = ((dx, depths.turn_dx), (behind, depths.turn_dx_behind))
            dx = self._gather(f"dx_{i}", stage.dx.width, sources, givers, size)
        if part.first:
            return dx
        if dx is not None:
            self.join(f"dx_out_{i}", stage.dx.width, dx, self.boundary("up_dx"))
        return None

    def _deal(self, name, width, source, own, onward, takers, size, depth) -> None:
        """Rows of ``source`` to ``own``, before which ``depth`` pixels may wait, and ``onward`` (None: nowhere)."""
        layout = _row_layout(size, source, own, onward)
        source = self._as(f"{name}_i", width, source, layout)
        if onward is not None:
            deal = RowDeal(lanes(layout[1], width), _row_words(size, layout), takers)
            self.m.submodules[f"{name}_deal"] = deal
            wiring.connect(self.m, source[0], deal.i)
            self.join(f"{name}_onward", width, (deal.o[1], layout), onward)
            source = (deal.o[0], layout)
        self.join(f"{name}_own", width, self._wait(name, width, source, depth, size[1]), own)

    def _gather(self, name, width, sources, givers, size):
        """Rows of two sources, each behind so many pixels that may wait, in raster order."""
        layout = _row_layout(size, *(source for source, _ in sources))
        merge = RowMerge(lanes(layout[1], width), _row_words(size, layout), givers)
        self.m.submodules[f"{name}_merge"] = merge
        for k, (source, depth) in enumerate(sources):
            source = self._as(f"{name}_{k}", width, source, layout)
            wiring.connect(self.m, self._wait(f"{name}_{k}", width, source, depth, size[1])[0], merge.i[k])
        return merge.o, layout

    def _as(self, name, width, source, layout):
        """The source in another layout."""
        if source[1] == layout:
            return source
        relane = Relane(width, source[1], layout)
        self.m.submodules[name] = relane
        wiring.connect(self.m, source[0], relane.i)
        return relane.o, layout

    def _wait(self, name, width, source, depth, channels):
        """A FIFO of ``depth`` pixels behind the source, if any."""
        if not depth:
            return source
        run, P = source[1]
        words = (
            depth * _row_words((1, channels), source[1])
            if run <= channels
            else math.ceil(depth * channels / P) + 1
        )
        fifo = Fifo(lanes(P, width), words)
        self.m.submodules[f"{name}_turn"] = fifo
        wiring.connect(self.m, source[0], fifo.i)
        return fifo.o, source[1]


def _row_words(size, layout) -> int:
    """Words of a row of (pixels, channels)."""
    return size[0] * size[1] // layout[0] * -(-layout[0] // layout[1])


def _row_layout(size, *sides):
    """The widest layout of the sides in which every row begins with a word."""
    row = size[0] * size[1]
    found = [layout for _, layout in (side for side in sides if side is not None) if row % layout[0] == 0]
    return max(found, key=lambda layout: layout[1])
