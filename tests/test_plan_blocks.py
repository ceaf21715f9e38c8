"""What memories take of a device: against data sheets, against slow searches, and against Yosys."""

import itertools
import math
import re
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from hwgen.plan.blocks import KIB18, M20K, PLUS, SEVEN, SMALL, Taken, _layers, rams_of
from hwgen.target import Cluster


def rams(name):
    return rams_of(Cluster.parse(name).boards[0].device)


@pytest.mark.parametrize(
    ("depth", "width", "halves"),
    [
        (512, 72, 2), (512, 36, 1), (513, 36, 2), (1024, 18, 1), (1024, 36, 2), (2048, 9, 1), (4096, 4, 1),
        (8192, 2, 1), (16384, 1, 1), (32768, 1, 2), (16385, 1, 2), (2, 1, 1), (512, 720, 20),
        (100, 288, 8), (300, 432, 12), (1300, 36, 3), (1536, 36, 3), (1300, 18, 2),
        (2560, 27, 4), (4096, 13, 3), (4096, 9, 2), (100, 37, 2),
    ],
)  # fmt: skip
def test_halves_of_a_block_ram(depth, width, halves):
    assert rams("vc709").taken(depth, width, "block").bram == halves / 2
    assert rams("ulx3s_85f").taken(depth, width, "block").bram == halves


def test_tables_ultra_and_registers():
    seven, plus, ecp5 = rams("vc709"), rams("alveo_u280"), rams("ulx3s_85f")
    assert seven.taken(64, 3, "distributed") == Taken(tables=4, ff=3)
    assert seven.taken(32, 6, "distributed", asynchronous=True) == Taken(tables=4)
    assert seven.taken(32, 7, "distributed").tables == 6
    assert seven.taken(96, 48, "distributed") == Taken(tables=96, lut=48, ff=48)
    assert plus.taken(64, 14, "distributed").tables == 16
    assert plus.taken(4096, 72, "ultra") == Taken(uram=1)
    assert plus.taken(4097, 73, "ultra").uram == 4
    assert ecp5.taken(16, 20, "distributed") == Taken(tables=20, lut=10, ff=20)
    assert ecp5.taken(64, 8, "distributed") == Taken(tables=32, lut=40, ff=8)
    assert seven.tables == Cluster.parse("vc709").boards[0].device.lut_ram


def test_two_readers_are_two_copies_and_asynchronous_reads_take_tables():
    one, two = (rams("vc709").taken(900, 40, "block", reads=n) for n in (1, 2))
    assert two == one * 2
    assert two == one + one
    assert rams("vc709").taken(900, 40, "block", asynchronous=True).bram == 0


def test_auto_takes_tables_for_what_is_shallow_or_small():
    seven = rams("vc709")
    for depth, width, kind in (
        (64, 288, "distributed"),
        (65, 288, "block"),
        (300, 8, "distributed"),
        (512, 16, "block"),
    ):
        assert seven.taken(depth, width) == seven.taken(depth, width, kind)


@pytest.mark.parametrize(("depth", "width", "reads"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_no_memory_without_words(depth, width, reads):
    with pytest.raises(ValueError, match=re.escape(f"{depth} × {width} bits with {reads} read ports")):
        rams("vc709").taken(depth, width, reads=reads)


def test_a_device_without_ultra_ram_says_so():
    with pytest.raises(ValueError, match="this device has no memory of kind 'ultra'"):
        rams("vc709").taken(4096, 72, "ultra")


@pytest.mark.parametrize("shapes", [KIB18, M20K, SEVEN, PLUS, SMALL])
def test_least_price_of_any_guillotine_of_strips_and_layers(shapes):
    """Cutting whole strips or whole layers off again and again, without any bound or shortcut."""
    shapes = tuple((*shape, 1)[:3] for shape in shapes)
    step = min(words for words, _, _ in shapes)

    @cache
    def strips(depth, width):
        if width <= 0:
            return 0
        return min(
            math.ceil(depth / words) * price + strips(depth, width - bits) for words, bits, price in shapes
        )

    @cache
    def cover(units, width):
        if units <= 0:
            return 0
        cuts = {words // step for words, _, _ in shapes}
        return min(
            strips(units * step, width), *(strips(c * step, width) + cover(units - c, width) for c in cuts)
        )

    rng = np.random.default_rng(7)
    for _ in range(60):
        depth, width = int(rng.integers(1, 7 * step)), int(rng.integers(1, 600))
        assert _layers(shapes, width).cover(depth)[0] == cover(math.ceil(depth / step), width), (depth, width)


def test_deeper_or_wider_never_takes_less():
    seven = rams("vc709")
    for kind in ("block", "distributed"):
        for depth in (1, 64, 100, 511, 1024, 5000):
            row = [seven.taken(depth, width, kind) for width in range(1, 100)]
            assert all(a.bram <= b.bram and a.tables <= b.tables for a, b in itertools.pairwise(row))
        for width in (1, 9, 40, 72):
            column = [seven.taken(depth, width, kind) for depth in range(1, 3000, 97)]
            assert all(a.bram <= b.bram and a.tables <= b.tables for a, b in itertools.pairwise(column))


SCRIPT = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for step in sys.argv[1:]:
    libyosys.run_pass(step, design)
"""
CASES = ((512, 72), (512, 100), (1300, 36), (2560, 27), (300, 288), (823, 144))
SIZES = {"RAMB18E1": 0.5, "RAMB36E1": 1, "DP16KD": 1}


def memory(depth, width):
    address = (depth - 1).bit_length() - 1
    return f"""
module m_{depth}_{width}(input clk, we, re, input [{address}:0] wa, ra,
                         input [{width - 1}:0] d, output reg [{width - 1}:0] q);
  (* ram_style = "block" *) reg [{width - 1}:0] m [0:{depth - 1}];
  always @(posedge clk) begin if (we) m[wa] <= d; if (re) q <= m[ra]; end
endmodule
"""


@pytest.mark.parametrize(
    ("board", "synthesis"), [("vc709", "synth_xilinx -family xc7"), ("ulx3s_85f", "synth_ecp5")]
)
def test_yosys_maps_to_as_many_blocks(tmp_path, board, synthesis):
    (tmp_path / "m.v").write_text("".join(memory(*case) for case in CASES))
    begin = {"vc709": "map_memory", "ulx3s_85f": "map_ram"}[board]
    run = (
        "read_verilog m.v",
        "hierarchy",
        "proc",
        "opt",
        "memory -nomap",
        f"{synthesis} -run {begin}:map_ffram",
    )
    steps = (*run, "tee -q -o stat.txt stat")
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *steps], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL
    )
    sections = re.split(r"^=== m_(\d+)_(\d+) ===$", (tmp_path / "stat.txt").read_text(), flags=re.MULTILINE)
    found = {}
    for depth, width, text in zip(sections[1::3], sections[2::3], sections[3::3], strict=True):
        cells = re.findall(r"^ +(\d+) +([A-Z]\w+)$", text.split("===")[0], re.MULTILINE)
        found[int(depth), int(width)] = sum(int(count) * SIZES.get(kind, 0) for count, kind in cells)
    assert found == {case: rams(board).taken(*case, "block").bram for case in CASES}
