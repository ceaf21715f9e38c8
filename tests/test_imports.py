"""The import rule, read from the sources: which part of hwgen may know which, and what every module has."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOMES = {"sim": "hwgen.sim", "boards": "hwgen.boards", "templates": "hwgen.templates"}
"""Folders that install under another name."""

LAYERS = (
    (
        "hwgen.errors",
        "hwgen.numeric",
        "hwgen.numeric_tables",
        "hwgen.boards",
        "hwgen.templates",
        "hwgen.host",
    ),
    (
        "hwgen.toolchain",
        "hwgen.target",
        "hwgen.target_chain",
        "hwgen.target_fields",
        "hwgen.target_files",
        "hwgen.target_pins",
        "hwgen.target_serial",
    ),
    ("hwgen.ir",),
    ("hwgen.data",),
    ("hwgen.frontend", "hwgen.passes", "hwgen.ref"),
    ("hwgen.plan",),
    ("hwgen.gateware",),
    ("hwgen.backend",),
    ("hwgen.sim",),
    ("hwgen.commands", "hwgen.cli", "hwgen.__main__"),
)
"""A module imports from its own line and the lines above it; ``hwgen`` itself is free to all."""

APART = (("hwgen.gateware", "hwgen.ref"), ("hwgen.backend", "hwgen.ref"))
"""Pairs that never import each other: two independent statements of the same arithmetic."""

MAY_USE_AMARANTH = ("hwgen.gateware", "hwgen.backend", "hwgen.sim")
MAX_LINES = 400


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = (*HOMES.get(parts[0], parts[0]).split("."), *parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders):
    return {module_name(path): path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))}


MODULES = sources("hwgen", *HOMES)
DOCUMENTED = sources("hwgen", *HOMES, "benchmarks")


def imports(text, name, is_package, modules):
    """All modules that a source imports, wherever in it: (name, whether at the top of the module)."""
    tree = ast.parse(text)
    top = set()
    for node in tree.body:
        guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not guard:
            top |= {id(inner) for inner in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, id(node) in top) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".") if is_package else name.split(".")[:-1]
            base = base[: len(base) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                found.add((inner if inner in modules else origin, id(node) in top))
    return found


def graph():
    return {
        name: imports(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", MODULES)
        for name, path in MODULES.items()
    }


def belongs(name, part):
    return name == part or name.startswith(part + ".")


def layer(name):
    return next(
        (rank for rank, parts in enumerate(LAYERS) if any(belongs(name, part) for part in parts)), None
    )


def offences(edges):
    """What breaks the rule, one line each."""
    found = []
    for name, targets in edges.items():
        if name != "hwgen" and layer(name) is None:
            found.append(f"{name} has no place among the layers")
        for target, _ in targets:
            root = target.partition(".")[0]
            if root == "amaranth" and not any(belongs(name, part) for part in MAY_USE_AMARANTH):
                found.append(f"{name} imports {target}")
            if root != "hwgen" or target == "hwgen":
                continue
            if layer(target) is None or (layer(name) is not None and layer(target) > layer(name)):
                found.append(f"{name} imports {target}")
            for pair in APART:
                for one, other in (pair, pair[::-1]):
                    if belongs(name, one) and belongs(target, other):
                        found.append(f"{name} imports {target}, which is to stay apart")
    return sorted(found)


def circle(edges):
    """Modules that import one another while they load, or []."""
    waiting = {
        name: {t for t, top in targets if top and t in edges and t != name} for name, targets in edges.items()
    }
    while waiting:
        ready = [name for name, targets in waiting.items() if not targets & waiting.keys()]
        if not ready:
            return sorted(waiting)
        for name in ready:
            del waiting[name]
    return []


def test_imports_point_one_way():
    assert len(MODULES) > 40
    assert offences(graph()) == []


def test_there_is_no_circle():
    assert circle(graph()) == []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_module_says_what_it_is(name):
    path = DOCUMENTED[name]
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} has no docstring"
    exported = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and any(
            getattr(t, "id", "") == "__all__"
            for t in getattr(node, "targets", [getattr(node, "target", None)])
        )
    ]
    assert len(exported) == 1, f"{path.relative_to(ROOT)} has no __all__"
    public = ast.literal_eval(exported[0])
    assert len(public) == len(set(public))
    lazy = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body)
    if not lazy and not stars:
        assert set(public) <= top_names(tree), f"{path.relative_to(ROOT)}: __all__ names what is not there"


def top_names(tree):
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_no_file_is_long():
    files = [
        p for f in ("hwgen", *HOMES, "benchmarks", "examples", "tests") for p in (ROOT / f).rglob("*.py")
    ]
    long = {
        str(path.relative_to(ROOT)): count
        for path in files
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert long == {}


RULE_BREAKERS = {
    "upwards": ("hwgen.ir.ops", "from ..plan.fold import Fold\n", "hwgen.ir.ops imports hwgen.plan.fold"),
    "inside a function": (
        "hwgen.plan.plan",
        "def f():\n    from ..gateware import tile\n",
        "hwgen.plan.plan imports hwgen.gateware.tile",
    ),
    "by its full name": (
        "hwgen.numeric",
        "import hwgen.errors, hwgen.sim.run\n",
        "hwgen.numeric imports hwgen.sim.run",
    ),
    "amaranth": ("hwgen.ref.kernels", "import amaranth.hdl\n", "hwgen.ref.kernels imports amaranth.hdl"),
    "apart": (
        "hwgen.gateware.tile",
        "from ..ref import kernels\n",
        "hwgen.gateware.tile imports hwgen.ref.kernels, which is to stay apart",
    ),
    "unknown module": ("hwgen.misc", "", "hwgen.misc has no place among the layers"),
    "unknown target": ("hwgen.cli", "import hwgen.misc\n", "hwgen.cli imports hwgen.misc"),
}


@pytest.mark.parametrize("kind", RULE_BREAKERS)
def test_the_rule_can_be_broken(kind):
    name, text, wanted = RULE_BREAKERS[kind]
    assert wanted in offences({name: imports(text, name, False, MODULES)})


def test_a_circle_is_found():
    def edges(text):
        return {
            "a.x": imports("from . import y\n", "a.x", False, names),
            "a.y": imports(text, "a.y", False, names),
        }

    names = {"a.x", "a.y"}
    assert circle(edges("from .x import f\n")) == ["a.x", "a.y"]
    assert circle(edges("def g():\n    from .x import f\n")) == []
    assert circle(edges("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .x import f\n")) == []
