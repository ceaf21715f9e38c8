"""Cores in projects for Vivado: which transceivers, whose clocks, what streams; and limits between clock domains."""

import dataclasses
import re
from fractions import Fraction

import pytest
from vendor_bench import projects

from hwgen.backend.projects.aurora import auroras
from hwgen.backend.projects.vivado_cores import beats_of, xdma_parameters
from hwgen.target import Cluster, Link
from hwgen.target_files import built_in
from hwgen.target_pins import Pin
from hwgen.target_serial import Pcie, Socket


def cores(board, *links):
    given = list(zip(("up", "down"), links, strict=False))
    return auroras(built_in(board) if isinstance(board, str) else board, given, Fraction(120))


@pytest.mark.parametrize(
    ("board", "links", "taken"),
    [
        ("vc709", [Link(), Link()], [(0, ["X1Y13"], None), (0, ["X1Y12"], "up")]),
        ("vc709", [Link(lanes=3), Link()], [(0, ["X1Y13", "X1Y12", "X1Y14"], None), (0, ["X1Y15"], "up")]),
        ("vcu118", [Link(lanes=4), Link(lanes=4)],
         [(0, ["X1Y48", "X1Y49", "X1Y50", "X1Y51"], None), (1, ["X1Y52", "X1Y53", "X1Y54", "X1Y55"], None)]),
        ("vcu118", [Link(lanes=3), Link(lanes=2)],
         [(0, ["X1Y48", "X1Y49", "X1Y50"], None), (1, ["X1Y52", "X1Y53"], None)]),
        ("vcu118", [Link(lanes=2), Link(lanes=2)], [(0, ["X1Y48", "X1Y49"], None), (0, ["X1Y50", "X1Y51"], "up")]),
        # A PLL has one rate.
        ("vcu118", [Link(lanes=2), Link(lanes=2, gbps=25.78125)],
         [(0, ["X1Y48", "X1Y49"], None), (1, ["X1Y52", "X1Y53"], None)]),
    ],
)  # fmt: skip
def test_links_take_transceivers_in_order(board, links, taken):
    made = cores(board, *links)
    assert [(one.socket, list(one.channels), one.master) for one in made] == taken
    assert [dict(one.parameters)["SupportLevel"] for one in made] == [
        "1" if not m else "0" for _, _, m in taken
    ]
    assert [dict(one.parameters)["C_AURORA_LANES"] for one in made] == [str(link.lanes) for link in links]
    assert [dict(one.parameters)["C_LINE_RATE"] for one in made] == [repr(link.gbps) for link in links]


def test_parameters_of_7_series_cores_count_places_in_the_package():
    first, second = (dict(one.parameters) for one in cores("vc709", Link(), Link()))
    places = lambda found: {name: value for name, value in found.items() if name.startswith("C_GT_")}  # noqa: E731
    assert places(first) == {"C_GT_CLOCK_1": "GTHQ2", "C_GT_LOC_1": "X", "C_GT_LOC_10": "1"}
    assert places(second) == {"C_GT_CLOCK_1": "GTHQ2", "C_GT_LOC_1": "X", "C_GT_LOC_9": "1"}
    (alone,) = (dict(one.parameters) for one in cores("kc705", Link()))
    # The reference clock comes from the quad below.
    assert places(alone) == {"C_GT_CLOCK_1": "GTXQ1", "C_GT_LOC_1": "X", "C_GT_LOC_11": "1"}
    assert (alone["C_REFCLK_FREQUENCY"], alone["C_INIT_CLK"], alone["interface_mode"]) == (
        "156.25",
        "120",
        "Framing",
    )
    socket = Socket(("X0Y0", "X0Y1"), Pin(("A1", "A2"), mhz=156.25), place=0)
    (one,) = cores(dataclasses.replace(built_in("kc705"), sockets=(socket,)), Link(lanes=2))
    assert places(dict(one.parameters)) == {"C_GT_CLOCK_1": "GTXQ0", "C_GT_LOC_1": "1", "C_GT_LOC_2": "2"}


def test_parameters_of_ultrascale_cores_name_quad_and_lanes():
    (one,) = cores("alveo_u250", Link(lanes=4, gbps=25.78125))
    found = dict(one.parameters)
    assert found["C_START_QUAD"] == "Quad_X1Y11"
    assert found["C_START_LANE"] == "X1Y44"
    assert found["CHANNEL_ENABLE"] == "X1Y44 X1Y45 X1Y46 X1Y47"
    assert found["C_REFCLK_SOURCE"] == "MGTREFCLK1_of_Quad_X1Y11"
    assert found["C_REFCLK_FREQUENCY"] == "161.1328125"
    assert [found[f"C_GT_LOC_{lane}"] for lane in (2, 3, 4)] == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("lanes", "gtps", "width", "clock"),
    [
        (1, 2.5, 64, "62.5"), (1, 5.0, 64, "62.5"), (2, 5.0, 64, "125"), (4, 5.0, 64, "250"), (1, 8.0, 64, "125"),
        (4, 8.0, 128, "250"), (8, 5.0, 128, "250"), (8, 8.0, 256, "250"), (16, 8.0, 512, "250"),
    ],
)  # fmt: skip
def test_streams_of_the_dma_engine_carry_what_the_lanes_do(lanes, gtps, width, clock):
    pcie = Pcie(Pin(("A1", "A2"), mhz=100.0), Pin(("B1",), "LVCMOS18"), lanes, gtps, "X0Y1")
    found = dict(xdma_parameters(pcie))
    assert (found["axi_data_width"], found["axisten_freq"], beats_of(pcie)) == (
        f"{width}_bit",
        clock,
        width // 8,
    )
    assert (found["pl_link_cap_max_link_width"], found["pl_link_cap_max_link_speed"]) == (
        f"X{lanes}",
        f"{gtps}_GT/s",
    )


def test_limits_between_domains_are_the_shorter_period(tmp_path):
    files = projects(Cluster.chain("vc709", 3), tmp_path)
    rates = {
        "mmcm/CLKOUT0": 200,
        "mmcm/CLKOUT1": 120,
        "down_core/user_clk_out": 10312.5 / 64,
        "dma/axi_aclk": 250,
    }
    found = {}
    for line in files["device0/vivado/timing.xdc"].splitlines():
        if line.startswith("set_max_delay"):
            start, end = re.findall(r"get_pins (\S+?)\]", line)
            found[start, end] = float(line.split()[-1])
    assert set(found) == {(a, b) for a in rates for b in rates if a != b}
    for (start, end), delay in found.items():
        period = 1000 / max(rates[start], rates[end])
        assert period - 0.001 < delay <= period


@pytest.mark.parametrize(("active", "ready"), [("high", "locked & ~reset"), ("low", "locked & reset")])
def test_reset_follows_its_button(active, ready, tmp_path):
    arty = built_in("arty_a7_100t")
    pins = dataclasses.replace(arty.pins, reset=Pin(("C2",), active=active))
    files = projects(Cluster((dataclasses.replace(arty, pins=pins),)), tmp_path)
    assert f"wire ready = {ready};" in files["device0/vivado/top.v"]
    pull = "PULLDOWN" if active == "high" else "PULLUP"
    line = f"{{PACKAGE_PIN C2 IOSTANDARD LVCMOS33 PULLTYPE {pull}}} [get_ports {{reset}}]"
    assert line in files["device0/vivado/pins.xdc"]
