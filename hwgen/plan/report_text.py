"""A plan's report as tables for people, equal neighbours in one row."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from .report import RESOURCES, BoardReport, LayerReport, LinkReport, PartReport, PlanReport

__all__ = ["WIDTH", "report_text"]

WIDTH = 120
"""Most columns of a line."""
MOST_CONTENTS = 44
Item = TypeVar("Item")


def report_text(report: PlanReport, every: bool = False) -> str:
    """All tables; ``every``: a row for each part, board and link, also where neighbours are equal."""
    blocks = [_headline(report), _layers(report, every), _boards(report, every)]
    if report.links:
        blocks.append(_links(report, every))
    blocks.append(_buffers(report))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _headline(report: PlanReport) -> list[str]:
    count = len(report.boards)
    slowest = (
        f"{report.cycles_per_sample:,} cycles a sample, set by {report.bottleneck}; no plan needs fewer than "
        f"{report.bound_cycles:,} ({report.bound_by}): gap {report.gap:.1%}"
    )
    period = report.scheduled_cycles_per_batch or report.cycles_per_batch
    how = "by the schedule" if report.scheduled_cycles_per_batch else "estimated"
    lines = [
        f"{report.network} on {_count(count, 'board')} ({report.cluster}): "
        f"{_count(len(report.layers), 'layer')} in {_count(report.parts, 'part')}",
        slowest,
        f"{report.samples_per_second:,.1f} images a second at {report.clock_mhz:g} MHz; with updates "
        f"{report.samples_per_second_with_updates:,.1f} ({period:,.0f} cycles a batch of {report.batch}, {how})",
        f"{report.useful:.1%} of the {report.dsp_available:,} DSPs of all boards multiply for the network at any time",
    ]
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]


def _layers(report: PlanReport, every: bool) -> list[str]:
    rows: list[tuple[str, ...]] = [
        (
            "layer",
            "cut",
            "part",
            "boards",
            "u·pc × Pn",
            "b",
            "folds",
            "cycles",
            "multipliers",
            "DSP",
            "useful",
        )
    ]
    for layer in report.layers:
        runs = _runs(layer.parts, _part_key, every)
        for number, parts in enumerate(runs):
            name, cut = (layer.name, _cut(layer)) if number == 0 else ("", "")
            rows.append((name, cut, *_part_cells(layer, parts)))
    return ["layers", *_table(rows)]


def _cut(layer: LayerReport) -> str:
    if layer.cut == "whole":
        return "-"
    turns = f", {layer.turns} turns" if layer.cut == "rows" else ""
    return f"{layer.extent} {layer.cut.replace('_', ' ')}{turns}"


def _part_key(part: PartReport) -> tuple[object, ...]:
    return (part.high - part.low, part.u, part.pc, part.pn, part.b, part.cycles, part.dsp)


def _part_cells(layer: LayerReport, parts: Sequence[PartReport]) -> tuple[str, ...]:
    part = parts[0]
    share = "all" if layer.cut == "whole" else _times(len(parts), str(part.high - part.low))
    groups = f"{part.groups}·" if part.groups > 1 else ""
    return (
        share, _range([each.board for each in parts]), f"{part.u}·{part.pc} × {part.pn}", str(part.b),
        f"{groups}{part.fk}·{part.fn}", f"{part.cycles:,}", f"{part.multipliers:,}", f"{part.dsp:,}",
        f"{part.useful:.1%}",
    )  # fmt: skip


def _boards(report: PlanReport, every: bool) -> list[str]:
    shown = [name for name in RESOURCES if any(board.use(name).available for board in report.boards)]
    rows = [("board", "", "layers", *(RESOURCES[name] for name in shown), "fullest")]
    for boards in _runs(report.boards, lambda board: _board_cells(report, board, shown), every):
        kind = _times(len(boards), boards[0].name)
        rows.append(
            (_range([board.index for board in boards]), kind, *_board_cells(report, boards[0], shown))
        )
    return ["boards (share of what a plan may use), the host at board 0", *_table(rows)]


def _board_cells(report: PlanReport, board: BoardReport, shown: Sequence[str]) -> tuple[str, ...]:
    uses = [f"{board.use(name).share:.0%}" if board.use(name).available else "-" for name in shown]
    return (_contents(report, board), *uses, RESOURCES[board.fullest])


def _contents(report: PlanReport, board: BoardReport) -> str:
    """The layers of a board; of a long list the first and the last."""
    texts = [
        layer.name + ("" if layer.cut == "whole" else f" {part.high - part.low}/{layer.extent}")
        for layer in report.layers
        for part in layer.parts
        if part.board == board.index
    ]
    text = ", ".join(texts)
    return text if len(text) <= MOST_CONTENTS else f"{texts[0]} to {texts[-1]} ({len(texts)})"


def _links(report: PlanReport, every: bool) -> list[str]:
    rows: list[tuple[str, ...]] = [("link", "words down", "up", "Gb/s down", "up", "of", "fullest")]

    def cells(link: LinkReport) -> tuple[str, ...]:
        most = max(link.gbps_down, link.gbps_up) / link.room_gbps
        return (
            f"{link.words_down:,}", f"{link.words_up:,}", f"{link.gbps_down:.2f}", f"{link.gbps_up:.2f}",
            f"{link.room_gbps:.2f}", f"{most:.0%}",
        )  # fmt: skip

    for links in _runs(report.links, cells, every):
        rows.append((_range([link.index for link in links]), *cells(links[0])))
    return [
        "links (link k joins boards k and k + 1; words a sample, down is away from the host)",
        *_table(rows),
    ]


def _buffers(report: PlanReport) -> list[str]:
    lines = [
        "buffers: samples in flight of x, ReLU bits and pool positions; memories of the first part, words × bits"
    ]
    for layer in report.layers:
        flights = f"{layer.samples_x:.1f}, {layer.samples_masks:.1f}, {layer.samples_argmax:.1f}"
        memories = ", ".join(
            f"{memory.name} {_times(memory.count, f'{memory.depth}×{memory.width}')}"
            for memory in layer.parts[0].memories
        )
        lines += textwrap.wrap(f"{layer.name}: {flights}; {memories}", WIDTH, subsequent_indent="    ")
    return lines


def _runs(items: Iterable[Item], key: Callable[[Item], object], every: bool) -> Iterator[list[Item]]:
    """Equal neighbours together, or each by itself."""
    if every:
        yield from ([item] for item in items)
    else:
        yield from (list(run) for _, run in groupby(items, key))


def _times(count: int, text: str) -> str:
    return text if count == 1 else f"{count} × {text}"


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in lines]
