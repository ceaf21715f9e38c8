"""The chain's top for simulation: all boards of a plan, joined by models of cables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path

from ..backend.render import render
from ..errors import BuildError
from ..plan.plan import Plan
from .memory_top import KNOBS as MEMORY_KNOBS
from .memory_top import MODEL, bus_pins, memory_values, model_text
from .ports import STREAMS, Ports
from .surroundings import Setting

__all__ = [
    "CHAIN", "CHANNEL", "COUNTERS", "KNOBS", "Cable", "chain_files", "chain_top", "channel_pins", "channel_text",
    "host_pins", "knob", "memory_knobs", "outside",
]  # fmt: skip

CHAIN = "hwgen_chain"
CHANNEL = "hwgen_channel.sv"
"""File of the model of a cable."""

KNOBS = {
    "latency": 16, "jitter": 16, "rate": 17, "drop33": 1, "error": 64, "flip_last": 1, "loss": 32, "repeat": 32,
    "seed": 64, "down": 1, "inject_error": 1, "inject_loss": 1, "inject_repeat": 1,
}  # fmt: skip
"""Inputs of a cable's direction (sim/verilog/hwgen_channel.sv) and their bits; the chain has them as
``link_<name>``, together those of direction 0, 1, ... And ``link_up``, a bit an end: its transceiver works."""
COUNTERS = {"words": 64, "frames": 32, "damaged": 32, "lost": 32, "repeated": 32, "most": 32, "marked": 32}
"""Outputs of a cable's direction, likewise."""
_INNER = {"repeat": "repeat_"}


@dataclass(frozen=True)
class Cable:
    """One direction of a cable, and the transceiver that sends into it: values of KNOBS."""

    latency: int = 0
    jitter: int = 0
    rate: int = 1 << 16
    drop33: int = 0
    error: int = 0
    flip_last: int = 0
    loss: int = 0
    repeat: int = 0
    seed: int = 0
    up: int = 1

    def settings(self, direction: int) -> list[Setting]:
        """From the start on. ``direction``: 2·link away from the host, 2·link + 1 towards it."""
        return [knob(one.name, direction, getattr(self, one.name)) for one in fields(self)]


def knob(name: str, direction: int, value: int, clock: int | None = None, cycle: int = 0) -> Setting:
    """A value of KNOBS (or "up") of a direction, from the start or from a cycle of a clock on.

    Raises ValueError if it does not fit.
    """
    width = {**KNOBS, "up": 1}[name]
    if not 0 <= value < 1 << width:
        raise ValueError(f"link_{name}: {value} does not fit {width} bits")
    return Setting(f"link_{name}", direction * width, width, value, clock, cycle)


def chain_top(
    boards: Sequence[Ports], shared_clock: bool = False, depth_bits: int = 10, plan: Plan | None = None
) -> str:
    """SystemVerilog of module ``hwgen_chain``: ``boards`` in their order from the host, two channels a link.

    Ports: host streams as board 0 has them; ``board_clk``, ``board_rst`` (a bit a board), ``link_clk`` (a bit
    an end), or one ``clk`` for all instead of the clocks if ``shared_clock``; ``link_<knob>``,
    ``link_<counter>``, ``link_up``, ``link_state`` (3 bits an end, LINK_STATES);
    ``channel_valid``, ``channel_ready``, ``channel_words`` (32 bits a channel: words that it has passed) of all boards,
    board 0 lowest; probes as ``probe_b<board>_<rest>``. 2**``depth_bits`` words fit a cable. Where a board has an
    external memory, ``plan`` tells how large, and there are memory_top.KNOBS. Raises BuildError if boards do not fit
    each other.
    """
    count, ends = len(boards), 2 * (len(boards) - 1)
    widths = [_width(boards[k], boards[k + 1]) for k in range(count - 1)]
    pins = _pins(boards, shared_clock, ends)
    firsts = accumulate((ports.widths["channel_valid"] for ports in boards), initial=0)
    return render(
        "chain.sv.j2", pins=pins, depth_bits=depth_bits, channel=channel_pins(),
        boards=[
            {**_board(ports, number, count, shared_clock, plan), "first": first}
            for number, (ports, first) in enumerate(zip(boards, firsts, strict=False))
        ],
        links=[
            {
                "number": k,
                "width": width,
                "clocks": ["clk" if shared_clock else f"link_clk[{2 * k + i}]" for i in (0, 1)],
            }
            for k, width in enumerate(widths)
        ],
    )  # fmt: skip


