"""Projects for Quartus: the top, its settings, and the scripts against stand-ins of Quartus' commands."""

import dataclasses
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hwgen.sim.lint import lint, read_waivers
from vendor_bench import STANDINS, build_directory, device_module, projects, ran
from vendor_cores import module

from hwgen.backend.projects import made_in, refusals
from hwgen.backend.projects.quartus import DETECTOR_MHZ, OSCILLATOR_MHZ, has_pll
from hwgen.errors import BuildError
from hwgen.target import Cluster, Link
from hwgen.target_files import built_in

GOLDEN = Path(__file__).parent / "golden"
NANO = built_in("de10_nano")
PLL = module(
    "altera_pll", "input refclk; input rst; input fbclk; output outclk; output locked; output fboutclk;"
).replace(
    ";\n",
    """;
  parameter fractional_vco_multiplier = "", reference_clock_frequency = "", operation_mode = "";
  parameter number_of_clocks = 1, output_clock_frequency0 = "", phase_shift0 = "", duty_cycle0 = 50;
  parameter pll_type = "", pll_subtype = "";
""",
    1,
)

"""The ports and parameters of Quartus' PLL that projects use."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quartus")


@pytest.fixture(scope="module")
def files(folder):
    return projects(Cluster((NANO,)), folder)


def compiled(path, folder, **settings):
    """Runs a script as quartus_sh, with a quartus_sta beside it."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    (binaries / "quartus_sta").write_text(
        f'#!/bin/sh\n[ "$1" = -t ] && VENDOR_MODE=sta exec tclsh {STANDINS}/quartus.tcl {folder}/calls.txt "$2"\n'
    )
    (binaries / "quartus_sta").chmod(0o755)
    (folder / "calls.txt").unlink(missing_ok=True)
    return ran("quartus.tcl", path, folder, VENDOR_BIN=str(binaries), **settings)


def script(files, tmp_path):
    return build_directory(tmp_path, files) / "device0" / "quartus" / "build.tcl"


def linted(files, edit=lambda text: text):
    texts = {
        "top.v": edit(files["device0/quartus/top.v"]),
        "device.v": device_module(Cluster((NANO,)), 0),
        "pll.v": PLL,
    }
    warnings = lint(texts, "hwgen_quartus", read_waivers())
    return [one for one in warnings if not re.search(r": (device|pll)\.v:|'fboutclk'", one)]


def test_the_top_fits_device_and_pll(files):
    assert made_in(files) == ["device0/quartus"]
    assert linted(files) == []
    for damage in (
        (".divider(", ".divide("),
        (".outclk(", ".outclk0("),
        (".duty_cycle0(", ".duty_cycle("),
        ("altera_pll #", "alter_pll #"),
    ):
        assert damage[0] in files["device0/quartus/top.v"]
        with pytest.raises(BuildError):
            linted(files, lambda text, damage=damage: text.replace(*damage))


def test_the_text_of_a_project(files):
    for name in sorted(path.rpartition("/")[2] for path in files):
        text, golden = files[f"device0/quartus/{name}"], GOLDEN / f"quartus_{name}"
        if os.environ.get("HWGEN_UPDATE_GOLDEN"):
            golden.write_text(text, encoding="utf-8")
        assert text == golden.read_text(encoding="utf-8")


def test_an_oscillator_at_the_devices_clock_needs_no_pll(folder):
    board = dataclasses.replace(NANO, device=dataclasses.replace(NANO.device, clock_mhz=50.0))
    top = projects(Cluster((board,)), folder)["device0/quartus/top.v"]
    assert "altera_pll" not in top
    assert "wire clk = clock, locked = 1'b1;" in top


def test_clocks_of_the_pll():
    clocks = range(1, 400)
    made = {clock for clock in clocks if has_pll(Fraction(50), Fraction(clock))}
    oscillators = {
        Fraction(50 * multiply, divide)
        for divide in range(1, 513)
        for multiply in range(1, 513)
        if DETECTOR_MHZ[0] <= 50 / divide <= DETECTOR_MHZ[1]
        and OSCILLATOR_MHZ[0] <= 50 * multiply / divide <= OSCILLATOR_MHZ[1]
    }
    wanted = {clock for clock in clocks for one in oscillators if one % clock == 0 and one / clock <= 512}
    assert made == wanted
    assert 100 in made
    assert 399 not in made


def test_settings_and_constraints_reach_every_pin(files, tmp_path):
    run = compiled(script(files, tmp_path), tmp_path)
    assert run.code == 0, run.output
    top = files["device0/quartus/top.v"]
    ports = dict(re.findall(r"(?m)^  (?:input|output) wire (?:\[7:0\] )?(\w+)(,?)$", top))
    wanted = {*(set(ports) - {"leds"}), *(f"leds[{k}]" for k in range(8))}
    placed = [re.match(r"set_location_assignment PIN_(\w+) -to \{?([^}]+)", one) for one in run.calls]
    found = {one[2]: one[1] for one in placed if one}
    assert set(found) == wanted
    assert len(set(found.values())) == len(found)
    assert found["clock"] == "V11"
    standards = [one for one in run.calls if "IO_STANDARD" in one]
    assert len(standards) == len(wanted) * 2  # the settings are read by both programs
    pulled = [one for one in run.calls if "WEAK_PULL_UP" in one]
    assert sorted({one.split()[-1] for one in pulled}) == ["reset", "uart_rx"]


