"""Yosys's mapping of modules to four families of FPGAs, and what its cells are worth."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwgen.backend.ecp5_registers import pack_registers

__all__ = ["FAMILIES", "Family", "synthesise"]

TIMEOUT = 1800
"""Seconds after which a synthesis is given up."""
_SYNTHESIS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
passes, top, netlist, source, *boxes = sys.argv[1:]
for box in boxes:
    libyosys.run_pass("read_verilog -lib " + box, design)
libyosys.run_pass("read_verilog " + source, design)
libyosys.run_pass("rename -hide", design)  # names of the emitter's Yosys clash with those that ABC makes
libyosys.run_pass(passes + " -top " + top, design)
libyosys.run_pass("write_json " + netlist, design)
"""


@dataclass(frozen=True)
class Family:
    """Yosys's ``passes`` for a family, and what a cell is worth: look-up tables of logic, look-up tables that are
    memory (with those that write them), multipliers, kilobits of block RAM; and the cells that are flip-flops."""

    passes: str
    tables: Mapping[str, int]
    memory: Mapping[str, int]
    multipliers: Mapping[str, int]
    kilobits: Mapping[str, int]
    flip_flops: str

    def cost(self, cells: Mapping[str, int]) -> dict[str, int]:
        """What a module's cells come to."""

        def count(worth: Mapping[str, int]) -> int:
            return sum(number * worth.get(cell, 0) for cell, number in cells.items())

        return {
            "lut": count(self.tables),
            "ff": sum(number for cell, number in cells.items() if re.fullmatch(self.flip_flops, cell)),
            "lut_ram": count(self.memory),
            "dsp": count(self.multipliers),
            "bram_kilobits": count(self.kilobits),
        }


_LUTS = {f"LUT{inputs}": 1 for inputs in range(1, 7)}
_SEVEN = {"RAM32X1D": 2, "RAM32M": 4, "RAM64X1D": 2, "RAM64M": 4, "RAM128X1D": 4, "SRL16E": 1, "SRLC32E": 1}
_PLUS = {"RAM32M16": 8, "RAM64M8": 8, "RAM128X1D": 4, "RAM256X1D": 8, **_SEVEN}
_XILINX = "-flatten -noiopad -noclkbuf"
_RAMB = {"RAMB18E1": 18, "RAMB36E1": 36, "RAMB18E2": 18, "RAMB36E2": 36}
_ALUTS = {f"MISTRAL_ALUT{inputs}": 1 for inputs in range(2, 6)}

FAMILIES = {
    "xc7": Family(f"synth_xilinx -family xc7 {_XILINX}", _LUTS, _SEVEN, {"DSP48E1": 1}, _RAMB, r"FD[CPRS]E(_1)?"),
    "xcup": Family(f"synth_xilinx -family xcup {_XILINX}", _LUTS, _PLUS, {"DSP48E2": 1}, _RAMB, r"FD[CPRS]E(_1)?"),
    "ecp5": Family(
        "synth_ecp5", {"LUT4": 1, "CCU2C": 2}, {"TRELLIS_DPR16X4": 6}, {"MULT18X18D": 1}, {"DP16KD": 18},
        "TRELLIS_FF",
    ),
    "alm": Family(
        "synth_intel_alm -family cyclonev -noiopad -noclkbuf",
        {**_ALUTS, "MISTRAL_ALUT6": 2, "MISTRAL_ALUT_ARITH": 1, "MISTRAL_NOT": 1}, {"MISTRAL_MLAB": 1},
        {"MISTRAL_MUL9X9": 1, "MISTRAL_MUL18X18": 1, "MISTRAL_MUL27X27": 2}, {"MISTRAL_M10K": 10}, "MISTRAL_FF",
    ),
}  # fmt: skip
"""An INV is part of the table behind it; a carry cell of ECP5 is two tables, a six-input table of Cyclone V half an
ALM's two, a 27 × 27 multiplier one block, as two of 18 × 18 are."""


def synthesise(folder: Path, top: str, family: str, boxes: Sequence[str] = ()) -> dict[str, int]:
    """Cells of module ``top`` by type, the modules ``boxes`` left out; ``<name>.v`` of all are in ``folder``. Registers
    of ECP5's multipliers are taken into them, as projects do."""
    path = folder / f"{top}.json"
    files = [str(folder / f"{name}.v") for name in (top, *boxes)]
    command = [sys.executable, "-c", _SYNTHESIS, FAMILIES[family].passes, top, str(path), *files]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)
    netlist = json.loads(path.read_text())
    if family == "ecp5":
        pack_registers(netlist)
    return dict(Counter(cell["type"] for cell in netlist["modules"][top]["cells"].values()))
