"""What Yosys makes of the designs for the estimate of logic: a row for each that is counted, kept on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwgen.backend.ecp5_registers import pack_registers

from .logic_parts import Design
from .synthesis import FAMILIES

__all__ = ["KEPT", "measure", "read", "rows"]

KEPT = Path(tempfile.gettempdir()) / "hwgen-logic.jsonl"
"""Rows of runs before, also of one that was interrupted; delete it to measure all again."""
TIMEOUT = 900
_SYNTHESIS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
passes, top, boxes, kept, *sources = sys.argv[1:]
for source in sources:
    libyosys.run_pass("read_verilog " + source + ".v", design)
for command, names in (("blackbox", boxes), ("setattr -mod -set keep_hierarchy 1", kept)):
    if names:
        libyosys.run_pass(command + " " + " ".join("\\\\" + name for name in names.split()), design)
# Engines by themselves are mapped for area, as in a whole design all but the slowest way is.
libyosys.run_pass("scratchpad -set abc9.D 200000", design)
libyosys.run_pass("rename -hide", design)
libyosys.run_pass(passes + " -top " + top, design)
libyosys.run_pass("write_json netlist.json", design)
"""


def read() -> list[dict[str, Any]]:
    """All rows."""
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def measure(found: Iterator[Design]) -> list[dict[str, Any]]:
    """Rows of all designs in all families; what was measured before is not done again."""
    known = read()
    done = {(row["family"], row["kind"], row["case"]) for row in known}
    for design in found:
        for family in FAMILIES:
            if (family, design.kind, design.case) not in done:
                more = list(rows(design, family))
                known += more
                with KEPT.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in more)
                print(
                    family, design.kind, design.case, f"{more[0]['seconds']} s", file=sys.stderr, flush=True
                )
    return known


def rows(design: Design, family: str) -> Iterator[dict[str, Any]]:
    """One of each module that is counted by itself; what is left has no name."""
    start = time.monotonic()
    netlist = _synthesised(design, family)
    seconds = round(time.monotonic() - start, 1)
    for module in (design.top, *design.kept):
        found = netlist["modules"][module]["cells"].values()
        cost = FAMILIES[family].cost(Counter(cell["type"] for cell in found))
        name = module[len(design.top) + 1 :].split("$")[0]
        yield {
            "family": family,
            "kind": design.kind,
            "case": design.case,
            "name": name,
            **cost,
            "seconds": seconds,
        }


def _synthesised(design: Design, family: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hwgen-logic-") as name:
        folder = Path(name)
        for module, text in design.texts.items():
            (folder / f"{module}.v").write_text(text)
        names = [" ".join(names) for names in (design.boxes, design.kept)]
        command = [
            sys.executable,
            "-c",
            _SYNTHESIS,
            FAMILIES[family].passes,
            design.top,
            *names,
            *design.texts,
        ]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)
        netlist: dict[str, Any] = json.loads((folder / "netlist.json").read_text())
    if family == "ecp5":
        pack_registers(netlist)
    return netlist