def channel_pins() -> list[dict[str, object]]:
    """Pins of hwgen_channel that a top has together for all directions."""
    return [
        {"name": name, "inside": _INNER.get(name, name), "width": w}
        for name, w in {**KNOBS, **COUNTERS}.items()
    ]


def channel_text() -> str:
    """Verilog of the model of a cable."""
    return (Path(__file__).parent / "verilog" / CHANNEL).read_text()


def chain_files(
    boards: Sequence[Ports], shared_clock: bool = False, depth_bits: int = 10, plan: Plan | None = None
) -> dict[str, str]:
    """The chain's top and the models of a cable and a memory: what a simulation needs beside the boards' own files."""
    memory = {MODEL: model_text()} if memory_knobs(boards) else {}
    return {"chain.sv": chain_top(boards, shared_clock, depth_bits, plan), CHANNEL: channel_text(), **memory}


def memory_knobs(boards: Sequence[Ports]) -> dict[str, int]:
    """Inputs of a top for the models of memories of its boards, and their bits."""
    some = any(bus_pins(ports) for ports in boards)
    return {f"memory_{name}": width for name, width in MEMORY_KNOBS.items()} if some else {}


def _width(near: Ports, far: Ports) -> int:
    """Bits of the words on the link between two boards."""
    found = []
    for ports, side in ((near, "down"), (far, "up")):
        for part in ("_clk", "_state", "__up", "__rx", "__rx_valid", "__tx__payload"):
            name = f"{side}{part}"
            if name not in ports.widths:
                raise BuildError(f"verilog: module {ports.module} has no port {name}; build again")
        found.append(ports.widths[f"{side}__tx__payload"] - 1)
    if found[0] != found[1]:
        raise BuildError(
            f"verilog: {near.module} and {far.module} have links of {found[0]} and {found[1]} bits; build again"
        )
    return found[0]


def host_pins(ports: Ports) -> list[str]:
    """Ports of a board that become ports of the top: the host's streams and the probes."""
    kinds = "|".join(STREAMS)
    return [
        name for name in ports.widths if re.fullmatch(rf"(probe_\w+|{kinds})__(payload|valid|ready)", name)
    ]


def outside(name: str, board: int) -> str:
    """The top's name of such a port."""
    return f"probe_b{board}_{name.removeprefix('probe_')}" if name.startswith("probe_") else name


def _pins(boards: Sequence[Ports], shared_clock: bool, ends: int) -> list[dict[str, object]]:
    """All ports of the chain."""
    clocks = {"clk": 1} if shared_clock else {"board_clk": len(boards), "link_clk": ends}
    inputs = {**clocks, "board_rst": len(boards), "link_up": ends}
    inputs |= {f"link_{name}": width * ends for name, width in KNOBS.items()} | memory_knobs(boards)
    channels = sum(ports.widths["channel_valid"] for ports in boards)
    outputs = {"channel_valid": channels, "channel_ready": channels, "channel_words": 32 * channels}
    outputs |= {f"link_{name}": width * ends for name, width in COUNTERS.items()} | {"link_state": 3 * ends}
    for number, ports in enumerate(boards):
        for name in host_pins(ports):
            driven = name in ports.inputs
            (inputs if driven else outputs)[outside(name, number)] = ports.widths[name]
    ways = [("input", inputs), ("output", outputs)]
    return [{"way": way, "name": name, "width": w} for way, some in ways for name, w in some.items()]


def _board(ports: Ports, number: int, count: int, shared_clock: bool, plan: Plan | None) -> dict[str, object]:
    ends = [("up", 2 * number - 1)] if number else []
    ends += [("down", 2 * number)] if number < count - 1 else []
    return {
        "number": number,
        "module": ports.module,
        "clock": "clk" if shared_clock else f"board_clk[{number}]",
        "channels": ports.widths["channel_valid"],
        "pins": [{"inside": name, "outside": outside(name, number)} for name in host_pins(ports)],
        "ends": ends,
        "memory": memory_values(plan, number, ports) if plan is not None and bus_pins(ports) else None,
    }
