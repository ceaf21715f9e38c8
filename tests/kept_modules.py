"""Verilog for tests, made once: modules are kept as `hwgen build` keeps them, by what they are made of and the sources.

Where a test has replaced anything in the packages that make them, they are made anew and not kept.
"""

import importlib
import pkgutil

import hwgen.backend
import hwgen.gateware
import hwgen.ir
import hwgen.plan
from hwgen.backend.kept import Kept
from hwgen.backend.verilog import emit_modules
from hwgen.toolchain import cache_directory

__all__ = ["kept_files", "kept_text", "pristine"]


def _modules():
    for package in (hwgen.backend, hwgen.gateware, hwgen.ir, hwgen.plan):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def _content(owner):
    """What a module or class has under its names, and what is in its tables."""
    for name, value in sorted(vars(owner).items()):
        if name.startswith("__"):
            continue
        yield owner, name, value
        if isinstance(value, dict):
            yield from ((owner, name, key, item) for key, item in value.items())
        elif isinstance(value, type) and value.__module__ == getattr(owner, "__name__", ""):
            yield from _content(value)


MODULES = tuple(_modules())


def _state():
    return [tuple(map(id, part)) for module in MODULES for part in _content(module)]


FIRST = _state()


def pristine():
    """Whether everything that makes modules is as it was imported."""
    return _state() == FIRST


def _kept():
    return Kept(cache_directory() / "modules") if pristine() else None


def kept_files(plan):
    """Verilog files by path, as ``emit`` makes them."""
    return emit_modules(plan, _kept()).files


def kept_text(key, make):
    """The text of make(), kept under ``key``."""
    kept = _kept()
    text = kept.get(key) if kept is not None else None
    if text is None:
        text = make()
        if kept is not None:
            kept.put(key, text)
    return text
