"""Registers that become a multiplier's own: the packed netlist gives what the source gives in every cycle."""

import json
import subprocess
import sys
from pathlib import Path

import pyosys
import pytest

from hwgen.backend.ecp5_registers import pack_registers
from hwgen.toolchain import require, tool_environment

CELLS = Path(pyosys.__file__).parent / "share" / "ecp5"
# FPGA-TN-02205, sysDSP: registers of A, B and P, each with a clock enable; here with one clock and no reset.
MULTIPLIER = """
module MULT18X18D (input {a}, input {b}, input {c}, output {p}, input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
                   input CLK0, CLK1, CLK2, CLK3, CE0, CE1, CE2, CE3, RST0, RST1, RST2, RST3);
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0";
    parameter REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "CE0", REG_INPUTB_RST = "RST0";
    parameter REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0", REG_OUTPUT_RST = "RST0";
    {others}
    wire [17:0] a = {{{a_bits}}}, b = {{{b_bits}}};
    wire [3:0] ce = {{CE3, CE2, CE1, CE0}};
    wire a_on = ce[REG_INPUTA_CE == "CE0" ? 0 : REG_INPUTA_CE == "CE1" ? 1 : REG_INPUTA_CE == "CE2" ? 2 : 3];
    wire b_on = ce[REG_INPUTB_CE == "CE0" ? 0 : REG_INPUTB_CE == "CE1" ? 1 : REG_INPUTB_CE == "CE2" ? 2 : 3];
    wire p_on = ce[REG_OUTPUT_CE == "CE0" ? 0 : REG_OUTPUT_CE == "CE1" ? 1 : REG_OUTPUT_CE == "CE2" ? 2 : 3];
    reg [17:0] late_a = 0, late_b = 0;
    reg [35:0] late_p = 0;
    wire [17:0] used_a = REG_INPUTA_CLK == "NONE" ? a : late_a;
    wire [17:0] used_b = REG_INPUTB_CLK == "NONE" ? b : late_b;
    wire [35:0] wide_a = {{{{18{{SIGNEDA & used_a[17]}}}}, used_a}};
    wire [35:0] wide_b = {{{{18{{SIGNEDB & used_b[17]}}}}, used_b}};
    wire [35:0] product = wide_a * wide_b;
    always @(posedge CLK0) begin
        if (a_on) late_a <= a;
        if (b_on) late_b <= b;
        if (p_on) late_p <= product;
    end
    wire [35:0] p = REG_OUTPUT_CLK == "NONE" ? product : late_p;
    assign {{{p_bits}}} = p;
endmodule
"""
SOURCE = """
module source (input clk, input on_a, on_b, on_p, input signed [{wa}-1:0] a, input signed [{wb}-1:0] b,
               output reg [39:0] sum, output signed [{wa}-1:0] other);
    reg signed [{wa}-1:0] late_a = 0;
    reg signed [{wb}-1:0] late_b = 0;
    reg signed [{wa}+{wb}-1:0] product = 0;
    wire signed [{wa}+{wb}-1:0] now = late_a * late_b;
    initial sum = 0;
    assign other = {other};
    always @(posedge clk) begin
        {on_a} late_a <= a;
        {on_b} late_b <= b;
        {on_p} product <= now;
        sum <= sum + product;
    end
endmodule
"""
BENCH = """
module bench (input clk, output reg [31:0] bad = 0, busy = 0);
    reg [127:0] random = 128'h243f6a8885a308d313198a2e03707344;
    always @(posedge clk) random <= {{random[126:0], random[127] ^ random[125] ^ random[100] ^ random[98]}};
    wire [39:0] sum_a, sum_b;
    wire [{wa}-1:0] other_a, other_b;
    `define PINS(s) .clk(clk), .on_a(random[3]), .on_b(random[9]), .on_p(random[31]), .a(random[60 +: {wa}]), \\
        .b(random[90 +: {wb}]), .sum(sum_``s), .other(other_``s)
    source first (`PINS(a));
    packed_source second (`PINS(b));
    always @(posedge clk) begin
        if (sum_a != sum_b || other_a != other_b) bad <= bad + 1;
        if (sum_a != 0) busy <= busy + 1;
    end
endmodule
"""
MAIN = """
#include "Vbench.h"
#include <cstdio>
int main() {
    VerilatedContext context;
    Vbench top(&context);
    for (int i = 0; i < 4000; ++i) {
        top.clk = i & 1;
        top.eval();
    }
    std::printf("%u %u\\n", top.bad, top.busy);
}
"""


YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for step in sys.argv[1:]:
    libyosys.run_pass(step, design)
