"""From what a search found to its report."""

from __future__ import annotations

import math
from dataclasses import replace

from . import latency as L
from .budget import pe_dsps
from .chain import chain_links, layout_stages
from .columns import load_pace
from .plan import Prediction, StagePlan, image_words
from .report import RESOURCES, BoardReport, LayerReport, LinkReport, MemoryReport, PartReport, PlanReport, Use
from .search.flight import passages
from .search.layer import Layer, Share
from .search.place import layout_of
from .search.search import Found, Search

__all__ = ["scheduled", "summarise"]

DIGITS = 4
"""Decimals of shares and rates."""


def summarise(search: Search, found: Found) -> PlanReport:
    """The report of ``found``, which ``search`` found."""
    return _Summary(search, found).report()


def scheduled(report: PlanReport, prediction: Prediction) -> PlanReport:
    """``report`` with what the schedule of the full plan says, which the rate with updates is then made of.

    As it is where links are slower than the engines: the schedule has links of any rate.
    """
    if prediction.cycles_per_sample < report.cycles_per_sample:
        return report
    period = prediction.cycles_per_batch
    return replace(
        report,
        samples_per_second_with_updates=_round(report.batch * report.clock_mhz * 1e6 / period),
        scheduled_cycles_per_sample=_round(prediction.cycles_per_sample),
        scheduled_cycles_per_batch=_round(period),
    )


