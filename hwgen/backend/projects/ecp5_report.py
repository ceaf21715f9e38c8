"""What nextpnr-ecp5 says of a design: what it takes of the part, how fast its clocks are, why there is no room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...errors import SynthesisError, ToolError
from .ecp5 import Project
from .ecp5_pll import clock_text, fastest_below

__all__ = ["CELLS", "Clock", "Report", "misfit", "read_report", "require_timing"]

CELLS = {"dsp": "MULT18X18D", "bram": "DP16KD", "lut": "TRELLIS_COMB", "ff": "TRELLIS_FF"}
"""What nextpnr calls resources; tables that are memory, or carry, are TRELLIS_COMB too."""
ADVICE = {
    "dsp": "lower array= of its layers",
    "bram": "lower array= of its layers, or keep less of it in block RAM",
    "lut": "lower array= of its layers",
    "ff": "lower array= of its layers",
}
_GLOBAL = "$glbnet$"
_USED = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%$", re.MULTILINE)
_NO_ROOM = re.compile(
    r"^ERROR: (.*(?:no BELs remaining|legal placement|failed to route|[Uu]nable to route).*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Clock:
    """A clock's rate: what place and route reached, and what was asked of it."""

    fmax_mhz: float
    asked_mhz: float


@dataclass(frozen=True)
class Report:
    """``used`` and ``available`` by the names of CELLS; clocks by name; (from, to) of the slowest way in each."""

    used: Mapping[str, int]
    available: Mapping[str, int]
    clocks: Mapping[str, Clock]
    slowest: Mapping[str, tuple[str, str]]


def read_report(data: Any) -> Report:
    """The report that nextpnr wrote as JSON. Raises ToolError if it is none."""
    try:
        cells = data["utilization"]
        clocks = {
            name.removeprefix(_GLOBAL): Clock(float(rate["achieved"]), float(rate["constraint"]))
            for name, rate in data["fmax"].items()
        }
        return Report(
            {name: int(cells[cell]["used"]) for name, cell in CELLS.items()},
            {name: int(cells[cell]["available"]) for name, cell in CELLS.items()},
            clocks,
            dict(_ways(data["critical_paths"])),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolError(
            f"nextpnr-ecp5: its report lacks {error}; another version writes another one"
        ) from None


def _ways(paths: Any) -> Any:
    """(clock, (from, to)) of the slowest way within each clock."""
    for path in paths:
        start, end = (path[side].split(" ")[-1].removeprefix(_GLOBAL) for side in ("from", "to"))
        steps = path["path"]
        if start == end and steps:
            yield start, (steps[0]["from"]["cell"], steps[-1]["to"]["cell"])


def misfit(log: str, board: str) -> SynthesisError | None:
    """Why nextpnr, whose log this is, found no place or no ways for the design; None if that is not what it says."""
    full = {cell: (int(used), int(of)) for cell, used, of in _USED.findall(log)}
    over = [
        f"{board}: needs {full[cell][0]:,} {cell}, it has {full[cell][1]:,}, {full[cell][0] - full[cell][1]:,} "
        f"too many; {ADVICE[name]}, or take a larger board"
        for name, cell in CELLS.items()
        if cell in full and full[cell][0] > full[cell][1]
    ]
    if over:
        return SynthesisError(over)
    found = _NO_ROOM.search(log)
    if found is None:
        return None
    taken = ", ".join(
        f"{full[cell][0] / full[cell][1]:.0%} of {cell}" for cell in CELLS.values() if cell in full
    )
    return SynthesisError(
        f"{board}: nextpnr-ecp5 finds no room: {found[1].rstrip('.')}; the design takes {taken}; "
        "lower array= of its layers"
    )


def require_timing(report: Report, project: Project) -> None:
    """Raises SynthesisError, naming every clock that is too slow, unless all are fast enough."""
    source = Fraction(repr(project.pins.clock.mhz))
    problems = []
    for name, clock in report.clocks.items():
        if clock.fmax_mhz >= clock.asked_mhz:
            continue
        short = clock.asked_mhz - clock.fmax_mhz
        way = " to ".join(report.slowest.get(name, ()))
        lower = fastest_below(source, Fraction(clock.fmax_mhz))
        take = f"ask for less (--freq {clock_text(lower)}), or " if lower is not None else ""
        problems.append(
            f"{project.board}: clock {name} reaches {clock.fmax_mhz:.2f} of {clock.asked_mhz:g} MHz, {short:.2f} MHz "
            f"({short / clock.asked_mhz:.1%}) too slow{f', on the way from {way}' if way else ''}; "
            f"{take}try another --seed"
        )
    if problems:
        raise SynthesisError(problems)
