"""Programs of the drivers, their files, the ports they need, and what is said when one hangs."""

import re

import numpy as np
import pytest
from fake_device import fake_build
from hwgen.sim.cache import cached, content_key
from hwgen.sim.layout import Layout
from hwgen.sim.ports import mangle, read_ports
from hwgen.sim.program import Outcome, Program, read_outcome, read_results, write_program
from hwgen.sim.session import waiting_for
from hwgen.sim.watchdog import explain

from hwgen.errors import BuildError, ToolError
from hwgen.plan.registers import GLOBAL


@pytest.fixture(scope="module")
def build():
    return fake_build(count=0)


def test_operations_and_their_numbers():
    program = Program()
    program.write("rate", -2)
    program.load("data", np.array([[1, -1], [2, 3]]))
    program.load("data", np.array([4]))
    assert program.read(5) == slice(0, 1)
    assert program.read(7, 3, 2) == slice(1, 4)
    program.feed(np.array([4, 2]), train=True)
    program.feed(np.array([0]), train=False)
    assert [program.mark(), program.mark()] == [0, 1]
    program.results(3)
    program.status(8, 8)
    program.record(True)
    rate, data = GLOBAL["rate"].address, GLOBAL["data"].address
    assert program.lines == [
        f"write {rate} 4294967294", f"load {data} 0 4", f"load {data} 4 1", "read 5 1 0", "read 7 3 2",
        "feed 0 2 1", "feed 2 1 0", "mark", "mark", "results 3", "status 8 8 0", "record 1",
    ]  # fmt: skip
    assert np.concatenate(program.words).tolist() == [1, 0xFFFFFFFF, 2, 3, 4]
    assert program.fed == 3
    assert [waiting_for(program, op) for op in (0, 9, 10, 12)] == [
        f"register {rate}", "result 3", "all gradients of a batch", "the end",
    ]  # fmt: skip


def test_registers_of_other_boards():
    program = Program()
    program.write("rate", 1, board=2)
    program.load("data", np.array([5]), board=255)
    program.read(9, 2, 1, board=3)
    program.status(1, 1, board=4)
    assert program.lines == [
        "write 131076 1", "load 16711693 0 1", "read 196617 2 1", "status 1 1 4",
    ]  # fmt: skip


def test_samples_follow_the_registers_that_they_depend_on():
    """A word is read back from every board with a write of which nothing came back yet."""
    program = Program()
    for board in (2, 0, 1, 3, 4):
        program.write("control", 1, board=board)
    program.load("data", np.array([1]), board=4)
    assert program.read(3, board=1) == slice(0, 1)
    program.status(1, 1, board=3)
    program.feed(np.array([0]), train=False)
    program.feed(np.array([0]), train=False)
    assert program.lines[-5:] == [
        "read 0 1 0", "read 131072 1 0", "read 262144 1 0", "feed 0 1 0", "feed 1 1 0",
    ]  # fmt: skip
    assert program.read(0) == slice(4, 5)


def test_files_of_a_program(tmp_path, build):
    ports = read_ports(build.files)
    layout = Layout((2, 1, 4), 1, 3, 8)
    images = np.arange(16, dtype=np.int64).reshape(2, 2, 1, 4) - 8
    program = Program()
    program.feed(np.array([1, 0, 1]), train=True)
    write_program(tmp_path / "run", program, ports, layout, images, np.array([3, 4]))
    words = np.fromfile(tmp_path / "run" / "images.bin", dtype=np.uint32)
    # Two pixels of two words: three lanes of 8 bits, then the bit that marks an image's last beat.
    assert [hex(word) for word in words] == [
        "0xfaf9f8", "0xfb", "0xfefdfc", "0x10000ff", "0x20100", "0x3", "0x60504", "0x1000007",
    ]  # fmt: skip
    assert np.fromfile(tmp_path / "run" / "shape.bin", dtype=np.uint32).tolist() == [4, 1]
    assert np.fromfile(tmp_path / "run" / "order.bin", dtype=np.uint32).tolist() == [1, 0, 1]
    assert np.fromfile(tmp_path / "run" / "labels.bin", dtype=np.uint32).tolist() == [3, 4]
    assert (tmp_path / "run" / "words.bin").stat().st_size == 0
    assert (tmp_path / "run" / "program.txt").read_text() == "feed 0 3 1\n"


