"""Features of measured designs, and the coefficients of hwgen.plan.logic that suit them best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import nnls

from hwgen.plan import logic
from hwgen.plan.array_logic import Cells, array_features, tile_features
from hwgen.plan.blocks import Rams, Taken, rams_of
from hwgen.plan.engines import Features
from hwgen.plan.layout import Storage
from hwgen.plan.memories import Memory, memories
from hwgen.target_files import built_in

from .logic_parts import ARRAYS, CORES, LINKS, LOSSES, PORTS, TILES, shape_of
from .logic_stages import STAGES, plan_of

__all__ = ["BOARDS", "Sample", "Table", "coefficients", "predicted", "sample_of_tile", "samples", "unseen"]

BOARDS = {"xc7": "vc709", "xcup": "vcu118", "ecp5": "ulx3s_85f", "alm": "de10_nano"}
"""Boards with the memories of a family."""
ONLY = {"constant bit": "lut", "turned bit": "lut", "chosen bit": "lut", "carried bit": "ff"}
"""Features that take tables alone, or flip-flops alone."""
NAMES = {"before.argmax_fifo": "before.argmax", "before.mask_fifo": "before.mask"}
OWNERS = {
    "window": "window", "store": "store", "sums": "forward", "sums fifo": "forward", "reorder": "after.reorder",
    "pool": "after.pool", "y": "after.out", "argmax": "before.argmax_fifo", "pool adjoint": "before.pool",
    "pool adjoint marks": "before.pool", "mask": "before.mask_fifo", "replay": "before.replay", "back": "backward",
    "back fifo": "backward", "col2im": "before.col2im", "col2im marks": "before.col2im", "dx": "before.out",
    "bias": "bias", "bias grad": "bias",
}  # fmt: skip
"""Where in a stage the memories of plan.memories are."""


Table = dict[str, dict[str, Features]]
LIKE: Table = {
    "link": {
        "lut": {"end": 0.0, "bit": 5.869, "channel": 150.5, "channel · bit": 0.5603},
        "ff": {"end": 579.0, "bit": 8.0, "channel": 163.5, "channel · bit": 0.0},
    }
}
"""Link ends: a fit to four of benchmarks/results/link_cost.json on 7-series."""


@dataclass(frozen=True)
class Sample:
    """A design, or an engine ``name`` of it, with its features by kind, and what it takes beside its memories."""

    kind: str
    case: int
    name: str
    parts: tuple[tuple[str, Features], ...]
    lut: int
    ff: int


@cache
def _rams(family: str) -> Rams:
    return rams_of(built_in(BOARDS[family]).device)


def _around(rams: Rams, memory: Memory, blocks: bool) -> tuple[int, int]:
    """LUTs and FFs that are no memory of what a memory takes."""
    kind = "distributed" if memory.asynchronous or not blocks else "block"
    taken = rams.taken(memory.depth, memory.width, kind, memory.reads, memory.asynchronous) * memory.count
    return taken.lut - _ports(rams, taken), taken.ff


def _ports(rams: Rams, taken: Taken) -> int:
    """Tables of write ports that Yosys counts with those that are memory."""
    return taken.tables // 2 if rams.lut_inputs == 4 else 0


@cache
def _stage(case: int) -> tuple[dict[str, list[tuple[str, Features]]], dict[str, list[Memory]]]:
    """Engines of a case's stage, and their memories."""
    plan, index = plan_of(STAGES[case])
    owned: dict[str, list[Memory]] = defaultdict(list)
    for memory in memories(plan.network, plan.stages[index]):
        if memory.name in OWNERS:
            owned[OWNERS[memory.name]].append(memory)
    return logic.stage_engines(plan.stages[index], plan.network), owned


def _engines(family: str, case: int, rows: Iterable[dict[str, Any]]) -> list[Sample]:
    """Those of a stage that the estimate knows, and all else as the stage's own."""
    engines, owned = _stage(case)
    rest, found = [0, 0], []
    for row in rows:
        lut, ff = row["lut"], row["ff"]
        for memory in owned.get(row["name"], []):
            less = _around(_rams(family), memory, row["bram_kilobits"] > 0)
            lut, ff = lut - less[0], ff - less[1]
        name = NAMES.get(row["name"], row["name"])
        if name in engines and name != "stage":
            found.append(Sample("engine", case, name, tuple(engines[name]), max(1, lut), max(1, ff)))
        else:
            rest = [rest[0] + lut, rest[1] + ff]
    return [*found, Sample("engine", case, "stage", tuple(engines["stage"]), *rest)]


def _cells(size: tuple[int, int], tile: tuple[int, int], unlike: dict[str, Any]) -> Cells:
    shape = shape_of(unlike)
    storage = Storage(copy=shape.copy, master="here" if shape.in_place else "memory", stack=shape.stack)
    step = max(shape.grad + shape.rate - shape.shift, 1) + 1
    return Cells(
        size, tile, shape.depth, shape.x, shape.w, shape.dy, shape.master, shape.psum, shape.back, shape.grad,
        shape.rate, step if shape.updates else 0, shape.backward, shape.columns, shape.rows if shape.updates else 0,
        shape.shared, storage,
    )  # fmt: skip


