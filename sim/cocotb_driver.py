"""Runs programs and benches by cocotb, under Icarus or Verilator."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version as package_version
from pathlib import Path

from ..errors import ToolError
from ..toolchain import require, tool_environment
from .cache import cached, content_key
from .cpp_driver import Conditions
from .ports import Ports
from .program import Outcome, read_outcome
from .verilate import run_tool, write_sources

__all__ = ["BENCH_VARIABLE", "run_bench", "run_cocotb"]

BENCH_VARIABLE = "HWGEN_BENCH"
"""Environment variable that tells a bench its directory."""
TOOLS = {"icarus": ("iverilog", "vvp"), "verilator": ("verilator", "make", "g++")}
VERSIONS = {"icarus": ("iverilog", "-V"), "verilator": ("verilator", "--version")}
BUILD_ARGUMENTS = {
    "verilator": ("-Wno-fatal", "-Wno-lint", "-Wno-style"),
    # Emitted Verilog is to run as either language; SystemVerilog is the stricter one. The last -g counts.
    "icarus": ("-g2012",),
}
DUMP = """\
module hwgen_dump;
  reg [8*4096-1:0] path;
  initial if ($value$plusargs("dumpfile_path=%s", path)) begin
    $dumpfile(path);
    $dumpvars(0, TOP);
  end
endmodule
"""
"""Icarus dumps what Verilog tells it to; cocotb's own module for that is SystemVerilog."""
WAVE = "wave.fst"
"""Where the simulators write a waveform first: Icarus cannot take every name of a folder."""
POLL_SECONDS = 1.0

Progress = Callable[[int, int], None]


def run_cocotb(
    files: Mapping[str, str], ports: Ports, directory: Path, conditions: Conditions, simulator: str,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """Runs the program in ``directory`` as :func:`cpp_driver.run_cpp` does: same output files, same cycles.

    Icarus starts registers without reset as unknown anyway, so ``poison`` changes nothing there. Raises
    ToolError.
    """
    (directory / "outcome.txt").unlink(missing_ok=True)
    streams = {"probe": ports.probes, "source": ports.sources, "sink": ports.sinks}
    lines = [f"{kind} {name} {ports.words(name)}" for kind, names in streams.items() for name in names]
    pins = {"input": ports.settings, "output": ports.outputs}
    lines += [f"{kind} {name} {ports.widths[name]}" for kind, names in pins.items() for name in names]
    lines.append(f"result {int('result__valid' in ports.widths)}")
    lines += [f"stall {conditions.stall!r}", f"seed {conditions.seed}", f"watchdog {conditions.watchdog}"]
    lines.append(f"max_cycles {conditions.max_cycles}")
    (directory / "bench.txt").write_text("\n".join(lines) + "\n")
    wave = None if conditions.trace is None else Path(WAVE)
    try:
        with _watched(directory / "progress.txt", progress):
            run_bench(files, ports.module, "program", directory, simulator, trace=wave)
    finally:
        if conditions.trace is not None and (directory / WAVE).exists():
            shutil.move(directory / WAVE, conditions.trace)
    return read_outcome(directory)


def run_bench(
    files: Mapping[str, str], module: str, bench: str, directory: Path, simulator: str, *,
    trace: Path | None = None, tests: str | None = None,
) -> int:  # fmt: skip
    """Runs the cocotb tests of ``hwgen.sim.bench.``\\ ``bench`` on a Verilog module; how many ran.

    ``directory`` is what :data:`BENCH_VARIABLE` tells the bench; logs and results.xml go there. ``tests`` is
    a regular expression of names. Raises ToolError if a tool is missing or fails, a test fails, or none runs.
    """
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    programs = [require(name) for name in TOOLS[simulator]]
    build = _built(files, module, simulator, trace is not None)
    log, results = directory / "bench.log", directory / "results.xml"
    arguments = _trace_arguments(simulator, trace)
    code: object = 0
    with _environment():
        runner = get_runner(simulator)
        try:
            runner.test(
                f"hwgen.sim.bench.{bench}", module, hdl_toplevel_lang="verilog", build_dir=build,
                test_dir=directory, results_xml=str(results), log_file=log, waves=trace is not None,
                test_filter=tests, plusargs=arguments,
                extra_env={BENCH_VARIABLE: str(directory), "COCOTB_ANSI_OUTPUT": "0"},
            )  # fmt: skip
        except (SystemExit, RuntimeError) as stop:
            code = stop
    if not results.exists():
        raise ToolError(f"{programs[-1].name}: bench {bench} left no results ({code}):\n{_tail(log)}")
    count, failed = get_results(results)
    if not count:
        raise ToolError(f"bench {bench}: no test ran:\n{_tail(log)}")
    if failed or code:
        raise ToolError(f"bench {bench}: {failed} of {count} tests failed:\n{_failures(log)}")
    return count


def _built(files: Mapping[str, str], module: str, simulator: str, traced: bool) -> Path:
    """The folder of the compiled design, from the cache or newly built."""
    from cocotb_tools.runner import get_runner

    version = run_tool([str(require(VERSIONS[simulator][0])), VERSIONS[simulator][1]], Path.cwd(), simulator)
    texts = [part for name in sorted(files) for part in (name, files[name])]
    arguments = list(BUILD_ARGUMENTS[simulator])
    dump = DUMP.replace("TOP", module)
    texts += [dump] if traced else []
    if traced:
        arguments += ["--trace-fst"] if simulator == "verilator" else ["-s", "hwgen_dump"]
    key = content_key(version, package_version("cocotb"), simulator, module, *arguments, str(traced), *texts)

    def build(work: Path) -> None:
        sources = [work / name for name in write_sources(work, files)]
        if traced and simulator == "icarus":
            sources.append(work / "hwgen_dump.v")
            sources[-1].write_text(dump)
        log = work / "build.log"
        with _environment():
            try:
                get_runner(simulator).build(
                    sources=sources, hdl_toplevel=module, always=True, build_dir=work, build_args=arguments,
                    timescale=("1ns", "1ps"), waves=traced and simulator == "verilator", log_file=log,
                )  # fmt: skip
            except (SystemExit, RuntimeError):
                raise ToolError(f"{simulator} refuses the Verilog:\n{_errors(log)}") from None

    return cached("cocotb", key, build)


@contextmanager
def _environment() -> Iterator[None]:
    """Our tools first; and cocotb's runner behaves differently where it sees that pytest calls it."""
    before = dict(os.environ)
    os.environ.update(tool_environment())
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _trace_arguments(simulator: str, trace: Path | None) -> list[str]:
    if trace is None:
        return []
    return ["--trace-file", str(trace)] if simulator == "verilator" else [f"+dumpfile_path={trace}"]


@contextmanager
def _watched(path: Path, progress: Progress | None) -> Iterator[None]:
    """Tells ``progress`` what the bench writes to ``path``, about once a second."""
    path.unlink(missing_ok=True)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_SECONDS):
            words = path.read_text().split() if path.exists() else []
            if progress is not None and len(words) == 2:
                progress(int(words[0]), int(words[1]))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _tail(log: Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no output)"


def _errors(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    found = [line for line in text.splitlines() if re.search(r"error", line, re.IGNORECASE)]
    return "\n".join(found[:8]) or _tail(log)


def _failures(log: Path) -> str:
    """The lines of a bench's log that say what went wrong."""
    text = log.read_text(errors="replace") if log.exists() else ""
    found = [
        line.strip() for line in text.splitlines() if re.search(r"(Error|Exception)\b.*:|failed\b", line)
    ]
    return "\n".join(found[-6:]) or _tail(log)
