"""The ports of an emitted device as its Verilog declares them, and the C++ names Verilator gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import BuildError
from ..plan.registers import GLOBAL

__all__ = ["STREAMS", "Ports", "read_ports"]

STREAMS = ("command", "reply", "image", "label", "result")
_DECLARATION = re.compile(
    r"^\s*(input|output)\s+(?:wire\s+|reg\s+)?(?:\[(\d+):0\]\s*)?(\w+)\s*;", re.MULTILINE
)


@dataclass(frozen=True)
class Ports:
    """Widths in bits of all ports of the top module, by name; ``module`` is its name."""

    module: str
    widths: Mapping[str, int]

    @property
    def probes(self) -> tuple[str, ...]:
        """Names of the probe streams ("probe_y0", ...), in the order of their declaration."""
        return tuple(
            name.removesuffix("__payload") for name in self.widths if re.fullmatch(r"probe_.*__payload", name)
        )

    def words(self, stream: str) -> int:
        """32-bit words of a stream's beat in the drivers' files (two for 33 to 64 bits, as in C++)."""
        return -(-self.widths[f"{stream}__payload"] // 32)

    def header(self) -> str:
        """Text of ports.h: macros that give the static driver the model's class, port names and probes."""
        model = f"V{self.module}"
        lines = ["#pragma once", f'#include "{model}.h"', f"#define HWGEN_MODEL {model}"]
        lines.append(f"#define HWGEN_STATUS_ADDRESS {GLOBAL['status'].address}")
        ports = [f"{stream}__{part}" for stream in STREAMS for part in ("valid", "ready", "payload")]
        lines += [f"#define PORT_{port.replace('__', '_')} {mangle(port)}" for port in ports]
        ports_of = ((mangle(f"{probe}__"), probe) for probe in self.probes)
        probes = "".join(f' X({port}, "{probe}")' for port, probe in ports_of)
        return "\n".join([*lines, f"#define HWGEN_PROBES(X){probes}", ""])


def mangle(name: str) -> str:
    """A Verilog name as Verilator spells it in C++: a pair of underscores becomes ___05F."""
    return re.sub("__", "___05F", name)


def read_ports(files: Mapping[str, str], module: str = "hwgen_core") -> Ports:
    """Finds ``module`` in Verilog texts (path → text) and reads its port declarations.

    Raises BuildError if there is no such module or a port that the drivers need is missing.
    """
    for text in files.values():
        found = re.search(rf"^module\s+{module}\b.*?^endmodule", text, re.MULTILINE | re.DOTALL)
        if found is not None:
            break
    else:
        raise BuildError(f"verilog: no module {module} in {len(files)} files; build again")
    widths = {name: int(high or 0) + 1 for _, high, name in _DECLARATION.findall(found.group())}
    needed = ["clk", "rst", "channel_valid", "channel_ready"]
    needed += [f"{stream}__{part}" for stream in STREAMS for part in ("valid", "ready", "payload")]
    missing = [name for name in needed if name not in widths]
    if missing:
        raise BuildError(f"verilog: module {module} has no port {', '.join(missing)}; build again")
    return Ports(module, widths)