SHELL = ["project_open", "execute_flow", "project_close"]
ANALYSER = [
    "project_open", "create_timing_netlist", "read_sdc", "update_timing_netlist", "get_available_operating_conditions",
    *["set_operating_conditions", "update_timing_netlist", *["get_timing_paths"] * 4] * 2, "project_close",
]  # fmt: skip


def test_the_script_runs_to_the_bitstream(files, tmp_path):
    path = script(files, tmp_path)
    run = compiled(path, tmp_path)
    assert run.code == 0, run.output
    assert [
        name for name in run.names if not name.startswith("set_") or "operating" in name
    ] == SHELL + ANALYSER
    assert (path.parent / "out" / "hwgen_quartus.sof").is_file()
    assert "hwgen: slack 0.1 ns (setup) at 100 MHz" in run.output


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"VENDOR_SLACK": "-0.5"},
         r"hwgen: timing is missed: slack -0\.5 ns \(setup\), -0\.5 ns \(recovery\), .* at 100 MHz\. "),
        ({"VENDOR_HOLD": "-0.25"},
         r"hwgen: timing is missed: slack -0\.25 ns \(hold\), -0\.25 ns \(removal\), .* at 100 MHz\. "),
        ({"VENDOR_SLACK": "", "VENDOR_HOLD": ""}, r"hwgen: no path was checked; are the clocks constrained\?"),
        *(({"VENDOR_FAIL": step}, rf"hwgen: Error: {step} failed") for step in dict.fromkeys(SHELL + ANALYSER)),
    ],
)  # fmt: skip
def test_a_step_that_fails_leaves_no_bitstream(files, tmp_path, settings, message):
    path = script(files, tmp_path)
    (path.parent / "out").mkdir()
    (path.parent / "out" / "hwgen_quartus.sof").write_text("of an earlier run")
    run = compiled(path, tmp_path, **settings)
    assert run.code == 1
    assert re.search(rf"(?m)^(hwgen: )?{message}", run.output), run.output
    assert list((path.parent / "out").rglob("*.sof")) == []


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("build.tcl", lambda t: t.replace("  execute_flow -compile\n", ""), "create_timing_netlist before compilation"),
        ("build.tcl", lambda t: t.replace("execute_flow -compile", "execute_flow -comp"), "execute_flow -comp"),
        ("build.tcl", lambda t: t.replace("  project_open -revision", "  project_new -revision"),
         "no command project_new"),
        ("build.tcl", lambda t: t.replace("../../verilog/hwgen_device.v", "../../verilog/device.v"),
         "verilog/device.v is missing; build again"),
        ("timing.tcl", lambda t: t.replace("  read_sdc\n", ""), "update_timing_netlist before read_sdc"),
        ("timing.tcl", lambda t: t.replace("    update_timing_netlist\n", ""),
         "get_timing_paths before update_timing_netlist"),
        ("timing.tcl", lambda t: t.replace("-npaths 1", "-paths 1"), "get_timing_paths -setup -paths 1"),
        ("hwgen_quartus.qsf", lambda t: t.replace("VERILOG_FILE top.v", "VERILOG_FILE tip.v"), "no file tip.v"),
        ("hwgen_quartus.qsf", lambda t: t.replace("SDC_FILE", "SDC_FILES"), "no assignment SDC_FILES"),
        ("hwgen_quartus.qpf", lambda t: t.replace("hwgen_quartus", "other"), "has no revision hwgen_quartus"),
        ("pins.tcl", lambda t: t.replace("PIN_V11", "V11"), "no pin V11"),
    ],
)  # fmt: skip
def test_the_stand_in_refuses_what_quartus_would(files, tmp_path, name, edit, message):
    path = script(files, tmp_path)
    text = (path.parent / name).read_text()
    assert edit(text) != text
    (path.parent / name).write_text(edit(text))
    run = compiled(path, tmp_path)
    assert run.code == 1
    assert message in run.output


def board(**changes):
    return dataclasses.replace(NANO, **changes)


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (Cluster((built_in("stratix10_mx"),)),
         r"stratix10_mx has a Stratix 10; the project for Quartus has PLL and reset of a Cyclone V only, take .*"),
        (Cluster((board(pins=None),)), r"de10_nano tells no pins; give its file a table \[pins\] \(docs/boards\.md\)"),
        (Cluster((board(device=dataclasses.replace(NANO.device, clock_mhz=99.99)),)),
         r"a clock of 99\.99 MHz cannot be made of 50 MHz with whole dividers; take another"),
        (Cluster.chain("de10_nano", 2, link=Link(lanes=8, gbps=4, encoding="none", adapter="parallel")),
         r"de10_nano is one of 2 boards; links for Quartus are not made: .*; build for one board"),
    ],
)  # fmt: skip
def test_boards_that_get_none_are_told_why(folder, cluster, reason):
    files = projects(cluster, folder)
    assert made_in(files) == []
    for index, text in enumerate(refusals(files)):
        assert re.fullmatch(f"device {index}: no project: {reason}", text), text
    assert len(refusals(files)) == len(cluster.boards)
