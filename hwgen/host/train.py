"""Trains a network on the device of a build: over a serial port, PCIe, a PYNQ overlay, or in simulation."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .checkpoint import resume, save
from .device import Device, read_description
from .errors import HostError
from .transport import Transport

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="train.py", description=__doc__)
    found.add_argument(
        "data", type=Path, help=".npz with train_images, train_labels and, if held out, test_..."
    )
    where = found.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", help="serial port, as /dev/ttyUSB0")
    where.add_argument("--xdma", metavar="DEVICE", help="XDMA character devices, as /dev/xdma0")
    where.add_argument("--pynq", metavar="BITSTREAM", help="overlay of a PYNQ board")
    where.add_argument("--sim", action="store_true", help="simulate the build (needs hwgen)")
    found.add_argument("--baud", type=int, default=115200)
    found.add_argument("--build", type=Path, default=HERE.parent, help="build directory")
    found.add_argument("--parameters", type=Path, help="first weights, .npz (those of the build)")
    found.add_argument("--epochs", type=int, default=1)
    found.add_argument("--batches", type=int, help="stop after so many updates of this run")
    found.add_argument("--batch", type=int, help="samples an update (that of the build)")
    found.add_argument("--rate", type=float, help="learning rate (that of the build)")
    found.add_argument("--seed", type=int, default=0, help="orders the samples")
    found.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="write it after every epoch and at the end"
    )
    found.add_argument("--resume", type=Path, metavar="FILE", help="go on from a checkpoint")
    return found


def open_transport(options: argparse.Namespace) -> Transport:
    """The transport that the command line asks for."""
    if options.sim:
        from .simulation import Simulation

        return Simulation(options.build)
    if options.xdma:
        from .xdma import open_xdma

        return open_xdma(options.xdma)
    if options.pynq:
        from .pynq import Pynq

        return Pynq(options.pynq)
    from .serial_port import SerialPort

    return SerialPort(options.port, options.baud)


def read_arrays(path: Path) -> dict[str, NDArray]:
    """The arrays of a .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise HostError(f"{path}: no .npz file, or damaged ({error})") from None


def order(samples: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of an epoch's samples, the same whenever it is asked for."""
    return np.random.default_rng((seed, epoch)).permutation(samples)


def run(options: argparse.Namespace) -> None:
    """Trains, and says what it sees."""
    data = read_arrays(options.data)
    if not {"train_images", "train_labels"} <= data.keys():
        raise HostError(
            f"{options.data}: has {', '.join(sorted(data))}; it needs train_images and train_labels"
        )
    description = read_description(options.build / "host" / "device.json")
    parameters = read_arrays(options.parameters or options.build / "parameters.npz")
    transport = open_transport(options)
    try:
        device = Device(transport, description)
        if options.resume:
            progress = resume(device, options.resume)
        else:
            device.load(parameters)
            progress = {"epoch": 0, "update": 0, "seed": options.seed}
        if options.batch is not None:
            device.set_batch(options.batch)
        if options.rate is not None:
            device.set_rate(options.rate)
        train(device, data, options, progress)
    finally:
        transport.close()


def train(
    device: Device, data: dict[str, NDArray], options: argparse.Namespace, progress: dict[str, int]
) -> None:
    """Epochs from ``progress`` on, with a checkpoint behind each."""
    images, labels = data["train_images"], data["train_labels"]
    batch = device.read("batch")
    updates = len(images) // batch
    if not updates:
        raise HostError(f"{options.data}: {len(images)} samples are fewer than a batch of {batch}")
    left = options.batches
    while progress["epoch"] < options.epochs and left != 0:
        first = progress["update"]
        count = updates - first if left is None else min(left, updates - first)
        chosen = order(len(images), progress["seed"], progress["epoch"])[
            first * batch : (first + count) * batch
        ]
        results = device.train(images[chosen], labels[chosen])
        right = float(np.mean(results.predictions == labels[chosen]))
        say(f"epoch {progress['epoch'] + 1}: {count} batches, loss {results.loss:.4f}, right {right:.1%}")
        left = None if left is None else left - count
        progress["update"] = first + count
        if progress["update"] == updates:
            progress["epoch"], progress["update"] = progress["epoch"] + 1, 0
        if options.checkpoint:
            save(device, options.checkpoint, **progress)
    if len(data.get("test_images", ())):
        found = device.infer(data["test_images"])
        say(f"held out: {float(np.mean(found == data['test_labels'])):.2%} of {len(found)} right")
    say(f"frames damaged {device.link.damaged}, repeats {device.link.repeats}")


def say(text: str) -> None:
    """A line for the user."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line of what is wrong."""
    options = parser().parse_args(arguments)
    try:
        run(options)
    except HostError as error:
        sys.stderr.write(f"train.py: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
