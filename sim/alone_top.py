"""The top of one board alone: the board, cables, and at the other end of each its neighbour's end of the link."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..backend.render import render
from ..backend.verilog import board_top, build_number, link_module
from ..errors import BuildError
from ..gateware.board import identity
from ..plan.links import SIDE_DOWN, SIDE_UP, LinkPlan
from ..plan.plan import Plan
from .boundary import BoundaryStream, boundary_streams
from .chain_top import CHANNEL, COUNTERS, KNOBS, channel_pins, channel_text, host_pins, memory_knobs, outside
from .memory_top import MODEL, memory_values, model_text
from .ports import STREAMS, Ports, read_ports

__all__ = ["ALONE", "alone_files"]

ALONE = "hwgen_alone"
HOST = {"command": 57, "label": 16, "reply": 32, "result": 48}
"""Host's ports that a board has over its link, and their bits."""
MARKS = ("sums", "y", "x")
"""What the next board has to have of a sample, the first of these that the link carries, before it gives any of it."""


def alone_files(
    plan: Plan, board: int, files: Mapping[str, str], shared_clock: bool = False, depth_bits: int = 10
) -> dict[str, str]:
    """All that one board alone needs: the top, the board with what it instantiates, the ends of its neighbours, the
    model of a cable.

    Ports of the top: the host's streams, over the link before the board if there is one; ``source_<side>_<kind>``
    and ``sink_<side>_<kind>`` (boundary.boundary_streams); clock of the board and of all streams ``board_clk``,
    ``link_clk`` (a bit an end, 2·cable nearer the host), or one ``clk`` for all if ``shared_clock``; ``board_rst`` (bit
    0 the board, then the neighbour at every cable); everything else as hwgen_chain has it. Raises BuildError if a
    module is missing.
    """
    ports = read_ports(files, board_top(board), STREAMS if board == 0 else ())
    own = _closure(files, [board_top(board), *(_far(link, board)[0] for link in plan.alone(board).cables)])
    memory = {MODEL: model_text()} if memory_knobs([ports]) else {}
    top = _top(plan, board, ports, shared_clock, depth_bits)
    return {**own, "alone.sv": top, CHANNEL: channel_text(), **memory}


def _closure(files: Mapping[str, str], tops: list[str]) -> dict[str, str]:
    """The files of these modules and of all that they instantiate; a file is named after its module."""
    named = {name.rpartition("/")[2].partition(".")[0]: name for name in files}
    found: dict[str, str] = {}
    waiting = list(tops)
    while waiting:
        module = waiting.pop()
        if module not in named:
            raise BuildError(f"verilog: no module {module} in {len(files)} files; build again")
        name = named[module]
        if name not in found:
            text = found[name] = files[name]
            waiting += sorted({*re.findall(r"^\s+(hwgen_\w+) ", text, re.MULTILINE)} & named.keys())
    return found


def _far(link: LinkPlan, board: int) -> tuple[str, int, int]:
    """The neighbour's end of a link: its module, its board, and the side of it there."""
    if link.index < board:
        return link_module(link, "down"), link.index, SIDE_DOWN
    return link_module(link, "up"), link.index + 1, SIDE_UP


def _top(plan: Plan, board: int, ports: Ports, shared_clock: bool, depth_bits: int) -> str:
    streams = boundary_streams(plan, board)
    cables = [_cable(plan, board, number, *streams) for number in range(len(plan.alone(board).cables))]
    clocks = [
        {"number": end, "clock": "clk" if shared_clock else f"link_clk[{end}]"}
        for end in range(2 * len(cables))
    ]
    pins = _pins(plan, board, ports, shared_clock)
    return render(
        "alone.sv.j2", pins=pins, clock="clk" if shared_clock else "board_clk", clocks=clocks, cables=cables,
        depth_bits=depth_bits, channel=channel_pins(), module=ports.module, board=board,
        own=[{"inside": name, "outside": outside(name, board)} for name in host_pins(ports)],
        **memory_values(plan, board, ports),
    )  # fmt: skip


