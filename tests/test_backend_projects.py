"""Projects of ECP5 boards: dividers of the PLL, parts, the files of a project, and boards that get none."""

import dataclasses
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyosys
import pytest
from hwgen.sim.lint import Waiver, lint, read_waivers
from small_device import SOURCE

from hwgen import cli
from hwgen.backend.build import load_build
from hwgen.backend.projects import ecp5, made_in, project_files, refusals
from hwgen.backend.projects.ecp5_pll import DETECTOR_MHZ, INPUT_MHZ, OSCILLATOR_MHZ, OUTPUT_MHZ, pll_of
from hwgen.backend.requests import stage_requests
from hwgen.errors import BuildError, TargetError
from hwgen.frontend.loader import load_source
from hwgen.plan.memories import memories
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster, Link
from hwgen.target_files import built_in
from hwgen.target_pins import Pin, Pins

GOLDEN = Path(__file__).parent / "golden"
ULX3S = built_in("ulx3s_85f")
UNUSED = Waiver(
    "PINMISSING", "Instance has missing pin: '(CLKOS[23]|ENCLKOS[23]|INTLOCK|REFCLK|CLKINTFB)'", "outputs"
)


@pytest.mark.parametrize("source", [8.0, 12.0, 25.0, 100.0])
def test_dividers_are_within_the_data_sheet_and_make_the_clock(source):
    wanted = [Fraction(k, 4) for k in range(13, 1601, 3)]
    made = 0
    for clock in wanted:
        try:
            pll = pll_of(source, float(clock))
        except TargetError:
            continue
        made += 1
        given = Fraction(repr(source))
        detector = given / pll.clki
        assert pll.output(given) == clock
        for value, (low, high) in (
            (given, INPUT_MHZ), (detector, DETECTOR_MHZ), (pll.oscillator(given), OSCILLATOR_MHZ),
            (clock, OUTPUT_MHZ), (detector * pll.clkfb, OUTPUT_MHZ),
        ):  # fmt: skip
            assert low <= value <= high
        assert pll.clkfb <= 80
        assert max(pll.clki, pll.clkop, pll.clkos) <= 128
    assert made > 20 or source == 8.0


def test_a_clock_that_cannot_be_made_names_its_neighbours():
    for source, clock, message in (
        (25.0, 47.123, "a clock of 47.123 MHz cannot be made of 25 MHz; take 46.875 or 47.5"),
        (25.0, 401.0, "a clock of 401 MHz cannot be made of 25 MHz; take 400"),
        (25.0, 1.0, "a clock of 1 MHz cannot be made of 25 MHz; take 3.125"),
        (7.9, 50.0, "an oscillator of 7.9 MHz; the PLL takes 8 to 400"),
    ):
        with pytest.raises(TargetError, match=re.escape(message) + "$"):
            pll_of(source, clock)
    for clock in (46.875, 47.5):
        assert pll_of(25.0, clock).output(Fraction(25)) == Fraction(str(clock))


def test_parts():
    assert ecp5.part_of("LFE5U-85F-6BG381C") == ecp5.Part("85k", "CABGA381", "6")
    assert ecp5.part_of("LFE5UM5G-85F-8BG554I") == ecp5.Part("um5g-85k", "CABGA554", "8")
    assert ecp5.part_of("LFE5UM-45F-7MG285C") == ecp5.Part("um-45k", "CSFBGA285", "7")
    for part in (
        "LFE5U-85F-9BG381C",
        "LFE5U-85F-6BG999C",
        "LFE5UM-12F-6BG381C",
        "XC7A100T",
        "LFE5U-85F-6BG381C x",
    ):
        with pytest.raises(TargetError, match=re.escape(f"part {part} is no ECP5 that nextpnr knows")):
            ecp5.part_of(part)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    (folder / "small.py").write_text(SOURCE)
    arguments = ["build", str(folder / "small.py"), "--cluster", "ulx3s_85f", "-o", str(folder / "u")]
    assert cli.main(arguments) == 0
    return load_build(folder / "u")


def made(build, **settings):
    board = dataclasses.replace(ULX3S, **settings)
    return project_files(
        build.plan, Cluster((board,)), 0x1234ABCD, ["verilog/a.v", "host/verilog/hwgen_uart.v"]
    )


