"""The graph of a model: frozen nodes, named edges, a stable text form, verification between passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from .formats import Formats, LayerFormats
from .ops import OPS, Op, Shape, spell
from .stage import Place, Wish

__all__ = ["Graph", "Node", "Optimizer"]


@dataclass(frozen=True)
class Optimizer:
    """Stochastic gradient descent: w -= lr · (mean gradient over ``batch`` samples)."""

    lr: float
    batch: int


@dataclass(frozen=True)
class Node:
    """One operation. Edges are named: ``input`` is the edge it reads, its own edge has the node's name.

    ``problems`` are the mistakes that a front end found in its attributes ("what; what to do"), ``vague``
    says that they leave its shape open; ``activation`` and ``pool`` are what fusion has put behind a matrix
    operation; ``shape`` is the output's, once known.
    """

    name: str
    op: Op
    input: str
    shape: Shape | None = None
    frozen: bool = False
    array: tuple[int, int] | None = None
    wish: Wish = Wish()
    formats: LayerFormats = LayerFormats()
    activation: Op | None = None
    pool: Op | None = None
    conv_shape: Shape | None = None
    problems: tuple[str, ...] = ()
    vague: bool = False
    place: Place = Place()

    @property
    def slot(self) -> str:
        """Where fusion puts it (:class:`~hwgen.ir.ops.OpInfo`)."""
        return OPS[type(self.op)].slot

    def __str__(self) -> str:
        text = f"{self.name} = {type(self.op).__name__}({_attributes(self.op)})({self.input})"
        for behind in (self.activation, self.pool):
            if behind is not None:
                text += f" + {type(behind).__name__}({_attributes(behind)})"
        if self.array is not None:
            text += f" array={self.array}"
        if self.wish != Wish():
            text += f" {self.wish}"
        if self.place != Place():
            text += f" {self.place}"
        if self.formats != LayerFormats():
            text += " " + " ".join(
                f"{f.name}={v}" for f in fields(self.formats) if (v := getattr(self.formats, f.name))
            )
        return text + (" frozen" if self.frozen else "") + f" : {spell(self.shape)}"


@dataclass(frozen=True)
class Graph:
    """A model as a chain of nodes in the order of computation, ending in its loss.

    ``problems`` are the mistakes that a front end found outside the nodes ("where: what; what to do").
    """

    name: str
    input_shape: Shape
    nodes: tuple[Node, ...]
    formats: Formats = Formats()
    optimizer: Optimizer = Optimizer(0.1, 1)
    problems: tuple[str, ...] = field(default=())
    input: str = "input"

    def __str__(self) -> str:
        """A stable text form: the same graph gives the same text."""
        roles = ", ".join(f"{f.name}={getattr(self.formats, f.name)}" for f in fields(self.formats))
        lines = [f"graph {self.name}", f"  {self.input} : {spell(self.input_shape)}"]
        lines += [f"  {node}" for node in self.nodes]
        return "\n".join(
            [*lines, f"  sgd lr={self.optimizer.lr} batch={self.optimizer.batch}", f"  formats {roles}"]
        )

    def shape(self, edge: str) -> Shape | None:
        """The shape of an edge, None if it is not known (yet)."""
        if edge == self.input:
            return self.input_shape
        return next(node.shape for node in self.nodes if node.name == edge)

    def verify(self, after: str, *, fused: bool = False) -> None:
        """Check what every pass must keep: unique names, edges read only after they exist, slots in place.

        Raises AssertionError naming the pass: a mistake here is a fault of hwgen, not of the model.
        """
        known = {self.input}
        for node in self.nodes:
            assert node.input in known, f"after {after}: {node.name} reads {node.input}, which does not exist"
            assert node.name not in known, f"after {after}: the name {node.name} stands twice"
            known.add(node.name)
        if fused:
            slots: Sequence[str] = [node.slot for node in self.nodes]
            assert slots[-1:] == ["loss"], f"after {after}: the graph does not end in a loss"
            assert set(slots[:-1]) == {"matrix"}, f"after {after}: unfused nodes among {slots}"


def _attributes(op: Op) -> str:
    return ", ".join(f"{f.name}={getattr(op, f.name)}" for f in fields(op))
