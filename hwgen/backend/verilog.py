"""Verilog of a plan: every distinct tile and stage once, and the device that puts them together."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from .. import __version__
from ..gateware.array import Array
from ..gateware.board import Board, link_end
from ..gateware.core import Core
from ..gateware.emitted import Emitted
from ..gateware.link.end import LinkEnd
from ..gateware.stage import StageEngine, array_offsets, array_shape
from ..plan.links import LinkPlan
from ..plan.part import WHOLE
from ..plan.plan import Plan, StagePlan
from .convert import convert

__all__ = ["TOP", "board_top", "build_number", "emit", "link_module"]

TOP = "hwgen_core"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def build_number(plan: Plan) -> int:
    """32 bits of the plan's hash, shown by the device's ``build`` register."""
    return int(_digest(__version__, plan), 16)


def emit(plan: Plan) -> dict[str, str]:
    """Verilog files by path. The same plan gives the same bytes.

    A stage that differs from another one only in its name shares its module, and so do tiles. Raises
    ToolError if Yosys breaks off, as it does on a full disk.
    """
    files: dict[str, str] = {}
    if not plan.links:
        modules = tuple(_stage(plan, planned, files) for planned in plan.stages)
        files[f"verilog/{TOP}.v"] = convert(Core(plan, build_number(plan), modules), TOP)
        return files
    ends: dict[str, LinkEnd] = {}
    for index in range(len(plan.boards)):
        modules = tuple(_stage(plan, planned, files) for planned in plan.on(index))
        sides = {"up": index - 1, "down": index}
        own = {
            side: _end(plan.links[k], side, files, ends)
            for side, k in sides.items()
            if 0 <= k < len(plan.links)
        }
        board = Board(plan, index, build_number(plan), modules, own)
        files[f"verilog/{board_top(index)}.v"] = convert(board, board_top(index))
    return files


def board_top(index: int) -> str:
    """Verilog module of a board of a chain."""
    return f"hwgen_board{index}"


def link_module(link: LinkPlan, side: str) -> str:
    """Verilog module of a link's end at the board whose ``side`` ("up", "down") it is on."""
    depths = tuple(tuple(c.depth for c in channels) for channels in (link.down, link.up))
    shape = depths if side == "down" else depths[::-1]
    return f"hwgen_link_{_digest(link.width, shape, link.frame_words, link.replay_words)}"


def _end(link: LinkPlan, side: str, files: dict[str, str], ends: dict[str, LinkEnd]) -> Emitted:
    """A link's end, emitted once for all that are equal."""
    name = link_module(link, side)
    if name not in ends:
        ends[name] = link_end(link, side)
        files[f"verilog/{name}.v"] = convert(ends[name], name)
    return Emitted(ends[name], name, {"link": side})


def _stage(plan: Plan, planned: StagePlan, files: dict[str, str]) -> str:
    tile_name = _tile(plan, planned, files)
    network = replace(plan.network, stages=(), name="")
    index = planned.stage.index if plan.network.update.rounding == "stochastic" else 0
    anonymous = replace(planned, stage=replace(planned.stage, name="", index=index), board=0)
    parts: list[object] = [network, anonymous]
    if planned.part != WHOLE:
        parts.append(replace(plan.whole(planned), name="", index=index))
    name = f"hwgen_stage_{_digest(*parts)}"
    path = f"verilog/{name}.v"
    if path not in files:
        files[path] = convert(StageEngine(plan.network, planned, tile_name), name)
    return name


def _tile(plan: Plan, planned: StagePlan, files: dict[str, str]) -> str:
    fold = planned.fold
    offsets = array_offsets(planned, plan.whole(planned))
    array = Array(array_shape(plan.network, planned), fold.pk, fold.pn, planned.tile, offsets)
    array._MustUse__silence = True  # only asked for its tile
    tile = array.make_tile()
    name = f"hwgen_tile_{_digest(tile.shape, tile.tk, tile.tn, tile.offsets)}"
    path = f"verilog/{name}.v"
    if path in files:
        tile._MustUse__silence = True
    else:
        files[path] = convert(tile, name)
    return name
