"""Projects for Vivado: tops against the ports of AMD's cores, constraints, scripts against stand-ins of commands."""

import dataclasses
import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from amaranth.hdl import Value
from amaranth.lib.wiring import In
from vendor_bench import STANDINS, build_directory, device_module, lint_top, planned, projects, ran

from hwgen.backend.projects import made_in, refusals
from hwgen.backend.projects.mmcm import DETECTOR_MHZ, INIT_MHZ, OSCILLATOR_MHZ, mmcm_of
from hwgen.backend.requests import lent
from hwgen.errors import BuildError, TargetError
from hwgen.gateware.board import Board
from hwgen.gateware.core import Core
from hwgen.gateware.serial.port import BytesDevice, HostPort, UartDevice
from hwgen.target import Cluster, Link
from hwgen.target_files import built_in, known_boards

GOLDEN = Path(__file__).parent / "golden"
XILINX = [name for name in known_boards() if built_in(name).device.vendor == "xilinx"]
CHAINS = {
    "three": Cluster.chain("vc709", 3),
    "wide": Cluster.chain("vcu118", 3),
    "shared": Cluster.chain("zcu102", 3),
    "mixed": Cluster.chain(["kc705", "vc709", "alveo_u55c"], link=[Link(gbps=10.3125), Link(gbps=10.3125)]),
    "u250": Cluster.chain("alveo_u250", 2, link=Link(lanes=2, gbps=25.78125)),
    "u280": Cluster.chain("alveo_u280", 2),
    "lanes": Cluster.chain("vc709", 2, link=Link(lanes=4, gbps=10.3125)),
}
BOARDS = [(name, 0) for name in XILINX] + [
    (name, k) for name, c in CHAINS.items() for k in range(len(c.boards))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("vivado")


def cluster_of(name):
    return CHAINS[name] if name in CHAINS else Cluster((built_in(name),))


@pytest.fixture(scope="module")
def made(folder):
    """Projects by name of board or chain, made once."""
    found = {}

    def files(name):
        if name not in found:
            found[name] = projects(cluster_of(name), folder)
        return found[name]

    return files


@pytest.mark.parametrize("series", ["7", "ultra"])
@pytest.mark.parametrize("source", [12.0, 50.0, 100.0, 125.0, 156.25, 200.0, 300.0])
def test_dividers_are_within_the_data_sheet_and_make_the_clock(series, source):
    given, count = Fraction(repr(source)), 0
    for clock in (50.0, 75.0, 100.0, 118.75, 150.0, 200.0, 250.0, 300.0):
        try:
            mmcm = mmcm_of(source, clock, series)
        except TargetError:
            continue
        count += 1
        oscillator = given / mmcm.divide * mmcm.multiply
        assert oscillator / mmcm.output == Fraction(clock)
        for value, (low, high) in (
            (given / mmcm.divide, DETECTOR_MHZ), (oscillator, OSCILLATOR_MHZ[series]), (mmcm.multiply, (2, 64)),
            (mmcm.output, (1, 128)), (mmcm.divide, (1, 106)), (mmcm.init, (1, 128)), (oscillator / mmcm.init, INIT_MHZ),
        ):  # fmt: skip
            assert low <= value <= high
        for value in (mmcm.multiply, mmcm.output):
            assert (value * 8).denominator == 1
    assert count > 4 or (source, series) == (12.0, "ultra")


def test_a_clock_that_cannot_be_made_names_its_neighbours():
    message = "a clock of 47.123 MHz cannot be made of 125 MHz; take 47.1 or 47.125"
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        mmcm_of(125.0, 47.123, "7")
    assert mmcm_of(125.0, 47.125, "7").clock(Fraction(125)) == Fraction("47.125")


@pytest.mark.parametrize(("name", "index"), BOARDS)
def test_every_board_gets_a_project_whose_top_fits_the_cores(made, name, index):
    files = made(name)
    assert refusals(files) == []
    assert made_in(files) == [f"device{k}/vivado" for k in range(len(cluster_of(name).boards))]
    assert lint_top(files, cluster_of(name), index) == []


def signature_ports(component):
    """Ports of a component as Verilog has them, each with its direction and bits."""
    found = {"clk": ("input", 1), "rst": ("input", 1)}
    for path, member, value in component.signature.flatten(component):
        side = "input" if member.flow is In else "output"
        found["__".join(map(str, path))] = side, len(Value.cast(value))
    return {name: port for name, port in found.items() if not name.startswith(("probe_", "channel_"))}


@pytest.mark.parametrize(
    ("name", "index"), [("three", 0), ("three", 1), ("three", 2), ("arty_a7_100t", 0), ("shared", 0)]
)
def test_the_device_stands_in_with_its_own_ports(folder, name, index):
    cluster = cluster_of(name)
    plan = planned(cluster, folder)
    device = lent(Board(plan, index) if plan.links else Core(plan, 0))
    if index == 0:
        device = lent(BytesDevice(device, lent(HostPort(plan)), "core", "port"))
        if cluster.boards[0].pcie is None:
            device = lent(UartDevice(device, "device"))
    text = device_module(cluster, index)
    ports = re.findall(r"(?m)^  (input|output) (?:\[(\d+):0\] )?(\w+);", text)
    assert {port: (side, int(high or 0) + 1) for side, high, port in ports} == signature_ports(device)


@pytest.mark.parametrize(
    ("name", "index", "port"),
    [
        ("three", 1, "s_axi_tx_tdata"), ("three", 1, "gt_refclk1_p"), ("three", 1, "gt_qplllock_in"),
        ("three", 1, "gt_qpllclk_quad3_out"), ("three", 1, "s_axi_awaddr"), ("shared", 1, "gt_qpllrefclklost_quad1"),
        ("wide", 0, "gt_powergood"), ("vc709", 0, "s_axis_c2h_tkeep_0"), ("vc709", 0, "sys_rst_n"),
        ("three", 0, "phy__rx_valid"), ("arty_a7_100t", 0, "divider"), ("arty_a7_100t", 0, "CLKFBOUT_MULT_F"),
        ("vcu118", 0, "CLKFBIN"), ("lanes", 0, "s_axi_wstrb_lane3"),
    ],
)  # fmt: skip
def test_a_port_by_another_name_is_found(made, name, index, port):
    with pytest.raises(BuildError):
        lint_top(
            made(name),
            cluster_of(name),
            index,
            lambda text: re.sub(rf"\.{port}\(", f".{port}x(", text, count=1),
        )


def test_a_port_left_out_is_found(made):
    edit = lambda text: re.sub(r"\n    \.pma_init\(up_pma_init\),", "", text, count=1)  # noqa: E731
    assert any("PINMISSING" in one for one in lint_top(made("three"), cluster_of("three"), 1, edit))


def constraints(files, name, index, tmp_path):
    """The calls of both constraint files, in words."""
    folder = build_directory(tmp_path, files) / f"device{index}" / "vivado"
    record = tmp_path / "xdc.txt"
    command = ["tclsh", STANDINS / "xdc.tcl", record, folder / "pins.xdc", folder / "timing.xdc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return record.read_text().splitlines()


@pytest.mark.parametrize(("name", "index"), BOARDS)
def test_constraints_reach_every_pin_clock_and_crossing(made, name, index, tmp_path):
    files = made(name)
    calls = constraints(files, name, index, tmp_path)
    top = files[f"device{index}/vivado/top.v"]
    ports = {}
    for bits, port in re.findall(r"(?m)^  (?:input|output) wire (\[[\d:]+\] )?(\w+),?$", top):
        ports[port] = bits.strip()
    assert ports
    placed = [re.search(r"get_ports \{?([^} ]+)", call)[1] for call in calls if "PACKAGE_PIN" in call]
    sites = [re.search(r"PACKAGE_PIN (\w+)", call)[1] for call in calls if "PACKAGE_PIN" in call]
    assert len(set(sites)) == len(sites)
    leds = (
        [f"leds[{k}]" for k in range(int(re.search(r"\d+", ports.pop("leds"))[0]) + 1)]
        if "leds" in ports
        else []
    )
    # Transceivers are placed by their cores.
    serial = {port for port in ports if re.fullmatch(r"(up|down|pcie)_[rt]x[pn]", port)}
    assert sorted(placed) == sorted([*(set(ports) - serial), *leds])
    clocks = [
        re.match(r"create_clock -name (\w+) -period ([\d.]+) \{?get_ports (\w+)", call) for call in calls
    ]
    clocks = {one[3]: float(one[2]) for one in clocks if one}
    assert set(clocks) == {
        port for port in ports if re.fullmatch(r"clock|clock_p|pcie_clock_p|refclk\d_p", port)
    }
    pairs = {
        tuple(re.findall(r"get_pins (\w+/\w+)", call))
        for call in calls
        if call.startswith("set_max_delay -datapath_only")
    }
    domains = {place for pair in pairs for place in pair}
    assert pairs == {(a, b) for a in domains for b in domains if a != b}
    for place in domains:
        cell, pin = place.split("/")
        assert re.search(rf"(?s)\) {cell} \(|  \w+ {cell} \(", top)
        assert f".{pin}(" in top
    wanted = 1 + 0 + len(re.findall(r"\.user_clk_out\(", top)) + len(re.findall(r"\.axi_aclk\(", top))
    assert len(domains) == (wanted + bool(re.search("init_rst", top)) if wanted > 1 else 0)


@pytest.mark.parametrize(("name", "index"), [("three", 1), ("arty_a7_100t", 0), ("vc709", 0), ("wide", 1)])
def test_the_text_of_a_project(made, name, index):
    for file in ("top.v", "pins.xdc", "timing.xdc", "build.tcl", "project.tcl", "README.md"):
        text, golden = made(name)[f"device{index}/vivado/{file}"], GOLDEN / f"vivado_{name}_{file}"
        if os.environ.get("HWGEN_UPDATE_GOLDEN"):
            golden.write_text(text, encoding="utf-8")
        assert text == golden.read_text(encoding="utf-8")


STEPS = [
    "synth_design", "report_utilization", "opt_design", "place_design", "phys_opt_design", "route_design",
    "write_checkpoint", "report_utilization", "report_timing_summary", "report_cdc", "get_timing_paths", "get_property",
    "get_timing_paths", "get_property", "write_bitstream",
]  # fmt: skip


def script(made, name, tmp_path, index=0):
    folder = build_directory(tmp_path, made(name))
    return folder / f"device{index}" / "vivado" / "build.tcl"


@pytest.mark.parametrize(("name", "index"), BOARDS)
def test_the_script_runs_to_the_bitstream(made, name, index, tmp_path):
    path = script(made, name, tmp_path, index)
    run = ran("vivado.tcl", path, tmp_path)
    assert run.code == 0, run.output
    assert run.names[-len(STEPS) :] == STEPS
    out = path.parent / "out"
    assert (out / "hwgen_vivado.bit").read_text() == "half\n"
    assert not (out / "unfinished.bit").exists()
    assert f"hwgen: {out / 'hwgen_vivado.bit'}" in run.output
    cores = run.names.count("create_ip")
    assert cores == made(name)[f"device{index}/vivado/project.tcl"].count("\nhwgen_core ")
    assert run.names.count("synth_ip") == cores
    sources = re.search(r"read_verilog \{(.*)\}", next(c for c in run.calls if c.startswith("read_verilog")))[
        1
    ].split()
    assert all(Path(one).is_file() for one in sources)
    assert {Path(one).name for one in sources} >= {"hwgen_device.v", "hwgen_uart.v", "top.v"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"VENDOR_SLACK": "-0.125"},
         r"hwgen: timing is missed: slack -0\.125 ns \(setup\), 0\.01 ns \(hold\) at 200 MHz; see "),
        ({"VENDOR_HOLD": "-0.001"},
         r"hwgen: timing is missed: slack 0\.1 ns \(setup\), -0\.001 ns \(hold\) at 200 MHz; see "),
        ({"VENDOR_SLACK": ""}, r"hwgen: no path has a max delay to check; are the clocks constrained\?"),
        ({"VENDOR_KEPT": "C_LINE_RATE 10.0"},
         r"hwgen: hwgen_aurora_up: C_LINE_RATE is 10\.0, not 10\.3125; this Vivado's aurora_64b66b cannot do it"),
        *(({"VENDOR_FAIL": step}, rf"hwgen: ERROR: \[{step}\] failed")
          for step in ("create_project", "read_verilog", "create_ip", "set_property", "generate_target", "synth_ip",
                       *dict.fromkeys(STEPS))),
    ],
)  # fmt: skip
def test_a_step_that_fails_leaves_no_bitstream(made, tmp_path, settings, message):
    path = script(made, "three", tmp_path, 1)
    (path.parent / "out").mkdir()
    (path.parent / "out" / "hwgen_vivado.bit").write_text("of an earlier run")
    run = ran("vivado.tcl", path, tmp_path, **settings)
    assert run.code == 1
    assert re.search(f"(?m)^{message}", run.output), run.output
    assert list((path.parent / "out").glob("*.bit")) == []


