"""Rolled arrays give what the emitted ones give, in every cycle; and a run with them what it gives without."""

import re
import subprocess
from pathlib import Path

import hwgen.sim
import pytest
from device_cases import device_of, run
from hwgen.sim.rolled import RolledArray, glue, rolled_module
from test_device_stack import network as stacked
from test_device_stack import stacked_plan
from test_device_storage import network as stored
from test_device_storage import stored_plan
from test_sim_memory import elsewhere

from hwgen.backend.convert import convert
from hwgen.errors import BuildError, DataError, ToolError
from hwgen.gateware.array import Array
from hwgen.gateware.shape import ArrayShape
from hwgen.plan.layout import Storage
from hwgen.plan.planner import plan_network
from hwgen.toolchain import require, tool_environment

CPP = Path(hwgen.sim.__file__).parent / "cpp"
MODEL = (CPP / "rolled.h").read_text()

BASE = {
    "depth": 5,
    "x": 16,
    "w": 16,
    "dy": 16,
    "master": 16,
    "grad": 44,
    "psum": 36,
    "back": 37,
    "rate": 16,
    "shift": 20,
}
TURNS = {"backward": True, "gradient": True, "in_place": False, "columns": True, "copy": False, "period": 3}
COPY = TURNS | {"copy": True, "period": 1}
NARROW = {"x": 4, "w": 5, "master": 5, "dy": 7, "psum": 13, "back": 14, "grad": 20}
WIDE = {"x": 24, "w": 24, "master": 24, "dy": 23, "psum": 51, "back": 50, "grad": 64}
CASES = {  # shape, (Pk, Pn), (tk, tn)
    "turns": (BASE | TURNS, (6, 4), (3, 4)),
    "turns, many tiles, odd trees": (BASE | TURNS | {"period": 2}, (10, 6), (2, 2)),
    "turns of others' sums": (BASE | TURNS | {"shared": True, "depth": 3}, (4, 3), (4, 3)),
    "one word": (BASE | TURNS | {"depth": 1, "shared": True}, (3, 4), (1, 2)),
    "two words": (BASE | TURNS | {"depth": 2}, (2, 4), (2, 4)),
    "copy": (BASE | COPY | {"grad": 33, "depth": 9}, (6, 2), (3, 2)),
    "copy, others' sums": (BASE | COPY | {"shared": True}, (2, 2), (1, 1)),
    "no backward": (BASE | TURNS | {"backward": False, "period": 1}, (9, 4), (9, 4)),
    "narrow": (BASE | TURNS | NARROW, (3, 2), (3, 1)),
    "wide": (BASE | COPY | WIDE, (2, 3), (2, 3)),
}  # fmt: skip
STACKED = {
    "two": (BASE | TURNS | {"period": 4, "stack": 2}, (8, 6), (4, 3)),
    "two, odd blocks, narrow, one lane a tile": (BASE | TURNS | NARROW | {"period": 5, "stack": 2}, (4, 5), (2, 5)),
    "two, no gradient": (BASE | TURNS | {"gradient": False, "period": 4, "stack": 2}, (4, 7), (4, 7)),
    "four, two words": (BASE | TURNS | {"period": 8, "stack": 4, "depth": 2}, (8, 4), (4, 4)),
    "four, no backward": (BASE | TURNS | {"backward": False, "period": 4, "stack": 4}, (12, 2), (12, 1)),
    "eight, others' sums": (BASE | TURNS | {"period": 16, "stack": 8, "shared": True}, (16, 2), (8, 2)),
    "eight, wide tiles": (BASE | TURNS | {"period": 17, "stack": 8}, (8, 12), (8, 12)),
}  # fmt: skip
CYCLES = 2000
TOP = "bench"
MAIN = f"""
#include "Vbench.h"
#include "arrays.h"
#include <cstdio>
int main() {{
    VerilatedContext context;
    Vbench top(&context);
    for (int i = 0; i < 2 * {CYCLES}; ++i) {{
        top.clk = i & 1;
        top.rst = i < 20;
        top.eval();
    }}
#define SAY(k) std::printf("%u %u\\n", top.bad_##k, top.busy_##k);
    SAYS
}}
"""