def test_the_build_has_the_project(build):
    folder = build.path / "device0" / "ecp5"
    names = {path.name for path in folder.iterdir()}
    assert names == {"top.v", "pins.lpf", "synth.ys", "build.sh", "project.json", "ecp5_registers.py"}
    assert all(f"device0/ecp5/{name}" in build.manifest["files"] for name in names)
    project = ecp5.read_project((folder / "project.json").read_text())
    assert (project.board, project.build, project.pins) == ("ulx3s_85f", build.manifest["build"], ULX3S.pins)
    read = re.findall(r"^read_verilog (.*)$", (folder / "synth.ys").read_text(), re.MULTILINE)
    assert read == [*project.sources, "device0/ecp5/top.v"]
    assert set(project.sources) == {
        name for name in build.manifest["files"] if re.fullmatch("(host/)?verilog/.*[.]v", name)
    }
    assert project.expected.dsp == build.plan.multipliers
    with pytest.raises(BuildError, match=r"project[.]json: null, which is no Project"):
        ecp5.read_project("{")


def test_the_text_of_a_project(build):
    files = made(build)
    assert made_in(files) == ["device0/ecp5"]
    for name in ("top.v", "pins.lpf", "synth.ys", "build.sh"):
        text, golden = files[f"device0/ecp5/{name}"], GOLDEN / f"ecp5_{name}"
        if os.environ.get("HWGEN_UPDATE_GOLDEN"):
            golden.write_text(text, encoding="utf-8")
        assert text == golden.read_text(encoding="utf-8")


def test_the_top_is_legal_verilog(build):
    folder, device = build.path / "device0" / "ecp5", "host/verilog/hwgen_uart.v"
    project = ecp5.read_project((folder / "project.json").read_text())
    files = {name: (build.path / name).read_text() for name in (*project.sources, "device0/ecp5/top.v")}
    assert device in files
    files["pll.v"] = primitive("EHXPLLL")
    assert lint(files, ecp5.TOP, [*read_waivers(), UNUSED]) == []
    for damage in (
        ("EHXPLLL #(", "EHXPLL #("),
        (".CLKOS(", ".CLKO("),
        (".CLKOS_DIV(", ".CLKO_DIV("),
        (".rx(", ".r("),
    ):
        assert damage[0] in files["device0/ecp5/top.v"]
        damaged = {**files, "device0/ecp5/top.v": files["device0/ecp5/top.v"].replace(*damage)}
        with pytest.raises(BuildError, match="verilator --lint-only failed"):
            lint(damaged, ecp5.TOP)


YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for step in sys.argv[1:]:
    libyosys.run_pass(step, design)
"""


@pytest.mark.parametrize("first", [0, 1])
def test_memories_lie_where_the_script_says(build, first):
    """The script on the last stage alone: Yosys finds every memory of the plan, by words, bits and ports."""
    project = ecp5.read_project((build.path / "device0" / "ecp5" / "project.json").read_text())
    assert {memory.kind for memory in project.memories} <= {"block", "distributed"}
    kinds = ("block", "distributed")
    asked = tuple(
        dataclasses.replace(memory, kind=kinds[(k + first) % 2]) for k, memory in enumerate(project.memories)
    )
    script = ecp5.texts(dataclasses.replace(project, memories=asked), "device0/ecp5")["synth.ys"]
    planned = build.plan.stages[-1]
    stage, tile = (request.name for request in reversed(stage_requests(build.plan, planned)))
    read = [f"read_verilog verilog/{name}.v" for name in (tile, stage)]
    steps = [line for line in script.splitlines() if not line.startswith(("#", "read_verilog"))]
    assert (steps[0], steps[-1]) == (
        f"synth_ecp5 -top {ecp5.TOP} -run begin:map_ram",
        f"synth_ecp5 -top {ecp5.TOP} -run map_ram:",
    )
    steps = [line.replace(ecp5.TOP, stage) for line in steps]
    steps[-1] = f"tee -q -o {first}.log {steps[-1]}map_ffram"
    command = [sys.executable, "-c", YOSYS, *read, *steps]
    done = subprocess.run(command, cwd=build.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]
    log = (build.path / f"{first}.log").read_text()
    of = {(memory.words, memory.bits, memory.reads): memory.kind for memory in asked}
    count = dict.fromkeys((*kinds, "asynchronous"), 0)
    for memory in memories(build.plan.network, planned):
        kind = "asynchronous" if memory.asynchronous else of[memory.depth, memory.width, memory.reads]
        count[kind] += memory.count
    assert min(count.values()) > 0
    assert count["block"] + count["distributed"] > 15
    for kind in kinds:
        assert len(re.findall(f"ram_style = {kind}' on memory", log)) == count[kind]
    found = re.findall(r"mapping memory \S+ via \$__(\w+)", log)
    assert found.count("TRELLIS_DPR16X4_") == count["distributed"] + count["asynchronous"]
    assert len(found) == sum(count.values())


def primitive(name):
    """An empty module with the ports and parameters that Yosys knows of an ECP5's cell."""
    cells = (Path(pyosys.__file__).parent / "share" / "ecp5" / "cells_bb.v").read_text()
    cell = re.search(rf"module {name}\(.*?endmodule", cells, re.DOTALL)[0]
    quiet = "/* verilator lint_off UNUSED */ /* verilator lint_off UNDRIVEN */ /* verilator lint_off DECLFILENAME */"
    return f"{quiet}\n{cell}\n"


