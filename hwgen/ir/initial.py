"""The first weights of a network: drawn from a seed or given as real numbers, then exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .stage import Network

__all__ = ["Parameters", "draw", "given_parameters", "initial_parameters", "real_parameters"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The master weights and biases of every stage, in stage order.

    ``weights[i]`` is [kh, kw, Cin/groups, Cout] int64 in format ``stage.master``; ``biases[i]`` is [Cout]
    int64 in format ``stage.bias``, or None where the stage has no bias.
    """

    weights: tuple[Ints, ...]
    biases: tuple[Ints | None, ...]

    def __eq__(self, other: object) -> bool:
        """True if every integer is equal."""
        if not isinstance(other, Parameters) or len(self.weights) != len(other.weights):
            return NotImplemented if not isinstance(other, Parameters) else False
        pairs = zip(self.weights + self.biases, other.weights + other.biases, strict=True)
        return all((a is b) if a is None or b is None else np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]


def draw(seed: int, index: int, shape: tuple[int, int, int, int], bias: bool) -> tuple[Floats, Floats | None]:
    """Real weights [kh, kw, Cin/groups, Cout] and bias [Cout] of layer ``index``: uniform in ±1/sqrt(fan-in).

    PyTorch's default for Conv2d and Linear. Each layer has a Philox stream keyed by (seed, index), so that a
    change of one layer leaves the others' weights alone.
    """
    bound = 1.0 / math.sqrt(shape[0] * shape[1] * shape[2])
    generator = np.random.Generator(np.random.Philox(key=(seed << 64 | index) & ((1 << 128) - 1)))
    weights = generator.uniform(-bound, bound, shape)
    return weights, generator.uniform(-bound, bound, shape[3]) if bias else None


def _given(name: str, shape: tuple[int, ...], value: object, problems: list[str]) -> Floats | None:
    """The user's array, or None with what is wrong noted."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        problems.append(f"{name}: {type(value).__name__} is no array of numbers; give {shape}")
        return None
    if array.shape != shape:
        problems.append(f"{name}: given with shape {array.shape}; give {shape}")
    elif not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        problems.append(f"{name}: {array[at]} at {at}; give finite numbers")
    else:
        return array
    return None


def given_parameters(network: Network, given: Mapping[str, object] | None) -> dict[str, Floats]:
    """The user's weights and biases as arrays, by "conv1.weight" and "conv1.bias".

    Names are "conv1" or "conv1.weight", and "conv1.bias". Weights are real arrays [kh, kw, Cin/groups, Cout] (a
    Linear layer: [1, 1, in, out]), biases [Cout]. Raises ModelError naming every wrong shape, non-finite value and
    unknown name.
    """
    rest = {name + ("" if "." in name else ".weight"): value for name, value in (given or {}).items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for stage in network.stages:
        shapes[f"{stage.name}.weight"] = stage.weight_shape
        if stage.bias is not None:
            shapes[f"{stage.name}.bias"] = (stage.out_channels,)
    problems: list[str] = []
    found: dict[str, Floats] = {}
    for name, shape in shapes.items():
        value = rest.pop(name, None)
        array = None if value is None else _given(name, shape, value, problems)
        if array is not None:
            found[name] = array
    problems += [f"weights: {name} is no parameter of the model; it has {', '.join(shapes)}" for name in rest]
    if problems:
        raise ModelError(problems)
    return found


def _real(
    network: Network, seed: int, given: Mapping[str, object] | None
) -> Iterator[tuple[Floats, Floats | None]]:
    known = given_parameters(network, given)
    for stage in network.stages:  # one at a time: all of a large network's fill the memory
        weight, bias = draw(seed, stage.index, stage.weight_shape, stage.bias is not None)
        weight = known.get(f"{stage.name}.weight", weight)
        yield weight, None if bias is None else known.get(f"{stage.name}.bias", bias)


def real_parameters(
    network: Network, seed: int = 0, given: Mapping[str, object] | None = None
) -> list[tuple[Floats, Floats | None]]:
    """Real weight and bias (or None) of every stage: those of :func:`given_parameters`, the rest from ``seed``."""
    return list(_real(network, seed, given))


def initial_parameters(
    network: Network, seed: int = 0, given: Mapping[str, object] | None = None
) -> Parameters:
    """First parameters in the formats of their stages; arguments and errors as :func:`real_parameters`."""
    weights: list[Ints] = []
    biases: list[Ints | None] = []
    for stage, (weight, bias) in zip(network.stages, _real(network, seed, given), strict=True):
        weights.append(stage.master.quantise(weight))
        biases.append(None if stage.bias is None else stage.bias.quantise(bias))
    return Parameters(tuple(weights), tuple(biases))