class _Summary:
    def __init__(self, search: Search, found: Found):
        self.line, self.found = search.line, found
        self.network, self.cluster = search.line.network, search.line.cluster
        self.layers = search.line.layers
        self.shares = found.shares(len(self.layers))
        stages = layout_stages(self.network, layout_of(self.layers, found))
        self.planned: dict[tuple[int, int], StagePlan] = {
            (stage.stage.index, stage.board): stage for stage in stages
        }
        self.links = chain_links(self.network, stages, self.cluster)
        self.turns = [max(share.turns for _, share, _ in parts) for parts in self.shares]
        self.pace, self.clock = search.pace_of(found), search.line.clock

    def report(self) -> PlanReport:
        line, network, pace = self.line, self.network, self.pace
        batch, rate = network.update.batch, self.clock * 1e6
        drain, update = self._drain_and_update()
        period = max(1, (batch - 1) * pace + drain + update)
        dsp = sum(board.device.dsp for board in self.cluster.boards)
        bound = self.found.bound
        layers = tuple(self._layer(index) for index in range(len(self.layers)))
        return PlanReport(
            network=network.name,
            cluster=str(self.cluster),
            batch=batch,
            image_lanes=line.image_lanes(pace),
            clock_mhz=float(self.clock),
            cycles_per_sample=pace,
            samples_per_second=_round(rate / pace),
            drain_cycles=drain,
            update_cycles=update,
            cycles_per_batch=period,
            samples_per_second_with_updates=_round(batch * rate / period),
            scheduled_cycles_per_sample=None,
            scheduled_cycles_per_batch=None,
            bottleneck=self._bottleneck(),
            bound_cycles=bound.pace,
            bound_by=bound.held_by,
            gap=_round(pace / bound.pace - 1) if bound.pace else 0.0,
            multiplications=network.macs,
            dsp_available=dsp,
            useful=_round(network.macs / max(1, dsp * pace)),
            layers=layers,
            boards=tuple(self._board(board) for board in range(len(self.found.steps))),
            links=tuple(self._link(board) for board in range(len(self.found.steps) - 1)),
        )

    def _layer(self, index: int) -> LayerReport:
        layer, parts = self.layers[index], self.shares[index]
        stage, axis = layer.stage, parts[0][1].axis
        flight, storage = self.found.flights[index], self.found.storages[index]
        return LayerReport(
            name=stage.name,
            cut=axis,
            extent=layer.axes[axis] if axis != "whole" else 1,
            turns=self.turns[index],
            multiplications=sum(stage.macs),
            weights=math.prod(stage.weight_shape),
            samples_x=_round(flight.x),
            samples_masks=_round(flight.masks),
            samples_argmax=_round(flight.argmax),
            copy=storage.copy,
            master=storage.master,
            parts=tuple(self._part(layer, *part) for part in parts),
        )

    def _part(self, layer: Layer, board: int, share: Share, k: int) -> PartReport:
        taken = self.found.taken[board]
        choice, load = taken.choices[k], taken.loads[k]
        planned = self.planned[share.layer, board]
        fold, folding = planned.fold, choice.folding
        extent = layer.axes[share.axis] if share.axis != "whole" else 1
        part = share.size / extent
        each = pe_dsps(layer.stage, self.cluster.boards[board].device.dsp_widths)
        products = sum(layer.stage.macs) * part
        return PartReport(
            board=board,
            low=share.low,
            high=share.high,
            share=_round(part),
            u=folding.u,
            pc=folding.pc,
            pn=folding.pn,
            b=folding.b,
            groups=planned.stage.groups,
            fk=choice.fk,
            fn=choice.fn,
            cycles=choice.cycles,
            busy=choice.busy,
            multipliers=fold.multipliers,
            dsp=each * choice.pes,
            useful=_round(products / (fold.multipliers * self.pace)),
            memories=tuple(MemoryReport(*memory[:4]) for memory in load.memories),
        )

    def _board(self, index: int) -> BoardReport:
        taken, room = self.found.taken[index], self.line.rooms[index]
        step, board = self.found.steps[index], self.cluster.boards[index]
        used: dict[str, float] = {
            "dsp": taken.dsp,
            "bram": taken.dealt.bram,
            "uram": taken.dealt.uram,
            "lut_ram": taken.dealt.lut_ram,
            "lut": taken.dealt.luts + taken.dealt.lut_ram,
            "ff": taken.dealt.ffs,
        }
        uses = tuple(Use(name, _round(used[name]), getattr(room, name)) for name in RESOURCES)
        return BoardReport(
            index=index,
            name=board.name,
            layers=tuple(self.layers[share.layer].stage.name for share in step.shares),
            uses=uses,
            fullest=max(uses, key=lambda use: use.share).resource,
            busy=max(choice.busy for choice in taken.choices),
            memory_bytes_per_batch=sum(self._master_bytes(share) for share in step.shares),
        )

    def _weights(self, share: Share) -> int:
        """Weights that a part holds."""
        layer = self.layers[share.layer]
        part = 1.0 if share.axis in ("whole", "rows") else share.size / layer.axes[share.axis]
        return round(math.prod(layer.stage.weight_shape) * part)

    def _master_bytes(self, share: Share) -> int:
        if self.found.storages[share.layer].master != "memory":
            return 0
        return 2 * self._weights(share) * math.ceil(self.layers[share.layer].stage.master.width / 8)

    def _link(self, board: int) -> LinkReport:
        """As the channels of the full plan carry it."""
        link = self.links[board]
        down, up = (
            sum(channel.words(link.width) for channel in channels if not channel.batch)
            for channels in (link.down, link.up)
        )
        return LinkReport(
            board,
            self.cluster.links[board].width,
            down,
            up,
            _round(self.line.gbps(board, down, self.pace)),
            _round(self.line.gbps(board, up, self.pace)),
            _round(self.line.room_gbps[board]),
        )

    def _bottleneck(self) -> str:
        """The engine, stream or link that takes the most cycles a sample."""
        line, network = self.line, self.network
        names = [
            (image_words(network.in_shape, line.image_lanes(self.pace)), "image"),
            (L.loss_cycles(network.loss), "loss"),
        ]
        for board, (step, taken) in enumerate(zip(self.found.steps, self.found.taken, strict=True)):
            for share, choice in zip(step.shares, taken.choices, strict=True):
                name = self.planned[share.layer, board].stage.name
                backs = self.layers[share.layer].backs
                array = f"{name}.forward{' and backward' if backs else ''}"
                names += [(choice.cycles, array), (choice.busy, f"{name}.x or pool")]
        for board in range(len(self.found.steps) - 1):
            end = self.found.steps[board].end
            crossing = line.words(board, end)
            for way, words in zip(("down", "up"), crossing, strict=True):
                paced = math.ceil(line.least_paced(board, end, words))
                names.append((max(words, paced), f"link {board}.{way}"))
        return max(names, key=lambda pair: pair[0])[1]

    def _drain_and_update(self) -> tuple[int, int]:
        """Cycles from a sample's first row to its last gradient, and of the update, where both last longest."""
        drains = passages(self.found.stretches(self.layers), self.pace, self.line.hop, self.line.loss)
        updates = [self._update(index) for index in range(len(self.layers))]
        drain, update = max(zip(drains, updates, strict=True), key=sum)
        return math.ceil(drain), update

    def _update(self, index: int) -> int:
        """Cycles of a stage's update: of its slowest part, and before it of the sums over parts cut by rows."""
        if self.layers[index].stage.frozen:
            return 0
        parts, update = self.shares[index], self.network.update
        own = [L.update_cycles(self.planned[index, board], update) for board, _, _ in parts]
        if self.found.storages[index].master != "here":  # a weight a cycle
            own = [most + self._weights(share) for most, (_, share, _) in zip(own, parts, strict=True)]
        sums = 0
        if parts[0][1].axis == "rows":
            pace = max(load_pace(self.planned[index, board]) for board, _, _ in parts)
            sums = pace * self._weights(parts[0][1]) + math.ceil(2 * (len(parts) - 1) * self.line.hop)
        return max(own) + sums


def _round(value: float) -> float:
    """As JSON has it: a float of DIGITS decimals."""
    return round(float(value), DIGITS)
