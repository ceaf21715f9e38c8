"""The layers of the DSL, with PyTorch's names and arguments: ``from hwgen import nn``.

Images are channels-last, (H, W, C), in raster order. A layer remembers what is wrong with its arguments; the
model reports everything at once. Arguments that every layer with weights takes:

    array=(Pk, Pn)     size of its systolic array; or u=, pc=, pn= (Pk = u·pc, Pn = pn); b= pixels in a block
    frozen=True        weights stay as they are: no gradient, no update
    formats=nn.Formats(w=, y=, dy=, bias=)   number formats Q(width, frac) of this layer
    name="conv1"       letters, digits and underscores
    device=1           board of a chain that has the layer; (1, 2) cuts it over two of them, along
    split=             "output_channels", "input_channels" or "groups", with channels shares=(5, 3) a board, or "rows",
                       with rows shares=(5, 3) a board's turn, or so many turns=
    master="memory"    master weights in the board's external memory; "up", "down": on the chip of the board before
                       (towards the host) or behind
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from ..ir import ops
from ..ir.activation import SLOPES, slope_of
from ..ir.formats import LayerFormats
from ..ir.stage import Place, Wish
from ..numeric import Q
from .arguments import Arguments, spell
from .place import PLACE, read_place, refuse_place

__all__ = [
    "SGD",
    "Conv2d",
    "Flatten",
    "Formats",
    "Hardtanh",
    "Layer",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Q",
    "ReLU",
    "ReLU6",
    "SoftmaxCrossEntropy",
]

Formats = LayerFormats
KNOWN = (
    "Conv2d", "Linear", "ReLU", "LeakyReLU", "ReLU6", "Hardtanh", "MaxPool2d", "Flatten", "SoftmaxCrossEntropy", "SGD",
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer as written: its operation, settings, and what is wrong with its arguments.

    ``vague``: a wrong argument leaves its output's shape open.
    """

    op: ops.Op
    name: str | None = None
    frozen: bool = False
    array: tuple[int, int] | None = None
    wish: Wish = Wish()
    formats: LayerFormats = LayerFormats()
    problems: tuple[str, ...] = ()
    vague: bool = False
    place: Place = Place()


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent: w -= lr · (mean gradient over ``batch`` samples)."""

    lr: float = 0.1
    batch: int = 16
    problems: tuple[str, ...] = ()

    def __init__(self, lr: float = 0.1, batch: int = 16, **unknown: object):
        given = Arguments("SGD", ("lr", "batch"), unknown)
        object.__setattr__(self, "lr", given.positive_real("lr", lr, 0.1))
        object.__setattr__(self, "batch", given.whole("batch", batch, 1))
        object.__setattr__(self, "problems", given.found())


_WEIGHTED = ("array", "b", "u", "pc", "pn", "frozen", "formats", "name", *PLACE)


def _weighted(given: Arguments, op: ops.Conv2d | ops.Linear, settings: dict[str, object]) -> Layer:
    array = settings.get("array")
    if array is not None:
        array = given.pair("array", array, 1)
    wish = Wish(*(given.optional_whole(key, settings.get(key), 1) for key in ("u", "pc", "pn", "b")))
    if array is not None and wish.u and wish.pc and wish.u * wish.pc != array[0]:
        given.say(f"array={array} has Pk = {array[0]} but u·pc = {wish.u}·{wish.pc}; drop one of them")
    if array is not None and wish.pn and wish.pn != array[1]:
        given.say(f"array={array} has Pn = {array[1]} but pn = {wish.pn}; drop one of them")
    formats = settings.get("formats")
    if formats is None:
        formats = LayerFormats()
    elif not isinstance(formats, LayerFormats):
        given.say(f"formats = {spell(formats)}; give nn.Formats(w=Q(width, frac), y=, dy=, bias=)")
        formats = LayerFormats()
    frozen = given.flag("frozen", settings.get("frozen", False))
    name = given.name(settings.get("name"))
    place = read_place(given, op, settings)
    return Layer(op, name, frozen, array, wish, formats, given.found(), given.vague, place)


def Conv2d(
    in_channels: int,
    out_channels: int,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] | tuple[int, int, int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    bias: bool = True,
    **settings: object,
) -> Layer:
    """2-D convolution. ``padding``: one number, (vertical, horizontal), or (top, left, bottom, right)."""
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias")
    given = Arguments("Conv2d", (*names, *_WEIGHTED), settings)
    op = ops.Conv2d(
        given.count("in_channels", in_channels),
        given.count("out_channels", out_channels),
        given.pair("kernel_size", kernel_size, 1),
        given.pair("stride", stride, 1),
        given.pads("padding", padding),
        given.pair("dilation", dilation, 1),
        given.whole("groups", groups, 1),
        given.flag("bias", bias),
    )
    for role, count in (("in_channels", op.in_channels), ("out_channels", op.out_channels)):
        if count % op.groups:
            given.say(f"groups = {op.groups} does not divide {role} = {count}; give a divisor of both")
    return _weighted(given, op, settings)


def Linear(in_features: int, out_features: int, bias: bool = True, **settings: object) -> Layer:
    """A fully connected layer on a flat vector."""
    given = Arguments("Linear", ("in_features", "out_features", "bias", *_WEIGHTED), settings)
    op = ops.Linear(
        given.count("in_features", in_features),
        given.count("out_features", out_features),
        given.flag("bias", bias),
    )
    return _weighted(given, op, settings)


def MaxPool2d(
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] | tuple[int, int, int, int] = 0,
    **settings: object,
) -> Layer:
    """Max-pooling, floor mode; ``stride`` defaults to the kernel. Ties go to the first in raster order."""
    misplaced, settings = refuse_place("MaxPool2d", settings)
    given = Arguments("MaxPool2d", ("kernel_size", "stride", "padding", "name"), settings)
    kernel = given.pair("kernel_size", kernel_size, 1)
    op = ops.MaxPool2d(
        kernel, kernel if stride is None else given.pair("stride", stride, 1), given.pads("padding", padding)
    )
    if any(pad >= size for pad, size in zip(op.padding, kernel * 2, strict=True)):
        given.say(f"padding = {op.padding} is not below the kernel {kernel}; give less padding")
    name = given.name(settings.get("name"))
    return Layer(op, name, problems=(*misplaced, *given.found()), vague=given.vague)


def _plain(kind: str, op: ops.Op) -> Callable[..., Layer]:
    def layer(*positional: object, **settings: object) -> Layer:
        misplaced, settings = refuse_place(kind, settings)
        given = Arguments(kind, ("name",), settings)
        if positional:
            given.say(f"{kind} takes no arguments but name, {spell(positional)} given; remove them")
        return Layer(op, given.name(settings.get("name")), problems=(*misplaced, *given.found()))

    layer.__name__ = layer.__qualname__ = kind
    layer.__doc__ = type(op).__doc__
    return layer


def LeakyReLU(negative_slope: float = 0.01, **settings: object) -> Layer:
    """x above 0, else x · ``negative_slope``, which is taken to 8 significant bits and lies between 0 and 1."""
    misplaced, settings = refuse_place("LeakyReLU", settings)
    given = Arguments("LeakyReLU", ("negative_slope", "name"), settings)
    slope = given.positive_real("negative_slope", negative_slope, 0.01)
    if slope_of(slope) is None:
        given.say(f"negative_slope = {spell(negative_slope)}; give {SLOPES}, or nn.ReLU for 0")
        slope = 0.01
    name = given.name(settings.get("name"))
    return Layer(ops.LeakyReLU(slope), name, problems=(*misplaced, *given.found()))


def Hardtanh(min_val: float = -1.0, max_val: float = 1.0, **settings: object) -> Layer:
    """min(max(x, ``min_val``), ``max_val``); at and beyond the bounds its gradient is 0."""
    return _bounded("Hardtanh", min_val, max_val, ("min_val", "max_val"), settings)


def ReLU6(**settings: object) -> Layer:
    """min(max(x, 0), 6); at and beyond the bounds its gradient is 0."""
    return _bounded("ReLU6", 0.0, 6.0, (), settings)


def _bounded(
    kind: str, low: object, high: object, names: tuple[str, ...], settings: dict[str, object]
) -> Layer:
    misplaced, settings = refuse_place(kind, settings)
    given = Arguments(kind, (*names, "name"), settings)
    bounds = given.real("min_val", low, -1.0), given.real("max_val", high, 1.0)
    if bounds[0] >= bounds[1]:
        given.say(f"min_val = {spell(low)} is not below max_val = {spell(high)}; give a smaller one")
    name = given.name(settings.get("name"))
    return Layer(ops.Hardtanh(*bounds), name, problems=(*misplaced, *given.found()))


ReLU = _plain("ReLU", ops.ReLU())
Flatten = _plain("Flatten", ops.Flatten())
SoftmaxCrossEntropy = _plain("SoftmaxCrossEntropy", ops.SoftmaxCrossEntropy())


def __getattr__(name: str) -> Callable[..., Layer]:
    """An unknown layer becomes a mistake of the model, reported with all others."""
    if not name[:1].isupper():
        raise AttributeError(f"module 'hwgen.nn' has no attribute {name!r}")
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    advice = f"did you mean nn.{near[0]}? " if near else ""

    def layer(*positional: object, **settings: object) -> Layer:
        wanted = settings.get("name")
        problem = f"nn.{name} is no layer of hwgen; {advice}there are {', '.join(KNOWN)}"
        return Layer(ops.Unknown(name), wanted if isinstance(wanted, str) else None, problems=(problem,))

    return layer
