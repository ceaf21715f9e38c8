"""Aurora 64B/66B cores of AMD's parts for the links of a board: transceivers, parameters, who shares what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...errors import TargetError
from ...target import Board, Link
from ...target_serial import PER_QUAD, Socket, position
from .ecp5_pll import clock_text

__all__ = ["FAMILIES", "Aurora", "auroras", "series_of"]

FAMILIES = {
    "artix7": "7", "kintex7": "7", "virtex7": "7", "zynq": "7",
    "kintexuplus": "ultra", "virtexuplus": "ultra", "virtexuplushbm": "ultra", "zynquplus": "ultra",
}  # fmt: skip
GTH = re.compile(r"xc7vx(330|415|550|690|980|1140)t.*")
"""Virtex-7 parts whose transceivers are GTH; GTX in the others (DS180)."""


@dataclass(frozen=True)
class Aurora:
    """The core of the link on ``side`` ("up": towards the host, "down").

    ``socket`` is the number of the board's socket and ``channels`` those of its transceivers that the link takes.
    ``master`` is the side of the core whose clocks and PLL this one uses, being in the same quad; None: its own.
    ``parameters`` are the core's own.
    """

    side: str
    series: str
    link: Link
    socket: int
    channels: tuple[str, ...]
    place: int
    master: str | None
    parameters: tuple[tuple[str, str], ...]

    @property
    def module(self) -> str:
        """The core's Verilog module."""
        return f"hwgen_aurora_{self.side}"

    @property
    def clock_mhz(self) -> float:
        """Of its user_clk."""
        return self.link.clock_mhz


def series_of(board: Board) -> str | None:
    """ "7" or "ultra" for the families that hwgen has projects for."""
    return FAMILIES.get(board.device.family) if board.device.vendor == "xilinx" else None


def auroras(board: Board, links: Sequence[tuple[str, Link]], init_mhz: Fraction) -> tuple[Aurora, ...]:
    """Cores for the ``links`` of a board by side, on the first sockets that have room for them.

    Raises TargetError if its transceivers cannot carry one of them.
    """
    made: list[Aurora] = []
    for side, link in links:
        _require_aurora(board, link)
        number, socket, first = _room(board, link, made)
        shared = [one.side for one in made if one.socket == number]
        series = series_of(board) or ""
        channels = socket.channels[first : first + link.lanes]
        if series == "7":
            parameters = _seven(board, socket, channels, link)
        else:
            parameters = _ultra(socket, channels, link)
        made.append(
            Aurora(
                side, series, link, number, channels, socket.place, shared[0] if shared else None,
                (
                    *parameters,
                    ("C_AURORA_LANES", str(link.lanes)),
                    ("C_LINE_RATE", clock_text(Fraction(repr(link.gbps)))),
                    ("C_REFCLK_FREQUENCY", _rate(socket.clock.mhz)),
                    ("C_INIT_CLK", clock_text(init_mhz)),
                    ("interface_mode", "Framing"),
                    ("dataflow_config", "Duplex"),
                    ("SupportLevel", "0" if shared else "1"),
                ),
            )
        )  # fmt: skip
    _require_clocks_apart(board, made)
    return tuple(made)


def _rate(mhz: float) -> str:
    return f"{mhz:.9f}".rstrip("0").rstrip(".")


def _require_aurora(board: Board, link: Link) -> None:
    if link.adapter != "aurora" or link.encoding != "64b66b":
        raise TargetError(
            f'{board.name} has a link with adapter "{link.adapter}" and encoding "{link.encoding}"; projects for '
            'Vivado have cores for adapter "aurora" with encoding "64b66b" only: give such a link'
        )
    if not board.sockets:
        raise TargetError(
            f"{board.name} tells no transceivers of its cables; give its file a table [[sockets]] (docs/boards.md)"
        )
    if link.lanes > PER_QUAD:
        raise TargetError(
            f"{board.name} has a link of {link.lanes} lanes; projects take them from one quad, so give at most "
            f"{PER_QUAD}"
        )


def _room(board: Board, link: Link, made: Sequence[Aurora]) -> tuple[int, Socket, int]:
    """The first socket with ``link.lanes`` left, its number, and how many are taken."""
    left = []
    for number, socket in enumerate(board.sockets):
        taken = sum(len(one.channels) for one in made if one.socket == number)
        left.append(len(socket.channels) - taken)
        equal = all(one.link.gbps == link.gbps for one in made if one.socket == number)
        if left[-1] >= link.lanes and equal:
            return number, socket, taken
    raise TargetError(
        f"{board.name} has a link of {link.lanes} lanes at {link.gbps:.9g} Gb/s for which no socket has room: "
        f"{', '.join(map(str, left))} left in its sockets, which links of another rate cannot share; give links of "
        "fewer lanes or of one rate"
    )


def _require_clocks_apart(board: Board, made: Sequence[Aurora]) -> None:
    """Each socket has a buffer of its own behind the pins of its reference clock."""
    owners: dict[str, int] = {}
    for one in made:
        pin = board.sockets[one.socket].clock.pins[0]
        if owners.setdefault(pin, one.socket) != one.socket:
            raise TargetError(
                f"{board.name} has links in two sockets with the same reference clock at {pin}, which two cores cannot "
                "share; give links that fit in one of them"
            )


def _seven(board: Board, socket: Socket, channels: Sequence[str], link: Link) -> list[tuple[str, str]]:
    """Lanes and clock as cores for 7-series parts name them: by place among the package's transceivers."""
    if board.device.family == "artix7":
        raise TargetError(
            f"{board.name} has GTP transceivers, for which there is no Aurora 64B/66B core; give another board"
        )
    if socket.place < 0:
        raise TargetError(
            f"{board.name} does not tell the place of the quad of {channels[0]}; give the socket of its file place"
        )
    kind = "GTH" if GTH.fullmatch(board.device.part) else "GTX"
    own, clock = (int(name.partition("Y")[2]) for name in socket.quads)
    at = {
        socket.place * PER_QUAD + position(name)[1] % PER_QUAD + 1: k + 1 for k, name in enumerate(channels)
    }
    first = {} if 1 in at else {1: "X"}
    places = {**first, **{place: str(lane) for place, lane in sorted(at.items())}}
    found = [(f"C_GT_LOC_{place}", lane) for place, lane in places.items()]
    return [("C_GT_CLOCK_1", f"{kind}Q{socket.place + clock - own}"), *found, ("drp_mode", "AXI4_LITE")]


def _ultra(socket: Socket, channels: Sequence[str], link: Link) -> list[tuple[str, str]]:
    """Lanes and clock as cores for UltraScale+ parts name them."""
    own, clock = socket.quads
    return [
        ("C_START_QUAD", own),
        ("C_START_LANE", channels[0]),
        ("CHANNEL_ENABLE", " ".join(channels)),
        ("C_REFCLK_SOURCE", f"{socket.source}_of_{clock}"),
        *((f"C_GT_LOC_{lane}", str(lane)) for lane in range(2, link.lanes + 1)),
        ("drp_mode", "Disabled"),
    ]