def test_outcome_and_results_are_read_back(tmp_path):
    (tmp_path / "outcome.txt").write_text(
        "end watchdog\ncycles 77\nseconds 0.5\nop 3\nfed 4\nunfed 1\nresults 2\n"
        "bus_waits 0\nvalid 1 2\nready 3 0\nstatus 5\n"
    )
    assert read_outcome(tmp_path) == Outcome("watchdog", 77, 0.5, 3, 4, 1, 2, False, 1 | 2 << 32, 3, 5)
    table = np.array([[1, 70000, 5, 1], [2, 3, 6, 0], [9, 9, 9, 9]], dtype=np.uint32)
    (tmp_path / "results.bin").write_bytes(table.tobytes()[:-2])
    np.array([1, 2, 3, 4], dtype=np.int64).tofile(tmp_path / "feeds.bin")
    np.array([7], dtype=np.uint32).tofile(tmp_path / "reads.bin")
    np.array([10, 1000], dtype=np.int64).tofile(tmp_path / "marks.bin")
    results = read_results(tmp_path)
    assert results.predictions.tolist() == [1, 2]
    assert results.losses.tolist() == [70000, 3]
    assert results.cycles.tolist() == [5 + (1 << 32), 6]
    assert results.feeds.tolist() == [[1, 2], [3, 4]]
    assert results.reads.tolist() == [7]
    assert results.marks.tolist() == [[10, 1000]]


def test_missing_outcome(tmp_path):
    with pytest.raises(
        ToolError, match=r"^simulation: no outcome\.txt; the driver ended before the program did$"
    ):
        read_outcome(tmp_path)


def test_ports_of_the_verilog(build):
    ports = read_ports(build.files)
    assert ports.probes == (
        "probe_y0",
        "probe_dy0",
        "probe_dx0",
        "probe_y1",
        "probe_dy1",
        "probe_dx1",
        "probe_dz",
    )
    assert ports.widths["image__payload"] == 3 * 8 + 1
    assert ports.words("image") == 1
    assert ports.words("result") == 2
    header = ports.header()
    assert "#define PORT_image_valid image___05Fvalid\n" in header
    assert 'X(probe_dz___05F, "probe_dz", 0)' in header
    assert mangle("a__b_c") == "a___05Fb_c"


def test_verilog_without_the_device_or_a_port(build):
    with pytest.raises(BuildError, match=r"^verilog: no module hwgen_core in 1 files; build again$"):
        read_ports({"a.v": "module other(); endmodule"})
    text = build.files["verilog/hwgen_core.v"].replace("input label__valid;", "").replace("input rst;", "")
    with pytest.raises(
        BuildError, match=r"^verilog: module hwgen_core has no port rst, label__valid; build again$"
    ):
        read_ports({"a.v": text})


def _outcome(**changes):
    fields = {"end": "watchdog", "cycles": 900, "seconds": 1.0, "op": 1, "fed": 4, "unfed": 1, "results": 2}
    return Outcome(**(fields | {"bus_waits": False, "valid": 0, "ready": 0} | changes))


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"valid": 0b0111, "ready": 0b0001}, r"stuck channel: c \(valid, not ready, blocked too: b\)"),
        ({"valid": 0b0001, "ready": 0b0111}, r"stuck channel: b \(ready, nothing comes, also starving: c\)"),
        ({"valid": 0b1111, "ready": 0b1111}, r"stuck channel: none shows valid or ready"),
        ({"valid": 0b0111, "bus_waits": True}, r"stuck channel: command \(a register access has no answer\)"),
    ],
)
def test_a_hang_names_the_channel(changes, end):
    text = explain(_outcome(**changes), ("a", "b", "c", "d"), "result 5", 500)
    head = r"watchdog: nothing moved for 500 cycles \(cycle 900\) while waiting for result 5; "
    head += "2 results of 4 images; "

    assert re.fullmatch(head + end, text), text


def test_a_run_over_its_limit():
    text = explain(_outcome(end="limit", valid=1), ("a",), "the end", 500)
    assert text.startswith("watchdog: not finished after 900 cycles while waiting for the end; ")


def test_the_cache_builds_once_and_keeps_no_half_build(tmp_path, monkeypatch):
    monkeypatch.setenv("HWGEN_CACHE", str(tmp_path))
    built = []

    def work(path):
        built.append(path)
        (path / "result").write_text("done")

    def broken(path):
        (path / "result").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("kind", "key", broken)
    assert not [path for path in (tmp_path / "kind").iterdir() if path.is_dir()]
    assert cached("kind", "key", work) == cached("kind", "key", work) == tmp_path / "kind" / "key"
    assert len(built) == 1
    assert content_key("ab", "c") != content_key("a", "bc")
