"""Drivers with several clocks, cables and further streams: both the same in every cycle, on stub boards."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hwgen.sim.chain_top import CHAIN, Cable, chain_files, chain_top, knob
from hwgen.sim.cocotb_driver import run_cocotb
from hwgen.sim.cpp_driver import Conditions, run_cpp
from hwgen.sim.layout import Layout
from hwgen.sim.lint import lint
from hwgen.sim.ports import STREAMS, read_ports
from hwgen.sim.program import Program, read_results, write_program
from hwgen.sim.surroundings import (
    Clock,
    Reset,
    Samples,
    Setting,
    Surroundings,
    read_outputs,
    read_sink,
    write_surroundings,
)  # fmt: skip
from hwgen.sim.verilate import BuildOptions, build_driver
from sim_bench import *
from stub_devices import BOUNDARY, far_board, host_board

from hwgen.errors import BuildError

BOARDS = {f"{k}.v": text for k, text in enumerate((host_board(), far_board(1, False), far_board(2, True)))}
HOST = ("command", "reply")


def board_ports(files=BOARDS):
    return [read_ports(files, f"hwgen_board{k}", STREAMS if k == 0 else ()) for k in range(len(files))]


def chain(shared_clock=False):
    files = {**BOARDS, **chain_files(board_ports(), shared_clock, depth_bits=6)}
    return files, read_ports(files, CHAIN)


def same_files(one, other):
    """All that both drivers wrote is equal but for the seconds."""
    names = sorted(path.name for path in one.iterdir() if path.suffix in (".bin", ".txt"))
    names = [name for name in names if name not in ("bench.txt", "progress.txt")]
    for name in names:
        a, b = (one / name).read_bytes(), (other / name).read_bytes()
        if name == "outcome.txt":
            a, b = (re.sub(rb"seconds .*", b"", text) for text in (a, b))
        if name == "marks.bin":
            a, b = (np.frombuffer(text, np.int64)[::2].tolist() for text in (a, b))
        assert a == b, name


def both(files, ports, prepare, tmp_path, conditions):
    """Runs the C++ driver and Icarus on the same files; the directory of the first."""
    directories = []
    for name in ("cpp", "icarus"):
        directory = tmp_path / name
        prepare(directory)
        directories.append(directory)
    first = run_cpp(build_driver(files, ports, BuildOptions(fast=False)), directories[0], conditions)
    second = run_cocotb(files, ports, directories[1], conditions, "icarus")
    assert replace(first, seconds=0) == replace(second, seconds=0)
    same_files(*directories)
    return directories[0], first


CLOCKS = (
    Clock("board_clk", 0, 6400), Clock("board_clk", 1, 5000, 1234), Clock("board_clk", 2, 7777, 20),
    *(Clock("link_clk", k, 6206 + 3 * k, 500 * k) for k in range(4)),
)  # fmt: skip
RESETS = (
    Reset("board_rst", 0, 600_001, 0), Reset("board_rst", 1, 400_001, 1), Reset("board_rst", 2, 20_000, 2),
)  # fmt: skip


def chain_program(images=40):
    program = Program()
    program.write("rate", 7)
    program.record(True)
    program.feed(np.arange(images), train=True)
    program.mark()
    program.results(images)
    program.status(1, 1)
    program.read(9, 5)
    return program


def prepare_chain(ports, around, program):
    layout = Layout((1, 1, 1), 1, 1, 8)
    images = np.arange(40).reshape(40, 1, 1, 1) - 20

    def prepare(directory):
        write_program(directory, program, ports, layout, images, np.zeros(40, np.int64))
        write_surroundings(directory, around, ports)

    return prepare


@pytest.mark.parametrize("shared_clock", [False, True])
def test_both_drivers_run_a_chain_alike(tmp_path, shared_clock):
    files, ports = chain(shared_clock)
    clocks, resets = CLOCKS, RESETS
    if shared_clock:
        clocks, resets = (Clock("clk", 0, 6400),), tuple(replace(reset, clock=0) for reset in RESETS)
    cables = [Cable(latency=3 + 5 * k, jitter=k, drop33=1, seed=k + 9) for k in range(4)]
    settings = [setting for k, cable in enumerate(cables) for setting in cable.settings(k)]
    # Away from the host one cable doubles three frames; every other one flips a bit of a word or two.
    settings += [knob("inject_repeat", 0, value, 0, cycle) for value, cycle in ((1, 500), (0, 503))]
    settings += [knob("inject_error", 3, value, 0, cycle) for value, cycle in ((1, 900), (0, 902))]
    prepare = prepare_chain(ports, Surroundings(clocks, resets, settings), chain_program())
    directory, outcome = both(
        files, ports, prepare, tmp_path, Conditions(max_cycles=50_000, stall=0.2, seed=5, watchdog=3000)
    )
    assert outcome.end == "done"
    # A repeated frame may come back as a surplus result: these boards know no frames.
    assert 40 <= len(read_results(directory).predictions) <= 43
    outputs = read_outputs(directory)
    repeated = [outputs["link_repeated"] >> 32 * k & 0xFFFFFFFF for k in range(4)]
    damaged = [outputs["link_damaged"] >> 32 * k & 0xFFFFFFFF for k in range(4)]
    assert repeated == [3, 0, 0, 0]
    assert damaged == [0, 0, 0, 2]
    assert outputs["link_state"] == 0b100_100_100_101
    words = [outputs["link_words"] >> 64 * k & 0xFFFFFFFF for k in range(4)]
    assert min(words) >= 40
    # The age of a board counts the edges of its own clock from its own reset on; every probe sees them all.
    for board, start in ((1, 400_001), (2, 20_000)):
        ages = read_sink(directory, ports, f"probe_b{board}_dy0")[:, 0].astype(int)
        wanted = [age for age in range(int(ages[0]), int(ages[-1]) + 1) if age & 1 and age & 4]
        assert ages.tolist() == wanted
        clock = clocks[0] if shared_clock else clocks[board]
        end = clocks[0].period * outcome.cycles
        assert abs(int(ages[-1]) - (end - start) / clock.period) < 80


def test_a_link_that_is_down(tmp_path):
    """What is lost never comes back on these boards: the watchdog ends both drivers in the same cycle."""
    files, ports = chain()
    settings = [setting for k in range(4) for setting in Cable(latency=2, seed=k).settings(k)]
    settings.append(knob("down", 2, 1, 3, 300))
    prepare = prepare_chain(ports, Surroundings(CLOCKS, RESETS, settings), chain_program())
    directory, outcome = both(
        files, ports, prepare, tmp_path, Conditions(max_cycles=50_000, seed=1, watchdog=500)
    )
    assert (outcome.end, outcome.status, outcome.bus_waits) == ("watchdog", 0, False)
    assert 0 < outcome.results < 40
    assert read_outputs(directory)["link_lost"] >> 64 & 0xFFFFFFFF == 1


def boundary():
    files = {"boundary.v": BOUNDARY}
    return files, read_ports(files, "hwgen_boundary", HOST)


def boundary_program(sink):
    program = Program()
    program.write("rate", 1)
    program.feed(np.arange(5), train=True)
    program.received(sink, 15)
    program.write("rate", 0)
    program.feed(np.arange(4), train=False)
    program.received(sink, 27)
    program.status(1, 1)
    program.read(9, 3)
    return program


def prepare_boundary(ports):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1 << 8, (27, 2)).astype(np.uint32)
    dy = rng.integers(0, 256, (10, 1)).astype(np.uint32)
    sources = {"up_x": Samples(x, 3), "down_dy": Samples(dy, 2, inference=False)}
    around = Surroundings(settings=[Setting("offset", 4, 36, 0x912345678)], sources=sources)
    layout = Layout((1, 1, 1), 1, 1, 8)
    assert ports.sinks == ("down_y",)

    def prepare(directory):
        none = np.zeros((0, 1, 1, 1), np.int64)
        write_program(directory, boundary_program(0), ports, layout, none, np.zeros(0, np.int64))
        write_surroundings(directory, around, ports)

    return prepare, x


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_further_streams_of_a_board_alone(tmp_path, stall):
    files, ports = boundary()
    prepare, x = prepare_boundary(ports)
    directory, outcome = both(
        files, ports, prepare, tmp_path, Conditions(max_cycles=50_000, stall=stall, seed=2, watchdog=500)
    )
    assert (outcome.end, outcome.fed, outcome.unfed) == ("done", 9, 0)
    y = read_sink(directory, ports, "down_y")
    assert y.shape == (27, 3)
    assert np.array_equal(y[:, 0], x[:, 0])
    assert np.array_equal(y[:, 1] & 0xFF, x[:, 1])
    assert read_outputs(directory)["sum"] >= 27 * 0x9123456780


def test_ports_of_a_chain():
    ports = chain()[1]
    assert ports.settings[:4] == ("board_clk", "link_clk", "board_rst", "link_up")
    assert ports.probes == ("probe_b0_y0", "probe_b1_dy0", "probe_b2_dy0")
    assert [ports.widths[name] for name in ("board_clk", "link_clk", "link_rate", "channel_valid")] == [
        3,
        4,
        68,
        7,
    ]
    shared = chain(shared_clock=True)[1]
    assert {"clk", "board_rst"} <= {*shared.settings}
    assert not {"board_clk", "link_clk"} & {*shared.settings}


def test_every_board_and_direction_has_its_own_bits():
    """Board 0 in the low bits; direction 2·link away from the host, 2·link + 1 towards it."""
    text = chain()[0]["chain.sv"]
    assert "assign channel_valid = {valid_2, valid_1, valid_0};" in text
    for direction, (near, far) in enumerate(((0, 1), (1, 0), (2, 3), (3, 2))):
        part = text[text.index(f" channel_{direction} (") :]
        part = part[: part.index(");\n")]
        assert f".tx_clk(link_clk_{near})" in part
        assert f".rx_clk(link_clk_{far})" in part
        assert f".tx_data(tx_{near}[63:0])" in part
        assert f".rx_data(rx_{far}[63:0])" in part
        assert f".latency(link_latency[{16 * direction} +: 16])" in part


@pytest.mark.parametrize("shared_clock", [False, True])
def test_lint_of_a_chain(shared_clock):
    """The top itself; the stub boards are lax about widths."""
    warnings = lint(chain(shared_clock)[0], CHAIN)
    assert [warning for warning in warnings if "chain.sv" in warning] == []


def test_boards_that_do_not_fit():
    files = {**BOARDS, "1.v": far_board(1, False, width=128)}
    expected = r"^verilog: hwgen_board0 and hwgen_board1 have links of 64 and 128 bits; build again$"
    with pytest.raises(BuildError, match=expected):
        chain_top(board_ports(files))
    files = {**BOARDS, "1.v": far_board(1, True)}
    with pytest.raises(BuildError, match=r"^verilog: module hwgen_board1 has no port down_clk; build again$"):
        chain_top(board_ports(files))


@pytest.mark.parametrize(
    ("around", "message"),
    [
        ({"clocks": [Clock("clock")]}, r"no input clock; there are clk, rst, offset"),
        ({"resets": [Reset("rst", 1)]}, r"bit 1 of rst, which has 1 bits"),
        ({"settings": [Setting("offset", 8, 33, 1)]}, r"bit 40 of offset, which has 40 bits"),
        (
            {"sources": {"up_x": Samples(np.zeros((1, 2)), 1)}},
            r"down_dy has no samples; sources are up_x, down_dy",
        ),
        (
            {"sources": {name: Samples(np.zeros((3, 2)), 2) for name in ("up_x", "down_dy")}},
            r"up_x takes samples of 2 beats of 2 words; got an array of \(3, 2\)",
        ),
    ],
)
def test_surroundings_that_the_device_has_not(tmp_path, around, message):
    ports = boundary()[1]
    sources = {name: Samples(np.zeros((0, ports.words(name))), 1) for name in ports.sources}
    with pytest.raises(BuildError, match=f"^device hwgen_boundary: {message}$"):
        write_surroundings(tmp_path, Surroundings(**({"sources": sources} | around)), ports)


@pytest.mark.parametrize(("name", "value"), [("latency", 1 << 16), ("up", 2), ("loss", -1)])
def test_knobs_have_their_width(name, value):
    with pytest.raises(ValueError, match=rf"^link_{name}: {value} does not fit \d+ bits$"):
        knob(name, 0, value)
