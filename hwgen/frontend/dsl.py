"""The model as a user writes it, and its graph."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

from ..errors import TargetError
from ..ir.formats import Formats
from ..ir.graph import Graph, Node, Optimizer
from ..ir.initial import Parameters, initial_parameters
from ..ir.ops import OPS, SoftmaxCrossEntropy, Unknown
from ..ir.stage import Network
from ..passes import lower
from ..target import Cluster
from .arguments import spell
from .nn import SGD, Layer
from .nn import SoftmaxCrossEntropy as softmax_cross_entropy
from .origin import Origin

__all__ = ["RESERVED", "Model"]

RESERVED = ("input", "loss", "image", "label", "result")
"""Names that hwgen uses itself."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network, its loss, its optimizer and its number formats.

    ``input`` is (H, W, C) or (features,); ``layers`` run one after another. ``weights`` gives first weights
    as real arrays by name ("conv1" or "conv1.weight": [kh, kw, Cin/groups, Cout], "conv1.bias": [Cout];
    Linear: [1, 1, in, out]); what is not given is drawn from the seed. ``cluster`` is what the model runs on: a
    Cluster, or what :meth:`Cluster.parse` takes. Nothing is checked before :meth:`network`, which reports every
    mistake at once. Of an import, ``origins`` says by the same names whence the ``weights`` are, and ``problems`` what
    is wrong with it.
    """

    input: tuple[int, ...]
    layers: Sequence[Layer]
    loss: Layer | None = field(default_factory=softmax_cross_entropy)
    optimizer: SGD = field(default_factory=SGD)
    formats: Formats = Formats()
    weights: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    cluster: Cluster | str | os.PathLike[str] | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def graph(self) -> Graph:
        """The model as a graph, mistakes noted in it."""
        problems: list[str] = list(self.problems)
        shape = _input_shape(self.input, problems)
        layers = [
            layer if isinstance(layer, Layer) else _no_layer(layer)
            for layer in _listed(self.layers, problems)
        ]
        names = _names(layers, problems)
        if not layers:
            shape = ()  # nothing to judge the loss by
        nodes = []
        edge = "input"
        for name, layer in zip(names, layers, strict=True):
            found = [*layer.problems]
            if isinstance(layer.op, SoftmaxCrossEntropy):
                found.append(
                    "the loss stands among the layers; give it as Model(loss=nn.SoftmaxCrossEntropy())"
                )
            wishes = {
                key: getattr(layer, key) for key in ("frozen", "array", "wish", "place", "formats", "vague")
            }
            nodes.append(Node(name, layer.op, edge, problems=tuple(found), **wishes))
            edge = name
        if isinstance(self.loss, Layer) and isinstance(self.loss.op, SoftmaxCrossEntropy):
            nodes.append(Node("loss", self.loss.op, edge, problems=self.loss.problems))
        else:
            what = "missing" if self.loss is None else f"{_spell(self.loss)}"
            problems.append(f"loss: {what}; give loss=nn.SoftmaxCrossEntropy()")
        optimizer: object = self.optimizer
        if not isinstance(optimizer, SGD):
            problems.append(f"optimizer: {_spell(optimizer)}; give optimizer=nn.SGD(lr=0.1, batch=16)")
            optimizer = SGD()
        problems += [f"optimizer: {problem}" for problem in optimizer.problems]
        formats: object = self.formats
        if not isinstance(formats, Formats):
            problems.append(f"formats: {spell(formats)}; give formats=Formats(activation=16, weight=16, ...)")
            formats = Formats()
        weights: object = self.weights
        if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
            problems.append(f'weights: {spell(weights)}; give weights={{"conv1": array, ...}}')
        problems += _cluster_problems(self.cluster)
        rule = Optimizer(optimizer.lr, optimizer.batch)
        return Graph(self.name or "model", shape, tuple(nodes), formats, rule, tuple(problems))

    def network(self, seed: int = 0) -> Network:
        """The lowered network; ``seed`` drives stochastic rounding. Raises ModelError with every mistake."""
        return lower(self.graph(), seed)

    def parameters(self, network: Network, seed: int = 0) -> Parameters:
        """First weights and biases: the given ones, the rest drawn from ``seed``."""
        return initial_parameters(network, seed, self.weights)

    def replace(self, **changes: object) -> Model:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def _input_shape(value: object, problems: list[str]) -> tuple[int, ...]:
    whole = isinstance(value, (tuple, list)) and all(
        not isinstance(v, bool) and isinstance(v, Integral) and int(v) > 0 for v in value
    )
    if whole and len(value) in (1, 3):  # type: ignore[arg-type]
        return tuple(int(v) for v in value)  # type: ignore[attr-defined]
    problems.append(f"input: {spell(value)}; give (H, W, C) or (features,), positive integers")
    return ()


def _cluster_problems(cluster: object) -> list[str]:
    if isinstance(cluster, (str, os.PathLike)):
        try:
            Cluster.parse(cluster)
        except TargetError as error:
            return error.problems
    elif cluster is not None and not isinstance(cluster, Cluster):
        return [f'cluster: {spell(cluster)}; give cluster="vc709*3" or cluster=Cluster.chain("vc709", 3)']
    return []


def _listed(layers: object, problems: list[str]) -> list[object]:
    if not isinstance(layers, (list, tuple)):
        problems.append(f"layers: {_spell(layers)}; give a list of layers")
        return []
    if not layers:
        problems.append("layers: empty; give at least one nn.Conv2d or nn.Linear")
    return list(layers)


def _no_layer(value: object) -> Layer:
    if isinstance(value, (list, tuple)):
        problem = f"a {type(value).__name__} is no layer; give its layers one by one: layers=[*block, ...]"
    else:
        problem = f"{_spell(value)} is no layer; give nn.Conv2d(...), nn.Linear(...) and so on"
    return Layer(Unknown(_spell(value)), problems=(problem,))


def _spell(value: object) -> str:
    if isinstance(value, Layer):
        return f"nn.{value.op.kind if isinstance(value.op, Unknown) else type(value.op).__name__}"
    return (
        f"nn.{value.__name__} without its parentheses"
        if callable(value) and hasattr(value, "__name__")
        else spell(value)
    )


def _names(layers: Sequence[Layer], problems: list[str]) -> list[str]:
    given = [layer.name for layer in layers]
    taken = {*given, *RESERVED}
    names: list[str] = []
    counts: dict[str, int] = {}
    for index, layer in enumerate(layers):
        prefix = OPS[type(layer.op)].prefix
        counts[prefix] = counts.get(prefix, 0) + 1
        free = counts[prefix]
        while (name := layer.name or f"{prefix}{free}") in taken and layer.name is None:
            free += 1
        if name in names:
            problems.append(
                f"{name}: layers {names.index(name) + 1} and {index + 1} have this name; rename one"
            )
            name = f"{name}#{index + 1}"
        elif name in RESERVED:
            problems.append(f"{name}: layer {index + 1} has a name that hwgen uses itself; rename it")
            name = f"{name}#{index + 1}"
        if layer.name is None:
            counts[prefix] = free
            if isinstance(layer.op, Unknown):
                name = f"layers[{index}]"
        names.append(name)
    return names
