"""The first weights of a network: drawn from a seed or given as real numbers, then exact integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .stage import Network, Stage

__all__ = ["Parameters", "draw", "initial_parameters", "real_parameters"]

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


def _given(stage: Stage, value: object, drawn: Floats, what: str, problems: list[str]) -> Floats:
    """The user's array if there is one and it fits, else the drawn one."""
    if value is None:
        return drawn
    where = f"{stage.name}.{what}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        problems.append(f"{where}: {type(value).__name__} is no array of numbers; give {drawn.shape}")
        return drawn
    if array.shape != drawn.shape:
        problems.append(f"{where}: given with shape {array.shape}; give {drawn.shape}")
        return drawn
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        problems.append(f"{where}: {array[at]} at {at}; give finite numbers")
        return drawn
    return array


def real_parameters(
    network: Network, seed: int = 0, given: Mapping[str, object] | None = None
) -> list[tuple[Floats, Floats | None]]:
    """Real weight and bias (or None) of every stage: ``given`` by name, the rest drawn from ``seed``.

    Names are "conv1" or "conv1.weight", and "conv1.bias". Given weights are real arrays [kh, kw, Cin/groups,
    Cout] (a Linear layer: [1, 1, in, out]), biases [Cout]. Raises ModelError naming every wrong shape,
    non-finite value and unknown name.
    """
    rest = {name + ("" if "." in name else ".weight"): value for name, value in (given or {}).items()}
    problems: list[str] = []
    names: list[str] = []
    found: list[tuple[Floats, Floats | None]] = []
    for stage in network.stages:
        weight, bias = draw(seed, stage.index, stage.weight_shape, stage.bias is not None)
        names.append(f"{stage.name}.weight")
        weight = _given(stage, rest.pop(names[-1], None), weight, "weight", problems)
        if bias is not None:
            names.append(f"{stage.name}.bias")
            bias = _given(stage, rest.pop(names[-1], None), bias, "bias", problems)
        found.append((weight, bias))
    problems += [f"weights: {name} is no parameter of the model; it has {', '.join(names)}" for name in rest]
    if problems:
        raise ModelError(problems)
    return found


def initial_parameters(
    network: Network, seed: int = 0, given: Mapping[str, object] | None = None
) -> Parameters:
    """First parameters in the formats of their stages; arguments and errors as :func:`real_parameters`."""
    real = real_parameters(network, seed, given)
    pairs = list(zip(network.stages, real, strict=True))
    return Parameters(
        tuple(stage.master.quantise(weight) for stage, (weight, _) in pairs),
        tuple(None if stage.bias is None else stage.bias.quantise(bias) for stage, (_, bias) in pairs),
    )
