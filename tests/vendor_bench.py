"""Projects for vendors' tools without an emitted device: their texts, tops against stand-ins, scripts under Tcl."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwgen.sim.lint import Waiver, lint, read_waivers
from small_device import SOURCE
from vendor_cores import aurora_module, module, primitive_modules, xdma_module

from hwgen.backend.projects import project_files
from hwgen.backend.projects.aurora import series_of
from hwgen.frontend.loader import load_source
from hwgen.plan.planner import plan_network

__all__ = [
    "NUMBER",
    "SOURCES",
    "Run",
    "build_directory",
    "device_module",
    "lint_top",
    "planned",
    "projects",
    "ran",
]

STANDINS = Path(__file__).parent / "vendor"
SOURCES = ("verilog/hwgen_device.v", "host/verilog/hwgen_uart.v")
"""Verilog files that the projects are told of."""
NUMBER = 0x1234ABCD
EXPECTED = (
    Waiver("PINMISSING", r"Instance has missing pin: 'gt_qpll\w+_out'", "clocks that no other core takes"),
    Waiver(
        "ASCRANGE",
        r"Ascending bit range vector: left < right of bit range: \[0:[1-3]\]",
        "lanes, as cores count",
    ),
)


@cache
def network(folder):
    path = Path(folder) / "small.py"
    path.write_text(SOURCE)
    return load_source(path, 0).network


def planned(cluster, folder):
    """The plan of a small network on a cluster."""
    return plan_network(network(str(folder)), cluster=cluster)


def projects(cluster, folder):
    """Files of the projects of a cluster for a small network."""
    return project_files(planned(cluster, folder), cluster, NUMBER, SOURCES)


def build_directory(folder, files):
    """Writes projects as a build would, with sources that are empty modules."""
    texts = {**files, **{name: f"module {Path(name).stem}; endmodule\n" for name in SOURCES}}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def device_module(cluster, index, host=None):
    """A device's module by its ports; ``host`` "bytes" or "uart" is that of the first, None: what its project takes."""
    board, ends = cluster.boards[index], (None, *cluster.links, None)
    links = {side: link for side, link in zip(("up", "down"), ends[index : index + 2], strict=True) if link}
    ports = "input clk; input rst;"
    if index:
        name = f"hwgen_board{index}"
    elif host == "bytes" or (host is None and board.pcie is not None):
        name = "hwgen_bytes"
        ports += "input [7:0] i__payload; input i__valid; output i__ready;"
        ports += "output [8:0] o__payload; output o__valid; input o__ready;"
    else:
        name, ports = "hwgen_uart", ports + "input rx; output tx; input [15:0] divider;"
    for side, link in links.items():
        word = f"[{link.width}:0] {side}"
        ports += f"input {side}_clk; output [2:0] {side}_state; input {side}__up; input {word}__rx;"
        ports += f"input {side}__rx_valid; output {word}__tx__payload; output {side}__tx__valid;"
        ports += f"input {side}__tx__ready;"
    return module(name, ports)


def core_modules(files, folder, cluster, index):
    """The cores that the script makes, by what it asks for."""
    text, board = files[f"{folder}/project.tcl"], cluster.boards[index]
    found, series = [], series_of(board)
    for name, core, block in re.findall(
        r"^hwgen_core (\w+) (\w+) \{\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE
    ):
        values = dict(re.findall(r"(\w+) \{([^}]*)\}", block))
        if name == "xdma":
            width = int(values["axi_data_width"].partition("_")[0])
            found.append(xdma_module(core, series, int(values["pl_link_cap_max_link_width"][1:]), width))
        else:
            quad = board.sockets[0].place + 1
            lanes, inside = int(values["C_AURORA_LANES"]), values["SupportLevel"] == "1"
            found.append(aurora_module(core, series, lanes, inside, quad))
    return found


def lint_top(files, cluster, index, edit=lambda text: text):
    """Warnings for the top of a board, with stand-ins of device, cores and primitives. Raises BuildError for errors."""
    folder = f"device{index}/vivado"
    top = edit(files[f"{folder}/top.v"])
    used = set(re.findall(r"(?m)^  (IBUF\w*|BUFG\w*|MMCM\w+) ", top))
    texts = {
        "top.v": top,
        "support.v": files.get(f"{folder}/support.v", ""),
        "cores.v": "\n".join([*core_modules(files, folder, cluster, index), device_module(cluster, index)]),
        "primitives.v": primitive_modules(sorted(used)),
    }
    warnings = lint(texts, "hwgen_vivado", [*read_waivers(), *EXPECTED])
    left_open = set(
        re.findall(r"(?m)^  output (?:\[[\d:]+\] ?)?(\w+);", texts["cores.v"] + texts["primitives.v"])
    )
    return [
        one
        for one in warnings
        if not re.search(r": (cores|primitives)\.v:", one)
        and not ((empty := re.fullmatch(r"PINCONNECTEMPTY: .*: '(\w+)'", one)) and empty[1] in left_open)
    ]


@dataclass(frozen=True)
class Run:
    """What a script did: exit code, what it said, the calls of vendors' commands."""

    code: int
    output: str
    calls: list[str]

    @property
    def names(self):
        return [call.split()[0] for call in self.calls]


def ran(standin, script, folder, cwd=STANDINS, **settings):
    """Runs a script under Tcl against a stand-in, from another directory than its own unless ``cwd`` says which."""
    record = folder / "calls.txt"
    command = ["tclsh", str(STANDINS / standin), str(record), str(script)]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    calls = record.read_text().splitlines() if record.exists() else []
    return Run(done.returncode, done.stdout + done.stderr, calls)
