"""A device as a component for block designs of Vivado: the host's bytes and the links' words as AXI4-Stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ... import __version__
from ...target import Link
from ..render import render
from .job import Job

__all__ = ["IP", "ip_files"]

IP, VENDOR, LIBRARY = "hwgen_ip", "hwgen", "device"
STREAM = "xilinx.com:interface:axis:1.0"


@dataclass(frozen=True)
class _Port:
    """A port: "input" or "output", "[7:0] " or "", what of which interface it is, parameters of its interface."""

    side: str
    bits: str
    name: str
    interface: str = ""
    parameter: str = ""


def ip_files(
    job: Job, links: Sequence[tuple[str, Link]], folder: str, support: Sequence[str]
) -> dict[str, str]:
    """Verilog and script by name, to stand in ``folder``; ``support`` are paths of the adapters' Verilog."""
    network = re.sub(r"[^A-Za-z0-9 _.-]", "_", job.plan.network.name)
    build = f"0x{job.number:08x}"
    facts = {"device": job.index, "build": build, "ip": IP}
    version = re.match(r"\d+\.\d+", __version__)
    assert version is not None
    return {
        "ip.v": render(
            "vivado/ip.v.j2", **facts, ports=[*_ports(links, host=not job.index)], host=not job.index,
            device_module=f"hwgen_board{job.index}" if job.index else "hwgen_bytes",
            links=[
                {"side": side, "width": link.width, "adapter": f"hwgen_aurora_adapter{link.width}"}
                for side, link in links
            ],
        ),
        "package_ip.tcl": render(
            "vivado/package_ip.tcl.j2", **facts, part=job.board.device.part, vendor=VENDOR, library=LIBRARY,
            vlnv=f"{VENDOR}:{LIBRARY}:{IP}:{version[0]}", ip_version=version[0], title=f"hwgen {network}",
            description=f"trains {network}; device {job.index} of build {build}",
            sources=[*job.sources, *support, f"{folder}/ip.v"],
        ),
    }  # fmt: skip


def _ports(links: Sequence[tuple[str, Link]], host: bool) -> Iterator[_Port]:
    streams = "s_axis:m_axis" if host else ""
    yield from _clock("", streams)
    if host:
        yield from _stream("s_axis", 8, "input", last=False)
        yield from _stream("m_axis", 8, "output")
    for side, link in links:
        yield from _clock(f"{side}_", f"s_axis_{side}:m_axis_{side}")
        yield _Port("input", "", f"{side}_channel_up")
        yield from _stream(f"s_axis_{side}", link.width, "input", ready=False)
        yield from _stream(f"m_axis_{side}", link.width, "output", keep=True)


def _clock(prefix: str, streams: str) -> Iterator[_Port]:
    """A clock, and a reset that is low for reset."""
    clock, reset = f"{prefix}aclk", f"{prefix}aresetn"
    busy = f"ASSOCIATED_BUSIF {streams}, " if streams else ""
    yield _Port(
        "input", "", clock, f"xilinx.com:signal:clock:1.0 {clock} CLK", f"{busy}ASSOCIATED_RESET {reset}"
    )
    yield _Port("input", "", reset, f"xilinx.com:signal:reset:1.0 {reset} RST", "POLARITY ACTIVE_LOW")


def _stream(
    name: str, width: int, side: str, *, ready: bool = True, last: bool = True, keep: bool = False
) -> Iterator[_Port]:
    """A stream's ports; ``side`` is that of its data."""
    other = "output" if side == "input" else "input"
    found = [("tdata", side, f"[{width - 1}:0] ")]
    found += [("tkeep", side, f"[{width // 8 - 1}:0] ")] if keep else []
    found += [("tlast", side, "")] if last else []
    found += [("tvalid", side, "")] + ([("tready", other, "")] if ready else [])
    for port, way, bits in found:
        yield _Port(way, bits, f"{name}_{port}", f"{STREAM} {name} {port.upper()}")