def test_the_files_follow_the_board(build):
    pins = Pins(
        Pin(("P3", "P4"), "LVDS", 100.0), "LVCMOS25", Pin(("A1",)), Pin(("A2",)), Pin(("A3",), "LVCMOS18"),
        Pin(("B1",), active="low"),
    )  # fmt: skip
    device = dataclasses.replace(ULX3S.device, clock_mhz=62.5)
    files = made(build, pins=pins, device=device)
    top, lpf = files["device0/ecp5/top.v"], files["device0/ecp5/pins.lpf"]
    assert lpf.splitlines()[1:] == [
        'FREQUENCY PORT "clock" 100 MHZ;',
        'LOCATE COMP "clock" SITE "P3";', 'IOBUF PORT "clock" IO_TYPE=LVDS;',
        'LOCATE COMP "reset" SITE "A1";', 'IOBUF PORT "reset" IO_TYPE=LVCMOS25 PULLMODE=DOWN;',
        'LOCATE COMP "uart_tx" SITE "A2";', 'IOBUF PORT "uart_tx" IO_TYPE=LVCMOS25;',
        'LOCATE COMP "uart_rx" SITE "A3";', 'IOBUF PORT "uart_rx" IO_TYPE=LVCMOS18 PULLMODE=UP;',
        'LOCATE COMP "leds" SITE "B1";', 'IOBUF PORT "leds" IO_TYPE=LVCMOS25;',
    ]  # fmt: skip
    assert "wire ready = locked & ~reset;" in top
    assert re.findall(r"assign leds.*", top) == ["assign leds[0] = ~(second[25]);"]
    assert ".divider(16'd543)" in top  # 62.5 MHz / 115,200
    pll = pll_of(100.0, 62.5)
    for name in ("clki", "clkfb", "clkop", "clkos"):
        assert f".{name.upper()}_DIV({getattr(pll, name)})" in top
    least = made(build, pins=Pins(pins.clock, "LVCMOS33", None, pins.uart_tx, pins.uart_rx))
    assert "leds" not in least["device0/ecp5/top.v"] + least["device0/ecp5/pins.lpf"]
    assert "wire ready = locked;" in least["device0/ecp5/top.v"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pins": None}, "ulx3s_85f tells no pins; give its file a table [pins] (docs/boards.md)"),
        ({"pins": Pins(Pin(("G2",), "LVCMOS33", 25.0))},
         "ulx3s_85f tells no serial port; give [pins] of its file uart_tx and uart_rx (docs/boards.md)"),
        ({"device": dataclasses.replace(ULX3S.device, clock_mhz=47.123)},
         "a clock of 47.123 MHz cannot be made of 25 MHz; take 46.875 or 47.5"),
        ({"device": dataclasses.replace(ULX3S.device, part="X")},
         "part X is no ECP5 that nextpnr knows; give one such as LFE5U-85F-6BG381C, package BG256, BG381, BG554, "
         "BG756, MG285, TG144"),
    ],
)  # fmt: skip
def test_boards_that_get_none_are_told_why(build, settings, reason):
    files = made(build, **settings)
    assert files == {"device0/ecp5/refused.txt": f"device 0: no project: {reason}\n"}
    assert refusals(files) == [f"device 0: no project: {reason}"]


def test_boards_of_a_chain_get_none(tmp_path):
    (tmp_path / "small.py").write_text(SOURCE)
    cable = Link(lanes=8, gbps=2, encoding="none", adapter="parallel")
    chain = Cluster.chain(ULX3S, 2, link=cable)
    plan = plan_network(load_source(tmp_path / "small.py").network, cluster=chain)
    files = project_files(plan, chain, 1, ["verilog/a.v"])
    assert made_in(files) == []
    assert [text.partition(" need ")[0] for text in refusals(files)] == [
        f"device {device}: no project: ulx3s_85f is one of 2 boards; links over its pins are not made yet: they"
        for device in (0, 1)
    ]


def test_no_project_for_boards_without_a_flow(build):
    files = project_files(build.plan, Cluster((built_in("tang_mega_138k"),)), 1, ["verilog/a.v"])
    assert (files, project_files(build.plan, None, 1, [])) == ({}, {})
