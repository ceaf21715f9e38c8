"""The core file of a build: what it lists is there, and FuseSoC lints with it and sets up the flows of projects."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_device import SOURCE
from vendor_bench import NUMBER, SOURCES, build_directory, planned, projects, ran

from hwgen import cli
from hwgen.backend.projects.fusesoc import CORE, core_file
from hwgen.target import Cluster
from hwgen.toolchain import require

FUSESOC = Path(sys.executable).parent / "fusesoc"


def core_of(cluster, folder):
    return core_file(planned(cluster, folder), cluster, NUMBER, SOURCES, projects(cluster, folder))


def fusesoc(folder, *arguments):
    """Runs FuseSoC on the core files of ``folder``."""
    environment = {
        **os.environ,
        "PATH": f"{require('verilator').parent}:{os.environ['PATH']}",
        "HOME": str(folder),
    }
    command = [FUSESOC, f"--cores-root={folder}", "run", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fusesoc")
    (folder / "small.py").write_text(SOURCE)
    arguments = ["build", str(folder / "small.py"), "--cluster", "arty_a7_100t", "-o", str(folder / "a")]
    assert cli.main(arguments) == 0
    return folder / "a"


def name_of(folder):
    return re.search(r"(?m)^name: (\S+)$", (folder / CORE).read_text())[1]


def test_every_file_is_there(build):
    core = yaml.safe_load((build / CORE).read_text().partition("\n")[2])
    sets = core["filesets"]
    assert list(sets) == ["rtl", "device0"]
    files = [
        name if isinstance(name, str) else next(iter(name)) for one in sets.values() for name in one["files"]
    ]
    assert len(files) == len(set(files)) > 8
    for name in files:
        assert (build / name).is_file(), name
    targets = core["targets"]
    assert list(targets) == ["default", "lint", "device0"]
    texts = [(build / name).read_text() for name in files if name.endswith(".v")]
    for target in targets.values():
        assert set(target["filesets"]) <= set(sets)
        top = target["toplevel"]
        assert sum(len(re.findall(rf"(?m)^module {top} ?[(]", text)) for text in texts) == 1
    assert targets["device0"]["tools"] == {"vivado": {"part": "xc7a100tcsg324-1"}}


def test_fusesoc_lints_the_device(build):
    done = fusesoc(build, "--target=lint", name_of(build))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verilator" in done.stdout + done.stderr


def test_lint_that_fails_is_told(tmp_path):
    cluster = Cluster.chain("arty_a7_100t", 1)
    build_directory(tmp_path, {**projects(cluster, tmp_path), CORE: core_of(cluster, tmp_path)})
    assert fusesoc(tmp_path, "--target=lint", name_of(tmp_path)).returncode == 0
    (tmp_path / "host/verilog/hwgen_uart.v").write_text("module hwgen_uart; nothing there(); endmodule\n")
    assert fusesoc(tmp_path, "--target=lint", name_of(tmp_path)).returncode != 0


def set_up(folder, index, name):
    """Lets FuseSoC write the scripts of a device's flow; where to."""
    root = folder / f"work{index}"
    done = fusesoc(folder, "--setup", f"--target=device{index}", f"--build-root={root}", name)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.mark.parametrize("cluster", [Cluster.chain("vcu118", 2), Cluster.chain("vc709", 1)], ids=str)
def test_the_flow_of_vivado_makes_the_project(cluster, tmp_path):
    files = projects(cluster, tmp_path)
    build_directory(tmp_path, {**files, CORE: core_of(cluster, tmp_path)})
    for index in range(len(cluster.boards)):
        root = set_up(tmp_path, index, name_of(tmp_path))
        (path,) = root.glob(f"**/{name_of(tmp_path).replace(':', '_')}.tcl")
        run = ran("vivado.tcl", path, path.parent, cwd=path.parent)
        assert run.code == 0, run.output
        cores = files[f"device{index}/vivado/project.tcl"].count("\nhwgen_core ")
        assert run.names.count("create_ip") == cores > 0
        names = [name for name in files if re.match(rf"device{index}/.*/(top|support)[.]v$", name)]
        assert run.names.count("read_verilog") == len(SOURCES) + len(names)
        assert run.names.count("read_xdc") == 2


def test_the_flow_of_trellis_is_set_up(tmp_path):
    cluster = Cluster.chain("ulx3s_85f", 1)
    build_directory(tmp_path, {**projects(cluster, tmp_path), CORE: core_of(cluster, tmp_path)})
    root = set_up(tmp_path, 0, name_of(tmp_path))
    text = "".join(path.read_text() for path in root.glob("**/Makefile"))
    assert re.search(r"nextpnr-ecp5 .*--lpf \S*pins\.lpf", text)
    assert re.search(r"--85k --package CABGA381 --speed 6 --freq 50\b", text)
    assert "ecppack" in text


def test_the_flow_of_quartus_is_set_up(tmp_path):
    cluster = Cluster.chain("de10_nano", 1)
    build_directory(tmp_path, {**projects(cluster, tmp_path), CORE: core_of(cluster, tmp_path)})
    root = set_up(tmp_path, 0, name_of(tmp_path))
    text = "".join(path.read_text() for path in root.glob("**/*.tcl"))
    for part in (
        'FAMILY "Cyclone V"',
        "DEVICE 5CSEBA6U23I7",
        "TOP_LEVEL_ENTITY hwgen_quartus",
        "timing.sdc",
        "pins.tcl",
    ):
        assert part in text


def test_chains_lint_every_board(tmp_path):
    core = yaml.safe_load(core_of(Cluster.chain("vc709", 3), tmp_path).partition("\n")[2])
    assert {name: target["toplevel"] for name, target in core["targets"].items()} == {
        "default": "hwgen_uart", "lint": "hwgen_uart", "lint_board1": "hwgen_board1", "lint_board2": "hwgen_board2",
        "device0": "hwgen_vivado", "device1": "hwgen_vivado", "device2": "hwgen_vivado",
    }  # fmt: skip
