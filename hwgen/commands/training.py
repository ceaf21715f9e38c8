"""The options that say how to train an imported model."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..frontend.training import LOSSES, Training
from . import report

__all__ = ["add_source_argument", "add_training_arguments", "training"]


def add_source_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the model file."""
    parser.add_argument(
        "source", metavar="SOURCE", type=Path, help="Python file that defines a model, or ONNX file"
    )


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --loss, --lr, --batch, --data and --calibrate."""
    group = parser.add_argument_group("training of an ONNX file (a Python file says these itself)")
    group.add_argument("--loss", choices=LOSSES, help="softmax cross-entropy of the output (default)")
    group.add_argument(
        "--lr", type=report.above_zero("a number"), metavar="R", help="learning rate (default: 0.1)"
    )
    group.add_argument("--batch", type=report.positive, metavar="N", help="samples an update (default: 16)")
    group.add_argument(
        "--data", type=Path, metavar="FILE.npz",
        help="train_images [N, H, W, C], train_labels [N], and test_images, test_labels (default: random)",
    )  # fmt: skip
    group.add_argument(
        "--calibrate", type=report.repeats, metavar="N",
        help="choose binary points by training N batches of the data in real numbers (default: those of docs/dsl.md)",
    )  # fmt: skip


def training(arguments: argparse.Namespace) -> Training | None:
    """What was said of the training, None if nothing."""
    said = Training(arguments.loss, arguments.lr, arguments.batch, arguments.data, arguments.calibrate)
    return said if said.given() else None
