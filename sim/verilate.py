"""Builds the C++ simulation of a device with Verilator; equal sources and options are built once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolError
from ..toolchain import require, tool_environment
from .cache import cached, content_key
from .ports import Ports
from .rolled import RolledArray, glue

__all__ = ["CPP", "LONG_RUN", "BuildOptions", "build_driver", "build_program", "run_tool", "write_sources"]

CPP = Path(__file__).parent / "cpp"
MEMORY_MODEL = "hwgen_memory.sv"
LONG_RUN = 20_000_000
"""Cycles from which the -O3 build pays, which takes 1.7 times as long and then runs about a tenth faster."""


_TELLING = re.compile(r"error|undefined reference|not found|no space", re.IGNORECASE)


@dataclass(frozen=True)
class BuildOptions:
    """``fast``: -O3 for the host's processor, else -O1, which compiles in about half the time. ``trace``: FST
    waves.

    ``poison``: registers and memories without a reset value start at random, as do unknown values. ``rolled``: the
    driver reaches memories past the device (cpp/backdoor.h).
    """

    fast: bool = True
    trace: bool = False
    poison: bool = False
    rolled: bool = False

    @property
    def verilator(self) -> list[str]:
        """Arguments for Verilator. Warnings are the lint step's matter, except loops through logic."""
        unknown = "unique" if self.poison else "fast"
        arguments = ["-O3", "--x-assign", unknown, "--x-initial", unknown, "--no-timing"]
        arguments += ["-Wno-fatal", "-Wno-lint", "-Wno-style", "-Werror-UNOPTFLAT"]
        arguments += ["-DHWGEN_BACKDOOR"] if self.rolled else []
        return [*arguments, "--trace-fst"] if self.trace else arguments

    @property
    def make(self) -> list[str]:
        """Variables for make."""
        if self.fast:
            return ["OPT_FAST=-O3 -march=native", "OPT_SLOW=-O1", "OPT_GLOBAL=-O2"]
        return ["OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"]


def run_tool(command: list[str], cwd: Path, what: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs a tool and returns what it printed. Raises ToolError with its first errors if it fails."""
    with subprocess.Popen(
        command, cwd=cwd, env=environment or tool_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as child:  # fmt: skip
        try:
            output, _ = child.communicate()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)  # make's compilers too
            raise
    if child.returncode != 0:
        lines = output.replace(str(cwd) + "/", "").splitlines()
        errors = [line for line in lines if _TELLING.search(line)] or lines[-8:]
        raise ToolError(f"{what} failed with exit code {child.returncode}:\n" + "\n".join(errors[:8]))
    return output


def write_sources(directory: Path, files: Mapping[str, str]) -> list[str]:
    """Writes Verilog texts (path → text) below ``directory``; their relative paths, memory images (.hex,
    .mem) left out."""
    names = []
    for name, text in sorted(files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix in (".v", ".sv"):
            names.append(name)
    return names


def build_program(
    kind: str,
    files: Mapping[str, str],
    drivers: Mapping[str, str],
    main: str,
    top: str,
    options: BuildOptions,
    prefix: str = "",
    flags: Sequence[str] = (),
) -> Path:
    """The executable of module ``top`` in these Verilog ``files``, from the cache or newly built.

    ``drivers`` are C++ texts by name, ``main`` the one with the program, which knows the model as class ``prefix``
    (none: V and ``top``); ``flags`` are for the C++ compiler. Raises ToolError if Verilator, make or g++ is missing or
    refuses the files.
    """
    verilator, make, compiler = require("verilator"), require("make"), require("g++")
    model = prefix or f"V{top}"
    versions = [run_tool([str(tool), "--version"], Path.cwd(), str(tool)) for tool in (verilator, compiler)]
    texts = [part for name in sorted(files) for part in (name, files[name])]
    texts += [part for name in sorted(drivers) for part in (name, drivers[name])]
    key = content_key(*versions, *options.verilator, *options.make, top, model, *flags, *texts)

    def build(work: Path) -> None:
        names = write_sources(work, files)
        for name, text in drivers.items():
            (work / name).write_text(text)
        command = [str(verilator), "--cc", "--exe", "--top-module", top, "--prefix", model, "--Mdir", "obj"]
        command += ["-o", "driver", *(part for flag in ("-I..", *flags) for part in ("-CFLAGS", flag))]
        run_tool([*command, *options.verilator, *names, f"../{main}"], work, "verilator")
        environment = {**tool_environment(), "OBJCACHE": "ccache" if shutil.which("ccache") else ""}
        command = [str(make), "-j2", "-C", "obj", "-f", f"{model}.mk", "driver", *options.make]
        run_tool(command, work, "compiling the simulation", environment)
        (work / "obj" / "driver").rename(work / "driver")
        shutil.rmtree(work / "obj")

    return cached(kind, key, build) / "driver"


def build_driver(
    files: Mapping[str, str], ports: Ports, options: BuildOptions, arrays: Sequence[RolledArray] = ()
) -> Path:
    """The driver's executable for these Verilog files; ``arrays`` are rolled in them. Raises as build_program."""
    drivers = {path.name: path.read_text() for path in sorted(CPP.iterdir()) if path.suffix in (".cpp", ".h")}
    drivers["ports.h"] = ports.header()
    drivers["arrays.h"] = glue(arrays, MEMORY_MODEL in files)
    return build_program("verilator", files, drivers, "main.cpp", ports.module, options)
