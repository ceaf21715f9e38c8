"""Designs that the estimate of logic is fitted to: engines of stages, tiles, arrays, what a board has beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hwgen import Cluster, Formats, Link, Model, nn
from hwgen.backend.convert import convert
from hwgen.backend.requests import requests, stage_requests
from hwgen.gateware.array import Array
from hwgen.gateware.link.end import LinkEnd
from hwgen.gateware.loss import SoftmaxCrossEntropy
from hwgen.gateware.serial.port import HostPort
from hwgen.gateware.serial.uart import Uart
from hwgen.gateware.shape import ArrayShape
from hwgen.gateware.tile import Tile
from hwgen.plan.plan import Plan
from hwgen.plan.planner import plan_network

from .logic_stages import STAGES, plan_of

__all__ = [
    "ARRAYS",
    "CORES",
    "LINKS",
    "LOSSES",
    "PORTS",
    "TILES",
    "Design",
    "designs",
    "plan_of_loss",
    "shape_of",
]

WIDE: dict[str, Any] = {
    "depth": 36, "x": 16, "w": 16, "dy": 16, "master": 32, "grad": 41, "psum": 38, "back": 36, "rate": 16, "shift": 20,
    "backward": True, "gradient": True,
}  # fmt: skip
NARROW: dict[str, Any] = {
    "x": 8,
    "w": 8,
    "dy": 8,
    "master": 16,
    "grad": 24,
    "psum": 21,
    "back": 19,
    "shift": 10,
}
COLUMN: dict[str, Any] = {**NARROW, "columns": True, "style": "block", "depth": 72}
TURN: dict[str, Any] = {**COLUMN, "copy": False, "period": 8}
AWAY: dict[str, Any] = {**TURN, "in_place": False, "master": 8}
TILES: tuple[tuple[tuple[int, int], dict[str, Any]], ...] = (
    ((2, 2), {}),
    ((4, 1), {}),
    ((1, 4), {}),
    ((3, 2), NARROW),
    ((4, 4), NARROW),
    ((2, 2), {**COLUMN, "depth": 144}),
    ((4, 2), {**COLUMN, "depth": 144, "rows": 4}),
    ((4, 2), {"columns": True, "style": "block", "depth": 72, "rows": 4}),
    ((2, 3), {"backward": False}),
    ((2, 2), {**NARROW, "depth": 1}),
    ((2, 2), {**COLUMN, "shared": True}),
    ((4, 2), AWAY),
    ((4, 2), {**AWAY, "stack": 2}),
    ((4, 2), {**TURN, "rows": 4, "stack": 4}),
    ((3, 3), {**COLUMN, "depth": 288, "rows": 3, "backward": False}),
    ((4, 1), {"x": 12, "w": 12, "dy": 12, "grad": 33, "psum": 30, "back": 28, "master": 24, "depth": 9}),
    ((6, 3), {**NARROW, "depth": 20}),
    ((1, 1), {}),
)
"""Tiles, and in what their ArrayShape is unlike WIDE."""
ARRAYS: tuple[tuple[tuple[int, int], tuple[int, int], dict[str, Any]], ...] = (
    ((4, 4), (2, 2), {}),
    ((8, 4), (4, 4), NARROW),
    ((4, 8), (4, 2), NARROW),
    ((9, 2), (9, 2), NARROW),
    ((3, 2), (3, 2), {}),
    ((8, 1), (4, 1), NARROW),
    ((6, 6), (2, 3), NARROW),
)
"""Arrays without their tiles: size, tile, shape."""
LOSSES = ((2, 16, 1), (10, 16, 1), (10, 8, 2), (100, 16, 4), (10, 18, 5))
"""Classes, bits, lanes of a word."""
CORES = ((2, 16, 1, 8, 2), (10, 16, 2, 8, 2))
"""Classes, bits, boards, inputs, stages."""
PORTS = ((8, 16),)
"""Elements of an image, and their bits."""
LINKS = ((64, 5, 64),)
"""Bits of a word, channels each way, words of a receive buffer."""


@dataclass(frozen=True)
class Design:
    """A module ``top`` to synthesise among ``texts``; ``boxes`` are left out; ``kept`` counted by themselves."""

    kind: str
    case: int
    top: str
    texts: dict[str, str]
    boxes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def shape_of(unlike: dict[str, Any]) -> ArrayShape:
    """WIDE but for what is unlike it."""
    return ArrayShape(**{**WIDE, **unlike})


def plan_of_loss(classes: int, width: int, boards: int = 1, side: int = 8, stages: int = 2) -> Plan:
    """Of linear layers of ``side`` each, on VC709 boards."""
    layers: list[Any] = []
    for _ in range(stages - 1):
        layers += [nn.Linear(side, side, array=(1, 1)), nn.ReLU()]
    layers.append(nn.Linear(side, classes, array=(1, 1)))
    formats = Formats(activation=width, weight=width, error=width, master=min(32, 2 * width))
    cluster = Cluster.chain("vc709", boards, link=Link()) if boards > 1 else None
    return plan_network(Model(input=(side,), layers=layers, formats=formats).network(), cluster=cluster)


def _stage(case: int) -> Design:
    plan, index = plan_of(STAGES[case])
    _, request = stage_requests(plan, plan.stages[index])
    text = re.sub(re.escape(request.name), "stage", request.text())
    names = re.findall(r"^module \\(\S+?) ?\(", text, re.MULTILINE)
    # Chains are shells of engines; the array is measured by itself.
    kept = [
        name for name in names if re.fullmatch(r"stage\.(?!array)[^.]+|stage\.(after|before)\.[^.]+", name)
    ]
    return Design("stage", case, "stage", {"stage": text}, ("stage.array",), tuple(kept))


def _array(case: int) -> Design:
    (pk, pn), (tk, tn), unlike = ARRAYS[case]
    shape = shape_of(unlike)
    offsets = tuple((0,) * pn for _ in range(pk))
    texts = {"array": convert(Array(shape, pk, pn, (tk, tn), offsets, "tile"), "array")}
    return Design("array", case, "array", texts | {"tile": convert(Tile(shape, tk, tn), "tile")}, ("tile",))


def _core(case: int) -> Design:
    """The first board of a plan, or the only one, without stages, link ends and loss."""
    plan = plan_of_loss(*CORES[case])
    wanted = [one for one in requests(plan) if one.board == 0]
    top = wanted[-1].name
    texts = {one.name: one.text() for one in wanted if one.kind in ("stage", "link", "core", "board")}
    loss = re.findall(rf"^module \\({top}(?:\.core)?\.loss) ", texts[top], re.MULTILINE)
    return Design("core", case, top, texts, (*[name for name in texts if name != top], *loss))


def designs() -> Iterator[Design]:
    """All of them, those that take long last."""
    for case, (classes, width, lanes) in enumerate(LOSSES):
        loss = SoftmaxCrossEntropy(plan_of_loss(classes, width).network.loss, lanes, lanes)
        yield Design("loss", case, "loss", {"loss": convert(loss, "loss")})
    for case in range(len(CORES)):
        yield _core(case)
    for case, (side, width) in enumerate(PORTS):
        yield Design(
            "port", case, "port", {"port": convert(HostPort(plan_of_loss(2, width, side=side)), "port")}
        )
    yield Design("uart", 0, "uart", {"uart": convert(Uart(), "uart")})
    for case, (width, channels, depth) in enumerate(LINKS):
        end = LinkEnd(width, (depth,) * channels, (depth,) * channels)
        yield Design("link", case, "link", {"link": convert(end, "link")})
    for case, ((tk, tn), unlike) in enumerate(TILES):
        yield Design("tile", case, "tile", {"tile": convert(Tile(shape_of(unlike), tk, tn), "tile")})
    for case in range(len(ARRAYS)):
        yield _array(case)
    for case in range(len(STAGES)):
        yield _stage(case)
