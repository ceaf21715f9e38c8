"""One small device with every kind of part, for tests that run whole devices: its model file, builds of it with
other data, depths or edited Verilog."""

import dataclasses
import hashlib
import json
import re
import shutil
import textwrap

import device_cases
import numpy as np
from ref_networks import random_batch, random_parameters

from hwgen import cli
from hwgen.backend import verilog
from hwgen.backend.build import MANIFEST, load_build
from hwgen.backend.convert import convert
from hwgen.backend.requests import stage_requests
from hwgen.data import Dataset
from hwgen.gateware.core import Core
from hwgen.plan.serial import plan_to_json

__all__ = ["SOURCE", "built", "emitted_beside", "instance", "rewired", "saved", "substituted", "with_data"]

SOURCE = textwrap.dedent("""
    from hwgen import Formats, Model, nn

    model = Model(
        input=(4, 6, 1),
        layers=[
            nn.Conv2d(1, 2, 1, name="first"),
            nn.Conv2d(2, 3, 3, padding=1, u=9, pc=1, pn=2, b=2, name="conv"),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(18, 3, pc=4, pn=2, name="linear"),
        ],
        optimizer=nn.SGD(lr=0.5, batch=2),
        formats=Formats(activation=8, weight=8, master=14, error=8, lr=8, bias=12),
    )
""")


def built(directory):
    """The build of SOURCE in ``directory``."""
    source = directory.with_suffix(".py")
    source.write_text(SOURCE)
    assert cli.main(["build", str(source), "-o", str(directory)]) == 0
    return load_build(directory)


def saved(build, directory):
    """Writes a build whose plan or Verilog was changed, with a manifest that knows of it."""
    shutil.copytree(build.path, directory)
    (directory / "plan.json").write_text(plan_to_json(build.plan))
    shutil.rmtree(directory / "verilog")
    (directory / "verilog").mkdir()
    for name, text in build.files.items():
        (directory / name).write_text(text)
    names = [*(name for name in build.manifest["files"] if not name.startswith("verilog/")), *build.files]
    digests = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}
    number = f"0x{verilog.build_number(build.plan):08x}"
    (directory / MANIFEST).write_text(json.dumps({**build.manifest, "build": number, "files": digests}))
    return directory


def with_data(build, seed, batches=5, extreme=False, **update):
    """The same Verilog for random parameters and samples, and another rate or seed of the update."""
    plan, rng = build.plan, np.random.default_rng(seed)
    network = dataclasses.replace(plan.network, update=dataclasses.replace(plan.network.update, **update))
    train = random_batch(network, rng, batches * network.update.batch, extreme)
    held = random_batch(network, rng, 3, extreme)
    parameters = random_parameters(network, rng, extreme)
    plan = dataclasses.replace(plan, network=network)
    return device_cases.Device(plan, parameters, Dataset(*train, *held), build.files)


def emitted_beside(build, plan):
    """The build under a plan in which few stages are different: what is equal is not emitted again."""
    files = dict(build.files)
    engines = [stage_requests(plan, planned) for planned in plan.stages]
    files |= {f"verilog/{one.name}.v": one.text() for pair in engines for one in pair}
    modules = tuple(engine.name for _, engine in engines)
    core = Core(plan, verilog.build_number(plan), modules)
    files[f"verilog/{verilog.TOP}.v"] = convert(core, verilog.TOP)
    return dataclasses.replace(build, plan=plan, files=files)


def substituted(build, name, pattern, replacement):
    """The build with the first match of a regular expression in a file replaced."""
    text, count = re.subn(pattern, replacement, build.files[name], count=1)
    assert count == 1, f"{name}: {pattern} is not in it"
    return dataclasses.replace(build, files={**build.files, name: text})


def instance(build, module, name):
    """An instance's module, and where its connections begin and end in the file of ``module``."""
    path = f"verilog/{module.split('.')[0]}.v"
    text = build.files[path]
    start = re.search(rf"^module \\?{re.escape(module)} ?\(", text, re.MULTILINE).end()
    found = re.compile(rf"^  \\?(\S+) +\\?{re.escape(name)} +\($", re.MULTILINE).search(text, start)
    end = text.index("\n  );\n", found.end())
    assert end < text.index("\nendmodule", start)
    return found[1], path, found.end(), end + 1


def rewired(build, module, name, port, expression):
    """The build with a port of instance ``name`` in ``module`` connected to ``expression`` ("{}": what it
    had)."""
    _, path, start, end = instance(build, module, name)
    text = build.files[path]
    pattern = rf"(?m)^(    \.\\?{re.escape(port)} ?\()(.*)(\),?)$"
    changed, count = re.subn(pattern, lambda m: m[1] + expression.replace("{}", m[2]) + m[3], text[start:end])
    assert count == 1, f"{module}: {name} has no port {port}"
    return dataclasses.replace(build, files={**build.files, path: text[:start] + changed + text[end:]})
