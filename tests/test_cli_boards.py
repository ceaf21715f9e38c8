"""`hwgen boards`: the table, the sheet of one board, JSON with everything, and boards that are not there."""

import dataclasses
import json
import re

import pytest

from hwgen import cli
from hwgen.target import RESOURCES, Board, Device
from hwgen.target_files import built_in, known_boards


@pytest.fixture
def run(capsys):
    def command(*arguments):
        code = cli.main(["boards", *map(str, arguments)])
        return code, *capsys.readouterr()

    return command


MINE = """
name = "mine"
[device]
name = "D"
vendor = "v"
family = "f"
part = "p/1"
dsp_kind = "M"
dsp_widths = [9, 8]
dsp = 0
bram_kind = "B"
bram_bits = 1024
bram = 1025
lut = 1000
ff = 0
lut_ram_bits = 16
lut_ram = 5
clock_mhz = 1
[fill]
bram = 0.5
lut = 1
"""


def test_the_table_has_every_board(run):
    code, out, err = run()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in lines] == ["board", *known_boards(), "more"]
    (vc709,) = (re.sub(" {2,}", "|", line) for line in lines if line.startswith("vc709"))
    assert vc709 == (
        "vc709|XC7VX690T|3,600|DSP48E1|51.7|-|10.6|433,200|866,400|200|1 × 10.3125 Gb/s aurora|8 GiB, 29.86 GB/s"
    )


def test_the_sheet_of_a_board(run):
    code, out, err = run("alveo_u280")
    assert (code, err) == (0, "")
    head, sources = out.split("\nsources:\n")
    assert [re.sub(" {2,}", "|", line) for line in head.splitlines()] == [
        "alveo_u280: XCU280, part xcu280-fsvh2892-2L-e (xilinx virtexuplushbm)",
        "resource|has|limit|a plan may use",
        "DSP48E2, 27×18 bits signed|9,024|90%|8,121",
        "RAMB36E2, 36,864 bits|2,016|85%|1,713|70.9 Mb in all",
        "UltraRAM, 294,912 bits|960|85%|816|270.0 Mb in all",
        "LUT|1,303,680|70%|912,576",
        "of them memory, 64 bits|600,960|70%|420,672|36.7 Mb in all",
        "FF|2,607,360|70%|1,825,152",
        "logic clock: 250 MHz; oscillators: system 100 MHz, user 156.25 MHz",
        "external memory: 8 GiB, 460 GB/s",
        "transceivers for cables: 8, each up to 28.21 Gb/s",
        "pins: clock G31 F31 100 MHz (LVDS); reset L30 (LVCMOS18, active low); uart_tx B33 (LVCMOS18); uart_rx A28",
        "|(LVCMOS18)",
        "usual link: 4 × 25.78125 Gb/s aurora, encoding 64b66b: 100 Gb/s of words each way, latency 300 cycles",
    ]
    told = " ".join(sources.split())
    for name, text in built_in("alveo_u280").sources:
        assert f"{name} {' '.join(text.split())}" in told
    assert max(map(len, sources.splitlines())) <= 110


def test_a_board_of_ones_own_that_has_little(run, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    code, out, err = run(path)
    assert (code, err) == (0, "")
    assert [re.sub(" {2,}", "|", line) for line in out.splitlines()] == [
        "mine: D, part p/1 (v f)",
        "resource|has|limit|a plan may use",
        "M, 9×8 bits signed|0|90%|0",
        "B, 1,024 bits|1,025|50%|512|1.0 Mb in all",
        "LUT|1,000|100%|1,000",
        "of them memory, 16 bits|5|100%|5|0.0 Mb in all",
        "FF|0|70%|0",
        "logic clock: 1 MHz; oscillators: none told",
        "external memory: none",
        "transceivers for cables: 0",
        "pins: none told",
        "usual link: none; a chain of it needs the link given",
        "sources: none told",
    ]
    facts = json.loads(run(path, "--json")[1])["boards"][0]
    assert (facts["link"], facts["clocks"], facts["sources"]) == (None, {}, {})


def test_the_sheet_tells_the_pins(run):
    code, out, err = run("versa_ecp5_5g")
    assert (code, err) == (0, "")
    assert (
        "pins: clock P3 P4 100 MHz (LVDS); reset T1 (LVCMOS33, active low); uart_tx A11 (LVCMOS33); uart_rx C11\n"
        "  (LVCMOS33); leds E16 D17 D18 E18 F17 F18 E17 F16 (LVCMOS25, active low)\n"
    ) in out


def test_several_boards_in_the_order_asked_for(run):
    _, out, _ = run("vc709", "arty_a7_100t")
    assert re.findall(r"^(\w+): XC", out, re.MULTILINE) == ["vc709", "arty_a7_100t"]


def test_json_has_everything(run):
    code, out, err = run("--json")
    result = json.loads(out)
    assert (code, err, result["command"]) == (0, "", "boards")
    assert [facts["name"] for facts in result["boards"]] == list(known_boards())
    for facts in result["boards"]:
        board = built_in(facts["name"])
        assert facts["available"] == {r: board.available(r) for r in (*RESOURCES, "lut_ram")}
        assert facts["link"].pop("payload_gbps") == board.link.payload_gbps
        assert {f.name for f in dataclasses.fields(Board)} == facts.keys() - {"available", "megabits"}
        assert facts["device"] == dataclasses.asdict(board.device) | {
            "dsp_widths": list(board.device.dsp_widths)
        }
        assert set(facts["device"]) == {f.name for f in dataclasses.fields(Device)}
        assert facts["sources"] == dict(board.sources)
        assert facts["link"] == dataclasses.asdict(board.link)
        pins = None if board.pins is None else json.loads(json.dumps(dataclasses.asdict(board.pins)))
        assert facts["pins"] == pins
    vc709 = next(facts for facts in result["boards"] if facts["name"] == "vc709")
    assert vc709["megabits"] == {"block": 51.68, "ultra": 0.0, "distributed": 10.632}


def test_boards_that_are_not_there(run, tmp_path):
    code, out, err = run("vc707", "vc709", "zzz", tmp_path / "none.toml")
    there = f"there are {', '.join(known_boards())}, or give the path of a board's .toml file"
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"hwgen: boards: no board 'vc707'; did you mean vc709? {there}",
        f"hwgen: boards: no board 'zzz'; {there}",
        f"hwgen: {tmp_path}/none.toml: no such file or directory; give the path of a .toml file",
    ]
    code, out, _ = run("vc707", "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
