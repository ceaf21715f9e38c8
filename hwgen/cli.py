"""The command line: which commands there are, and how errors become one line and an exit code."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from . import __version__
from .commands import boards, build, check, doctor, export, ops, plan, sim, synth, train
from .errors import HwgenError

__all__ = ["FAULT", "SIGNALLED", "main"]

SIGNALLED = 128
"""Exit code after a signal is this and its number, as shells have it: 130 after Ctrl-C."""
FAULT = 70
"""Exit code after a fault of hwgen's own (EX_SOFTWARE of sysexits.h)."""
COMMANDS = (check, ops, plan, build, sim, synth, train, export, boards, doctor)
STOPS = (signal.SIGTERM, signal.SIGHUP)
"""What ends a command as Ctrl-C does: tools are stopped, temporary files removed."""


class _Stopped(KeyboardInterrupt):
    """A signal of STOPS arrived; its number is the argument."""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line as every other error: in one line, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise HwgenError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hwgen",
        description="Generates FPGA hardware that trains neural networks.",
        epilog="Exit codes: 0 done, all equal, 1 hardware and reference differ, or a design does not fit, 2 wrong "
        "input, 3 a tool is missing or failed, 4 the hardware is stuck, 70 a fault of hwgen itself, 130 Ctrl-C.",
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
    _mend_streams()
    try:
        arguments = _parser().parse_args(argv)
        with _stoppable():
            return int(arguments.run(arguments))
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except HwgenError as error:
        return _report(error, arguments)
    except KeyboardInterrupt as stop:
        print("hwgen: interrupted", file=sys.stderr)
        return SIGNALLED + (stop.args[0] if isinstance(stop, _Stopped) else signal.SIGINT)
    except BrokenPipeError:  # standard output was closed: `hwgen … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HwgenError.exit_code
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return _report(HwgenError(f"{where}{error.strerror or error}"), arguments)
    except MemoryError as error:
        what = f"not enough memory ({error})" if str(error) else "not enough memory"
        return _report(HwgenError(f"{what}; make the network or its data smaller"), arguments)
    except Exception:  # else Python would exit with 1, which means a mismatch
        traceback.print_exc()
        print("hwgen: this is a fault of hwgen itself; please report the lines above", file=sys.stderr)
        return FAULT


def _mend_streams() -> None:
    """What is written to a closed stream is lost; what its encoding has not is written as an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Within the block, STOPS raise; one that is ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise _Stopped(number)

    ours = [number for number in STOPS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _report(error: HwgenError, arguments: argparse.Namespace | None) -> int:
    for problem in error.problems:
        print(f"hwgen: {problem}", file=sys.stderr)
    if arguments is not None and arguments.json:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}, indent=1))
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