def test_a_missing_source_is_named(made, tmp_path):
    path = script(made, "three", tmp_path, 1)
    (tmp_path / "verilog" / "hwgen_device.v").unlink()
    run = ran("vivado.tcl", path, tmp_path)
    assert run.code == 1
    assert f"hwgen: {tmp_path / 'verilog' / 'hwgen_device.v'} is missing; build again" in run.output
    assert run.calls == []


def swapped(first, second):
    return lambda text: text.replace(first, "@").replace(second, first).replace("@", second)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (swapped("  opt_design\n", "  place_design\n"), "place_design before opt_design"),
        (swapped("  place_design\n", "  route_design\n"), "route_design before phys_opt_design"),
        (lambda t: t.replace("  route_design\n", ""), "write_checkpoint before route_design"),
        (lambda t: t.replace("  generate_target all [get_ips $module]\n", ""), "synth_ip before generate_target"),
        (lambda t: t.replace("  synth_ip [get_ips $module]\n", ""), "synth_design before synth_ip of all cores"),
        (lambda t: t.replace("  create_project -in_memory -part xc7vx690tffg1761-2\n", ""),
         "read_verilog before create_project"),
        (lambda t: t.replace("  read_verilog $files\n", ""), "synth_design without sources"),
        (lambda t: t.replace("  read_xdc $constraints\n", ""), "get_files: timing.xdc was not read"),
        (lambda t: t.replace("$::hwgen_cores {", "$::hwgen_core {"), 'no such variable'),
        (lambda t: t.replace("  route_design\n", "  route_design\n  route_design\n"), "route_design twice"),
        (lambda t: t.replace("  opt_design\n", "  optimise_design\n"), "no command optimise_design"),
        (lambda t: t.replace("-top hwgen_vivado -part xc7vx690tffg1761-2", "-top hwgen_vivado -part xc7a"),
         "synth_design for another part"),
    ],
)  # fmt: skip
def test_the_stand_in_refuses_what_vivado_would(made, tmp_path, edit, message):
    path = script(made, "three", tmp_path, 1)
    text = path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))
    run = ran("vivado.tcl", path, tmp_path)
    assert run.code == 1
    assert re.search(message, run.output), run.output


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.replace("-name $name -vendor", "-nam $name -vendor"), "create_ip: no option -nam"),
        (lambda t: t.replace("hwgen_core aurora_64b66b", "hwgen_core aurora_64b66"), "no core aurora_64b66"),
        (lambda t: t.replace("get_files timing.xdc", "get_files times.xdc"), "get_files: times.xdc was not read"),
        (lambda t: t.replace("CONFIG.C_START_QUAD [dict", "CONFIG.C_START_QUAD [dct"), ""),
        (lambda t: t.replace("hwgen_core aurora_64b66b hwgen_aurora_down", "hwgen_core aurora_64b66b hwgen_aurora_up"),
         "core hwgen_aurora_up twice"),
    ],
)  # fmt: skip
def test_the_stand_in_refuses_cores_that_vivado_would(made, tmp_path, edit, message):
    path = script(made, "wide", tmp_path, 1).parent / "project.tcl"
    text = path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))
    run = ran("vivado.tcl", path.parent / "build.tcl", tmp_path)
    assert run.code == 1
    assert message in run.output


