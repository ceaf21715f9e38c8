"""``hwgen sim``: run the generated Verilog and compare it with the reference, bit for bit."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..backend.writer import require_writable
from ..errors import BuildError, MismatchError, ToolError, WatchdogError
from . import report

if TYPE_CHECKING:  # loading these takes a second
    from ..backend.build import Build

__all__ = ["NAME", "add_arguments", "run"]

NAME = "sim"
WATCHDOG_CYCLES = 100_000
ALMOST_NOTHING = 1 << 16
"""Bytes of free space that no tool gets along with."""
PASSES = ("forward", "backward", "gradient")
ROLLED = "arrays are models, which hwgen's tests find equal to the emitted ones in every cycle; all else is as emitted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="a directory that hwgen build made")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--batches",
        type=report.repeats,
        metavar="N",
        help="training batches to run (default: 1; none with --eval)",
    )
    length.add_argument(
        "--epochs", type=report.repeats, metavar="N", help="passes over the training data to run"
    )
    parser.add_argument("--eval", action="store_true", help="then classify the held-out samples in hardware")
    parser.add_argument("--simulator", choices=("verilator", "icarus"), default="verilator")
    parser.add_argument(
        "--seed",
        type=report.seed,
        metavar="N",
        help="order of the samples, stalls, faults of cables (default: the build's)",
    )
    parser.add_argument(
        "--stall",
        type=report.fraction,
        default=0.0,
        metavar="P",
        help="chance that a stream waits a cycle, 0 to below 1",
    )
    parser.add_argument(
        "--device",
        type=report.natural,
        metavar="K",
        help="only board K of a chain, against what crosses its links by the reference",
    )
    _add_cable_arguments(parser)
    parser.add_argument("--trace", type=Path, metavar="FILE.fst", help="write a waveform")
    parser.add_argument(
        "--dump-tensors", type=Path, metavar="DIR", dest="dump", help="write every compared tensor"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE.npz", help="write the trained weights, for hwgen export"
    )
    parser.add_argument(
        "--watchdog",
        type=report.positive,
        default=WATCHDOG_CYCLES,
        metavar="N",
        help=f"cycles without progress after which the hardware is stuck (default: {WATCHDOG_CYCLES})",
    )
    parser.add_argument(
        "--no-gradients",
        action="store_false",
        dest="gradients",
        help="do not stop after each batch to read dW and db",
    )
    _add_size_arguments(parser)


def _add_size_arguments(parser: argparse.ArgumentParser) -> None:
    large = parser.add_argument_group("large boards")
    large.add_argument(
        "--rolled",
        action="store_true",
        help="C++ models for the arrays, equal in every cycle; memories are loaded and read past the device",
    )
    large.add_argument(
        "--batch",
        type=report.positive,
        metavar="N",
        help="samples of a batch, up to as many as the model says (default: as many)",
    )
    large.add_argument(
        "--no-timing",
        action="store_false",
        dest="timing",
        help="do not train two more batches behind those of --batches, on which cycles are measured",
    )


def _add_cable_arguments(parser: argparse.ArgumentParser) -> None:
    cables = parser.add_argument_group("cables of a chain of boards")
    cables.add_argument(
        "--latency", type=report.span, metavar="N[..M]",
        help="cycles of a cable, drawn for every direction (default: what the plan was made for)",
    )  # fmt: skip
    cables.add_argument(
        "--jitter", type=report.cycles, default=0, metavar="N", help="up to N cycles more at random"
    )
    cables.add_argument(
        "--ber", type=report.fraction, default=0.0, metavar="P", help="chance of a flipped bit"
    )
    cables.add_argument(
        "--frame-loss", type=report.fraction, default=0.0, metavar="P", help="chance that a frame is lost"
    )
    cables.add_argument(
        "--frame-repeat",
        type=report.fraction,
        default=0.0,
        metavar="P",
        help="chance that a frame comes twice",
    )
    cables.add_argument(
        "--reset-skew",
        type=report.skew,
        default=0,
        metavar="N",
        help="boards leave reset up to N cycles apart",
    )
    cables.add_argument(
        "--link-down",
        type=report.period,
        metavar="N..M",
        help="one of the cables loses everything from cycle N to M",
    )
    cables.add_argument(
        "--own-clocks", action="store_true", help="every board and link end has a clock of its own"
    )
    cables.add_argument(
        "--stutter", action="store_true", help="transmitters pause one cycle in 33, as Aurora cores do"
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulates, writes result.json into the build directory, and shows the result.

    Raises MismatchError if anything differs or nothing was compared.
    """
    from ..backend.build import load_build

    with report.Progress() as progress:
        progress(f"reading {arguments.directory}")
        build = load_build(arguments.directory)
        require_writable(arguments.directory)
        if arguments.trace is not None:
            _require_new_file(arguments.trace)
        if arguments.weights is not None:
            if arguments.device is not None:
                raise BuildError(
                    f"--weights of board {arguments.device} alone; leave --device out for those of all"
                )
            _require_new_file(arguments.weights)
        try:
            result = _simulate(build, arguments, progress)
        except (MismatchError, WatchdogError) as error:
            # An earlier run's success must not stay there.
            failed = {**_head(build, arguments), "error": str(error), "exit_code": error.exit_code}
            report.write_result(arguments.directory, failed)
            raise
        except (OSError, ToolError) as error:
            if (place := _full_disk(arguments)) is None:
                raise
            raise BuildError(f"{place}: no space left on its disk; make room") from error
    report.write_result(arguments.directory, result)
    report.show(result, _text(result), arguments.json)
    return 0


