"""Parameters out of a build: read from .npz, as real numbers, under the names and layouts of the imported model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..frontend.origin import Origin
from ..ir.initial import Parameters
from ..ir.stage import Network, Stage

__all__ = [
    "framework_tensors",
    "origins_from_json",
    "origins_to_json",
    "own_origin",
    "parameter_tensors",
    "read_parameters",
    "real_tensors",
]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def parameter_tensors(network: Network, parameters: Parameters) -> dict[str, Ints]:
    """The integers by "conv1.weight", "conv1.bias", in stage order."""
    tensors = {}
    for stage, weight, bias in zip(network.stages, parameters.weights, parameters.biases, strict=True):
        tensors[f"{stage.name}.weight"] = weight
        if bias is not None:
            tensors[f"{stage.name}.bias"] = bias
    return tensors


def read_parameters(path: Path, network: Network) -> Parameters:
    """Masters and biases that ``hwgen sim``, ``hwgen train`` or a host wrote, checked against the network.

    Raises DataError with everything that is missing, too much, of another shape or outside its format.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files if not name.startswith("@")}
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}; give an .npz file") from None
    except (AttributeError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: no .npz file of arrays, or damaged ({error}); save it again") from None
    problems: list[str] = []
    weights: list[Ints] = []
    biases: list[Ints | None] = []
    for stage in network.stages:
        weights.append(_checked(found, f"{stage.name}.weight", stage.weight_shape, stage.master, problems))
        name = f"{stage.name}.bias"
        shape = (stage.out_channels,)
        biases.append(None if stage.bias is None else _checked(found, name, shape, stage.bias, problems))
    problems += [f"{name} is no parameter of the build" for name in found]
    if problems:
        raise DataError([f"{path}: {text}; give the trained weights of this build" for text in problems])
    return Parameters(tuple(weights), tuple(biases))


def _checked(
    found: dict[str, NDArray], name: str, shape: tuple[int, ...], form: object, problems: list[str]
) -> Ints:
    """Take a tensor out of ``found``, and note what is wrong with it."""
    array = found.pop(name, None)
    low, high = form.min, form.max  # type: ignore[attr-defined]
    if array is None:
        problems.append(f"{name} is missing")
    elif array.shape != shape:
        problems.append(f"{name} has shape {array.shape}, the build has {shape}")
    elif array.dtype.kind not in "iu":
        problems.append(f"{name} has type {array.dtype}, the build has integers in {form}")
    elif array.size and (array.min() < low or array.max() > high):
        problems.append(f"{name} reaches beyond {form}, {low}..{high}")
    else:
        return array.astype(np.int64)
    return np.zeros(shape, dtype=np.int64)


def real_tensors(network: Network, parameters: Parameters, *, masters: bool = False) -> dict[str, Floats]:
    """The real numbers by "conv1.weight", "conv1.bias", as float32: weights as they are multiplied, or ``masters``."""
    tensors = {}
    for stage, weight, bias in zip(network.stages, parameters.weights, parameters.biases, strict=True):
        below = stage.master.width - stage.w.width
        real = stage.master.to_float(weight) if masters else stage.w.to_float(weight >> below)
        tensors[f"{stage.name}.weight"] = real.astype(np.float32)
        if bias is not None and stage.bias is not None:
            tensors[f"{stage.name}.bias"] = stage.bias.to_float(bias).astype(np.float32)
    return tensors


def own_origin(network: Network, stage: Stage, role: str) -> Origin:
    """A parameter as PyTorch would have it: channels first, a Linear layer's features in the order of its Flatten."""
    name = f"{stage.name}.{role}"
    if role == "bias":
        return Origin(name, (stage.out_channels,), "vector")
    kh, kw, cin, out = stage.weight_shape
    if stage.window.pixels_in > 1 or stage.groups > 1:
        return Origin(name, (out, cin, kh, kw), "OIHW")
    height, width, channels = network.stages[stage.index - 1].out_shape if stage.index else (1, 1, cin)
    order = np.arange(cin).reshape(height, width, channels).transpose(2, 0, 1).reshape(-1)
    plain = height * width == 1 or channels == 1
    return Origin(name, (out, cin), "OI", None if plain else tuple(order.tolist()))


def framework_tensors(
    network: Network, origins: Mapping[str, Origin], real: Mapping[str, Floats]
) -> dict[str, Floats]:
    """``real`` tensors as the imported model has them; others as PyTorch would."""
    tensors = {}
    for stage in network.stages:
        for role in ("weight", "bias"):
            key = f"{stage.name}.{role}"
            if key in real:
                origin = origins.get(key) or own_origin(network, stage, role)
                tensors[origin.name] = np.ascontiguousarray(origin.restore(real[key]), dtype=np.float32)
    return tensors


def origins_to_json(origins: Mapping[str, Origin]) -> str:
    """The text of a build's import.json."""
    return json.dumps({key: asdict(origin) for key, origin in origins.items()}) + "\n"


def origins_from_json(text: str) -> dict[str, Origin]:
    """What :func:`origins_to_json` wrote."""
    found = {key: Origin(**fields) for key, fields in json.loads(text).items()}
    return {
        key: replace(
            origin,
            shape=tuple(origin.shape),
            order=None if origin.order is None else tuple(origin.order),
        )
        for key, origin in found.items()
    }
