"""Look-up tables and flip-flops of stages, tiles and boards in Yosys, and the fit of hwgen.plan.logic to them."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from hwgen import Cluster, Formats, Link, Model, nn
from hwgen.backend.convert import convert
from hwgen.backend.verilog import emit
from hwgen.frontend.loader import load_source
from hwgen.gateware.stage import array_shape
from hwgen.gateware.tile import Tile
from hwgen.plan import logic
from hwgen.plan.columns import SHALLOW
from hwgen.plan.foldings import tile_of
from hwgen.plan.part import Part
from hwgen.plan.plan import Plan, StagePlan
from hwgen.plan.planner import plan_network
from hwgen.plan.stack import stack_problem

from .command import EXAMPLES
from .synthesis import FAMILIES, synthesise

__all__ = ["CASES", "fit", "plan_of", "run"]

JOBS = 2
LINK_COST = Path(__file__).parent / "results" / "link_cost.json"
FAMILY = "xc7"
"""That the estimate is fitted to."""

# The second layer of three: kernel, channels in and out, side of the map, (u, pc, Pn, b), and what else is special.
CASES: tuple[tuple[int, int, int, int, tuple[int, int, int, int], dict[str, Any]], ...] = (
    (3, 4, 4, 12, (9, 1, 1, 1), {}),
    (3, 4, 8, 12, (9, 1, 3, 4), {}),
    (3, 8, 8, 14, (3, 2, 2, 2), {"pool": 2}),
    (3, 8, 8, 28, (1, 4, 4, 4), {}),
    (3, 16, 8, 14, (1, 8, 2, 2), {"pool": 2}),
    (3, 6, 6, 15, (3, 3, 1, 1), {"stride": 2}),
    (3, 8, 8, 12, (1, 2, 2, 1), {"width": 8}),
    (3, 4, 4, 12, (9, 1, 2, 2), {"width": 12}),
    (1, 16, 16, 10, (1, 4, 4, 4), {}),
    (5, 4, 8, 12, (5, 1, 2, 2), {"groups": 2}),
    (3, 6, 6, 9, (1, 3, 3, 3), {"width": 18}),
    (3, 32, 32, 14, (1, 4, 2, 4), {}),
    (3, 32, 32, 14, (1, 2, 6, 2), {"pool": 2, "batch": 64}),
    (1, 32, 16, 1, (1, 4, 4, 1), {}),
    (1, 64, 8, 1, (1, 8, 1, 1), {"width": 8}),
    (3, 3, 16, 24, (3, 3, 2, 4), {"first": True}),
    (3, 3, 16, 24, (1, 3, 4, 2), {"first": True, "pool": 2}),
    (3, 8, 8, 12, (1, 1, 1, 1), {}),
    (3, 8, 8, 12, (1, 6, 1, 8), {}),
    (3, 8, 8, 12, (1, 1, 6, 8), {}),
)


TILES: tuple[dict[str, Any], ...] = (
    {"master": "here", "weights": "distributed", "update": "pe"},
    {"master": "here", "weights": "block", "update": "pe"},
    {"master": "here", "weights": "block", "update": "column"},
    {"master": "memory", "weights": "distributed", "update": "pe"},
    {"master": "memory", "weights": "block", "update": "pe"},
    {"master": "memory", "weights": "block", "update": "pe", "shared": True},
    {"master": "memory", "weights": "block", "update": "pe", "copy": False, "stack": 1},
    {"master": "memory", "weights": "block", "update": "pe", "copy": False, "stack": 2},
    {"master": "memory", "weights": "block", "update": "pe", "copy": False, "stack": 4, "shared": True},
    {"master": "memory", "weights": "block", "update": "pe", "copy": False, "stack": 8},
    {"master": "here", "weights": "block", "update": "column", "copy": False, "stack": 4},
)
"""How a tile's weights are kept and updated: fields of Storage; and whether its sums of gradients are added to those of
others."""
KEPT = ("master", "weights", "update", "copy", "stack")
BLOCK = 512
"""Words of a block RAM at its widest, as Yosys stacks them."""


def plan_of(case: tuple[Any, ...]) -> tuple[Plan, int]:
    """The plan of a case's network, and the number of its stage under test."""
    kernel, before, after, side, (u, pc, pn, b), special = case
    width = special.get("width", 16)
    options = {"u": u, "pc": pc, "pn": pn, "b": b}
    layers: list[Any] = [] if special.get("first") else [nn.Conv2d(1, before, 1, array=(1, 1)), nn.ReLU()]
    if side == 1:
        layers = [
            nn.Linear(4, before, array=(1, 1)),
            nn.ReLU(),
            nn.Linear(before, after, **options),
            nn.ReLU(),
        ]
        rest, shape = after, (4,)
    else:
        stride, groups = special.get("stride", 1), special.get("groups", 1)
        layers += [nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, **options), nn.ReLU()]
        rest = -(-side // stride)
        if special.get("pool"):
            layers.append(nn.MaxPool2d(2))
            rest //= 2
        rest, shape = rest * rest * after, (side, side, before if special.get("first") else 1)
        layers.append(nn.Flatten())
    layers.append(nn.Linear(rest, 2, array=(1, 1)))
    formats = Formats(activation=width, weight=width, error=width, master=min(32, 2 * width))
    model = Model(
        input=shape, layers=layers, optimizer=nn.SGD(batch=special.get("batch", 8)), formats=formats
    )
    return plan_network(model.network()), 0 if special.get("first") else 1


def _names(files: dict[str, str]) -> list[str]:
    return [Path(path).stem for path in files]


def _cases() -> list[dict[str, Any]]:
    names = ("kernel", "in_channels", "out_channels", "side", "folding")
    return [{**dict(zip(names, case[:5], strict=True)), **case[5]} for case in CASES]


def _measure(folder: Path, top: str, boxes: tuple[str, ...] = (), **about: Any) -> dict[str, Any]:
    start = time.monotonic()
    cost = FAMILIES[FAMILY].cost(synthesise(folder, top, FAMILY, boxes))
    row = {**about, **cost, "seconds": round(time.monotonic() - start, 1)}
    print(row, file=sys.stderr, flush=True)
    return row


def _of_case(number: int) -> list[dict[str, Any]]:
    """Rows of a case: its tile in every way to keep and update weights, and its stage without tiles."""
    plan, index = plan_of(CASES[number])
    with tempfile.TemporaryDirectory(prefix="hwgen-logic-") as name:
        folder = Path(name)
        files = emit(plan)
        stage = [name for name in _names(files) if name.startswith("hwgen_stage")][index]
        text = files[f"verilog/{stage}.v"]
        (tile,) = [name for name in _names(files) if name.startswith("hwgen_tile") and f"{name} " in text]
        for path, text in files.items():
            (folder / Path(path).name).write_text(text)
        rows = [_measure(folder, stage, (tile,), case=number, kind="stage")]
    return [*rows, *_tiles(number)]


def _tiles(number: int) -> list[dict[str, Any]]:
    """Rows of a case's tile, unless its memories are several blocks one above the other: tables of more than SHALLOW
    words, block RAM of more than BLOCK. Yosys then makes multiplexers of tables that are no logic of the tile."""
    plan, index = plan_of(CASES[number])
    rows = []
    with tempfile.TemporaryDirectory(prefix="hwgen-logic-") as name:
        folder = Path(name)
        for kept in TILES:
            planned = _stored(plan.stages[index], kept)
            if not _worth(planned, plan.network.update.batch):
                continue
            tile = Tile(array_shape(plan.network, planned), *planned.tile)
            (folder / "tile.v").write_text(convert(tile, "tile"))
            rows.append(_measure(folder, "tile", case=number, kind="tile", **kept))
    return rows


def _worth(planned: StagePlan, batch: int) -> bool:
    """Whether a tile can be, and is unlike those with other ways to keep its weights."""
    storage = planned.storage
    if storage.update == "column" and planned.tile[0] == 1:
        return False
    most = SHALLOW if storage.weights == "distributed" else BLOCK
    return planned.fold.depth * storage.stack <= most and stack_problem(planned, batch) is None


def _stored(planned: StagePlan, kept: dict[str, Any]) -> StagePlan:
    """The stage kept otherwise; of rows behind one another the blocks are long enough."""
    storage = replace(planned.storage, **{name: kept[name] for name in KEPT if name in kept})
    if kept.get("shared"):
        planned = replace(planned, part=Part("rows", 0, 2, 0, 1, (1, 1)))
    if not storage.copy:
        planned = replace(planned, folding=replace(planned.folding, b=2 * storage.stack), storage=storage)
        return replace(planned, tile=tile_of(planned.fold, storage.stack))
    return replace(planned, storage=storage)


def _fixed() -> list[dict[str, Any]]:
    """Rows of what a board has beside stages and link ends, with the loss and without."""
    rows = []
    for boards, classes in ((1, 2), (1, 10), (2, 10)):
        layers = [nn.Linear(8, 8, array=(1, 1)), nn.ReLU(), nn.Linear(8, classes, array=(1, 1))]
        cluster = Cluster.chain("vc709", 2, link=Link()) if boards == 2 else None
        plan = plan_network(Model(input=(8,), layers=layers).network(), cluster=cluster)
        with tempfile.TemporaryDirectory(prefix="hwgen-logic-") as name:
            folder = Path(name)
            files = emit(plan)
            for path, text in files.items():
                (folder / Path(path).name).write_text(text)
            tops = [n for n in _names(files) if not n.startswith(("hwgen_stage", "hwgen_tile", "hwgen_link"))]
            boxes = tuple(n for n in _names(files) if n.startswith(("hwgen_stage", "hwgen_link")))
            for board, top in enumerate(tops):
                used = tuple(box for box in boxes if f"{box} " in files[f"verilog/{top}.v"])
                loss = board == boards - 1
                about = {"kind": "fixed", "boards": boards, "classes": classes, "loss": loss}
                rows.append(_measure(folder, top, used, **about))
    return rows


def _links() -> list[dict[str, Any]]:
    """Rows of link ends: those that bench_link_cost measured."""
    rows = []
    for row in json.loads(LINK_COST.read_text())["rows"]:
        if row["family"] != "xc7":
            continue
        channels = 10
        if row["channels"] == "digits":
            network = load_source(EXAMPLES / "digits.py").network
            link = plan_network(network, cluster=Cluster.chain("vc709", 3)).links[0]
            channels = len(link.down) + len(link.up)
        cost = {"lut": row["lut"] - row["lut_ram"], "ff": row["ff"], "lut_ram": row["lut_ram"]}
        rows.append({"kind": "link", "width": row["width"], "channels": channels, **cost})
    return rows


def _features(row: dict[str, Any]) -> dict[str, float]:
    if row["kind"] == "link":
        return logic.link_features(row["width"], row["channels"])
    plan, index = plan_of(CASES[row["case"]])
    planned = _stored(plan.stages[index], row if row["kind"] == "tile" else {})
    make = logic.tile_features if row["kind"] == "tile" else logic.stage_features
    return make(planned, plan.network)


def _solve(matrix: Any, values: Any) -> Any:
    """Coefficients, none negative, of the least sum of squared relative errors."""
    return nnls(matrix / values[:, None], np.ones(len(values)))[0]


def _spread(errors: Any) -> dict[str, float]:
    return {
        "rms": round(float(np.sqrt(np.mean(errors**2))), 3),
        "least": round(float(errors.min()), 3),
        "most": round(float(errors.max()), 3),
    }


def fit(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coefficients of hwgen.plan.logic, and relative errors: of the fit, and of rows that it had not seen."""
    found: dict[str, Any] = {"fixed": {"lut": {}, "ff": {}}}
    errors: dict[str, Any] = {}
    for kind in ("tile", "stage", "link"):
        own = [row for row in rows if row["kind"] == kind]
        features = [_features(row) for row in own]
        matrix = np.array([list(each.values()) for each in features], dtype=float)
        found[kind], errors[kind] = {}, {}
        for what in ("lut", "ff"):
            values = np.array([row[what] for row in own], dtype=float)
            solved = _solve(matrix, values)
            found[kind][what] = {
                name: float(f"{value:.4g}") for name, value in zip(features[0], solved, strict=True)
            }
            errors[kind][what] = {"fit": _spread(matrix @ solved / values - 1)}
            if kind != "link":
                unseen = [
                    matrix[k] @ _solve(np.delete(matrix, k, 0), np.delete(values, k)) / values[k] - 1
                    for k in range(len(own))
                ]
                errors[kind][what]["unseen"] = _spread(np.array(unseen))
    for row in rows:
        if row["kind"] == "fixed":
            kind = "with loss" if row["loss"] else "without loss"
            for what in ("lut", "ff"):
                found["fixed"][what][kind] = max(found["fixed"][what].get(kind, 0), row[what])
    return found, errors


def run() -> dict[str, Any]:
    """Costs of all cases, the fit, and its relative errors."""
    with ThreadPoolExecutor(JOBS) as pool:
        rows = [row for found in pool.map(_of_case, range(len(CASES))) for row in found]
    rows += [*_fixed(), *_links()]
    coefficients, errors = fit(rows)
    for row in rows:
        if row["kind"] in ("tile", "stage"):
            row["features"] = _features(row)
    return {
        "yosys": importlib.metadata.version("pyosys"),
        "passes": FAMILIES[FAMILY].passes,
        "cases": _cases(),
        "rows": rows,
        "coefficients": coefficients,
        "errors": errors,
    }