def _full_disk(arguments: argparse.Namespace) -> Path | None:
    """The first place that a simulation writes to and that has no space; the errors of tools do not tell."""
    from ..toolchain import cache_directory

    own: list[Path | None] = [arguments.trace, arguments.dump, arguments.weights]
    places = [Path(os.environ.get("TMPDIR") or tempfile.gettempdir()), cache_directory(), *own]
    for place in (place.absolute() for place in places if place is not None):
        there = next(path for path in (place, *place.parents) if path.exists())
        if shutil.disk_usage(there).free < ALMOST_NOTHING:
            return place
    return None


def _require_new_file(path: Path) -> None:
    """Removes what an earlier run left there. Raises BuildError if no file can be written there."""
    if path.is_dir():
        raise BuildError(f"{path}: is a directory; give the name of a file")
    require_writable(path.absolute().parent)
    path.unlink(missing_ok=True)


def _simulate(build: Build, arguments: argparse.Namespace, progress: report.Progress) -> dict[str, Any]:
    from ..sim.cables import CableOptions
    from ..sim.run import SimOptions, simulate

    nothing = arguments.batches is None and arguments.epochs is None and not arguments.eval
    head = _head(build, arguments)
    options = SimOptions(
        batches=1 if nothing else arguments.batches,
        epochs=arguments.epochs,
        evaluate=arguments.eval,
        simulator=arguments.simulator,
        seed=head["seed"],
        stall=arguments.stall,
        trace=arguments.trace,
        dump=arguments.dump,
        weights=arguments.weights,
        watchdog=arguments.watchdog,
        gradients=arguments.gradients,
        device=arguments.device,
        batch=arguments.batch,
        timing=arguments.timing,
        rolled=arguments.rolled,
        cables=CableOptions(
            latency=arguments.latency,
            jitter=arguments.jitter,
            ber=arguments.ber,
            loss=arguments.frame_loss,
            repeat=arguments.frame_repeat,
            stutter=arguments.stutter,
            reset_skew=arguments.reset_skew,
            clocks=arguments.own_clocks,
            down=arguments.link_down,
        ),
    )
    progress(f"preparing the simulation with {arguments.simulator}")
    found = simulate(build, options, lambda done, total: progress("results", done, total))
    if not found["compared"]:
        raise MismatchError("simulation: nothing was compared; ask for at least one batch, epoch or --eval")
    if found["mismatched"]:
        raise MismatchError(
            f"simulation: {found['mismatched']} of {found['compared']} compared integers differ"
        )
    if (number := f"0x{found['build']:08x}") != head["build"]:
        raise MismatchError(
            f"device: register build reads {number}, the plan's is {head['build']}; build again"
        )
    return {**found, **head}


def _head(build: Build, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "command": NAME,
        "hwgen": __version__,
        "build": build.manifest["build"],
        "seed": build.seed if arguments.seed is None else arguments.seed,
        "device": arguments.device,
    }


def _text(result: Mapping[str, Any]) -> str:
    rows = [["busy", *PASSES]]
    rows += [_row(stage["name"], stage["occupancy"]) for stage in result["stages"]]
    rows.append(_row("all", result["occupancy"]))
    lines = [] if result["device"] is None else [f"board {result['device']} alone"]
    if result["rolled"]:
        lines.append(ROLLED)
    lines += [
        f"{result['batches']} training batches, {result['samples']} samples",
        f"{result['compared']} integers compared with the reference, all equal",
        f"{result['cycles']} cycles in {result['seconds']:.1f} s under {result['simulator']}",
    ]
    if (speed := result["macs_per_second"]) is not None:
        lines.append(f"{report.amount(speed)} multiply-accumulates a second")
    if (total := result["occupancy"]["total"]) is not None:
        lines += [
            f"{result['multipliers']} multipliers, {total:.1%} busy in steady state",
            report.table(rows),
        ]
    elif result["cycles_per_batch"] is not None:
        lines.append("batches too short for a steady state: occupancy not measured")
    for unit in ("sample", "batch"):
        if (measured := result[f"cycles_per_{unit}"]) is not None:
            lines.append(
                f"cycles a {unit}: {measured:.1f}, predicted {result[f'predicted_cycles_per_{unit}']:.1f}"
            )
    lines += [_link(end) for end in result["links"]]
    if result["accuracy"] is not None:
        lines.append(f"accuracy on held-out samples: {result['accuracy']:.2%}")
    return "\n".join(lines)


def _link(end: Mapping[str, Any]) -> str:
    """An end of a link in one line: what it sent, and what went wrong on the cable."""
    counters = end["counters"]
    faults = ("crc_errors", "frames_lost", "frames_repeated", "frames_replayed")
    found = ", ".join(f"{counters[name]} {name.replace('_', ' ')}" for name in faults if counters[name])
    return (
        f"link {end['link']} at board {end['board']}: {end['state']}, {counters['frames_sent']} frames sent, "
        f"{counters['frames_received']} received" + (f"; {found}" if found else "")
    )


def _row(name: str, occupancy: Mapping[str, float | None]) -> list[str]:
    """A row of the table: shares of the three passes; a pass that a stage does not have has none."""
    return [name, *("-" if (share := occupancy[each]) is None else f"{share:.1%}" for each in PASSES)]
