"""Lint of Verilog: warnings, waivers, and modules that do not exist."""

import re

import pytest
from hwgen.sim import lint as module
from hwgen.sim.lint import Waiver, lint, read_waivers

from hwgen.errors import BuildError, ToolError

CLEAN = """
module hwgen_core(clk, a, q);
  input clk;
  input [3:0] a;
  output reg [3:0] q;
  inner inner (.clk(clk), .a(a), .q(q));
endmodule
"""
INNER = """module inner(input clk, input [3:0] a, output reg [3:0] q);
  always @(posedge clk) q <= a;
endmodule
"""
FILES = {"verilog/hwgen_core.v": CLEAN.replace("output reg", "output"), "verilog/inner.v": INNER}


def test_clean_verilog_has_no_warnings():
    assert lint(FILES, waivers=[]) == []


def test_a_warning_names_rule_and_place():
    files = {**FILES, "verilog/inner.v": INNER.replace("q <= a", "q <= {1'b0, a}")}
    (warning,) = lint(files, waivers=[])
    assert re.fullmatch(
        r"WIDTHTRUNC: verilog/inner\.v:2:\d+: Operator ASSIGNDLY expects 4 bits .*", warning
    ), warning


def test_a_waiver_covers_its_rule_and_message_only():
    files = {**FILES, "verilog/inner.v": INNER.replace("q <= a", "q <= {1'b0, a}")}
    covering = Waiver("WIDTHTRUNC", r"Operator ASSIGNDLY expects \d+ bits", "a test")
    assert len(lint(files, waivers=[covering])) == 0
    assert len(lint(files, waivers=[Waiver("WIDTHEXPAND", covering.message, "a test")])) == 1
    assert len(lint(files, waivers=[Waiver("WIDTHTRUNC", "Operator ADD", "a test")])) == 1


def test_a_module_that_does_not_exist():
    with pytest.raises(BuildError, match=r"(?s)^verilog: .*inner"):
        lint({"verilog/hwgen_core.v": FILES["verilog/hwgen_core.v"]}, waivers=[])


def test_yosys_finds_a_missing_module_by_itself(tmp_path):
    (tmp_path / "top.v").write_text(FILES["verilog/hwgen_core.v"])
    with pytest.raises(BuildError, match=r"(?s)^verilog: yosys hierarchy -check failed .*Module `\\inner'"):
        module._hierarchy(tmp_path, ["top.v"], "hwgen_core")


def test_broken_verilog():
    with pytest.raises(BuildError, match=r"(?s)^verilog: verilator --lint-only failed .*syntax error"):
        lint({**FILES, "verilog/inner.v": INNER.replace("endmodule", "endmodul")}, waivers=[])


def test_missing_tools(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"^pyosys: not found; install it with pip install pyosys=="):
        lint(FILES, waivers=[])


def test_every_waiver_has_a_reason(tmp_path):
    for waiver in read_waivers():
        re.compile(waiver.message)
    path = tmp_path / "waivers.txt"
    path.write_text("# comment\n\nWIDTHEXPAND | Operator ADD | the emitter adds constants\n")
    assert read_waivers(path) == [Waiver("WIDTHEXPAND", "Operator ADD", "the emitter adds constants")]
    path.write_text("WIDTHEXPAND | Operator ADD\n")
    with pytest.raises(
        BuildError, match=r"^waivers\.txt:1: 'WIDTHEXPAND \| Operator ADD'; write rule \| .*$"
    ):
        read_waivers(path)
