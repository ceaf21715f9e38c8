"""``hwgen train``: train with the reference alone, the same bits as the hardware's."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..backend.arrays import pack
from ..backend.trained import parameter_tensors
from ..backend.writer import require_writable, write_tree
from . import report
from .training import add_source_argument, add_training_arguments, training

__all__ = ["NAME", "add_arguments", "run"]

NAME = "train"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    add_source_argument(parser)
    parser.add_argument(
        "--epochs", type=report.repeats, required=True, metavar="N", help="passes over the data"
    )
    parser.add_argument(
        "--seed",
        type=report.seed,
        default=0,
        metavar="N",
        help="first weights and order of the samples (default: 0)",
    )
    parser.add_argument(
        "-o", dest="out", metavar="DIR", type=Path, help="where to write result.json (default: nowhere)"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE.npz", help="write the trained weights, for hwgen export"
    )
    add_training_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Trains, evaluates on the held-out samples, and shows the result."""
    from ..frontend.loader import load_source
    from ..ref.trainer import evaluate, train

    if arguments.out is not None:
        require_writable(arguments.out)
    if arguments.weights is not None:
        require_writable(arguments.weights.absolute().parent)
    with report.Progress() as progress:
        progress(f"loading {arguments.source}")
        with contextlib.redirect_stdout(sys.stderr):  # the model file may print
            source = load_source(arguments.source, arguments.seed, training(arguments))
        start = time.monotonic()
        progress("training")
        trained = train(
            source.network,
            source.parameters,
            source.dataset,
            epochs=arguments.epochs,
            seed=arguments.seed,
            progress=lambda epoch, loss, _: progress(f"loss {loss:.4f}, epoch", epoch, arguments.epochs),
        )
        seconds = time.monotonic() - start
        data = source.dataset
        has_test = len(data.test_images) > 0
        accuracy = (
            evaluate(source.network, trained.parameters, data.test_images, data.test_labels)
            if has_test
            else None
        )
    batch = source.network.update.batch
    result = {
        "command": "train",
        "hwgen": __version__,
        "seed": arguments.seed,
        "seconds": round(seconds, 3),
        "epochs": arguments.epochs,
        "batches": trained.steps,
        "samples": trained.steps * batch,
        "batch": batch,
        "random_data": source.given is None,
        "losses": list(trained.losses),
        "accuracy": accuracy,
        "stages": [
            {"name": stage.name, "counters": _device_names(counts)}
            for stage, counts in zip(source.network.stages, trained.counts, strict=True)
        ],
    }
    if arguments.weights is not None:
        content = pack(parameter_tensors(source.network, trained.parameters))
        write_tree(arguments.weights.parent, {arguments.weights.name: content})
    if arguments.out is not None:
        report.write_result(arguments.out, result)
    report.show(result, _text(result), arguments.json)
    return 0


def _device_names(counts: Mapping[str, int]) -> dict[str, int]:
    """The reference's counts under the names of the device's counters (plan.registers.STAGE_COUNTERS)."""
    return {name if name == "zero_updates" else f"{name}_saturated": count for name, count in counts.items()}


def _text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{result['epochs']} epochs in {result['seconds']:.1f} s: "
        f"{result['batches']} batches of {result['batch']}",
        f"mean loss: {result['losses'][0]:.4f} in the first epoch, {result['losses'][-1]:.4f} in the last",
    ]
    if result["accuracy"] is not None:
        lines.append(f"accuracy on held-out samples: {result['accuracy']:.2%}")
    if result["random_data"]:
        lines.append(report.RANDOM_DATA)
    return "\n".join(lines)
