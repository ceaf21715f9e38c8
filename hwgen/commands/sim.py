"""``hwgen sim``: run the generated Verilog and compare it with the reference, bit for bit."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import HwgenError, MismatchError, WatchdogError
from . import report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "sim"
WATCHDOG_CYCLES = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="a directory that hwgen build made")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--batches",
        type=report.positive,
        metavar="N",
        help="training batches to run (default: 1; none with --eval)",
    )
    length.add_argument(
        "--epochs", type=report.positive, metavar="N", help="passes over the training data to run"
    )
    parser.add_argument("--eval", action="store_true", help="then classify the held-out samples in hardware")
    parser.add_argument("--simulator", choices=("verilator", "icarus"), default="verilator")
    parser.add_argument(
        "--seed",
        type=report.seed,
        metavar="N",
        help="order of the samples and of stalls (default: the build's)",
    )
    parser.add_argument(
        "--stall",
        type=report.fraction,
        default=0.0,
        metavar="P",
        help="chance that a stream waits a cycle, 0 to below 1",
    )
    parser.add_argument("--trace", type=Path, metavar="FILE.fst", help="write a waveform")
    parser.add_argument(
        "--dump-tensors", type=Path, metavar="DIR", dest="dump", help="write every compared tensor"
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


def run(arguments: argparse.Namespace) -> int:
    """Simulates, writes result.json into the build directory, and shows the result.

    Raises MismatchError if anything differs or nothing was compared.
    """
    from ..backend.build import load_build
    from ..sim.run import SimOptions, simulate

    if arguments.trace is not None and not arguments.trace.parent.is_dir():
        raise HwgenError(
            f"--trace {arguments.trace}: {arguments.trace.parent} is no directory; make it first"
        )
    with report.Progress() as progress:
        progress(f"reading {arguments.directory}")
        build = load_build(arguments.directory)
        seed = build.seed if arguments.seed is None else arguments.seed
        nothing = arguments.batches is None and arguments.epochs is None and not arguments.eval
        options = SimOptions(
            batches=1 if nothing else arguments.batches,
            epochs=arguments.epochs,
            evaluate=arguments.eval,
            simulator=arguments.simulator,
            seed=seed,
            stall=arguments.stall,
            trace=arguments.trace,
            dump=arguments.dump,
            watchdog=arguments.watchdog,
            gradients=arguments.gradients,
        )
        head = {"command": "sim", "hwgen": __version__, "build": build.manifest["build"], "seed": seed}
        try:
            result = {**head, **simulate(build, options, progress)}
        except (MismatchError, WatchdogError) as error:
            # An earlier run's success must not stay there.
            failed = {**head, "error": str(error), "exit_code": error.exit_code}
            report.write_result(arguments.directory, failed)
            raise
    report.write_result(arguments.directory, result)
    if not result["compared"]:
        raise MismatchError("nothing was compared; run at least one batch")
    if result["mismatched"]:
        raise MismatchError(
            f"{result['mismatched']} of {result['compared']} values differ from the reference"
        )
    report.show(result, _text(result), arguments.json)
    return 0


def _text(result: Mapping[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [("stage", "forward", "backward", "gradient")]
    rows += [(stage["name"], *_shares(stage["occupancy"])) for stage in result["stages"]]
    rows.append(("all", *_shares(result["occupancy"])))
    lines = [
        f"{result['batches']} batches, {result['samples']} samples",
        f"{result['compared']} values compared with the reference, all equal",
        f"{result['cycles']} cycles in {result['seconds']:.1f} s under {result['simulator']}, "
        f"{result['macs_per_second'] / 1e6:.1f} million multiply-accumulates a second",
        f"{result['multipliers']} multipliers, busy:",
        report.table(rows),
    ]
    for unit in ("sample", "batch"):
        if (measured := result[f"cycles_per_{unit}"]) is not None:
            lines.append(
                f"cycles a {unit}: {measured:.1f}, predicted {result[f'predicted_cycles_per_{unit}']:.1f}"
            )
    if result["accuracy"] is not None:
        lines.append(f"accuracy on held-out samples: {result['accuracy']:.2%}")
    return "\n".join(lines)


def _shares(occupancy: Mapping[str, float | None]) -> list[str]:
    """Shares of the three passes; a pass that a stage does not have has none."""
    values = (occupancy[name] for name in ("forward", "backward", "gradient"))
    return ["-" if value is None else f"{value:.1%}" for value in values]
