"""The command line: which commands there are, and how errors become one line and an exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .commands import build, doctor, sim, train
from .errors import HwgenError, ModelError

__all__ = ["FAULT", "INTERRUPTED", "main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
FAULT = 70
"""Exit code after a fault of hwgen's own (EX_SOFTWARE of sysexits.h)."""
COMMANDS = (build, sim, train, doctor)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line as every other error: in one line, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise HwgenError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hwgen",
        description="Generates FPGA hardware that trains neural networks.",
        epilog="Exit codes: 0 all equal, 1 hardware and reference differ, 2 wrong input, "
        "3 a tool is missing or failed, 4 the hardware is stuck, 70 a fault of hwgen itself, 130 Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hwgen {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        summary = (command.__doc__ or "").splitlines()[0].partition(": ")[2]
        own = commands.add_parser(command.NAME, help=summary, description=summary, allow_abbrev=False)
        own.add_argument(
            "--json",
            action="store_true",
            help="the result as JSON on standard output, and nothing else there",
        )
        command.add_arguments(own)
        own.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code. ``argv`` is what follows ``hwgen``, from the process by default."""
    arguments = None
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(arguments))
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except HwgenError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        print("hwgen: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # standard output was closed: `hwgen … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HwgenError.exit_code
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return _report(HwgenError(f"{where}{error.strerror or error}"), arguments)
    except Exception:  # else Python would exit with 1, which means a mismatch
        traceback.print_exc()
        print("hwgen: this is a fault of hwgen itself; please report the lines above", file=sys.stderr)
        return FAULT


def _report(error: HwgenError, arguments: argparse.Namespace | None) -> int:
    for problem in error.problems if isinstance(error, ModelError) else [str(error)]:
        print(f"hwgen: {problem}", file=sys.stderr)
    if arguments is not None and arguments.json:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}, indent=1))
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