def words(bits):
    return "{" + ", ".join(["$urandom"] * -(-bits // 32)) + "}"


def stimulus(name, width, shape, pes):
    """A random value of an input."""
    often = {"f_load": 4, "load": 4, "load_sum": 2}
    if name in often:
        return f"($urandom % {often[name]}) == 0"
    if name.endswith("address"):
        return f"$urandom % {max(2, shape.depth)}"
    if name.endswith("select"):
        return f"$urandom % {pes}"
    if name == "b_control":
        bits = ["($urandom % 4) != 0", "($urandom % 16) == 0", "($urandom % 8) == 0"]
        return control(shape, [*bits, *["($urandom % 3) == 0"] * 2], f"$urandom % {max(2, shape.depth)}")
    return words(width)


def control(shape, bits, address):
    """``op``, ``update``, ``peek``, ``first``, ``last`` and the address as a control word."""
    return f"(64'({address}) << 5) | {{{', '.join(f'1{chr(39)}({b})' for b in reversed(bits))}}}"


def in_turn(k, shape):
    """Inputs as the passes give them, by name, and the state behind them: visits of forward, those of backward behind
    them, of a whole block or a short one, and now and then none; in pauses loads and peeks."""
    period, stack, depth = max(2, shape.period), shape.stack, max(2, shape.depth)
    asked = control(shape, ["0", "0", "1", "0", "0"], f"$urandom % {depth}")
    visit = control(shape, [f"q_{k} < len_{k}", "0", "0", f"q_{k} == 0", f"q_{k} == len_{k} - 1"], f"at_{k}")
    state = f"""
integer n_{k} = 0, len_{k} = 0, at_{k} = 0;
wire [31:0] q_{k} = (n_{k} + {period - stack % period}) % {period};
always @(posedge clk) begin
    n_{k} <= n_{k} + 1;
    if (q_{k} == {period - 1}) begin
        len_{k} <= n_{k} % 256 >= 160 || $urandom % 4 == 0 ? 0 : {stack} + $urandom % {period - stack + 1};
        at_{k} <= $urandom % {depth};
    end
end"""
    return state, {
        "f_load": f"n_{k} % {period} == 0 && n_{k} % 256 < 160 && $urandom % 4 != 0",
        "load": f"n_{k} % 256 >= 208 && n_{k} % 256 < 232",
        "b_control": f"n_{k} % 256 >= 208 ? ({asked}) : ({visit})",
    }


def bench(arrays):
    """A top that gives both arrays of every case the same random inputs, and counts cycles in which outputs differ."""
    ports, lines = ["input clk", "input rst"], []
    for k, array in enumerate(arrays):
        ports += [f"output reg [31:0] bad_{k}", f"output reg [31:0] busy_{k}"]
        outputs = ("f_sum", "b_sum", "peek_master", "peek_grad", "saturated", "zeros")
        pins = {"a": [], "b": []}
        checks = []
        state, turns = in_turn(k, array.shape)
        lines.append(state)
        for name, width in array.widths.items():
            if name in outputs:
                lines.append(f"wire [{width - 1}:0] {name}_a{k}, {name}_b{k};")
                checks.append(f"{name}_a{k} !== {name}_b{k}")
            else:
                value = stimulus(name, width, array.shape, array.pk * array.pn)
                if name in turns:
                    value = f"n_{k} >= {CYCLES // 2} ? ({turns[name]}) : ({value})"
                lines.append(f"reg [{width - 1}:0] {name}_{k}; always @(posedge clk) {name}_{k} <= {value};")
            for which, own in pins.items():
                own.append(f".{name}({name}_{which if name in outputs else ''}{k})")
        pins = {which: ", ".join([*own, ".clk(clk)", ".rst(rst)"]) for which, own in pins.items()}
        lines += [f"emitted_{k} a_{k} ({pins['a']});", f"rolled_{k} b_{k} ({pins['b']});"]
        peeked = f"peek_{'grad' if array.shape.gradient else 'master'}_a{k}"
        lines.append(
            f"always @(posedge clk) begin if ({' || '.join(checks)}) bad_{k} <= bad_{k} + 1;"
            f" if (f_sum_a{k} != 0 && {peeked} != 0) busy_{k} <= busy_{k} + 1; end"
        )
    return f"module {TOP} (\n{', '.join(ports)});\n" + "\n".join(lines) + "\nendmodule\n"


def build_and_run(directory, cases, change=lambda text: text):
    """(cycles that differ, cycles with sums) of every case."""
    arrays, texts = [], []
    for k, (fields, (pk, pn), (tk, tn)) in enumerate(cases):
        shape = ArrayShape(**fields)
        text = convert(Array(shape, pk, pn, (tk, tn), ((0,) * pn,) * pk), f"emitted_{k}")
        array = RolledArray(f"rolled_{k}", f"rolled_{k}", shape, pk, pn, tk, tn)
        assert array.problem() is None
        modules = re.split(r"(?m)^(?=module )", text)
        own = next(one for one in modules if one.startswith(f"module emitted_{k}("))
        arrays.append(array)
        texts += [text, rolled_module(array, own)]
    says = " ".join(f"SAY({k})" for k in range(len(arrays)))
    (directory / "bench.sv").write_text("\n".join([*texts, bench(arrays)]))
    (directory / "main.cpp").write_text(MAIN.replace("SAYS", says))
    (directory / "arrays.h").write_text(glue(arrays))
    for header in CPP.glob("*.h"):
        (directory / header.name).write_text(change(header.read_text()))
    command = [str(require("verilator")), "--cc", "--exe", "--build", "-j", "2", "--top-module", TOP, "-O3"]
    command += [
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
        "--no-timing",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
    ]
    command += ["-CFLAGS", "-I..", "-MAKEFLAGS", "OPT_FAST=-O1", "bench.sv", "main.cpp"]
    subprocess.run(command, cwd=directory, env=tool_environment(), check=True, capture_output=True)
    program = directory / "obj_dir" / f"V{TOP}"
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [tuple(map(int, line.split())) for line in output.splitlines()]


@pytest.mark.parametrize("cases", [CASES, STACKED], ids=["plain", "stacked"])
def test_equal_in_every_cycle(tmp_path, cases):
    found = build_and_run(tmp_path, cases.values())
    assert dict(zip(cases, (bad for bad, _ in found), strict=True)) == dict.fromkeys(cases, 0)
    assert all(busy > CYCLES // 3 for _, busy in found), found


@pytest.mark.soak
@pytest.mark.parametrize(
    ("right", "wrong", "cases"),
    [
        ("F_LATER = TK + 1 ", "F_LATER = TK + 2 ", CASES),
        ("B_LATER = TN + 1 ", "B_LATER = TN + 2 ", CASES),
        ("early(j) ? c.before : c.words", "c.words", CASES),
        (
            "if (const Moment& m = ago(j + 4 + g); m.op && m.last)",
            "if (const Moment& m = ago(j + 4 + g); m.op)",
            CASES,
        ),
        ("k < 3 + REGISTERED; ++k) gone", "k < 2 + REGISTERED; ++k) gone", CASES),
        ("int k = 1 + REGISTERED; k > 0", "int k = 0; k > 0", CASES),
        ("HELD = S::COPY ? REGISTERED : 1", "HELD = !S::COPY", CASES),
        ("if (REGISTERED) copy_words(c.old, c.late);", "", STACKED),
        ("S::DEPTH == 2, [&]", "false, [&]", CASES),
        ("taken ? Spot() : loads.reading", "loads.reading", CASES),
        ("if (load.some) c.total[load.at] = ago(2).load_grad;", "", CASES),
        ("ago(1 + HELD + BEHIND)", "ago(1 + HELD)", STACKED),
        ("c.waiting[(now_ + BEHIND - g) % STACK]", "c.waiting[now_ % STACK]", STACKED),
        ("(now_ + B_LATER + BEHIND - g - j)", "(now_ + B_LATER + BEHIND - j)", STACKED),
        ("if (early(j) > 1) copy_group(g, c.sooner", "if (false) copy_group(g, c.sooner", STACKED),
        ("spot(true, late.peek_pe, late.address, j)", "{}", STACKED),
        ("spot(true, asked.peek_pe, asked.address, j)", "{}", STACKED),
        ("sets(lane) && place == word", "sets(lane)", STACKED),
        ("for (int g = STACK - 1; g >= 0; --g)", "for (int g = 0; g < STACK; ++g)", STACKED),
        ("!S::SHARED && STACK == 1", "!S::SHARED", STACKED),
    ],
)
def test_a_wrong_model_is_found(tmp_path, right, wrong, cases):
    assert MODEL.count(right) == 1
    found = build_and_run(tmp_path, cases.values(), lambda text: text.replace(right, wrong))
    assert any(bad for bad, _ in found)


BLOCKS = Storage(True, "memory", "block", "block")


def stacked_run_plan():
    """Two convolutions with masters in memory, rows of a lane behind one another; the second has dX and short last
    blocks."""
    net = stacked((6, 14), ((2, 2, 3), (2, 2, 2)))
    return stacked_plan(net, 4, 2, storage=Storage(copy=False, master="memory", weights="block"), last=BLOCKS)


def small_plan():
    turns = Storage(False, "memory")
    return stored_plan(stored(2, (3, 2), rounding="stochastic"), turns, turns, BLOCKS, b=2)


@pytest.mark.parametrize(("plan", "batches"), [(small_plan, 2), (stacked_run_plan, 1)])
def test_a_run_is_the_same(plan, batches):
    """Bits, counters of work and cycles of a batch; memories are read past the device.

    Those cycles depend on where in a turn of the passes a batch begins: after so many batches, at the same place.
    """
    device = device_of(plan(), extreme=True)
    options = {"batches": batches, "simulator": "verilator"}
    rolled, plain = (run(device, rolled=rolled, **options) for rolled in (True, False))
    assert (rolled["rolled"], plain["rolled"]) == (True, False)
    for key in (
        "compared",
        "mismatched",
        "cycles_per_batch",
        "batches",
        "samples",
        "predicted_cycles_per_batch",
    ):
        assert rolled[key] == plain[key], key
    # Starved also while memories are read; blocked until its turn, which depends on the cycle in which a sample comes.
    waiting = {f"{way}_{what}" for way in ("forward", "backward") for what in ("starved", "blocked")}
    for mine, theirs in zip(rolled["stages"], plain["stages"], strict=True):
        for name, count in theirs["counters"].items():
            assert name in waiting or mine["counters"][name] == count, name
    assert rolled["cycles"] < plain["cycles"] / 2
    short = run(device, rolled=True, batches=1, batch=1, timing=False, simulator="verilator")
    assert (short["batches"], short["samples"], short["mismatched"]) == (1, 1, 0)
    stalled = run(device, rolled=True, batches=3, stall=0.2, timing=False, simulator="verilator")
    assert (stalled["batches"], stalled["samples"], stalled["mismatched"]) == (3, 6, 0)


def test_what_is_refused():
    device = device_of(plan_network(elsewhere(stored(2))))
    own = r"first: no rolled model of its array: its PEs have memories of their own, .*; leave --rolled out"
    with pytest.raises(BuildError, match=own):
        run(device, rolled=True, simulator="verilator")
    here = device_of(stored_plan(stored(2), Storage(False), Storage(False), Storage(True, "here", "block")))
    with pytest.raises(BuildError, match=r"it makes its updates itself; plan with masters in memory"):
        run(here, rolled=True, simulator="verilator")
    with pytest.raises(
        ToolError, match=r"rolled arrays are C\+\+, which icarus has no place for; take verilator"
    ):
        run(here, rolled=True, simulator="icarus")
    with pytest.raises(
        DataError, match=r"batch of 3 samples; the sums of this build hold 1\.\.2, give as many"
    ):
        run(here, batch=3)
