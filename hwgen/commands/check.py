"""``hwgen check``: what a model is in hwgen, how its number formats suit it, or everything wrong with it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..ir.activation import Activation
from . import report
from .training import add_source_argument, add_training_arguments, training

if TYPE_CHECKING:
    from ..ir.stage import Stage

__all__ = ["NAME", "add_arguments", "run"]

NAME = "check"
BATCHES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    add_source_argument(parser)
    add_training_arguments(parser)
    parser.add_argument(
        "--batches",
        type=report.repeats,
        default=BATCHES,
        metavar="N",
        help=f"batches of the model's data, where it has any, to try formats on (default: {BATCHES})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Shows the stages, and the report on formats."""
    from ..frontend.format_report import MOST_ZERO, format_report
    from ..frontend.loader import load_source

    with report.Progress() as progress:
        progress(f"loading {arguments.source}")
        with contextlib.redirect_stdout(sys.stderr):  # the model file may print
            source = load_source(arguments.source, training=training(arguments))
        progress("comparing formats with real numbers")
        found = format_report(source, arguments.batches)
    advice = [f"{s.name}: {t.advice}" for s in found for t in s.tensors if t.advice is not None]
    advice += [
        f"{s.name}: {s.zero_updates:.0%} of the updates round to zero; give a larger lr or a smaller batch, "
        "more lr bits, or Formats(rounding='stochastic')"
        for s in found
        if s.zero_updates is not None and s.zero_updates > MOST_ZERO
    ]
    stages = [
        {**_stage(stage), "tensors": [_tensor(t) for t in told.tensors], "zero_updates": told.zero_updates}
        for stage, told in zip(source.network.stages, found, strict=True)
    ]
    result = {
        "command": NAME,
        "hwgen": __version__,
        "input": list(source.network.in_shape),
        "classes": source.network.loss.classes,
        "batch": source.network.update.batch,
        "macs_per_sample": source.network.macs,
        "data": source.given is not None,
        "stages": stages,
        "advice": advice,
    }
    report.show(result, _text(result), arguments.json)
    return 0


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "kind": _kind(stage),
        "in_shape": list(stage.in_shape),
        "out_shape": list(stage.out_shape),
        "weights": stage.K * stage.out_channels,
        "frozen": stage.frozen,
    }


def _kind(stage: Stage) -> str:
    """The layer in words: "conv 3×3 stride 2 + ReLU + max-pool 2×2"."""
    window = stage.window
    text = "linear"
    if window.pixels_in > 1 or stage.groups > 1:
        text = f"conv {window.kernel[0]}×{window.kernel[1]}"
        for name, value, usual in (
            ("stride", window.stride, (1, 1)),
            ("pads", window.pads, (0, 0, 0, 0)),
            ("dilation", window.dilation, (1, 1)),
        ):
            text += f" {name} {','.join(map(str, value))}" if value != usual else ""
        text += f" groups {stage.groups}" if stage.groups > 1 else ""
    text += f" + {_activation(stage.activation)}" if stage.activation is not None else ""
    if stage.pool is not None:
        text += f" + max-pool {stage.pool.kernel[0]}×{stage.pool.kernel[1]}"
    return text


def _activation(form: Activation) -> str:
    if form.slope is not None:
        return f"LeakyReLU {form.slope[0]}/{1 << form.slope[1]}"
    return "ReLU" if form == Activation() else f"Hardtanh {form.low:g} to {form.high:g}"


def _tensor(told: Any) -> dict[str, Any]:
    fields = {field.name: getattr(told, field.name) for field in dataclasses.fields(told)}
    return {**fields, "format": [told.format.width, told.format.frac]}


def _text(result: Mapping[str, Any]) -> str:
    shapes = [["layer", "", "input", "output", "weights"]]
    tensors = [["tensor", "format", "reaches", "clipped", "signal to noise"]]
    for stage in result["stages"]:
        sizes = ("×".join(map(str, stage[key])) for key in ("in_shape", "out_shape"))
        frozen = ", frozen" if stage["frozen"] else ""
        shapes.append([stage["name"], stage["kind"] + frozen, *sizes, f"{stage['weights']:,}"])
        for told in stage["tensors"]:
            width, frac = told["format"]
            noise = "" if told["snr"] is None else f"{told['snr']:.1f} dB"
            tensors.append(
                [f"{stage['name']}.{told['role']}", f"Q({width},{frac})", f"±{told['peak']:.4g}",
                 f"{told['clipped']:.2%}", noise]
            )  # fmt: skip
    lines = [
        report.table(shapes),
        f"{result['classes']} classes, batches of {result['batch']}, "
        f"{result['macs_per_sample']:,} multiply-accumulates a sample",
        report.table(tensors),
    ]
    lines += [
        f"{stage['name']}: {stage['zero_updates']:.1%} of the updates round to zero"
        for stage in result["stages"]
        if stage["zero_updates"] is not None
    ]
    if not result["data"]:
        lines.append("no data: outputs, errors and updates were not tried; give --data FILE.npz")
    return "\n".join([*lines, *(f"advice: {text}" for text in result["advice"])])
