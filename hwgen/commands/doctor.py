"""``hwgen doctor``: which tools are here, which are missing, how to get them."""

from __future__ import annotations

import argparse
from typing import Any

from .. import __version__
from ..errors import ToolError
from ..toolchain import Finding, doctor
from . import report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "doctor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments: none of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Shows all tools; ToolError's exit code if one that is required cannot be used."""
    findings = doctor()
    bad = [found for found in findings if found.problem is not None and found.tool.required]
    result = {
        "command": "doctor",
        "hwgen": __version__,
        "ok": not bad,
        "tools": [_row(found) for found in findings],
    }
    report.show(result, _text(findings), arguments.json)
    return ToolError.exit_code if bad else 0


def _row(found: Finding) -> dict[str, Any]:
    return {
        "name": found.tool.name,
        "required": found.tool.required,
        "path": None if found.path is None else str(found.path),
        "version": found.version,
        "problem": found.problem,
        "purpose": found.tool.purpose,
        "install": found.tool.install,
    }


def _text(findings: list[Finding]) -> str:
    rows = [("tool", "", "state", "what for", "where")]
    for found in findings:
        need = "required" if found.tool.required else "optional"
        where = str(found.path) if found.problem is None else f"install it with: {found.tool.install}"
        rows.append(
            (found.tool.name, need, found.problem or found.version or "found", found.tool.purpose, where)
        )
    return report.table(rows)
