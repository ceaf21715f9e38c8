"""Look-up tables and flip-flops of engines, tiles and boards in Yosys, and the fit of hwgen.plan.logic to them."""

from __future__ import annotations

import importlib.metadata
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hwgen.plan

from .logic_fit import Sample, Table, coefficients, predicted, samples, unseen
from .logic_parts import designs
from .logic_rows import measure
from .synthesis import FAMILIES

__all__ = ["TABLE", "TOLERANCE", "figures", "like_of", "run"]

TABLE = Path(hwgen.plan.__file__).parent / "logic.json"
"""The coefficients that plans are made with."""
TOLERANCE = 0.1
SUMMED = "stage"
"""Engines of a stage together."""


def figures(
    rows: Sequence[dict[str, Any]], family: str, like: Table | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coefficients of a family, and the relative errors of all designs by kind."""
    found = samples(rows, family)
    table = coefficients(found, like)
    fitted = [(predicted(table, sample, "lut"), predicted(table, sample, "ff")) for sample in found]
    errors: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, said in (("fit", fitted), ("unseen", unseen(found, like))):
        for kind, pairs in _grouped(found, said).items():
            for what, index in (("lut", 0), ("ff", 1)):
                errors[kind][f"{what} {name}"] = _spread([pair[index] for pair in pairs])
        every = [pair for pairs in _grouped(found, said).values() for pair in pairs]
        for what, index in (("lut", 0), ("ff", 1)):
            errors["all"][f"{what} {name}"] = _spread([pair[index] for pair in every])
    return table, dict(errors)


def like_of(family: str, tables: dict[str, Table]) -> Table | None:
    """What tiles of UltraScale+ are like, if few are measured."""
    return {kind: tables["xc7"][kind] for kind in ("tile", "array")} if family == "xcup" else None


def _grouped(
    found: Sequence[Sample], said: Sequence[tuple[float, float]]
) -> dict[str, list[tuple[float, float]]]:
    """Relative errors of tables and flip-flops by kind of design."""
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0] * 4)
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample, (lut, ff) in zip(found, said, strict=True):
        groups[sample.kind].append((lut / sample.lut - 1, ff / sample.ff - 1))
        if sample.kind == "engine":
            for k, value in enumerate((lut, sample.lut, ff, sample.ff)):
                sums[sample.case][k] += value
    groups[SUMMED] = [(lut / luts - 1, ff / ffs - 1) for lut, luts, ff, ffs in sums.values()]
    return groups


def _spread(errors: Sequence[float]) -> dict[str, float]:
    return {
        "designs": len(errors),
        "within": round(sum(abs(error) <= TOLERANCE for error in errors) / len(errors), 3),
        "rms": round((sum(error * error for error in errors) / len(errors)) ** 0.5, 3),
        "least": round(min(errors), 3),
        "most": round(max(errors), 3),
    }


def run() -> dict[str, Any]:
    """Costs of all designs, the fit, and its relative errors; the fit becomes that of plans."""
    rows = measure(designs())
    tables, errors = {}, {}
    for family in FAMILIES:
        tables[family], errors[family] = figures(rows, family, like_of(family, tables))
    TABLE.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return {
        "yosys": importlib.metadata.version("pyosys"),
        "passes": {name: family.passes for name, family in FAMILIES.items()},
        "errors": errors,
        "rows": sorted(rows, key=lambda row: (row["family"], row["kind"], row["case"], row["name"])),
    }
