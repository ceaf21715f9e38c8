"""Whole boards of VGG-16 over 83 VC709 boards in Yosys: multipliers equal to the plan's, the rest beside its estimate.

Every distinct module of a board is mapped once, with what it instantiates as boxes, and counted as often as the board
has it.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwgen.backend.requests import Request, board_top, link_module, requests, stage_requests
from hwgen.frontend.loader import load_source
from hwgen.plan.budget import dsps
from hwgen.plan.file import plan_from_file, read_plan
from hwgen.plan.plan import Plan

from .command import EXAMPLES, hwgen, scratch
from .synthesis import FAMILIES, synthesise

__all__ = ["run"]

FAMILY = "xc7"
CLUSTER = Path(__file__).parent / "vgg16_83.toml"
BOARDS = (60,)
"""A part of one layer, with rows behind one another."""
BLOCK = 36
"""Kilobits of a block RAM of the plan's."""


def _modules(plan: Plan, index: int) -> dict[str, tuple[str, ...]]:
    """Modules of a board and what each instantiates, the innermost first."""
    found: dict[str, tuple[str, ...]] = {}
    for planned in plan.on(index):
        tile, stage = stage_requests(plan, planned)
        found |= {tile.name: (), stage.name: (tile.name,)}
    stages = [name for name, inner in found.items() if inner]
    ends = [
        link_module(plan.links[k], side)
        for side, k in (("up", index - 1), ("down", index))
        if 0 <= k < len(plan.links)
    ]
    found |= dict.fromkeys(ends, ())
    return {**found, board_top(index): (*stages, *dict.fromkeys(ends))}


def _mapped(
    folder: Path, modules: dict[str, tuple[str, ...]], known: dict[str, Request]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each module's cells, and the seconds that Verilog and mapping took."""
    for name, inner in modules.items():
        start = time.perf_counter()
        (folder / f"{name}.v").write_text(known[name].text())
        emitted = time.perf_counter()
        cells = synthesise(folder, name, FAMILY, inner)
        seconds = {
            "emission": round(emitted - start, 1),
            "synthesis": round(time.perf_counter() - emitted, 1),
        }
        yield name, {"kind": known[name].kind, "seconds": seconds, "cells": dict(sorted(cells.items()))}


def _instances(modules: dict[str, tuple[str, ...]], mapped: dict[str, dict[str, Any]]) -> dict[str, int]:
    """How often a board has each of its modules."""
    found = Counter({list(modules)[-1]: 1})
    for name in reversed(modules):
        for inner in modules[name]:
            found[inner] += found[name] * mapped[name]["cells"].get(inner, 0)
    return dict(found)


def _whole(mapped: dict[str, dict[str, Any]], counts: dict[str, int]) -> dict[str, int]:
    """What all modules of a board come to."""
    total: Counter[str] = Counter()
    for name, count in counts.items():
        for what, number in FAMILIES[FAMILY].cost(mapped[name]["cells"]).items():
            total[what] += count * number
    return dict(total)


def _layers(
    plan: Plan, index: int, widths: tuple[int, int], mapped: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Multipliers of each layer. Raises ValueError if they are not those of the plan."""
    cost, found = FAMILIES[FAMILY].cost, []
    for planned in plan.on(index):
        tile, stage = stage_requests(plan, planned)
        tiles = mapped[stage.name]["cells"][tile.name]
        dsp = cost(mapped[tile.name]["cells"])["dsp"] * tiles + cost(mapped[stage.name]["cells"])["dsp"]
        wanted = dsps(planned, widths)
        if dsp != wanted:
            raise ValueError(f"board {index}: {planned.stage.name} has {dsp} multipliers, planned {wanted}")
        found.append({"stage": planned.stage.name, "tiles": tiles, "dsp": dsp, "plan_dsp": wanted})
    return found


def _board(
    plan: Plan,
    index: int,
    widths: tuple[int, int],
    uses: dict[str, float],
    known: dict[str, Request],
    folder: Path,
) -> dict[str, Any]:
    """A board's resources beside those of the plan."""
    modules = _modules(plan, index)
    mapped = dict(_mapped(folder, modules, known))
    counts = _instances(modules, mapped)
    total, layers = _whole(mapped, counts), _layers(plan, index, widths, mapped)
    found = {
        "dsp": total["dsp"],
        "bram": total["bram_kilobits"] / BLOCK,
        "lut": total["lut"] + total["lut_ram"],
        "ff": total["ff"],
    }
    wanted: dict[str, float] = {**uses, "lut": uses["lut"] + uses["lut_ram"]}
    return {
        "board": index,
        "layers": layers,
        "other_dsp": total["dsp"] - sum(one["dsp"] for one in layers),
        "found": found,
        "plan": {name: wanted[name] for name in found},
        "ratio": {name: round(number / wanted[name], 3) for name, number in found.items()},
        "modules": {name: {"instances": counts[name], **one} for name, one in mapped.items()},
    }


def run() -> dict[str, Any]:
    """``other_dsp`` are those of a board outside its layers: of the loss, which the plan does not count."""
    network, boards = load_source(EXAMPLES / "vgg16.py").network, []
    with scratch() as directory:
        path = Path(directory, "plan.json")
        result, seconds, _ = hwgen("plan", EXAMPLES / "vgg16.py", "--cluster", CLUSTER, "-o", path)
        file = read_plan(path)
        plan = plan_from_file(file, network)
        known = {one.name: one for one in requests(plan)}
        for index in BOARDS:
            uses = {one["resource"]: one["used"] for one in result["report"]["boards"][index]["uses"]}
            widths = file.cluster.boards[index].device.dsp_widths
            boards.append(_board(plan, index, widths, uses, known, Path(directory)))
    return {
        "yosys": importlib.metadata.version("pyosys"),
        "passes": FAMILIES[FAMILY].passes,
        "plan_seconds": round(seconds, 1),
        "cycles_per_sample": result["report"]["cycles_per_sample"],
        "boards": boards,
    }
