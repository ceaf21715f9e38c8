"""Projects for Lattice ECP5 boards: top, pins, and the steps of Yosys, nextpnr-ecp5 and ecppack."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...errors import TargetError
from ...plan.codec import decode, encode
from ...plan.kinds import memory_kinds
from ...target_pins import Pins
from .. import ecp5_registers
from ..render import render
from .ecp5_pll import clock_text, pll_of
from .job import OUT, Expected, Job, expected, single_device
from .signals import divider_of, hertz_of, lights, released

__all__ = [
    "BAUD", "PROJECT", "TOP", "Kind", "Part", "Project", "Step", "files", "part_of", "read_project", "steps", "texts",
]  # fmt: skip

TOP = "hwgen_ecp5"
PROJECT = "project.json"
REGISTERS = "ecp5_registers.py"
BAUD = 115_200
"""Of the serial port unless told otherwise: the default of host/train.py."""
LINKS = (
    "links over its pins are not made yet: they need a forwarded clock, words of 64 bits in narrower ones "
    "(gateware.link.adapter.Narrow), and pins for them in the board's file"
)
PART = re.compile(r"LFE5(UM5G|UM|U)-(12|25|45|85)F-([678])([A-Z]{2}[0-9]{3})[CI]")
PACKAGES = {
    "BG256": "CABGA256", "BG381": "CABGA381", "BG554": "CABGA554", "BG756": "CABGA756", "MG285": "CSFBGA285",
    "TG144": "TQFP144",
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """What nextpnr-ecp5 calls a part."""

    device: str
    package: str
    speed: str


@dataclass(frozen=True)
class Kind:
    """The kind of memory, "block" or "distributed", of memories of so many words, bits and read ports."""

    words: int
    bits: int
    reads: int
    kind: str

    @property
    def enables(self) -> str:
        """The parameter of Yosys's memory cell by which it is read with a clock, at every port."""
        return f"{self.reads}'b{'1' * self.reads}"


@dataclass(frozen=True)
class Project:
    """All that the files of a project depend on. ``build`` is the build's number, ``clock_mhz`` the device clock."""

    board: str
    device: int
    build: str
    part: str
    pins: Pins
    clock_mhz: float
    baud: int
    sources: tuple[str, ...]
    memories: tuple[Kind, ...]
    expected: Expected


@dataclass(frozen=True)
class Step:
    """One run of a tool in the build directory; ``outputs`` and ``log`` are paths of what it writes."""

    tool: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    log: str | None = None


def part_of(part: str) -> Part:
    """What nextpnr calls the ECP5 ``part``. Raises TargetError if it is none."""
    found = PART.fullmatch(part)
    if found is None or found[4] not in PACKAGES or (found[2] == "12" and found[1] != "U"):
        raise TargetError(
            f"part {part} is no ECP5 that nextpnr knows; give one such as LFE5U-85F-6BG381C, package "
            f"{', '.join(PACKAGES)}"
        )
    series = {"U": "", "UM": "um-", "UM5G": "um5g-"}[found[1]]
    return Part(f"{series}{found[2]}k", PACKAGES[found[4]], found[3])


def files(job: Job) -> dict[str, str]:
    """The project of a device that is alone. Raises TargetError where there can be none."""
    pins, device = single_device(job, LINKS), job.board.device
    project = Project(
        job.board.name, job.index, f"0x{job.number:08x}", device.part, pins, device.clock_mhz, BAUD, job.sources,
        tuple(Kind(*shape, kind) for shape, kind in sorted(memory_kinds(job.plan, job.index, job.board).of.items())),
        expected(job),
    )  # fmt: skip
    folder = f"device{job.index}/ecp5"
    made = texts(project, folder)
    made["build.sh"] = _script(project, folder)
    made[PROJECT] = json.dumps(encode(project, Project, "project"), indent=1) + "\n"
    return made


def read_project(text: str) -> Project:
    """The project of a project.json. Raises BuildError if it is none."""
    try:
        data: Any = json.loads(text)
    except ValueError:
        data = None
    project: Project = decode(data, Project, PROJECT)
    return project


