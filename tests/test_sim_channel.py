"""The model of a cable: every knob, and that Verilator and Icarus show the same words in the same cycles."""

import re
import subprocess
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from hwgen.toolchain import tool_environment

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "tests" / "channel_bench.sv", ROOT / "sim" / "verilog" / "hwgen_channel.sv")
SHAPES = ((64, 6), (24, 9))
"""Width, bits of the ring's depth."""


class Trace:
    """Words ``sent`` and ``got``, as (cycle, data, last), and the counters as attributes."""

    def __init__(self, text):
        self.sent, self.got = [], []
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "c":
                for name, value in zip(words[::2], words[1::2], strict=True):
                    setattr(self, name, int(value))
            else:
                word = (int(words[0]), int(words[1], 16), int(words[2]))
                (self.sent if kind == "t" else self.got).append(word)

    def faults(self):
        return self.damaged, self.lost, self.repeated

    def delays(self):
        """Cycles between taking and showing, for equal clocks; nothing may have happened to the words."""
        assert [word[1:] for word in self.got] == [word[1:] for word in self.sent]
        assert self.faults() == (0, 0, 0)
        return [shown[0] - taken[0] for taken, shown in zip(self.sent, self.got, strict=True)]


def frames(words):
    """Data of words, a tuple a frame."""
    found, current = [], []
    for _, data, last in words:
        current.append(data)
        if last:
            found.append(tuple(current))
            current = []
    assert not current
    return found


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    """Command by shape and simulator."""
    directory, environment = tmp_path_factory.mktemp("channel"), {**tool_environment(), "OBJCACHE": "ccache"}
    commands = {}
    for width, bits in SHAPES:
        name = f"bench_{width}_{bits}"
        build = ["iverilog", "-g2012", "-o", f"{name}.vvp", "-s", "channel_bench"]
        build += [f"-Pchannel_bench.WIDTH={width}", f"-Pchannel_bench.DEPTH_BITS={bits}"]
        subprocess.run([*build, *SOURCES], cwd=directory, check=True)
        commands[width, bits, "icarus"] = ["vvp", "-n", str(directory / f"{name}.vvp")]
        build = ["verilator", "--binary", "--timing", "--sched-zero-delay", "--Mdir", name, "-Wno-WIDTHTRUNC"]
        build += ["--top-module", "channel_bench", f"-GWIDTH={width}", f"-GDEPTH_BITS={bits}"]
        build += ["-MAKEFLAGS", "OPT_FAST=-O0", "-MAKEFLAGS", "OPT_GLOBAL=-O0", "-MAKEFLAGS", "OPT_SLOW=-O0"]
        subprocess.run([*build, *SOURCES], cwd=directory, env=environment, check=True, capture_output=True)
        commands[width, bits, "verilator"] = [str(directory / name / "Vchannel_bench")]
    return commands


@pytest.fixture
def run(benches):
    """Runs both simulators with these plusargs; the trace on which they agree."""

    def trace(shape=SHAPES[0], **knobs):
        texts = {}
        for simulator in ("icarus", "verilator"):
            command = [*benches[*shape, simulator], *(f"+{name}={value}" for name, value in knobs.items())]
            output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout
            # Which of two clocks prints first in a cycle is open.
            texts[simulator] = "".join("".join(re.findall(rf"(?m)^{kind} .*\n", output)) for kind in "trc")
        assert texts["icarus"] == texts["verilator"]
        found = Trace(texts["icarus"])
        assert found.words == len(found.sent)
        assert found.frames == len(frames(found.sent))
        assert found.most <= 1 << shape[1]
        return found

    return trace


def test_lint():
    command = ["verilator", "--lint-only", "-Wall", "--no-timing", str(SOURCES[1])]
    subprocess.run(command, check=True, env=tool_environment())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("latency", [0, 1, 7, 60])
def test_latency_at_full_rate(run, shape, latency):
    trace = run(shape, latency=latency)
    assert set(trace.delays()) == {latency + 2}  # ring and output register
    assert len(trace.sent) > 2000
    assert trace.most == latency + 2


def test_ring_bounds_the_words_in_flight(run):
    full = run(latency=200)
    assert full.most == 64
    assert set(full.delays()) == {202}
    rate = len(full.sent) / full.sent[-1][0]
    assert rate == pytest.approx(64 / 202, rel=0.1)
    assert run(SHAPES[1], latency=200).most == 202


@pytest.mark.parametrize(("latency", "jitter"), [(0, 3), (9, 1), (9, 20), (0, 300)])
def test_jitter_keeps_the_order(run, latency, jitter):
    trace = run(SHAPES[1], latency=latency, jitter=jitter, idle=50)
    delays = trace.delays()
    assert min(delays) >= latency + 2
    spread = max(delays) - latency - 2
    assert 0.7 * jitter <= spread  # words held up by those before them may take longer
    assert trace.got != run(SHAPES[1], latency=latency, jitter=jitter, idle=50, seed=2).got


@pytest.mark.parametrize("rate", [100, 655, 21845, 40000, 65535, 65536])
def test_rate(run, rate):
    trace = run(rate=rate, cycles=20000, drain=9000)
    trace.delays()
    span = trace.sent[-1][0] - trace.sent[0][0]
    assert abs(span * rate - 65536 * (len(trace.sent) - 1)) <= 2 * 65536


def test_one_cycle_in_33(run):
    trace = run(drop33=1, cycles=6600)
    trace.delays()
    cycles = {word[0] for word in trace.sent}
    gaps = [cycle for cycle in range(min(cycles), max(cycles)) if cycle not in cycles]
    assert len(gaps) in (199, 200, 201)
    assert {b - a for a, b in pairwise(gaps)} == {33}


