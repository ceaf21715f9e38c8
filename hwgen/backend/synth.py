"""A board's project through its tools: to a bitstream, or to the reason why there is none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BuildError, SynthesisError, ToolError
from ..toolchain import Finding, require_working
from .build import load_build
from .projects import REFUSED, ecp5
from .projects.ecp5_report import misfit, read_report, require_timing
from .projects.job import OUT
from .steps import Limits, Ran, run_step
from .writer import move_directory, require_writable, staging

__all__ = ["RESULT", "SynthOptions", "synthesize"]

RESULT = "synth.json"
"""Stands in the folder of a project's results, beside the bitstream; with the logs alone where there is none."""
BITS = "hwgen.bit"
HANDED_ON = ("netlist.json", "packed.json", "hwgen.config")
"""What one tool makes for the next, and nobody needs afterwards."""
SECONDS = 60
"""In a minute."""
DEVICE_CLOCK = "clk"
"""The device clock's net in the top."""
_PROJECT = re.compile(rf"device(\d+)/ecp5/({re.escape(ecp5.PROJECT)}|{re.escape(REFUSED)})")
_PACKED = re.compile(r"(\d+) of \d+ multipliers")


@dataclass(frozen=True)
class SynthOptions:
    """``device``: the board's place, None for the first that has a project. ``seed`` of place and route. ``freq``: MHz,
    None for the board's clock. ``pack``: registers into multipliers. ``minutes`` that one tool may take."""

    device: int | None = None
    seed: int = 1
    freq: float | None = None
    pack: bool = True
    minutes: int = 180


@dataclass(frozen=True)
class _Job:
    """A project to work on. ``path`` is the build directory, ``folder`` the project's below it, ``out`` where results
    gather."""

    path: Path
    folder: str
    out: Path
    project: ecp5.Project
    tools: dict[str, Finding]
    options: SynthOptions
    progress: Callable[..., None]


