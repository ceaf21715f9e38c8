"""``hwgen ops``: the operations that there are, what they are in ONNX and PyTorch, and the tests that prove each."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from .. import __version__
from ..errors import ModelError
from ..ir.ops import OPS, Unknown
from ..ir.proofs import PROOFS
from . import report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "ops"
WIDTH = 110
"""Columns that lists are folded to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument(
        "op", nargs="?", metavar="OP", help="show this one with its proofs (default: a table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Shows the table, or the operation asked for."""
    from ..frontend.onnx_operators import ALTERNATIVES, OPERATORS
    from ..frontend.torch_operators import TORCH_ALTERNATIVES, TORCH_OPERATORS

    known = {op.__name__: op for op in OPS if op is not Unknown}
    if arguments.op is not None and arguments.op not in known:
        raise ModelError(f"ops: {arguments.op!r} is no operation; there are {', '.join(known)}")
    asked = known if arguments.op is None else {arguments.op: known[arguments.op]}
    result: dict[str, Any] = {
        "command": NAME,
        "hwgen": __version__,
        "ops": [_facts(name, op) for name, op in asked.items()],
        "onnx": {"taken": sorted(OPERATORS), "refused": dict(ALTERNATIVES)},
        "torch": {"taken": sorted(TORCH_OPERATORS), "refused": dict(TORCH_ALTERNATIVES)},
    }
    report.show(result, _table(result) if arguments.op is None else _sheet(result["ops"][0]), arguments.json)
    return 0


def _facts(name: str, op: type) -> dict[str, Any]:
    """One operation. ``op`` is a dataclass, its fields are what it takes."""
    return {
        "name": name,
        "takes": [field.name for field in fields(op)],
        "onnx": OPS[op].onnx,
        "torch": OPS[op].torch,
        "proofs": {kind: list(tests) for kind, tests in asdict(PROOFS[op]).items()},
    }


def _table(result: dict[str, Any]) -> str:
    rows = [["operation", "ONNX", "PyTorch", "tests", "takes"]]
    for facts in result["ops"]:
        tests = str(len({test for tests in facts["proofs"].values() for test in tests}))
        rows.append([facts["name"], facts["onnx"], facts["torch"], tests, ", ".join(facts["takes"]) or "-"])
    lines = [report.table(rows), "proofs of one: hwgen ops NAME"]
    for kind, title in (("onnx", "ONNX"), ("torch", "PyTorch")):
        lines.append(_folded(f"imported from {title}", result[kind]["taken"]))
        lines.append(_folded("refused with an alternative", result[kind]["refused"]))
    return "\n\n".join(lines)


def _folded(title: str, names: Iterable[str]) -> str:
    return "\n".join(textwrap.wrap(f"{title}: {', '.join(names)}", WIDTH, subsequent_indent="  "))


def _sheet(facts: dict[str, Any]) -> str:
    lines = [f"{facts['name']}: {facts['onnx']} in ONNX, {facts['torch']} in PyTorch"]
    lines.append(f"takes {', '.join(facts['takes']) or 'nothing'}")
    for kind, tests in facts["proofs"].items():
        lines += [f"{kind}: {test}" for test in tests]
    return "\n".join(lines)