def _cable(
    plan: Plan, board: int, number: int, sources: list[BoundaryStream], sinks: list[BoundaryStream]
) -> dict[str, object]:
    """A cable and its far end, for the template."""
    link = plan.alone(board).cables[number]
    side = "up" if link.index < board else "down"
    module, far, far_side = _far(link, board)
    near_side = SIDE_UP if side == "up" else SIDE_DOWN
    into, out = (link.down, link.up) if side == "up" else (link.up, link.down)
    gate = _gate(side, link, {stream.port: stream for stream in sources})
    end = 2 * number + (side == "up")
    build = build_number(plan)
    return {
        "number": number, "side": side, "end": end, "far_end": end ^ 1, "width": link.width, "module": module,
        "board": far, "identity": f"{identity(build, far, far_side):016x}",
        "expected": f"{identity(build, board, near_side):016x}",
        "tx": [
            {"index": k, "port": _source(side, channel.kind), "gate": gate.get(channel.kind, 0)}
            for k, channel in enumerate(into)
        ],
        "rx": [_sink(side, channel.kind, link.width) | {"index": k} for k, channel in enumerate(out)],
        "mark": _mark(link, sinks) if gate else None,
    }  # fmt: skip


def _source(side: str, kind: str) -> str | None:
    """The top's port that a channel to the board is fed from; None if it stays idle."""
    if kind == "management":
        return "command" if side == "up" else None
    return kind if (side, kind) == ("up", "label") else f"source_{side}_{kind}"


def _sink(side: str, kind: str, width: int) -> dict[str, object]:
    """The top's port that a channel from the board goes to, and its bits."""
    host = {"management": "reply", "result": "result"}
    port = host.get(kind, f"sink_{side}_{kind}") if side == "up" else f"sink_{side}_{kind}"
    return {"port": port, "bits": HOST.get(port, width)}


def _gate(side: str, link: LinkPlan, sources: Mapping[str, BoundaryStream]) -> dict[str, int]:
    """Words a sample of every channel that the next board gives only after it has got the sample."""
    if side == "up":
        return {}
    ports = {channel.kind: f"source_{side}_{channel.kind}" for channel in link.up}
    return {kind: sources[port].words for kind, port in ports.items() if port in sources}


def _mark(link: LinkPlan, sinks: list[BoundaryStream]) -> dict[str, object]:
    by_port = {stream.port: stream for stream in sinks if stream.link == link}
    kind = next(kind for kind in MARKS if f"sink_down_{kind}" in by_port)
    stream = by_port[f"sink_down_{kind}"]
    return {"index": link.down.index(stream.channel), "words": stream.words}


def _pins(plan: Plan, board: int, ports: Ports, shared_clock: bool) -> list[dict[str, object]]:
    """All ports of the top."""
    cables = plan.alone(board).cables
    ends = 2 * len(cables)
    sources, sinks = boundary_streams(plan, board)
    clocks = {"clk": 1} if shared_clock else {"board_clk": 1, "link_clk": ends}
    inputs = {**clocks, "board_rst": 1 + len(cables), "link_up": ends}
    inputs |= {f"link_{name}": width * ends for name, width in KNOBS.items()} | memory_knobs([ports])
    channels = ports.widths["channel_valid"]
    outputs = {"channel_valid": channels, "channel_ready": channels}
    outputs |= {f"link_{name}": width * ends for name, width in COUNTERS.items()} | {"link_state": 3 * ends}
    for name in host_pins(ports):
        (inputs if name in ports.inputs else outputs)[outside(name, board)] = ports.widths[name]
    streams = [(stream.port, stream.link.width, True) for stream in sources]
    streams += [(stream.port, stream.link.width, False) for stream in sinks]
    if board:
        streams += [(name, HOST[name], name in ("command", "label")) for name in HOST]
    for port, width, driven in streams:
        ours, theirs = (inputs, outputs) if driven else (outputs, inputs)
        ours |= {f"{port}__payload": width, f"{port}__valid": 1}
        theirs[f"{port}__ready"] = 1
    ways = [("input", inputs), ("output", outputs)]
    return [{"way": way, "name": name, "width": w} for way, some in ways for name, w in some.items()]
