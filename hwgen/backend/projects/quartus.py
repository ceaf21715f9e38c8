"""Projects for Quartus: Cyclone V boards that are alone, with a host at a serial port."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

from ...errors import TargetError
from ...target_pins import Pins
from ..render import render
from .ecp5_pll import clock_text
from .job import Job, expected, single_device
from .signals import divider_of, hertz_of, lights, released

__all__ = ["BAUD", "DETECTOR_MHZ", "FAMILY", "OSCILLATOR_MHZ", "TOP", "files", "has_pll"]

TOP = "hwgen_quartus"
BAUD = 115_200
"""Of the serial port: the default of host/train.py."""
FAMILY = "Cyclone V"
LINKS = "links for Quartus are not made: they need cores of its transceivers"
OSCILLATOR_MHZ, DETECTOR_MHZ = (600, 1300), (5, 325)
"""Of the PLL in the slowest speed grade (CV-51002, PLL specifications)."""
MOST = 512
"""Of the counters N, M and C."""


def files(job: Job) -> dict[str, str]:
    """The project of a device that is alone. Raises TargetError where there can be none."""
    device = job.board.device
    if device.family != FAMILY:
        raise TargetError(
            f"{job.board.name} has a {device.family}; the project for Quartus has PLL and reset of a {FAMILY} only, "
            "take such a board, or make a project of the Verilog files by hand"
        )
    pins = single_device(job, LINKS)
    if len(pins.clock.pins) != 1:
        raise TargetError(
            f"{job.board.name} has a differential oscillator; the project takes one of a single pin"
        )
    source, clock = (Fraction(repr(mhz)) for mhz in (pins.clock.mhz, device.clock_mhz))
    if source != clock and not has_pll(source, clock):
        raise TargetError(
            f"a clock of {clock_text(clock)} MHz cannot be made of {clock_text(source)} MHz with whole dividers; "
            "take another"
        )
    facts: dict[str, Any] = {
        "top": TOP, "device": job.index, "build": f"0x{job.number:08x}", "board": job.board.name, "part": device.part,
        "family": FAMILY, "clock": clock_text(clock), "source": clock_text(source), "baud": BAUD,
    }  # fmt: skip
    sources = [*(f"../../{name}" for name in job.sources), "top.v"]
    told = dict(job.board.sources)
    return {
        "top.v": _top(pins, source, clock, facts),
        f"{TOP}.qpf": render("quartus/project.qpf.j2", **facts),
        f"{TOP}.qsf": render("quartus/project.qsf.j2", **facts, sources=sources),
        "pins.tcl": render("quartus/pins.tcl.j2", **facts, pins=_pins(pins)),
        "timing.sdc": _constraints(pins, source),
        "timing.tcl": render("quartus/timing.tcl.j2", **facts),
        "build.tcl": render("quartus/build.tcl.j2", **facts, sources=sources),
        "README.md": render(
            "quartus/README.md.j2", **facts, expected=expected(job),
            notes=[(name, told[name]) for name in ("pins", "pins.reset") if name in told],
        ),
    }  # fmt: skip


def has_pll(source: Fraction, clock: Fraction) -> bool:
    """Whether whole dividers of the PLL make exactly this clock of the oscillator at the pin."""
    for divide in range(ceil(source / DETECTOR_MHZ[1]), floor(source / DETECTOR_MHZ[0]) + 1):
        detector = source / divide
        for multiply in range(ceil(OSCILLATOR_MHZ[0] / detector), floor(OSCILLATOR_MHZ[1] / detector) + 1):
            output = detector * multiply / clock
            if multiply <= MOST and output.denominator == 1 and 1 <= output <= MOST:
                return True
    return False


def _top(pins: Pins, source: Fraction, clock: Fraction, facts: dict[str, Any]) -> str:
    return render(
        "quartus/top.v.j2",
        **facts,
        pll=source != clock,
        reset=released(pins),
        leds=lights(pins, clock, ("~uart_rx", "~uart_tx")),
        blink=hertz_of(clock).bit_length(),
        divider=divider_of(clock, BAUD),
    )


def _pins(pins: Pins) -> list[dict[str, Any]]:
    rows = []
    for name, pin in pins.signals.items():
        pull = name == "uart_rx" or (name == "reset" and pin.active == "low")
        for bit, site in enumerate(pin.pins):
            port = f"leds[{bit}]" if name == "leds" else name
            rows.append({"port": port, "site": site, "standard": pins.standard_of(pin), "pull": pull})
    return rows


def _constraints(pins: Pins, source: Fraction) -> str:
    return render(
        "quartus/timing.sdc.j2", period=f"{int(10**6 / source) / 1000:.3f}",
        slow_in=[*(["reset"] if pins.reset is not None else []), "uart_rx"],
        slow_out=[*(["leds[*]"] if pins.leds is not None else []), "uart_tx"],
    )  # fmt: skip