@pytest.mark.parametrize(
    ("tx_half", "rx_half", "rx_start"), [(5, 7, 0), (7, 5, 3), (5, 5, 2), (11, 2, 1), (3, 31, 0)]
)
def test_unequal_clocks(run, tx_half, rx_half, rx_start):
    trace = run(tx_half=tx_half, rx_half=rx_half, rx_start=rx_start, latency=5, drain=2000, jitter=2)
    trace.delays()
    assert (trace.most == 64) == (rx_half > tx_half)


def test_bit_errors(run):
    trace = run(error=f"{(1 << 64) // 100:x}", cycles=20000)
    assert len(trace.got) == len(trace.sent)
    hit = [
        (k, a[1] ^ b[1]) for k, (a, b) in enumerate(zip(trace.sent, trace.got, strict=True)) if a[1:] != b[1:]
    ]
    assert all(flip.bit_count() == 1 for _, flip in hit)
    assert 0.7 < len(hit) / (len(trace.sent) / 100) < 1.3
    assert len({flip for _, flip in hit}) > 50
    sent, got = frames(trace.sent), frames(trace.got)
    damaged = sum(a != b for a, b in zip(sent, got, strict=True))
    assert trace.faults() == (damaged, 0, 0)
    assert damaged < len(hit)  # some frames are hit more than once
    other = run(error=f"{(1 << 64) // 100:x}", cycles=20000, seed=2)
    assert other.got != trace.got


def test_errors_in_last(run):
    trace = run(error=f"{(1 << 64) // 4:x}", cycles=20000, flip_last=1)
    pairs = list(zip(trace.sent, trace.got, strict=True))
    data, last = (sum(a[k] != b[k] for a, b in pairs) for k in (1, 2))
    assert 0.5 < 64 * last / data < 2


@pytest.mark.parametrize("shape", SHAPES)
def test_every_word_hit(run, shape):
    trace = run(shape, error="f" * 16)
    assert all((a[1] ^ b[1]).bit_count() == 1 for a, b in zip(trace.sent, trace.got, strict=True))
    assert trace.damaged == trace.frames


@pytest.mark.parametrize(("loss", "repeat"), [(0.1, 0), (0, 0.1), (0.2, 0.3), (1, 0), (0, 1)])
@pytest.mark.parametrize("error", [0, 0.02])
def test_lost_and_repeated_frames(run, loss, repeat, error):
    bits = {name: f"{min(int(p * 2**32), 2**32 - 1):x}" for name, p in (("loss", loss), ("repeat", repeat))}
    trace = run(
        **bits, error=f"{int(error * 2**64):x}", cycles=10000, idle=20, drop33=1, rate=50000, latency=3
    )
    sent, got = frames(trace.sent), frames(trace.got)
    counts = Counter(got)
    whole = set(sent)
    damaged = sum(frame not in whole for frame in got)
    twice = sum(counts[frame] == 2 for frame in sent)
    assert trace.faults() == (damaged, len(sent) - damaged - len(whole & set(got)), twice)
    assert max(counts.values(), default=0) <= 2
    once = [frame for frame, _ in groupby(got)]
    assert [frame for frame in sent if frame in counts] == [frame for frame in once if frame in whole]
    for count, p in ((trace.lost, loss), (trace.repeated, repeat)):
        assert abs(count - p * len(sent)) <= 5 * (len(sent) * p * (1 - p)) ** 0.5


def test_frames_longer_than_the_ring_come_once(run):
    trace = run(repeat="ffffffff", longest=90, cycles=6000, drain=300)
    counts = Counter(frames(trace.got))
    assert {len(frame) for frame, n in counts.items() if n == 2} >= {64}
    assert all(n == 1 + (len(frame) <= 64) for frame, n in counts.items())
    assert trace.repeated == sum(n == 2 for n in counts.values())


@pytest.mark.parametrize("kind", ["error", "loss", "repeat"])
@pytest.mark.parametrize("number", [1, 3, 17])
def test_injected_faults_hit_exactly_the_next_frames(run, kind, number):
    at = 500
    trace = run(**{f"{kind}_at": at, f"{kind}_for": number})
    sent, got = frames(trace.sent), frames(trace.got)
    position = ("error", "loss", "repeat").index(kind)
    assert trace.faults() == tuple(number if k == position else 0 for k in range(3))
    # The pulse is seen one cycle after `at`, and marks a frame that begins after that.
    starts = [trace.sent[0][0]] + [b[0] for a, b in pairwise(trace.sent) if a[2]]
    first = next(k for k, cycle in enumerate(starts) if cycle > at + 1)
    chosen = set(range(first, first + number))
    if kind == "error":
        flips = [[a ^ b for a, b in zip(x, y, strict=True)] for x, y in zip(sent, got, strict=True)]
        assert {k for k, flip in enumerate(flips) if any(flip)} == chosen
        assert all(sum(bits.bit_count() for bits in flips[k]) == 1 for k in chosen)
        return
    times = 0 if kind == "loss" else 2
    assert got == [frame for k, frame in enumerate(sent) for _ in range(times if k in chosen else 1)]


def test_injected_faults_together(run):
    trace = run(
        error_at=100, error_for=5, loss_at=102, loss_for=9, repeat_at=90, repeat_for=33, error="0", longest=4
    )
    assert trace.faults() == (5, 9, 33)


def test_down(run):
    trace = run(down_at=700, down_for=100, latency=20)
    assert len(trace.sent) - len(trace.got) == 100
    missing = {word[1] for word in trace.sent} - {word[1] for word in trace.got}
    assert [word[0] for word in trace.sent if word[1] in missing] == list(range(701, 801))
    assert trace.faults() == (0, sum(not missing.isdisjoint(frame) for frame in frames(trace.sent)), 0)