def texts(project: Project, folder: str) -> dict[str, str]:
    """Top, pins, Yosys's script and what packs registers, to stand in ``folder`` below the build directory.

    Raises TargetError for a part that nextpnr does not know, or a clock or baud rate that cannot be made.
    """
    part_of(project.part)
    return {
        "top.v": _top(project),
        "pins.lpf": _constraints(project),
        REGISTERS: Path(ecp5_registers.__file__).read_text(encoding="utf-8"),
        "synth.ys": render(
            "ecp5/synth.ys.j2",
            sources=[*project.sources, f"{folder}/top.v"],
            top=TOP,
            memories=project.memories,
        ),
    }


def steps(project: Project, folder: str, out: str, seed: int = 1, pack: bool = True) -> tuple[Step, ...]:
    """The runs of the tools: project files in ``folder``, results in ``out``, both below the build directory.

    ``pack``: registers around multipliers are packed into them.
    """
    part = part_of(project.part)
    netlist, packed, config, report, bits = (
        f"{out}/{name}"
        for name in ("netlist.json", "packed.json", "hwgen.config", "report.json", "hwgen.bit")
    )
    logs = [f"{out}/{tool}.log" for tool in ("yosys", "nextpnr")]
    route = (
        f"--{part.device}", "--package", part.package, "--speed", part.speed, "--json", packed if pack else netlist,
        "--lpf", f"{folder}/pins.lpf", "--textcfg", config, "--report", report, "--seed", str(seed),
        "--freq", clock_text(Fraction(repr(project.clock_mhz))), "--timing-allow-fail", "--log", logs[1],
    )  # fmt: skip
    return (
        Step(
            "yosys",
            ("-q", "-l", logs[0], "-s", f"{folder}/synth.ys", "-b", "json", "-o", netlist),
            (netlist,),
            logs[0],
        ),
        *([Step("python", (f"{folder}/{REGISTERS}", netlist, packed), (packed,))] if pack else []),
        Step("nextpnr-ecp5", ("--quiet", *route), (config, report), logs[1]),
        Step("ecppack", ("--compress", config, bits), (bits,)),
    )


def _script(project: Project, folder: str) -> str:
    names = {
        "yosys": "${YOSYS:-yosys}", "python": "${PYTHON:-python3}", "nextpnr-ecp5": "${NEXTPNR:-nextpnr-ecp5}",
        "ecppack": "${ECPPACK:-ecppack}",
    }  # fmt: skip
    out = f"{folder}/{OUT}"
    commands = [" ".join((names[step.tool], *step.arguments)) for step in steps(project, folder, out)]
    return render("ecp5/build.sh.j2", board=project.board, out=out, commands=commands)


def _top(project: Project) -> str:
    pins, clock = project.pins, Fraction(repr(project.clock_mhz))
    source = Fraction(repr(pins.clock.mhz))
    pll = pll_of(pins.clock.mhz, project.clock_mhz)
    return render(
        "ecp5/top.v.j2", top=TOP, device=project.device, build=project.build, board=project.board,
        clock=clock_text(clock), source=clock_text(source), pll=pll, oscillator=clock_text(pll.oscillator(source)),
        reset=released(pins), leds=lights(pins, clock, ("~uart_rx", "~uart_tx")), blink=hertz_of(clock).bit_length(),
        baud=project.baud, divider=divider_of(clock, project.baud),
    )  # fmt: skip


def _constraints(project: Project) -> str:
    pins, rows = project.pins, []
    pulls = {"uart_rx": "UP"}
    if pins.reset is not None:
        pulls["reset"] = "UP" if pins.reset.active == "low" else "DOWN"
    for name, pin in pins.signals.items():
        # Of a differential pair nextpnr takes the positive pin; the other one follows from it.
        sites = pin.pins[:1] if name == "clock" else pin.pins
        for bit, site in enumerate(sites):
            port = f"{name}[{bit}]" if name == "leds" and len(sites) > 1 else name
            standard = pins.standard_of(pin)
            rows.append({"port": port, "site": site, "standard": standard, "pull": pulls.get(name)})
    source = clock_text(Fraction(repr(pins.clock.mhz)))
    return render("ecp5/pins.lpf.j2", board=project.board, source=source, pins=rows)