def synthesize(path: Path, options: SynthOptions, progress: Callable[..., None]) -> dict[str, Any]:
    """Makes the bitstream of a board of the build in ``path``; the result of docs/result.md, which is also written.

    What an earlier run left is gone from the first step on, and results come all at once. Raises SynthesisError, with
    results but no bitstream, where the design does not fit or is too slow; other HwgenErrors, and there are no results.
    """
    progress(f"reading {path}")
    device, folder = _project_folder(path, options.device)
    project = ecp5.read_project((path / folder / ecp5.PROJECT).read_text(encoding="utf-8"))
    if options.freq is not None:
        project = dataclasses.replace(project, clock_mhz=options.freq)
    ecp5.texts(project, folder)  # raises if the clock cannot be made
    require_writable(path / folder)
    tools = {name: require_working(name) for name in ("yosys", "nextpnr-ecp5", "ecppack")}
    result: dict[str, Any] = {
        "command": "synth", "hwgen": __version__, "build": project.build, "seed": options.seed,
        "board": project.board, "device": device, "part": project.part, "clock_mhz": project.clock_mhz,
        "tools": {name: found.version for name, found in tools.items()}, "pack": options.pack,
        "multipliers_packed": None, "bitstream": None, "fmax_mhz": None,
        "expected": dataclasses.asdict(project.expected),
    }  # fmt: skip
    target = path / folder / OUT
    with staging(path / folder) as staged:
        if target.exists():
            move_directory(target, staged / "old")
        out = staged / OUT
        out.mkdir()
        failure = None
        try:
            _run(_Job(path, folder, out, project, tools, options, progress), result)
            result["bitstream"] = f"{folder}/{OUT}/{BITS}"
        except SynthesisError as error:
            failure = error
            result |= {"error": str(error), "exit_code": error.exit_code}
        for name in HANDED_ON:
            (out / name).unlink(missing_ok=True)
        (out / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        move_directory(out, target)
    if failure is not None:
        raise failure
    return result


def _project_folder(path: Path, device: int | None) -> tuple[int, str]:
    """The board with a project, and the project's folder. Raises BuildError if there is none."""
    found = {int(m[1]): m[2] for m in map(_PROJECT.fullmatch, load_build(path).manifest["files"]) if m}
    if not found:
        raise BuildError(
            f"{path}: no project for Yosys and nextpnr-ecp5; build for a board with an ECP5: "
            f"hwgen build SOURCE --cluster ulx3s_85f -o {path}"
        )
    chosen = min(found, key=lambda k: (found[k] == REFUSED, k)) if device is None else device
    if chosen not in found:
        raise BuildError(
            f"{path}: no project for board {chosen}; give --board {' or '.join(map(str, found))}"
        )
    folder = f"device{chosen}/ecp5"
    if found[chosen] == REFUSED:
        raise BuildError(f"{path}: {(path / folder / REFUSED).read_text(encoding='utf-8').strip()}")
    return chosen, folder


def _run(job: _Job, result: dict[str, Any]) -> None:
    """Runs the tools one after the other, and adds to ``result`` what they tell, as soon as they do."""
    start = time.monotonic()
    below, folder = job.out.relative_to(job.path).as_posix(), job.folder
    if job.options.freq is not None:  # other texts than those of the build
        own = job.out.parent / "project"
        own.mkdir()
        folder = own.relative_to(job.path).as_posix()
        for name, text in ecp5.texts(job.project, folder).items():
            (own / name).write_text(text, encoding="utf-8")
    result["steps"] = []
    for step in ecp5.steps(job.project, folder, below, job.options.seed, job.options.pack):
        ran = _step(job, step)
        result["steps"].append({"tool": step.tool, "seconds": ran.seconds, "peak_bytes": ran.peak_bytes})
        result["seconds"] = round(time.monotonic() - start, 3)
        result["peak_bytes"] = max(each["peak_bytes"] for each in result["steps"])
        if found := _PACKED.search(ran.output):
            result["multipliers_packed"] = int(found[1])
        if step.tool == "nextpnr-ecp5":
            reached = read_report(json.loads((job.out / "report.json").read_bytes()))
            clocks = {name: dataclasses.asdict(clock) for name, clock in reached.clocks.items()}
            fmax = clocks.get(DEVICE_CLOCK, {}).get("fmax_mhz")
            result |= {"used": dict(reached.used), "available": dict(reached.available)}
            result |= {"clocks": clocks, "fmax_mhz": fmax}
            require_timing(reached, job.project)
    bits = (job.out / BITS).read_bytes()
    result |= {"bitstream_bytes": len(bits), "bitstream_sha256": hashlib.sha256(bits).hexdigest()}


def _step(job: _Job, step: ecp5.Step) -> Ran:
    """One tool's run. Raises SynthesisError where nextpnr finds no room or no end, ToolError where a tool breaks."""
    found = job.tools.get(step.tool)
    program = str(found.path) if found is not None else sys.executable
    limits = Limits(
        SECONDS * job.options.minutes, lambda seconds: job.progress(f"{step.tool}, seconds:", seconds)
    )
    job.progress(step.tool)
    ran = run_step([program, *step.arguments], job.path, limits)
    log = ran.output
    if step.log is not None and (job.path / step.log).is_file():
        log = (job.path / step.log).read_text(encoding="utf-8", errors="replace")
    if ran.code is None:
        raise SynthesisError(
            f"{job.project.board}: {step.tool} found no end in {job.options.minutes} minutes; "
            "lower array= of the layers, so that the device is less full, or allow --minutes more"
        )
    if ran.code == 0 and all((job.path / name).is_file() for name in step.outputs):
        return ran
    if step.tool == "nextpnr-ecp5" and (error := misfit(log, job.project.board)) is not None:
        raise error
    lines = (log + "\n" + ran.output).splitlines()
    told = [line for line in lines if "ERROR" in line] or [line for line in lines if line.strip()][-8:]
    raise ToolError(f"{step.tool} failed with exit code {ran.code}:\n" + "\n".join(dict.fromkeys(told[:8])))