def sample_of_tile(family: str, row: dict[str, Any]) -> Sample:
    """A tile's."""
    (tk, tn), unlike = TILES[row["case"]]
    shape, lut, ff = shape_of(unlike), row["lut"], row["ff"]
    lanes = tk // shape.stack if shape.columns else 1
    widths = [shape.master, *([shape.w] if shape.copy else []), *([shape.grad] if shape.depth > 1 else [])]
    for width in widths:
        memory = Memory("", shape.addresses, lanes * width, tn if shape.columns else tk * tn)
        less = _around(_rams(family), memory, row["bram_kilobits"] > 0)
        lut, ff = lut - less[0], ff - less[1]
    return Sample(
        "tile", row["case"], "", (("tile", tile_features(_cells((tk, tn), (tk, tn), unlike))),), lut, ff
    )


def _whole(row: dict[str, Any]) -> tuple[str, Features]:
    """Kind and features of a design that is one."""
    case = row["case"]
    if row["kind"] == "array":
        return "array", array_features(_cells(*ARRAYS[case]))
    if row["kind"] == "loss":
        classes, width, lanes = LOSSES[case]
        return "loss", logic.loss_features((classes, width, width), lanes)
    if row["kind"] == "core":
        _, _, boards, _, stages = CORES[case]
        return "core", logic.core_features(stages if boards == 1 else 1, boards > 1)
    if row["kind"] == "link":
        width, channels, _ = LINKS[case]
        return "link", logic.link_features(width, 2 * channels)
    _, width = PORTS[case]
    return "port", logic.port_features(width)


def samples(rows: Sequence[dict[str, Any]], family: str) -> list[Sample]:
    """All samples of a family."""
    own = [row for row in rows if row["family"] == family]
    stages: dict[int, list[dict[str, Any]]] = defaultdict(list)
    uart = next(row for row in own if row["kind"] == "uart")
    found = []
    for row in own:
        if row["kind"] == "stage":
            stages[row["case"]].append(row)
        elif row["kind"] == "tile":
            found.append(sample_of_tile(family, row))
        elif row["kind"] != "uart":
            more = (uart["lut"], uart["ff"]) if row["kind"] == "port" else (0, 0)
            cost = row["lut"] + more[0], row["ff"] + more[1]
            found.append(Sample(row["kind"], row["case"], "", (_whole(row),), *cost))
    for case, engines in sorted(stages.items()):
        found += _engines(family, case, engines)
    return found


def coefficients(found: Sequence[Sample], like: Table | None = None) -> Table:
    """By kind: the non-negative ones of the least sum of squared relative errors. What has parts of two kinds tells
    about the first, once the second is known. Kinds of fewer designs than features have those of ``like``, times what
    suits the designs."""
    table, like = dict[str, dict[str, Features]](), LIKE | (like or {})
    kinds = dict.fromkeys([*(kind for sample in found for kind, _ in sample.parts), *like])
    for kind in sorted(kinds, key=lambda kind: (kind != "round", kind)):
        own = [sample for sample in found if sample.parts[0][0] == kind]
        table[kind] = {what: _solved(table, kind, own, what, like) for what in ("lut", "ff")}
    return table


def _solved(table: Table, kind: str, own: Sequence[Sample], what: str, like: Table) -> Features:
    if not own:
        return like[kind][what]
    names = [*own[0].parts[0][1]]
    matrix = np.array([[sample.parts[0][1][name] for name in names] for sample in own], dtype=float)
    values = np.array([max(1.0, getattr(each, what) - _sum(table, each.parts[1:], what)) for each in own])
    if kind in like and len(own) < len(names):
        shape = np.array([like[kind][what][name] for name in names])
        solved = shape * np.mean(values / (matrix @ shape))
    else:
        allowed = np.array([ONLY.get(name, what) == what for name in names])
        solved, _ = nnls(matrix * allowed / values[:, None], np.ones(len(own)))
    return {name: float(f"{value:.4g}") for name, value in zip(names, solved, strict=True)}


def _sum(table: Table, parts: Iterable[tuple[str, Features]], what: str) -> float:
    return sum(table[kind][what][name] * value for kind, own in parts for name, value in own.items())


def predicted(table: Table, sample: Sample, what: str) -> float:
    """What the estimate says of a sample."""
    return _sum(table, sample.parts, what)


def unseen(found: Sequence[Sample], like: Table | None = None) -> list[tuple[float, float]]:
    """What the estimate says of every sample if it has not seen it; of an engine, none of its stage. The one design of
    a kind is not left out."""
    every, said = coefficients(found, like), dict[int, tuple[float, float]]()
    for group in dict.fromkeys((sample.kind, sample.case) for sample in found):
        rest = [sample for sample in found if (sample.kind, sample.case) != group]
        table = every | coefficients(rest, like)
        for k, sample in enumerate(found):
            if (sample.kind, sample.case) == group:
                said[k] = predicted(table, sample, "lut"), predicted(table, sample, "ff")
    return [said[k] for k in range(len(found))]
