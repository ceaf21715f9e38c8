"""Checkpoints: all that a device has learnt, in a file from which another one goes on with the same bits."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from .device import Device
from .errors import HostError

__all__ = ["resume", "save"]

SETTINGS = ("rate", "batch", "seed")


def save(device: Device, path: Path, **progress: int) -> None:
    """Writes masters, biases, settings and ``progress`` (numbers of the caller's), in one step: a file that is there is
    whole. Between batches only, which ``Device.train`` sees to."""
    content = {name: np.asarray(value) for name, value in device.parameters().items()}
    content["@build"] = np.asarray(device.description["build"])
    content["@updates"] = np.asarray(device.updates)
    for name in SETTINGS:
        content[f"@{name}"] = np.asarray(device.read(name))
    for name, value in progress.items():
        content[f"@progress.{name}"] = np.asarray(value)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, **content)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise HostError(
            f"{path}: cannot be written ({error.strerror}); the checkpoint before it is as it was"
        ) from None


def resume(device: Device, path: Path) -> dict[str, int]:
    """Puts a checkpoint into a device; the ``progress`` that was saved with it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
        build = int(content["@build"])
        settings = {name: int(content[f"@{name}"]) for name in SETTINGS}
        updates = int(content["@updates"])
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise HostError(f"{path}: no checkpoint, or damaged ({type(error).__name__}: {error})") from None
    if build != device.description["build"]:
        raise HostError(
            f"{path}: of build 0x{build:08x}, this is 0x{device.description['build']:08x}; resume with that build"
        )
    if updates and device.description["update"]["rounding"] == "stochastic":
        raise HostError(
            f"{path}: the device draws random bits by its updates since reset, so that it cannot go on with the same "
            "ones; load the parameters with --parameters to go on with others"
        )
    device.load({name: value for name, value in content.items() if not name.startswith("@")})
    for name, value in settings.items():
        device.set_everywhere(name, value)
    device.updates = updates
    start = "@progress."
    return {name.removeprefix(start): int(value) for name, value in content.items() if name.startswith(start)}
