"""Tables of pins: what boards have, what is refused, alone and in a file."""

import re
from pathlib import Path

import pytest

from hwgen.errors import TargetError
from hwgen.target_files import built_in, known_boards, read_board
from hwgen.target_pins import Pin, Pins

CLOCK, TX, RX = Pin(("G2",), mhz=25.0), Pin(("L4",)), Pin(("M1",))


def problems(make):
    with pytest.raises(TargetError) as caught:
        make()
    return caught.value.problems


def matches(message, found):
    assert re.fullmatch(re.escape(message), found), found


def test_a_board_that_has_them():
    pins = built_in("ulx3s_85f").pins
    assert list(pins.signals) == ["clock", "reset", "uart_tx", "uart_rx", "leds"]
    assert (pins.clock, pins.uart_tx, pins.uart_rx) == (CLOCK, TX, RX)
    assert pins.reset == Pin(("D6",), active="low")
    assert {pins.standard_of(pin) for pin in pins.signals.values()} == {"LVCMOS33"}


def test_a_pair_with_a_standard_of_its_own():
    pins = built_in("versa_ecp5_5g").pins
    assert (pins.clock.pins, pins.standard_of(pins.clock)) == (("P3", "P4"), "LVDS")
    assert pins.standard_of(pins.uart_tx) == "LVCMOS33"


def test_clocks_are_those_of_the_board():
    """The same oscillator stands in [clocks]."""
    boards = [board for board in map(built_in, known_boards()) if board.pins is not None]
    assert len(boards) >= 3
    for board in boards:
        assert board.pins.clock.mhz in dict(board.clocks).values()


def test_the_least_that_a_board_tells():
    pins = Pins(Pin(["G2"], "LVCMOS33", 25))
    assert list(pins.signals) == ["clock"]
    assert repr(pins.clock) == repr(Pin(("G2",), "LVCMOS33", 25.0))


PIN = [
    (("",), "pins = ('',); give 1 to 64 names of pins, pins = [\"G2\"]"),
    ("G2", "pins = 'G2'; give 1 to 64 names of pins, pins = [\"G2\"]"),
    ((), 'pins = (); give 1 to 64 names of pins, pins = ["G2"]'),
    (("G2; exit",), "pins = ('G2; exit',); give 1 to 64 names of pins, pins = [\"G2\"]"),
]


@pytest.mark.parametrize(("pins", "message"), PIN)
def test_wrong_names(pins, message):
    (found,) = problems(lambda: Pin(pins))
    matches(f"pin: {message}", found)


def test_other_wrong_fields_of_a_pin():
    found = problems(lambda: Pin(("G2",), "LVCMOS33\n", -1, "up"))
    assert found == [
        "pin: standard = 'LVCMOS33\\n'; give an I/O standard such as LVCMOS33",
        "pin: mhz = -1; give a number in 0 to 2000 MHz",
        "pin: active = 'up'; give high or low",
    ]


PINS = [
    ({"clock": None}, "clock = None; give a Pin"),
    ({"leds": "B2"}, "leds = 'B2'; give a Pin"),
    ({"standard": ""}, "clock has no standard; give it one, or one for all in [pins]"),
    ({"standard": 3}, "standard = 3; give an I/O standard such as LVCMOS33"),
    ({"clock": Pin(("G2",))}, "clock.mhz = 0; give the rate of the oscillator, above 0 and up to 2000 MHz"),
    ({"clock": Pin(("A1", "A2", "A3"), mhz=25)}, "clock.pins = ('A1', 'A2', 'A3'); give 1 to 2"),
    ({"clock": Pin(("G2",), mhz=25, active="low")}, "clock.active = 'low'; only reset and leds have it, drop it"),
    ({"reset": Pin(("A1", "A2"))}, "reset.pins = ('A1', 'A2'); give 1"),
    ({"reset": Pin(("A1",), mhz=3)}, "reset.mhz = 3; only clock has a rate, drop it"),
    ({"uart_tx": TX}, "uart_tx or uart_rx without the other; give both or none"),
    ({"uart_tx": TX, "uart_rx": Pin(("G2",))}, "pin G2 is of clock and of uart_rx; give each pin once"),
    ({"leds": Pin(("B2", "B2"))}, "pin B2 is of leds and of leds; give each pin once"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), PINS)
def test_wrong_pins(settings, message):
    (found,) = problems(lambda: Pins(**{"clock": CLOCK, "standard": "LVCMOS33"} | settings))
    matches(f"pins: {message}", found)


HEAD = 'name = "a"\n[device]\n' + "\n".join(
    ('name = "D"', 'vendor = "v"', 'family = "f"', 'part = "p"', 'dsp_kind = "M"', "dsp_widths = [9, 8]", "dsp = 0",
     'bram_kind = "B"', "bram_bits = 1024", "bram = 1", "lut = 1", "ff = 1", "clock_mhz = 1", "[pins]", "")
)  # fmt: skip
FILES = [
    ("", ["[pins] lacks clock; give it"]),
    ("clock = 'G2'", ["pins.clock = 'G2'; give a table [pins.clock]"]),
    ("clock = { mhz = 25 }", ["[pins.clock] lacks pins; give it"]),
    ("clock = { pins = ['G2'], mhz = 25, pull = 1 }",
     ["[pins.clock] has no field 'pull'; it takes pins, standard, mhz, active"]),
    ("clock = { pins = ['G2'], mhz = -1 }\nled = { pins = ['B2'] }",
     ["[pins] has no field 'led'; did you mean leds? it takes clock, standard, reset, uart_tx, uart_rx, leds",
      "[pins.clock]: pin: mhz = -1; give a number in 0 to 2000 MHz"]),
    ("clock = { pins = ['G2'], mhz = 25 }", ["pins: clock has no standard; give it one, or one for all in [pins]"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), FILES)
def test_wrong_tables_in_a_file(text, messages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(HEAD + text)
    found = problems(lambda: read_board(Path("a.toml")))
    assert found == [f"a.toml: {message}" for message in messages]


def test_a_table_of_a_file(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(HEAD + "clock = { pins = ['G2'], mhz = 25, standard = 'X' }\n")
    assert read_board(path).pins == Pins(Pin(("G2",), "X", 25.0))
