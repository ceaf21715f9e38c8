"""A plan as an SVG picture: boards as columns of the layers that they hold, links as bars between them."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from .report import BoardReport, LinkReport, PlanReport

__all__ = ["picture"]

COLUMN, GAP, HEIGHT = 40, 18, 150
"""Sizes of a board, of the room for its link, and of a full board, in pixels."""
ROW = HEIGHT + 46
A_ROW = 24
"""Boards in a row."""
MARGIN, TITLE, LEGEND_LINE, LEGEND_CELL = 20, 78, 18, 128
LEAST_WIDTH = 680
DOWN, UP = "#3b6ea5", "#b5651d"
TURN = 0.618034
"""Golden section: hues of neighbours lie far apart, however many there are."""


def picture(report: PlanReport) -> str:
    """The picture as text; the same report gives the same."""
    across = min(A_ROW, len(report.boards))
    width = max(LEAST_WIDTH, 2 * MARGIN + across * (COLUMN + GAP))
    cells = max(1, (width - 2 * MARGIN) // LEGEND_CELL)
    rows = math.ceil(len(report.boards) / across)
    legend = TITLE + rows * ROW
    frame = legend + math.ceil((len(report.layers) + 2) / cells) * LEGEND_LINE + 10
    height = frame + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_title(report),
    ]
    for board in report.boards:
        left, top = _corner(board.index, across)
        lines += _board(report, board, left, top)
    for link in report.links:
        left, top = _corner(link.index, across)
        lines += _link(link, left + COLUMN, top)
    lines += _legend(report, legend, cells)
    lines.append(
        _text(MARGIN, frame, f"A full frame is {_fullest(report):.1%} of the DSPs that a plan may use.")
    )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _fullest(report: PlanReport) -> float:
    """The share of a board's multipliers that a frame is: all, or that of the fullest if none uses half."""
    most = max(board.use("dsp").share for board in report.boards)
    return most if 0 < most < 0.5 else 1.0


def _corner(index: int, across: int) -> tuple[int, int]:
    row, column = divmod(index, across)
    return MARGIN + column * (COLUMN + GAP), TITLE + row * ROW


def _colour(index: int) -> str:
    lightness = (0.62, 0.74, 0.5)[index % 3]
    red, green, blue = colorsys.hls_to_rgb(index * TURN % 1.0, lightness, 0.55)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, fill: str, about: str = "") -> str:
    """A filled rectangle, and what a pointer over it shows."""
    place = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"'
    return f"{place}><title>{escape(about)}</title></rect>" if about else f"{place}/>"


def _title(report: PlanReport) -> Iterator[str]:
    yield _text(MARGIN, 24, f"{report.network} on {report.cluster}", ' font-size="16" font-weight="bold"')
    pace = (
        f"T = {report.cycles_per_sample:,} cycles a sample, {report.samples_per_second:,.1f} images a second"
    )
    yield _text(MARGIN, 44, f"{pace} at {report.clock_mhz:g} MHz", ' font-size="12"')
    held = f"set by {report.bottleneck}; bound {report.bound_cycles:,} cycles, gap {report.gap:.1%}"
    yield _text(MARGIN, 60, held, ' font-size="12"')


def _board(report: PlanReport, board: BoardReport, left: int, top: int) -> Iterator[str]:
    """A frame as high as the share of the multipliers that _fullest says, filled from the top with layers."""
    room = max(1.0, board.use("dsp").available * _fullest(report))
    yield f"<g><title>{escape(_about(board))}</title>"
    yield f'<rect x="{left}" y="{top}" width="{COLUMN}" height="{HEIGHT}" fill="#f2f2f2" stroke="#888888"/>'
    at = float(top)
    for index, layer in enumerate(report.layers):
        for part in layer.parts:
            if part.board != board.index:
                continue
            height = HEIGHT * part.dsp / room
            what = layer.cut.replace("_", " ")
            share = (
                "" if layer.cut == "whole" else f", {what} {part.low} to {part.high - 1} of {layer.extent}"
            )
            yield _bar(left, at, COLUMN, height, _colour(index), f"{layer.name}{share}: {part.dsp:,} DSPs")
            if height >= 10 and len(layer.name) <= 8:
                yield _text(left + 2, at + height / 2 + 3, layer.name, ' font-size="8"')
            at += height
    middle = ' text-anchor="middle"'
    yield _text(left + COLUMN / 2, top + HEIGHT + 12, str(board.index), middle)
    name = board.name if len(board.name) <= 10 else board.name[:9] + "…"
    yield _text(left + COLUMN / 2, top + HEIGHT + 23, name, middle + ' font-size="8" fill="#555555"')
    yield "</g>"


def _about(board: BoardReport) -> str:
    uses = ", ".join(f"{use.resource} {use.share:.0%}" for use in board.uses if use.available)
    return f"board {board.index} ({board.name}): {uses}"


def _link(link: LinkReport, left: int, top: int) -> Iterator[str]:
    """Two bars from the bottom, as high as the share of the link that is used in either way."""
    width = GAP / 2 - 2
    for x, gbps, colour, way in (
        (left + 2, link.gbps_down, DOWN, "down"),
        (left + GAP / 2, link.gbps_up, UP, "up"),
    ):
        height = HEIGHT * min(1.0, gbps / link.room_gbps)
        about = f"link {link.index} {way}: {gbps:.2f} of {link.room_gbps:.2f} Gb/s"
        yield _bar(x, top, width, HEIGHT, "#e4e4e4")
        yield _bar(x, top + HEIGHT - height, width, height, colour, about)


def _legend(report: PlanReport, top: int, cells: int) -> Iterator[str]:
    entries = [(layer.name, _colour(index)) for index, layer in enumerate(report.layers)]
    if report.links:
        entries += [("from the host", DOWN), ("to the host", UP)]
    for number, (name, colour) in enumerate(entries):
        row, column = divmod(number, cells)
        x, y = MARGIN + column * LEGEND_CELL, top + row * LEGEND_LINE
        yield _bar(x, y, 10, 10, colour)
        yield _text(x + 14, y + 9, name if len(name) <= 18 else name[:17] + "…")
