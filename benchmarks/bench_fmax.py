"""Clock of tiles of an array on an ECP5 of speed grade 6, by Yosys, the packing of registers and nextpnr."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.backend.convert import convert
from hwgen.backend.ecp5_registers import pack_registers
from hwgen.backend.projects.ecp5_report import read_report
from hwgen.backend.steps import Limits, run_step
from hwgen.gateware.shape import ArrayShape
from hwgen.gateware.tile import Tile
from hwgen.toolchain import require_working

__all__ = ["run"]

WIDTHS = {
    "x": 16, "w": 16, "dy": 16, "master": 32, "grad": 42, "psum": 40, "back": 38, "rate": 16, "shift": 20,
}  # fmt: skip
TILES: tuple[tuple[int, int, Mapping[str, Any]], ...] = (
    (4, 4, {"style": "distributed"}),
    (4, 4, {"style": "block", "columns": True, "rows": 4}),
    (8, 6, {"style": "block", "columns": True, "rows": 8}),
)
"""Rows, columns, and how the words lie: with PEs of their own memories, or in those of a column that has one unit."""
DEPTH = 32
PART = ("--85k", "--package", "CABGA381", "--speed", "6")
ASKED_MHZ = 150
SEED = 1
MINUTES = 60


class _Bench(wiring.Component):
    """A tile with registers around it and four pins: its inputs are shifted in, its outputs out."""

    def __init__(self, tile: Tile):
        self.tile = tile
        super().__init__({"data": In(1), "load": In(1), "result": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.tile = tile = self.tile
        members = tile.signature.members.items()
        inputs = Cat(Value.cast(getattr(tile, name)) for name, member in members if member.flow is In)
        outputs = Cat(Value.cast(getattr(tile, name)) for name, member in members if member.flow is Out)
        given, taken = Signal(len(inputs), name="given"), Signal(len(outputs), name="taken")
        m.d.sync += [given.eq(Cat(self.data, given)), taken.eq(Mux(self.load, outputs, taken >> 1))]
        m.d.comb += [inputs.eq(given), self.result.eq(taken[0])]
        return m


def _tool(name: str, arguments: list[str], folder: Path) -> float:
    """Seconds that a program took."""
    program = require_working(name).path
    ran = run_step([str(program), *arguments], folder, Limits(60 * MINUTES, lambda _: None))
    if ran.code != 0:
        raise RuntimeError(f"{name}: exit code {ran.code}:\n{ran.output[-2000:]}")
    return ran.seconds


def _measure(tk: int, tn: int, kept: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    shape = ArrayShape(depth=DEPTH, backward=True, gradient=True, **WIDTHS, **kept)
    (folder / "bench.v").write_text(convert(_Bench(Tile(shape, tk, tn)), "bench"))
    passes = "read_verilog bench.v; synth_ecp5 -top bench"
    seconds = {"yosys": _tool("yosys", ["-q", "-p", passes, "-b", "json", "-o", "bench.json"], folder)}
    netlist = json.loads((folder / "bench.json").read_text())
    _, packed = pack_registers(netlist)
    (folder / "packed.json").write_text(json.dumps(netlist))
    seconds["nextpnr-ecp5"] = _tool("nextpnr-ecp5", [
        "--quiet", *PART, "--json", "packed.json", "--lpf-allow-unconstrained", "--freq", str(ASKED_MHZ),
        "--timing-allow-fail", "--report", "report.json", "--seed", str(SEED),
    ], folder)  # fmt: skip
    report = read_report(json.loads((folder / "report.json").read_text()))
    (clock,) = report.clocks.values()
    (slowest,) = report.slowest.values()
    row = {
        "tile": [tk, tn], **kept, "fmax_mhz": clock.fmax_mhz, "used": dict(report.used),
        "multipliers_packed": packed, "slowest": list(slowest), "seconds": seconds,
    }  # fmt: skip
    print(row, file=sys.stderr, flush=True)
    return row


def run() -> dict[str, Any]:
    """Clocks and cells of all tiles."""
    Path("build").mkdir(exist_ok=True)  # YoWASP's programs do not see the folder of temporary files
    rows = []
    for tk, tn, kept in TILES:
        with tempfile.TemporaryDirectory(prefix="fmax-", dir="build") as name:
            rows.append(_measure(tk, tn, kept, Path(name)))
    return {"part": " ".join(PART), "asked_mhz": ASKED_MHZ, "depth": DEPTH, "widths": WIDTHS, "rows": rows}
