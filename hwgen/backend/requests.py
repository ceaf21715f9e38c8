"""Which Verilog modules a plan needs: every distinct one once, named after what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Elaboratable

from .. import __version__
from ..gateware.array import Array
from ..gateware.board import Board, link_end
from ..gateware.core import Core
from ..gateware.emitted import Emitted
from ..gateware.stage import StageEngine, array_offsets, array_shape
from ..gateware.tile import ArrayShape, Tile
from ..ir.stage import Network, Place, Stage, Wish
from ..plan.links import LinkPlan
from ..plan.part import like_part
from ..plan.plan import Plan, StagePlan
from .convert import convert

__all__ = ["TOP", "Request", "board_top", "build_number", "lent", "link_module", "requests", "stage_requests"]

TOP = "hwgen_core"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def build_number(plan: Plan) -> int:
    """32 bits of the plan's hash, shown by the device's ``build`` register."""
    return int(_digest(__version__, plan), 16)


def board_top(index: int) -> str:
    """Verilog module of a board of a chain."""
    return f"hwgen_board{index}"


@dataclass(frozen=True)
class Request:
    """A module to make: its name, the board that is the first to need it, what it is made of.

    ``kind`` is "tile", "stage", "link", "board" or "core"; ``parts`` are all that its text depends on.
    """

    name: str
    kind: str
    board: int
    parts: tuple[Any, ...]

    @property
    def key(self) -> str:
        """Equal for requests of equal modules."""
        return repr((self.name, self.kind, self.parts))

    def text(self) -> str:
        """The module's Verilog. Raises ToolError if Yosys breaks off."""
        return convert(MAKERS[self.kind](*self.parts), self.name)


def requests(plan: Plan) -> list[Request]:
    """All modules of a plan, those of a board together, its top last."""
    found: dict[str, Request] = {}
    for request in _all(plan):
        found.setdefault(request.name, request)
    return list(found.values())


def _all(plan: Plan) -> Iterator[Request]:
    number = build_number(plan)
    for index in range(len(plan.boards)):
        names = []
        for planned in plan.on(index):
            tile, stage = stage_requests(plan, planned)
            names.append(stage.name)
            yield from (tile, stage)
        if not plan.links:
            yield Request(TOP, "core", 0, (plan, number, tuple(names)))
            return
        ends = {}
        for side, k in (("up", index - 1), ("down", index)):
            if 0 <= k < len(plan.links):
                end = _link(plan.links[k], side, index)
                ends[side] = end.name
                yield end
        yield Request(
            board_top(index), "board", index, (plan, index, number, tuple(names), tuple(ends.items()))
        )


def stage_requests(plan: Plan, planned: StagePlan) -> tuple[Request, Request]:
    """A stage's tile, and its engine around many of them."""
    tile = _tile(plan, planned)
    return tile, _stage(plan, planned, tile.name)


def link_module(link: LinkPlan, side: str) -> str:
    """Verilog module of a link's end at the board whose ``side`` ("up", "down") it is on."""
    return _link(link, side, 0).name


def _link(link: LinkPlan, side: str, board: int) -> Request:
    depths = tuple(tuple(c.depth for c in channels) for channels in (link.down, link.up))
    shape = depths if side == "down" else depths[::-1]
    name = f"hwgen_link_{_digest(link.width, shape, link.frame_words, link.replay_words)}"
    return Request(name, "link", board, (_like_link(link), side))


def _like_link(link: LinkPlan) -> LinkPlan:
    """What an end knows of its link: the depths of its channels."""

    def like(channels: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(c, kind="", stage=0, low=0, high=0, pixels=0, run=0, bits=0, lanes=0) for c in channels
        )

    return replace(link, index=0, latency=0, down=like(link.down), up=like(link.up))


def _stage(plan: Plan, planned: StagePlan, tile: str) -> Request:
    """An engine knows its own stage, the whole one, and how many parts lie before and behind: none, or some.

    Its names and numbers in the network matter to nothing but random bits.
    """
    whole, random = plan.whole(planned), plan.network.update.rounding == "stochastic"
    index = planned.stage.index if random else 0

    def like(stage: Stage) -> Stage:
        return replace(stage, name="stage", index=index, array=None, wish=Wish(), place=Place())

    part = planned.part if random else like_part(planned.part, whole)
    own = replace(planned, stage=like(planned.stage), board=0, part=part)
    network = replace(plan.network, stages=(like(whole),), name="")
    parts = (network, own, tile)
    return Request(f"hwgen_stage_{_digest(*parts)}", "stage", planned.board, parts)


def _tile(plan: Plan, planned: StagePlan) -> Request:
    fold = planned.fold
    offsets = array_offsets(planned, plan.whole(planned))
    array = Array(array_shape(plan.network, planned), fold.pk, fold.pn, planned.tile, offsets)
    tile = array.make_tile()
    lent(array)
    lent(tile)
    parts = (tile.shape, tile.tk, tile.tn, tile.offsets)
    return Request(f"hwgen_tile_{_digest(*parts)}", "tile", planned.board, parts)


def _make_tile(shape: ArrayShape, tk: int, tn: int, offsets: tuple[tuple[int, ...], ...]) -> Tile:
    return Tile(shape, tk, tn, offsets)


def _make_stage(network: Network, planned: StagePlan, tile: str) -> StageEngine:
    (whole,) = network.stages
    return StageEngine(replace(network, stages=(whole,) * (whole.index + 1)), planned, tile)


def _make_board(
    plan: Plan, index: int, number: int, stages: tuple[str, ...], ends: tuple[tuple[str, str], ...]
) -> Board:
    links = {"up": index - 1, "down": index}
    own = {
        side: Emitted(lent(link_end(plan.links[links[side]], side)), name, {"link": side})
        for side, name in ends
    }
    return Board(plan, index, number, stages, own)


def lent(component: Any) -> Any:
    """A component that only lends its signature; Amaranth would warn that neither it nor its parts are used."""
    component._MustUse__silence = True
    for value in vars(component).values():
        for part in (
            value.values()
            if isinstance(value, dict)
            else value
            if isinstance(value, list | tuple)
            else [value]
        ):
            if isinstance(part, Elaboratable) and not part._MustUse__silence:
                lent(part)
    return component


MAKERS: dict[str, Any] = {
    "tile": _make_tile,
    "stage": _make_stage,
    "link": link_end,
    "board": _make_board,
    "core": Core,
}
"""The component that a request's parts make."""
