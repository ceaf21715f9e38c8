"""The ports of emitted devices as their Verilog declares them, and the C++ names Verilator gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import BuildError
from ..plan.registers import GLOBAL

__all__ = ["STREAMS", "Ports", "board_of", "mangle", "read_ports"]

STREAMS = ("command", "reply", "image", "label", "result")
_PARTS = ("valid", "ready", "payload")
_DECLARATION = re.compile(
    r"^\s*(input|output)\s+(?:wire\s+|reg\s+)?(?:\[(\d+):0\]\s*)?(\w+)\s*;", re.MULTILINE
)


@dataclass(frozen=True)
class Ports:
    """Widths in bits of all ports of the top module, by name; ``module`` is its name, ``inputs`` tells which
    ports are driven."""

    module: str
    widths: Mapping[str, int]
    inputs: frozenset[str] = frozenset()

    @property
    def probes(self) -> tuple[str, ...]:
        """Names of the probe streams ("probe_y0", ...), in the order of their declaration."""
        return tuple(name for name in self._streams() if name.startswith("probe_"))

    @property
    def sources(self) -> tuple[str, ...]:
        """Streams into the device that samples are fed to: image and label if there, then the further ones."""
        further = [name for name in self._further() if f"{name}__valid" in self.inputs]
        return (*(name for name in ("image", "label") if f"{name}__valid" in self.widths), *further)

    @property
    def sinks(self) -> tuple[str, ...]:
        """Further streams out of the device, whose words are recorded."""
        return tuple(name for name in self._further() if f"{name}__valid" not in self.inputs)

    @property
    def settings(self) -> tuple[str, ...]:
        """Inputs that are no streams: clocks, resets, the surroundings."""
        return tuple(name for name in self.widths if name in self.inputs and "__" not in name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs that are no streams and no channels: counters of the surroundings."""
        watched = ("channel_valid", "channel_ready")
        names = (name for name in self.widths if name not in self.inputs and "__" not in name)
        return tuple(name for name in names if name not in watched)

    def words(self, stream: str) -> int:
        """32-bit words of a stream's beat in the drivers' files (two for 33 to 64 bits, as in C++)."""
        return -(-self.widths[f"{stream}__payload"] // 32)

    def header(self) -> str:
        """Text of ports.h: macros that give the static driver the model's class, port names and streams."""
        model = f"V{self.module}"
        streams = [name for name in STREAMS if f"{name}__valid" in self.widths]
        further = [name for name in self.sources if name not in STREAMS]
        lines = ["#pragma once", f'#include "{model}.h"', f"#define HWGEN_MODEL {model}"]
        lines.append(f"#define HWGEN_STATUS_ADDRESS {GLOBAL['status'].address}")
        lines.append(f"#define HWGEN_RESULT {int('result' in streams)}")
        lines.append(f"#define HWGEN_FURTHER_SOURCES {len(further)}")
        lines.append(f"#define HWGEN_WIDEST_INPUT {max((self.widths[n] for n in self.settings), default=1)}")
        ports = [f"{stream}__{part}" for stream in streams for part in _PARTS]
        lines += [f"#define PORT_{port.replace('__', '_')} {mangle(port)}" for port in ports]
        lines += [
            _macro("SOURCES", [(mangle(f"{name}__"), f'"{name}"') for name in self.sources]),
            _macro("SINKS", [(mangle(f"{name}__"), f'"{name}"') for name in self.sinks]),
            _macro(
                "PROBES", [(mangle(f"{name}__"), f'"{name}"', str(board_of(name))) for name in self.probes]
            ),
            _macro("INPUTS", [(mangle(name), f'"{name}"') for name in self.settings]),
            _macro("OUTPUTS", [(mangle(name), f'"{name}"') for name in self.outputs]),
        ]
        return "\n".join([*lines, ""])

    def _streams(self) -> list[str]:
        return [name.removesuffix("__payload") for name in self.widths if name.endswith("__payload")]

    def _further(self) -> list[str]:
        return [name for name in self._streams() if name not in STREAMS and not name.startswith("probe_")]


def board_of(probe: str) -> int:
    """The board whose clock a probe belongs to."""
    found = re.match(r"probe_b(\d+)_", probe)
    return int(found[1]) if found else 0


def _macro(name: str, entries: list[tuple[str, ...]]) -> str:
    return f"#define HWGEN_{name}(X)" + "".join(f" X({', '.join(entry)})" for entry in entries)


def mangle(name: str) -> str:
    """A Verilog name as Verilator spells it in C++: a pair of underscores becomes ___05F."""
    return re.sub("__", "___05F", name)


def read_ports(
    files: Mapping[str, str],
    module: str = "hwgen_core",
    streams: tuple[str, ...] = STREAMS,
    channels: bool = True,
) -> Ports:
    """Finds ``module`` in Verilog texts (path → text) and reads its port declarations.

    ``streams``: those of STREAMS that it must have; ``channels``: whether it must show its channels. Raises BuildError
    if there is no such module or a port that the drivers need is missing.
    """
    for text in files.values():
        found = re.search(rf"^module\s+{module}\b.*?^endmodule", text, re.MULTILINE | re.DOTALL)
        if found is not None:
            break
    else:
        raise BuildError(f"verilog: no module {module} in {len(files)} files; build again")
    declared = _DECLARATION.findall(found.group())
    widths = {name: int(high or 0) + 1 for _, high, name in declared}
    clocked = ["board_rst"] if "board_rst" in widths else ["clk", "rst"]
    needed = [*clocked, *(("channel_valid", "channel_ready") if channels else ())]
    needed += [f"{stream}__{part}" for stream in streams for part in _PARTS]
    missing = [name for name in needed if name not in widths]
    if missing:
        raise BuildError(f"verilog: module {module} has no port {', '.join(missing)}; build again")
    return Ports(module, widths, frozenset(name for way, _, name in declared if way == "input"))
