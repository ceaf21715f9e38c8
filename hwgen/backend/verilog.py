"""Verilog of a plan: every distinct tile and stage once, and the device that puts them together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from amaranth.back import rtlil, verilog
from amaranth.hdl import _ir, _nir

from .. import __version__
from ..errors import ToolError
from ..gateware.array import Array
from ..gateware.board import Board, link_end
from ..gateware.core import Core
from ..gateware.emitted import Emitted
from ..gateware.link.end import LinkEnd
from ..gateware.stage import StageEngine, array_offsets, array_shape
from ..plan.links import LinkPlan
from ..plan.part import WHOLE
from ..plan.plan import Plan, StagePlan

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
        files[f"verilog/{TOP}.v"] = _convert(Core(plan, build_number(plan), modules), TOP)
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
        files[f"verilog/{board_top(index)}.v"] = _convert(board, board_top(index))
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
        files[f"verilog/{name}.v"] = _convert(ends[name], name)
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
        files[path] = _convert(StageEngine(plan.network, planned, tile_name), name)
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
        files[path] = _convert(tile, name)
    return name


def _convert(component: Any, name: str) -> str:
    with _blank_memories():
        rtl = rtlil.convert(component, name=name, emit_src=False)
    try:
        text = verilog._convert_rtlil_text(_without_zero_memories(rtl), strip_internal_attrs=True)
    except verilog.YosysError as error:
        reason = (str(error).splitlines() or ["no message"])[-1]
        raise ToolError(f"yosys: module {name} cannot be converted to Verilog: {reason}") from None
    # The emitter's own first line names the exact build of its tool.
    body = text.split("\n", 1)[1] if text.startswith("/*") else text
    return f"// generated by hwgen {__version__}\n{_started(body)}"


START = "  reg hwgen_start;\n  initial hwgen_start <= 1'b0;\n"


def _started(text: str) -> str:
    """Verilog whose ``always @*`` blocks run at time 0 in SystemVerilog simulators too.

    Most read a variable that Yosys sets to 0 where it declares it. That is an event in Verilog-2005, but in
    SystemVerilog it happens before any block waits, and a block of constants would never run. Others read nothing
    of the kind.
    """
    text = re.sub(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+ ", "hwgen_start ", text)
    text = text.replace("  reg hwgen_start  = 0;\n", START)
    modules = text.split("\nendmodule\n")
    for number, module in enumerate(modules):
        module, count = re.subn(
            r"(?m)^  always @\*\n    (\S.* = .*;)$",
            r"  always @* begin\n    if (hwgen_start ) begin end\n    \1\n  end",
            module,
        )
        if count and START not in module:
            module = re.sub(r"(?m)^(module .*\);)\n", rf"\1\n{START}", module, count=1)
        modules[number] = module
    return "\nendmodule\n".join(modules)


@contextmanager
def _blank_memories() -> Iterator[None]:
    """Netlists built meanwhile have no initial values for memories that start as zeros.

    Nothing relies on them (the host loads weights, the rest is written before it is read). Amaranth works
    them out bit by bit, and as Verilog they are one line a word: most of the time and most of the text of a
    large design.
    """
    build = _ir.build_netlist

    def build_blank(*arguments: Any, **options: Any) -> Any:
        netlist = build(*arguments, **options)
        for cell in netlist.cells:
            if isinstance(cell, _nir.Memory) and not any(cell.init):
                cell.init = ()
        return netlist

    _ir.build_netlist = build_blank
    try:
        yield
    finally:
        _ir.build_netlist = build


def _without_zero_memories(rtl: str) -> str:
    """RTLIL without the cells that would initialise those memories."""
    lines = iter(rtl.splitlines(keepends=True))
    kept = []
    for line in lines:
        if not line.lstrip().startswith("cell $meminit_v2 "):
            kept.append(line)
            continue
        cell = [line]
        while cell[-1].strip() != "end":
            cell.append(next(lines))
        (values,) = (part for part in cell if part.lstrip().startswith("connect \\DATA "))
        if any("1" in bits for bits in re.findall(r"\d+'([01x-]+)", values)):
            kept += cell
    return "".join(kept)
