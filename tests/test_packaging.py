"""The wheel, built without a network and installed into an empty environment: it lacks no module or file."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOMES = {"hwgen": "hwgen", "sim": "hwgen/sim", "boards": "hwgen/boards", "templates": "hwgen/templates"}
"""Folders of the checkout and where they install."""
SCRATCH = ("__pycache__", "*.pyc", "*.egg-info", "sim_build", ".*_cache")


def run(*command, **settings):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **settings)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of a copy of the sources; building leaves folders behind, not in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in HOMES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns(*SCRATCH))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet")
    run(*pip, "--wheel-dir", folder / "out", folder / "source", env=offline)
    (built,) = (folder / "out").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Python of an empty environment with the wheel in it; dependencies are borrowed from this one."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    # A folder named in a .pth file is searched last; its own .pth files (the checkout's hwgen) are not read.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "dependencies.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    return python


def outside(tmp_path):
    """Settings of a process that sees nothing of the checkout."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    return {"cwd": tmp_path, "env": {name: v for name, v in os.environ.items() if name not in hidden}}


def test_every_file_is_inside(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = set()
    for folder, home in HOMES.items():
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT / folder)
            if path.is_file() and not any(
                relative.match(p) or Path(part).match(p) for p in SCRATCH for part in relative.parts
            ):
                wanted.add(f"{home}/{relative.as_posix()}")
    assert wanted <= inside, f"missing: {sorted(wanted - inside)}"
    assert {"hwgen/sim/cpp/main.cpp", "hwgen/sim/cpp/io.h", "hwgen/sim/waivers.txt"} <= inside
    packages = {name.partition("/")[0] for name in inside}
    assert packages == {"hwgen", *(name for name in packages if name.endswith(".dist-info"))}
    assert any(name.endswith("licenses/LICENSE") for name in inside)


def test_the_command_runs(installed, tmp_path):
    command = installed.parent / "hwgen"
    assert "build" in run(command, "--help", **outside(tmp_path))
    version = run(command, "--version", **outside(tmp_path))
    assert version == run(installed, "-m", "hwgen", "--version", **outside(tmp_path))
    wrong = subprocess.run(
        [command, "build", "none.py", "-o", "out"], capture_output=True, text=True, **outside(tmp_path)
    )
    assert wrong.returncode == 2
    last = wrong.stderr.splitlines()[-1]
    assert last.startswith("hwgen: none.py: no such file or directory; ")
    assert "Traceback" not in wrong.stderr
    assert not (tmp_path / "out").exists()


CHECK = """
import importlib, importlib.resources, json, pathlib, pkgutil
import hwgen, hwgen.boards, hwgen.sim, hwgen.templates
skipped = ("hwgen.__main__",)
modules = [m.name for m in pkgutil.walk_packages(hwgen.__path__, "hwgen.") if m.name not in skipped]
loaded = [importlib.import_module(name).__file__ for name in modules]
read = [p.read_text(encoding="utf-8")
        for p in (importlib.resources.files("hwgen.sim") / "cpp" / "main.cpp",
                  importlib.resources.files("hwgen.sim") / "waivers.txt")]
sizes = [len(text) for text in read]
print(json.dumps({"home": hwgen.__file__, "modules": modules, "files": loaded, "sizes": sizes}))
"""


def test_every_module_loads_from_the_wheel(installed, tmp_path):
    found = json.loads(run(installed, "-c", CHECK, **outside(tmp_path)))
    home = Path(found["home"]).parent
    assert home.is_relative_to(installed.parent.parent)
    assert all(Path(path).is_relative_to(home) for path in found["files"])
    assert {"hwgen.sim", "hwgen.boards", "hwgen.templates", "hwgen.sim.run"} <= set(found["modules"])
    assert min(found["sizes"]) > 0


def test_the_boards_are_read_from_the_wheel(installed, tmp_path):
    code = (
        "from hwgen.target_files import built_in, known_boards\n"
        "print([built_in(name).name for name in known_boards()])\n"
    )
    names = sorted(path.stem for path in (ROOT / "boards").glob("*.toml"))
    assert run(installed, "-c", code, **outside(tmp_path)) == f"{names}\n"
    assert len(names) >= 4


def test_a_model_is_read_from_the_wheel(installed, tmp_path):
    shutil.copy(ROOT / "examples" / "digits.py", tmp_path)
    code = (
        "from hwgen.frontend.loader import load_source\nprint(len(load_source('digits.py').network.stages))\n"
    )
    assert run(installed, "-c", code, **outside(tmp_path)) == "3\n"
