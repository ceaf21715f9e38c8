"""Projects for AMD's Vivado: 7-series and UltraScale+ boards, alone or in a chain over Aurora cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...errors import TargetError
from ...target import Board
from ...target_pins import Pin, Pins
from ..render import render
from .aurora import Aurora, auroras, series_of
from .ecp5_pll import clock_text
from .job import Job, expected, require_masters_here
from .mmcm import Mmcm, mmcm_of
from .signals import divider_of, hertz_of, lights, released
from .vivado_cores import aurora_ports, beats_of, support_verilog, xdma_parameters
from .vivado_ip import ip_files

__all__ = ["BAUD", "TOP", "files"]

TOP = "hwgen_vivado"
BAUD = 115_200
"""Of the serial port: the default of host/train.py."""
SUPPORT = "support.v"
XDMA = "hwgen_xdma"


@dataclass(frozen=True)
class _Project:
    """What the texts of a project are made of. ``host`` is "uart", "xdma" or "" for a board that has no host."""

    job: Job
    pins: Pins
    series: str
    mmcm: Mmcm
    host: str
    links: tuple[Aurora, ...]

    @property
    def board(self) -> Board:
        return self.job.board

    @property
    def clock(self) -> Fraction:
        return Fraction(repr(self.board.device.clock_mhz))

    @property
    def source(self) -> Fraction:
        return Fraction(repr(self.pins.clock.mhz))

    @property
    def init(self) -> Fraction:
        return self.mmcm.init_clock(self.source)


def files(job: Job) -> dict[str, str]:
    """The project of a board. Raises TargetError where there can be none."""
    project = _project(job)
    folder = f"device{job.index}/vivado"
    made = {"top.v": _top(project), "pins.xdc": _pins(project), "timing.xdc": _timing(project)}
    if project.links or project.host == "xdma":
        made[SUPPORT] = support_verilog(project.links, beats_of(project.board.pcie), project.init)
    made["build.tcl"] = _script(project, [f"{folder}/{name}" for name in made if name.endswith(".v")])
    made["project.tcl"] = render("vivado/project.tcl.j2", device=job.index, cores=_cores(project))
    links = [(one.side, one.link) for one in project.links]
    made |= ip_files(job, links, folder, [f"{folder}/{SUPPORT}"] if links else [])
    made["README.md"] = _readme(project)
    return made


def _project(job: Job) -> _Project:
    board = job.board
    require_masters_here(job)
    series = series_of(board)
    if series is None:
        raise TargetError(f"family {board.device.family} is none that the project for Vivado knows")
    if board.pins is None:
        raise TargetError(f"{board.name} tells no pins; give its file a table [pins] (docs/boards.md)")
    mmcm = mmcm_of(board.pins.clock.mhz, board.device.clock_mhz, series)
    links = [(side, link) for side, link in zip(("up", "down"), job.links, strict=True) if link is not None]
    cores = auroras(board, links, mmcm.init_clock(Fraction(repr(board.pins.clock.mhz))))
    return _Project(job, board.pins, series, mmcm, _host(job), cores)


def _host(job: Job) -> str:
    if job.index:
        return ""
    if job.board.pcie is not None:
        return "xdma"
    if job.board.pins is not None and job.board.pins.uart_tx is not None:
        return "uart"
    raise TargetError(
        f"{job.board.name} tells no way to a host; give its file [pcie], or [pins] uart_tx and uart_rx "
        "(docs/boards.md)"
    )


def _device(project: _Project) -> str:
    if project.job.index:
        return f"hwgen_board{project.job.index}"
    return "hwgen_uart" if project.host == "uart" else "hwgen_bytes"


def _number(value: Fraction) -> str:
    """A divider as Vivado takes it, which has three digits behind the point."""
    return f"{float(value):.3f}"


def _period(mhz: Fraction) -> str:
    """ns, rounded down to what XDC takes."""
    return f"{int(10**6 / mhz) / 1000:.3f}"


def _top(project: _Project) -> str:
    mmcm, clock = project.mmcm, project.clock
    ready = ["locked"]
    if (reset := released(project.pins)) is not None:
        ready.append(reset)
    if project.host == "xdma":
        ready.append("dma_aresetn")
    dividers = {
        "divide": mmcm.divide, "multiply": _number(mmcm.multiply), "output": _number(mmcm.output), "init": mmcm.init,
    }  # fmt: skip
    return render(
        "vivado/top.v.j2", top=TOP, device=project.job.index, build=f"0x{project.job.number:08x}",
        board=project.board.name, clock=clock_text(clock), source=clock_text(project.source),
        init=clock_text(project.init), oscillator=clock_text(mmcm.oscillator(project.source)), mmcm=dividers,
        mmcm_cell="MMCME4_BASE" if project.series == "ultra" else "MMCME2_BASE", period=_period(project.source),
        pair=len(project.pins.clock.pins) == 2, ports=_ports(project), ready=" & ".join(ready),
        links=_links(project), host=project.host, ultra=project.series == "ultra",
        dma_bytes=beats_of(project.board.pcie),
        xdma_module=XDMA, reset_module="hwgen_aurora_reset", beats_module="hwgen_byte_beats",
        device_module=_device(project), baud=BAUD, blink=hertz_of(clock).bit_length(),
        divider=divider_of(clock, BAUD) if project.host == "uart" else None,
        lights=lights(project.pins, clock, _shown(project)),
        held=[(held.name, int(held.level == "high")) for held in project.board.held],
    )  # fmt: skip


def _links(project: _Project) -> list[dict[str, Any]]:
    return [
        {
            "side": one.side, "lanes": one.link.lanes, "width": one.link.width, "gbps": f"{one.link.gbps:.9g}",
            "module": one.module, "adapter": f"hwgen_aurora_adapter{one.link.width}", "master": one.master,
            "shares": any(other.master == one.side for other in project.links), "channels": " ".join(one.channels),
            "connections": aurora_ports(one, any(other.master == one.side for other in project.links)),
        }
        for one in project.links
    ]  # fmt: skip


def _ports(project: _Project) -> list[str]:
    pins, board = project.pins, project.board
    names = ["clock_p", "clock_n"] if len(pins.clock.pins) == 2 else ["clock"]
    names += ["reset"] if pins.reset is not None else []
    ports = [f"input wire {name}" for name in names]
    if project.host == "uart":
        ports += ["input wire uart_rx", "output wire uart_tx"]
    elif project.host == "xdma":
        assert board.pcie is not None
        bits = f"[{board.pcie.lanes - 1}:0] "
        ports += [f"input wire {name}" for name in ("pcie_clock_p", "pcie_clock_n", "pcie_reset_n")]
        ports += [f"input wire {bits}pcie_rx{end}" for end in "pn"]
        ports += [f"output wire {bits}pcie_tx{end}" for end in "pn"]
    for number in sorted({one.socket for one in project.links}):
        ports += [f"input wire refclk{number}_{end}" for end in "pn"]
    for one in project.links:
        bits = f"[0:{one.link.lanes - 1}] "
        ports += [f"input wire {bits}{one.side}_rx{end}" for end in "pn"]
        ports += [f"output wire {bits}{one.side}_tx{end}" for end in "pn"]
    if pins.leds is not None:
        ports.append(f"output wire [{len(pins.leds.pins) - 1}:0] leds")
    return ports + [f"output wire {held.name}" for held in board.held]


def _shown(project: _Project) -> list[str]:
    """What LEDs show of links and host: they are up, or bytes pass."""
    host = {"uart": ["~uart_rx", "~uart_tx"], "xdma": ["pcie_up"], "": []}[project.host]
    return [*(f"{one.side}_channel_up" for one in project.links), *host]


def _pins(project: _Project) -> str:
    pins, board, rows = project.pins, project.board, []
    pulls = {"uart_rx": "PULLUP"}
    if pins.reset is not None:
        pulls["reset"] = "PULLUP" if pins.reset.active == "low" else "PULLDOWN"
    for name, pin in pins.signals.items():
        if name in ("uart_rx", "uart_tx") and project.host != "uart":
            continue
        for port, site in zip(_names(name, pin), pin.pins, strict=True):
            rows.append(_row(port, site, pins.standard_of(pin), pulls.get(name)))
    if project.host == "xdma" and board.pcie is not None:
        rows += [
            _row(f"pcie_clock_{end}", site) for end, site in zip("pn", board.pcie.clock.pins, strict=True)
        ]
        rows.append(_row("pcie_reset_n", board.pcie.reset.pins[0], board.pcie.reset.standard, "PULLUP"))
    for number in sorted({one.socket for one in project.links}):
        sites = board.sockets[number].clock.pins
        rows += [_row(f"refclk{number}_{end}", site) for end, site in zip("pn", sites, strict=True)]
    rows += [_row(held.name, held.pin.pins[0], held.pin.standard) for held in board.held]
    slow_in = [name for name in ("reset", "uart_rx") if any(row["port"] == name for row in rows)]
    slow_in += ["pcie_reset_n"] if project.host == "xdma" else []
    slow_out = (["uart_tx"] if project.host == "uart" else []) + (
        ["leds[*]"] if pins.leds is not None else []
    )
    slow_out += [held.name for held in board.held]
    return render(
        "vivado/pins.xdc.j2",
        board=board.name,
        pins=rows,
        clocks=_clocks(project),
        slow_in=slow_in,
        slow_out=slow_out,
    )


def _names(name: str, pin: Pin) -> list[str]:
    if name == "leds":
        return [f"leds[{bit}]" for bit in range(len(pin.pins))]
    return [f"{name}_p", f"{name}_n"] if len(pin.pins) == 2 else [name]


def _row(port: str, site: str, standard: str | None = None, pull: str | None = None) -> dict[str, str]:
    properties = f"PACKAGE_PIN {site}"
    properties += f" IOSTANDARD {standard}" if standard else ""
    return {"port": port, "properties": properties + (f" PULLTYPE {pull}" if pull else "")}


def _clocks(project: _Project) -> list[dict[str, str]]:
    """Clocks that come in by pins: name, port, period."""
    port = "clock_p" if len(project.pins.clock.pins) == 2 else "clock"
    found = [("clock", port, project.source)]
    if project.host == "xdma" and project.board.pcie is not None:
        found.append(("pcie_clock", "pcie_clock_p", Fraction(repr(project.board.pcie.clock.mhz))))
    for number in sorted({one.socket for one in project.links}):
        mhz = Fraction(repr(project.board.sockets[number].clock.mhz))
        found.append((f"refclk{number}", f"refclk{number}_p", mhz))
    return [{"name": name, "port": port, "period": _period(mhz)} for name, port, mhz in found]


def _timing(project: _Project) -> str:
    domains = [("mmcm/CLKOUT0", project.clock)]
    if project.links:
        domains.append(("mmcm/CLKOUT1", project.init))
    for one in project.links:
        if one.master is None:
            domains.append((f"{one.side}_core/user_clk_out", Fraction(repr(one.clock_mhz))))
    if project.host == "xdma":
        assert project.board.pcie is not None
        domains.append(("dma/axi_aclk", Fraction(dict(xdma_parameters(project.board.pcie))["axisten_freq"])))
    paths = [
        {"start": start, "end": end, "delay": _period(max(rate, other))}
        for start, rate in domains
        for end, other in domains
        if start != end
    ]
    resets = ["settled_reg[*]/CLR"]
    resets += ["init_settled_reg[*]/CLR"] if project.links else []
    resets += ["dma_settled_reg[*]/CLR"] if project.host == "xdma" else []
    return render("vivado/timing.xdc.j2", paths=paths, resets=resets)


def _cores(project: _Project) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"name": "aurora_64b66b", "module": one.module, "properties": one.parameters} for one in project.links
    ]
    if project.host == "xdma":
        assert project.board.pcie is not None
        made.append({"name": "xdma", "module": XDMA, "properties": xdma_parameters(project.board.pcie)})
    return made


def _script(project: _Project, own: Sequence[str]) -> str:
    return render(
        "vivado/build.tcl.j2", device=project.job.index, build=f"0x{project.job.number:08x}", board=project.board.name,
        part=project.board.device.part, top=TOP, sources=[*project.job.sources, *own],
        clock=clock_text(project.clock),
    )  # fmt: skip


def _readme(project: _Project) -> str:
    told = dict(project.board.sources)
    wanted = ["pins", "pins.reset", "pins.uart_tx"]
    wanted += ["sockets"] if project.links else []
    wanted += ["pcie"] if project.host == "xdma" else []
    host = {
        "uart": f"the serial port, {BAUD} baud: host/train.py --port",
        "xdma": "PCIe, AMD's DMA engine and its Linux driver: host/train.py --xdma",
        "": "none: it reaches this board over the chain",
    }[project.host]
    return render(
        "vivado/README.md.j2", device=project.job.index, build=f"0x{project.job.number:08x}", board=project.board.name,
        part=project.board.device.part, top=TOP, clock=clock_text(project.clock), source=clock_text(project.source),
        init=clock_text(project.init), host_text=host, links=_links(project), expected=expected(project.job),
        cores=_cores(project), support=SUPPORT if project.links or project.host == "xdma" else None,
        notes=[(name, told[name]) for name in [*wanted, "held"] if name in told],
    )  # fmt: skip
