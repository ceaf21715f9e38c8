"""``hwgen boards``: the boards that hwgen knows, what each has and what plans may use of it."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from typing import Any

from .. import __version__
from ..target import Board, Link
from ..target_chain import find_boards
from ..target_files import known_boards
from . import report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "boards"
MEGABIT = 1 << 20
WIDTH = 110
"""Columns that sources are folded to."""
MEMORIES = {"bram": "block", "uram": "ultra", "lut_ram": "distributed"}
"""Kinds of memory on the device, by the field that counts them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument(
        "boards",
        nargs="*",
        metavar="BOARD",
        help="show these with limits and sources: names, or paths of .toml files (default: a table of all)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Shows the table, or the boards asked for."""
    boards = find_boards(arguments.boards or known_boards(), where="boards")
    result = {"command": NAME, "hwgen": __version__, "boards": [_facts(board) for board in boards]}
    text = "\n\n".join(map(_sheet, boards)) if arguments.boards else _table(boards)
    report.show(result, text, arguments.json)
    return 0


def _facts(board: Board) -> dict[str, Any]:
    """Everything of a board's file, and what follows from it."""
    facts = asdict(board)
    facts["clocks"], facts["sources"] = dict(board.clocks), dict(board.sources)
    facts["device"]["dsp_widths"] = list(board.device.dsp_widths)
    facts["megabits"] = {kind: round(_megabits(board, field), 3) for field, kind in MEMORIES.items()}
    facts["available"] = {
        field: board.available(field) for field in ("dsp", "bram", "uram", "lut", "ff", "lut_ram")
    }
    if board.link is not None:
        facts["link"]["payload_gbps"] = board.link.payload_gbps
    return facts


def _megabits(board: Board, field: str) -> float:
    """All of one kind of on-chip memory."""
    device = board.device
    return float(getattr(device, field) * getattr(device, f"{field}_bits") / MEGABIT)


def _memory(board: Board) -> str:
    if not board.memory_bytes:
        return "-"
    size, unit = (
        (board.memory_bytes / 2**20, "MiB")
        if board.memory_bytes < 2**30
        else (board.memory_bytes / 2**30, "GiB")
    )
    return f"{size:g} {unit}, {board.memory_gbytes_per_s:g} GB/s"


def _lanes(link: Link | None) -> str:
    return "-" if link is None else f"{link.lanes} × {link.gbps} Gb/s {link.adapter}"


def _table(boards: list[Board]) -> str:
    rows: list[tuple[str, ...]] = [
        ("board", "device", "DSP", "", "block Mb", "ultra", "distr.", "LUT", "FF", "MHz", "link", "memory")
    ]
    for board in boards:
        device = board.device
        megabits = [f"{value:.1f}" if (value := _megabits(board, field)) else "-" for field in MEMORIES]
        rows.append(
            (
                *(board.name, device.name, f"{device.dsp:,}", device.dsp_kind, *megabits),
                *(f"{device.lut:,}", f"{device.ff:,}", f"{device.clock_mhz:g}"),
                *(_lanes(board.link), _memory(board)),
            )
        )
    return f"{report.table(rows)}\nmore of one, with sources: hwgen boards NAME"


def _sheet(board: Board) -> str:
    device, fill = board.device, board.fill
    dsp = f"{device.dsp_kind}, {device.dsp_widths[0]}×{device.dsp_widths[1]} bits signed"
    rows = [("resource", "has", "limit", "a plan may use", "")]
    for field, what in (
        ("dsp", dsp),
        ("bram", f"{device.bram_kind}, {device.bram_bits:,} bits"),
        ("uram", f"UltraRAM, {device.uram_bits:,} bits"),
        ("lut", "LUT"),
        ("lut_ram", f"of them memory, {device.lut_ram_bits} bits"),
        ("ff", "FF"),
    ):
        count, limit = getattr(device, field), getattr(fill, "lut" if field == "lut_ram" else field)
        if field == "uram" and not count:
            continue
        size = f"{_megabits(board, field):.1f} Mb in all" if field in MEMORIES and count else ""
        rows.append((what, f"{count:,}", f"{limit:.0%}", f"{board.available(field):,}", size))
    return "\n".join((_headline(board), report.table(rows), *_surroundings(board), *_sources(board)))


def _headline(board: Board) -> str:
    device = board.device
    return f"{board.name}: {device.name}, part {device.part} ({device.vendor} {device.family})"


def _surroundings(board: Board) -> list[str]:
    """What stands around the device."""
    lines = [
        f"logic clock: {board.device.clock_mhz:g} MHz; oscillators: "
        + (", ".join(f"{name} {mhz:g} MHz" for name, mhz in board.clocks) or "none told"),
        f"external memory: {_memory(board)}" if board.memory_bytes else "external memory: none",
        f"transceivers for cables: {board.transceivers}"
        + (f", each up to {board.transceiver_gbps:g} Gb/s" if board.transceivers else ""),
    ]
    lines += _pins(board)
    link = board.link
    if link is None:
        return [*lines, "usual link: none; a chain of it needs the link given"]
    return [
        *lines,
        f"usual link: {_lanes(link)}, encoding {link.encoding}: {link.payload_gbps:g} Gb/s of words each way, "
        f"latency {link.latency} cycles",
    ]


def _pins(board: Board) -> list[str]:
    """Where the board's own signals are."""
    if board.pins is None:
        return ["pins: none told"]
    told = []
    for name, pin in board.pins.signals.items():
        rate = f" {pin.mhz:g} MHz" if pin.mhz else ""
        low = ", active low" if pin.active == "low" else ""
        told.append(f"{name} {' '.join(pin.pins)}{rate} ({board.pins.standard_of(pin)}{low})")
    return textwrap.wrap(f"pins: {'; '.join(told)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _sources(board: Board) -> list[str]:
    """Where each figure comes from, folded."""
    if not board.sources:
        return ["sources: none told"]
    widest = max(len(name) for name, _ in board.sources)
    indent = " " * (widest + 4)
    return ["sources:"] + [
        textwrap.fill(text, WIDTH, initial_indent=f"  {name:{widest}}  ", subsequent_indent=indent)
        for name, text in board.sources
    ]
