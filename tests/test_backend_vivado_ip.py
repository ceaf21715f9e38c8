"""A device as a component for block designs: its ports, its Verilog, the script that packages it."""

import re
from functools import cache

import pytest
from hwgen.sim.lint import lint, read_waivers
from vendor_bench import build_directory, device_module, projects, ran

from hwgen.errors import BuildError
from hwgen.gateware.serial.frames import BYTE
from hwgen.target import Cluster

CASES = {
    "alone": ("pynq_z2", 1, 0),
    "first": ("vc709", 3, 0),
    "middle": ("vc709", 3, 1),
    "wide": ("vcu118", 2, 1),
}
STEPS = [
    "create_project", "add_files", "current_fileset", "set_property", "update_compile_order", "ipx::package_project",
    "ipx::current_core", *["set_property"] * 4, "ipx::create_xgui_files", "ipx::update_checksums",
    "ipx::check_integrity", "ipx::save_core", "close_project",
]  # fmt: skip


INFO = r"(?:\(\* X_INTERFACE_INFO = \"(\S+) (\w+) (\w+)\" \*\)\n)?(?:.*PARAMETER.*\n)?"
PORT = re.compile(rf"(?m){INFO}  (?:in|out)put wire .*?(\w+),?$")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ip")


@cache
def case(folder, name):
    board, count, index = CASES[name]
    cluster = Cluster.chain(board, count)
    return cluster, index, projects(cluster, folder)


def linted(folder, name, edit=lambda text: text):
    cluster, index, files = case(folder, name)
    place = f"device{index}/vivado"
    device = device_module(cluster, index, host="bytes")
    texts = {
        "ip.v": edit(files[f"{place}/ip.v"]),
        "device.v": device,
        "support.v": files.get(f"{place}/support.v", ""),
    }
    return [one for one in lint(texts, "hwgen_ip", read_waivers()) if ": device.v:" not in one]


@pytest.mark.parametrize("name", CASES)
def test_the_component_fits_the_device(folder, name):
    assert linted(folder, name) == []
    with pytest.raises(BuildError):
        linted(folder, name, lambda text: text.replace(".clk(aclk)", ".clock(aclk)"))


@pytest.mark.parametrize("name", CASES)
def test_every_port_but_one_is_of_an_interface(folder, name):
    _, index, files = case(folder, name)
    text = files[f"device{index}/vivado/ip.v"]
    found = re.findall(PORT, text)
    assert {port for kind, _, _, port in found if not kind} <= {"up_channel_up", "down_channel_up"}
    streams = {}
    for kind, interface, signal, port in found:
        if kind.endswith("axis:1.0"):
            assert port == f"{interface}_{signal.lower()}"
            streams.setdefault(interface, set()).add(signal)
    least = {"TDATA", "TVALID"}
    assert all(signals >= least for signals in streams.values())
    associated = re.findall(r"ASSOCIATED_BUSIF (\S+),", text)
    assert sorted(one for names in associated for one in names.split(":")) == sorted(streams)
    if index == 0:
        assert (streams["s_axis"], streams["m_axis"]) == (least | {"TREADY"}, least | {"TREADY", "TLAST"})


def test_the_last_byte_of_an_answer_has_tlast(folder):
    _, _, files = case(folder, "alone")
    assert (BYTE["data"].offset, BYTE["last"].offset) == (0, 8)
    assert ".o__payload({m_axis_tlast, m_axis_tdata})" in files["device0/vivado/ip.v"]


@pytest.mark.parametrize("name", CASES)
def test_the_script_packages_it(folder, name, tmp_path):
    _, index, files = case(folder, name)
    path = build_directory(tmp_path, files) / f"device{index}" / "vivado" / "package_ip.tcl"
    run = ran("vivado.tcl", path, tmp_path)
    assert (run.code, run.names) == (0, STEPS), run.output
    assert (path.parent / "out_ip" / "component.xml").is_file()
    assert any(re.match(r"ipx::package_project .*-vendor hwgen -library device", call) for call in run.calls)


@pytest.mark.parametrize("step", list(dict.fromkeys(STEPS)))
def test_a_step_that_fails_leaves_no_component(folder, step, tmp_path):
    _, index, files = case(folder, "alone")
    path = build_directory(tmp_path, files) / f"device{index}" / "vivado" / "package_ip.tcl"
    run = ran("vivado.tcl", path, tmp_path, VENDOR_FAIL=step)
    assert run.code == 1
    assert f"hwgen: ERROR: [{step}] failed" in run.output
    assert not (path.parent / "out_ip" / "component.xml").exists()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.replace("  ipx::create_xgui_files $core\n", ""),
         "ipx::update_checksums before ipx::create_xgui_files"),
        (lambda t: t.replace("  ipx::save_core $core\n", ""), "close_project before ipx::save_core"),
        (lambda t: re.sub(r"  set_property top .*\n", "", t), "ipx::package_project without a top"),
        (lambda t: t.replace("ipx::check_integrity $core", "ipx::check_integrity core"),
         "ipx::check_integrity of no core"),
        (lambda t: t.replace("ipx::check_integrity", "ipx::check"), "no command ipx::check"),
        (lambda t: t.replace("  add_files -norecurse $files\n", ""), "update_compile_order without sources"),
        (lambda t: t.replace("-taxonomy /UserIP", "-taxon /UserIP"), "no option -taxon"),
        (lambda t: t.replace("hwgen_uart.v", "hwgen_wart.v"), "hwgen_wart.v is missing; build again"),
    ],
)  # fmt: skip
def test_the_stand_in_refuses_what_vivado_would(folder, edit, message, tmp_path):
    _, index, files = case(folder, "alone")
    path = build_directory(tmp_path, files) / f"device{index}" / "vivado" / "package_ip.tcl"
    text = path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))
    run = ran("vivado.tcl", path, tmp_path)
    assert run.code == 1
    assert message in run.output