"""


def yosys(directory, *passes):
    command = [sys.executable, "-c", YOSYS, *passes]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def multiplier():
    """The model, as text; parameters that it does not know are taken."""
    cell = (CELLS / "cells_bb.v").read_text().partition("module MULT18X18D(")[2].partition("endmodule")[0]
    known = {f"REG_{name}_{kind}" for name in ("INPUTA", "INPUTB", "OUTPUT") for kind in ("CLK", "CE", "RST")}
    names = [line.split()[1] for line in cell.splitlines() if line.strip().startswith("parameter ")]
    assert known < set(names)
    fields = {"a": 18, "b": 18, "c": 18, "p": 36}
    lists = {name: ", ".join(f"{name.upper()}{k}" for k in range(count)) for name, count in fields.items()}
    falling = {
        f"{name}_bits": ", ".join(f"{name.upper()}{k}" for k in reversed(range(count)))
        for name, count in fields.items()
    }
    others = "".join(f'parameter {name} = "";' for name in names if name not in known)
    return MULTIPLIER.format(**lists, **falling, others=others)


def packed_netlist(directory, source, change=lambda netlist: None):
    """(multipliers, packed) of the source's netlist, which is written as packed.v."""
    (directory / "source.v").write_text(source)
    yosys(directory, "read_verilog source.v", "synth_ecp5 -noabc9 -top source -json a.json")
    netlist = json.loads((directory / "a.json").read_text())
    counts = pack_registers(netlist)
    change(netlist)
    (directory / "b.json").write_text(json.dumps(netlist))
    yosys(directory, "read_json b.json", "rename source packed_source", "write_verilog -noattr packed.v")
    return counts


def run(directory, wa, wb):
    """(cycles that differ, cycles with sums) of the source and its packed netlist."""
    (directory / "bench.v").write_text(BENCH.format(wa=wa, wb=wb))
    (directory / "main.cpp").write_text(MAIN)
    (directory / "multiplier.v").write_text(multiplier())
    command = [
        str(require("verilator")),
        "--cc",
        "--exe",
        "--build",
        "--top-module",
        "bench",
        "-Wno-fatal",
        "-Wno-lint",
    ]
    command += [
        "-Wno-style",
        "--no-timing",
        "--x-assign",
        "0",
        "--x-initial",
        "0",
        f"-I{CELLS}",
        "-CFLAGS",
        "-I..",
    ]
    command += ["bench.v", "source.v", "packed.v", "multiplier.v", str(CELLS / "cells_sim.v"), "main.cpp"]
    done = subprocess.run(command, cwd=directory, env=tool_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    output = subprocess.run(
        [directory / "obj_dir" / "Vbench"], check=True, capture_output=True, text=True
    ).stdout
    return tuple(map(int, output.split()))


CASES = {
    "always on": ((16, 16), ("", "", ""), "0", 1),
    "enables of their own": ((18, 18), ("if (on_a)", "if (on_b)", "if (on_p)"), "0", 1),
    "two share one": ((9, 17), ("if (on_a)", "", "if (on_a)"), "0", 1),
    "others read the input": ((12, 18), ("", "if (on_b)", ""), "late_a", 1),
    "others read the output": ((16, 16), ("", "", ""), "product[15:0]", 1),
    "others read the product": ((16, 16), ("", "", ""), "now[15:0]", 0),
    "no register before": ((16, 16), ("", "", ""), "late_a", 0),
    "a reset": ((16, 16), ("if (on_p) late_a <= 0; else", "", ""), "0", 0),
}  # fmt: skip


def source_of(widths, conditions, other, name=""):
    fields = dict(zip(("on_a", "on_b", "on_p"), conditions, strict=True))
    text = SOURCE.format(wa=widths[0], wb=widths[1], other=other, **fields)
    return text.replace("late_a * late_b", "a * late_b") if name == "no register before" else text


@pytest.mark.parametrize("name", CASES)
def test_equal_in_every_cycle(tmp_path, name):
    widths, conditions, other, packed = CASES[name]
    assert packed_netlist(tmp_path, source_of(widths, conditions, other, name)) == (1, packed)
    bad, busy = run(tmp_path, *widths)
    assert bad == 0
    assert busy > 1900


def swap_enables(netlist):
    for cell in netlist["modules"]["source"]["cells"].values():
        if cell["type"] == "MULT18X18D":
            pins = cell["connections"]
            pins["CE0"], pins["CE1"] = pins["CE1"], pins["CE0"]


def test_a_wrong_netlist_is_found(tmp_path):
    widths, conditions, other, _ = CASES["enables of their own"]
    packed_netlist(tmp_path, source_of(widths, conditions, other), swap_enables)
    bad, busy = run(tmp_path, *widths)
    assert bad > 100
    assert busy > 1900
