"""docs/boards.md: its table has the figures of the files, its examples load, and every field is in it."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hwgen.target import Board, Cluster, Device, Fill, Link
from hwgen.target_files import built_in, known_boards, read_board
from hwgen.target_pins import Pin, Pins
from hwgen.target_serial import Held, Pcie, Socket

PAGE = (Path(__file__).parent.parent / "docs" / "boards.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def row(board):
    """The line of a board in the table."""
    device, link = board.device, board.link
    cells = [
        f"`{board.name}`",
        device.name,
        f"{device.dsp:,} {device.dsp_kind}, {device.dsp_widths[0]}×{device.dsp_widths[1]}",
        f"{device.bram:,} × {device.bram_bits // 1024} Kb",
        f"{device.uram:,} × {device.uram_bits // 1024} Kb" if device.uram else "none",
        f"{device.lut_ram:,} × {device.lut_ram_bits} b",
        f"{device.lut:,}",
        f"{device.ff:,}",
        f"{board.memory_bytes // 2**20:,} MiB, {board.memory_gbytes_per_s:g} GB/s",
        f"{board.transceivers} × {board.transceiver_gbps:g} Gb/s" if board.transceivers else "none",
        f"{device.clock_mhz:g} MHz",
        f"{link.adapter} {link.lanes} × {link.gbps} Gb/s",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_table_has_the_figures_of_the_files():
    section = PAGE.partition("## Boards\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    assert lines == [row(built_in(name)) for name in known_boards()]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The examples as files in an empty working directory."""
    board, cluster = blocks("toml")
    (tmp_path / "mine.toml").write_text(board, encoding="utf-8")
    (tmp_path / "cluster.toml").write_text(cluster, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("written")
def test_the_examples_load():
    mine = read_board(Path("mine.toml"))
    assert (mine.fill, mine.link) == (Fill(lut=0.6), Link(lanes=2))
    assert dict(mine.sources)["device.clock_mhz"] == "assumed"
    assert mine.pins == Pins(
        standard="LVCMOS33",
        clock=Pin(("H22", "H23"), "LVDS", 300.0),
        reset=Pin(("D6",), active="low"),
        uart_tx=Pin(("L4",)),
        uart_rx=Pin(("M1",)),
        leds=Pin(("B2", "C2")),
    )
    cluster = Cluster.parse("cluster.toml")
    assert (str(cluster), cluster.links) == ("mine*2,vc709", (Link(), Link()))
    assert cluster.boards[0].device == mine.device
    (code,) = blocks("python")
    exec(code, {})


@pytest.mark.usefixtures("written")
def test_the_specs_are_read():
    specs = re.findall(r"^\| `([^`]*)` \| [a-z]", PAGE.partition("```python")[0], re.MULTILINE)
    sizes = [len(Cluster.parse(spec).boards) for spec in specs]
    assert (specs[0], sizes) == ("vc709", [1, 3, 3, 3, 3])


def test_every_field_is_told():
    told = set(re.findall(r"`([a-z_.]+)`", PAGE.partition("| field |")[2].partition("\n\n")[0]))
    wanted = {f.name for f in fields(Board)} - {"device", "fill", "link", "pins", "sockets", "pcie", "held"}
    kinds = {
        "device": Device, "fill": Fill, "link": Link, "pins": Pins, "signal": Pin, "sockets": Socket, "pcie": Pcie,
        "held": Held,
    }  # fmt: skip
    for table, kind in kinds.items():
        wanted |= {f"{table}.{f.name}" for f in fields(kind)}
    assert wanted == told


def test_the_defaults_are_told():
    lines = re.findall(r"^\| `link\.([a-z]+)` \|[^|]*\| `?\"?([^|`\"]+)\"?`? \|", PAGE, re.MULTILINE)
    assert [(name, text.strip()) for name, text in lines] == [
        (f.name, str(getattr(Link(), f.name))) for f in fields(Link)
    ]
    assert f"| {', '.join(f'{getattr(Fill(), f.name):g}' for f in fields(Fill))} |" in PAGE


def test_the_boards_with_pins_are_told():
    told = re.search(r"Those\nthat have it: ([^.]*)\.", PAGE).group(1)
    assert re.findall(r"`([a-z0-9_]+)`", told) == [n for n in known_boards() if built_in(n).pins is not None]