def board(name, **changes):
    return dataclasses.replace(built_in(name), **changes)


ARTY = built_in("arty_a7_100t")
PARALLEL = Link(lanes=1, gbps=0.1, encoding="none", adapter="parallel")


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (Cluster((board("arty_a7_100t", pins=None),)),
         r"arty_a7_100t tells no pins; give its file a table \[pins\] \(docs/boards\.md\)"),
        (Cluster((board("arty_a7_100t", pins=dataclasses.replace(
            built_in("arty_a7_100t").pins, uart_tx=None, uart_rx=None)),)),
         r"arty_a7_100t tells no way to a host; give its file \[pcie\], or \[pins\] uart_tx and uart_rx .*"),
        (Cluster.chain("arty_a7_100t", 2, link=dataclasses.replace(PARALLEL, lanes=8, gbps=8.0)),
         r'arty_a7_100t has a link with adapter "parallel" and encoding "none"; projects for Vivado have cores for .*'),
        (Cluster.chain("genesys2", 2),
         r"genesys2 tells no transceivers of its cables; give its file a table \[\[sockets\]\] \(docs/boards\.md\)"),
        (Cluster.chain("vcu118", 2, link=Link(lanes=8, gbps=10.0)),
         r"vcu118 has a link of 8 lanes; projects take them from one quad, so give at most 4"),
        (Cluster.chain("kc705", 2, link=Link(lanes=2)),
         r"kc705 has a link of 2 lanes at 10\.3125 Gb/s for which no socket has room: 1 left in its sockets, .*"),
        (Cluster.chain(board("vc709", sockets=(dataclasses.replace(built_in("vc709").sockets[0], place=-1),)), 2),
         r"vc709 does not tell the place of the quad of X1Y13; give the socket of its file place"),
        (Cluster((board("arty_a7_100t", device=dataclasses.replace(ARTY.device, clock_mhz=47.123)),)),
         r"a clock of 47\.123 MHz cannot be made of 100 MHz; take .*"),
    ],
)  # fmt: skip
def test_boards_that_get_none_are_told_why(folder, cluster, reason):
    files = projects(cluster, folder)
    assert made_in(files) == []
    found = refusals(files)
    assert len(found) == len(cluster.boards)
    for index, text in enumerate(found):
        assert re.fullmatch(f"device {index}: no project: {reason}", text), text


def test_two_sockets_of_one_reference_clock_are_refused(folder):
    first, second = built_in("vcu118").sockets
    sockets = (first, dataclasses.replace(second, clock=first.clock))
    made = refusals(projects(Cluster.chain(board("vcu118", sockets=sockets), 3), folder))
    told = "device 1: no project: vcu118 has links in two sockets with the same reference clock at W9, which two cores "
    assert [reason.startswith(told) for reason in made] == [True]
