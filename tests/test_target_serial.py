"""Sockets, PCIe and held pins of a board: read from files, and every wrong field told."""

import re
from pathlib import Path

import pytest

from hwgen.errors import TargetError
from hwgen.target_files import built_in, read_board
from hwgen.target_pins import Pin
from hwgen.target_serial import Held, Pcie, Socket

CLOCK, RESET = Pin(("A1", "A2"), mhz=156.25), Pin(("B1",), "LVCMOS18")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Socket(("X0Y1", "X0Y4"), CLOCK), r"socket: channels = .* are of several quads; .*"),
        (lambda: Socket(("X0Y1", "X0Y1"), CLOCK), r"socket: channels = .*; give 1 to 4 different positions .*"),
        (lambda: Socket((), CLOCK), r"socket: channels = \(\); give 1 to 4 .*"),
        (lambda: Socket(("0",), CLOCK), r"socket: channels = \('0',\); give 1 to 4 .*"),
        (lambda: Socket(("X0Y0",), RESET), r"socket: clock = .*; give a Pin of two pins, .* and its mhz"),
        (lambda: Socket(("X0Y0",), CLOCK, "REF"), r"socket: source = 'REF'; give MGTREFCLK0 or MGTREFCLK1"),
        (lambda: Socket(("X0Y0",), CLOCK, quad=-2), r"socket: quad = -2; give an integer .*"),
        (lambda: Socket(("X0Y0",), CLOCK, place=12), r"socket: place = 12; give an integer in -1\.\.11"),
        (lambda: Pcie(CLOCK, CLOCK, 8, 8.0, "X0Y0"), r"pcie: reset = .*; give a Pin of one pin and its standard"),
        (lambda: Pcie(CLOCK, RESET, 3, 8.0, "X0Y0"), r"pcie: lanes = 3; give 1, 2, 4, 8, 16"),
        (lambda: Pcie(CLOCK, RESET, 8, 7.0, "X0Y0"), r"pcie: gtps = 7.0; give 2.5, 5, 8"),
        (lambda: Pcie(CLOCK, RESET, 8, 8.0, "0"), r'pcie: block = \'0\'; give a position such as "X0Y1"'),
        (lambda: Held("a", Pin(("B1",)), "low"), r"held: pin = .*; give a Pin of one pin and its standard"),
        (lambda: Held("A", RESET, "low"), r"held: name = 'A'; .*"),
        (lambda: Held("a", RESET, "up"), r"held: level = 'up'; give high or low"),
    ],
)  # fmt: skip
def test_what_is_wrong(make, message):
    with pytest.raises(TargetError) as error:
        make()
    assert len(error.value.problems) == 1
    assert re.fullmatch(message, str(error.value)), str(error.value)


def test_quads():
    assert Socket(("X1Y14", "X1Y13"), CLOCK).quads == ("Quad_X1Y3", "Quad_X1Y3")
    assert Socket(("X0Y0",), CLOCK, quad=1).quads == ("Quad_X0Y0", "Quad_X0Y1")


TABLES = """
[[sockets]]
channels = ["X1Y12"]
clock = { pins = ["A1", "A2"], mhz = 156.25 }
source = "MGTREFCLK1"

[pcie]
clock = { pins = ["C1", "C2"], mhz = 100.0 }
reset = { pins = ["B1"], standard = "LVCMOS18" }
lanes = 8
gtps = 8.0
block = "X0Y1"

[[held]]
name = "sfp_off"
pin = { pins = ["D1"], standard = "LVCMOS18" }
level = "low"
"""


def own_board(folder, tables):
    text = (
        (Path(__file__).parent.parent / "boards" / "genesys2.toml").read_text().replace('"genesys2"', '"own"')
    )
    path = folder / "own.toml"
    path.write_text(text.partition("[[sockets]]")[0].replace("[sources]", f"{tables}\n[sources]"))
    return path


def test_a_file_tells_them(tmp_path):
    board = read_board(own_board(tmp_path, TABLES))
    assert board.sockets == (Socket(("X1Y12",), CLOCK, "MGTREFCLK1"),)
    assert board.pcie == Pcie(Pin(("C1", "C2"), mhz=100.0), RESET, 8, 8.0, "X0Y1")
    assert board.held == (Held("sfp_off", Pin(("D1",), "LVCMOS18"), "low"),)
    assert built_in("arty_a7_100t").sockets == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[sockets]]", "[sockets]", r".*: sockets = .*; give a table \[\[sockets\]\] for each"),
        ("mhz = 156.25", "hz = 1", r".*: \[sockets\.0\.clock\] has no field 'hz'; .*"),
        ("lanes = 8", "lanes = 0", r".*: \[?pcie.*: lanes = 0; .*"),
        ('level = "low"', "", r".*: \[held\.0\] lacks level; give it"),
    ],
)
def test_wrong_tables(tmp_path, old, new, message):
    with pytest.raises(TargetError) as error:
        read_board(own_board(tmp_path, TABLES.replace(old, new, 1)))
    assert re.fullmatch(message, error.value.problems[0]), error.value.problems
