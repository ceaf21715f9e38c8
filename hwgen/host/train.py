"""Trains a network on the device of a build: over a serial port, PCIe, a PYNQ overlay, or in simulation."""

from __future__ import annotations

import argparse
import json
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
    found.add_argument("--seed", type=int, help="orders the samples (0)")
    found.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="write it after every epoch and at the end"
    )
    found.add_argument("--every", type=int, metavar="N", help="and after every N updates")
    found.add_argument("--resume", type=Path, metavar="FILE", help="go on from a checkpoint")
    found.add_argument("--counters", type=Path, metavar="FILE", help="write the device's counters as JSON")
    return found


def open_transport(options: argparse.Namespace) -> Transport:
    """The transport that the command line asks for."""
    if options.sim:
        from .simulation import Simulation

        return Simulation(options.build)
    if options.xdma:
        from .xdma import Xdma

        return Xdma(options.xdma)
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
    check(options)
    description = read_description(options.build / "host" / "device.json")
    parameters = read_arrays(options.parameters or options.build / "parameters.npz")
    transport = open_transport(options)
    try:
        device = Device(transport, description)
        if options.resume:
            progress = resume(device, options.resume)
            fits(options, progress, len(data["train_images"]))
        else:
            device.load(parameters)
            progress = {
                "epoch": 0,
                "sample": 0,
                "seed": options.seed or 0,
                "samples": len(data["train_images"]),
            }
        rate = device.rate if options.rate is None and options.batch is not None else options.rate
        if options.batch is not None:
            device.set_batch(options.batch)
        if rate is not None:
            device.set_rate(rate)
        train(device, data, options, progress)
        if options.counters:
            write_counters(device, options.counters)
    finally:
        transport.close()


def check(options: argparse.Namespace) -> None:
    """Raises HostError where options mean nothing together."""
    if options.resume and options.parameters:
        raise HostError("--parameters and --resume: a checkpoint has the parameters; give one of them")
    for name in ("epochs", "batches", "every"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise HostError(f"--{name} {value}; at least 1")
    if options.every is not None and not options.checkpoint:
        raise HostError("--every: there is no checkpoint to write; give --checkpoint FILE")


def fits(options: argparse.Namespace, progress: dict[str, int], samples: int) -> None:
    """Raises HostError unless a checkpoint's run can go on with these samples in its order."""
    if not {"epoch", "sample", "seed", "samples"} <= progress.keys():
        raise HostError(f"{options.resume}: not written by train.py; resume it where it was written")
    if progress["samples"] != samples:
        raise HostError(
            f"{options.resume}: of a run with {progress['samples']} samples, {options.data} has {samples}; "
            "give the same"
        )
    if options.seed not in (None, progress["seed"]):
        raise HostError(
            f"--seed {options.seed}: {options.resume} orders the samples by seed {progress['seed']}; leave --seed out"
        )


def write_counters(device: Device, path: Path) -> None:
    """Writes what the device has counted."""
    try:
        path.write_text(json.dumps(device.counters(), indent=1) + "\n")
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from None


def train(
    device: Device, data: dict[str, NDArray], options: argparse.Namespace, progress: dict[str, int]
) -> None:
    """Epochs from ``progress`` on, with a checkpoint behind each."""
    images, labels = data["train_images"], data["train_labels"]
    batch = device.read("batch")
    if len(images) < batch:
        raise HostError(f"{options.data}: {len(images)} samples are fewer than a batch of {batch}")
    left = options.batches
    while progress["epoch"] < options.epochs and left != 0:
        first = progress["sample"]
        if len(images) - first < batch:
            progress["epoch"], progress["sample"] = progress["epoch"] + 1, 0
            continue
        limits = (one for one in (left, options.every) if one is not None)
        count = min([(len(images) - first) // batch, *limits])
        chosen = order(len(images), progress["seed"], progress["epoch"])[first : first + count * batch]
        results = device.train(images[chosen], labels[chosen])
        right = float(np.mean(results.predictions == labels[chosen]))
        say(f"epoch {progress['epoch'] + 1}: {count} batches, loss {results.loss:.4f}, right {right:.1%}")
        left = None if left is None else left - count
        progress["sample"] = first + count * batch
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
