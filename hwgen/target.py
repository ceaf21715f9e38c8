"""What a network runs on: device, board, link and cluster, as frozen data that checks itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import floor

from .target_fields import NAME, PART, TEXT, Fields, is_real, shorten
from .target_pins import Pins
from .target_serial import Held, Pcie, Socket

__all__ = ["ADAPTERS", "ENCODINGS", "MAX_BOARDS", "RESOURCES", "Board", "Cluster", "Device", "Fill", "Link"]

ENCODINGS = {"64b66b": Fraction(64, 66), "8b10b": Fraction(8, 10), "none": Fraction(1)}
"""Line codes, and the share of the line rate that they leave for words."""
ADAPTERS = ("aurora", "parallel")
"""What joins a link's words to the pins: an Aurora core on transceivers, or plain parallel ports."""
RESOURCES = ("dsp", "bram", "uram", "lut", "ff")
MAX_BOARDS = 256
"""A board's number is 8 bits in every management command (docs/chain.md)."""
LANE_BITS = 64
"""Bits of a link word for each lane."""
_NAMED = "up to 40 small letters, digits and underscores, starting with a letter"
_FIGURE = re.compile(r"[a-z_]+(\.[a-z0-9_]+)?")
_WORDED = "up to 60 letters, digits, spaces and . _ + -"


@dataclass(frozen=True)
class Link:
    """A cable between two boards, the same in both directions.

    ``lanes`` pairs of wires or transceivers; ``gbps`` line rate of one lane in Gb/s, before ``encoding``;
    ``adapter`` one of ADAPTERS; ``latency`` the one-way trip in cycles of the link's clock that buffers are
    computed for. Raises TargetError naming every wrong field.
    """

    lanes: int = 1
    gbps: float = 10.3125
    encoding: str = "64b66b"
    adapter: str = "aurora"
    latency: int = 300

    def __post_init__(self) -> None:
        fields = Fields(self, "link")
        fields.whole("lanes", 1, 16)  # an Aurora core bonds at most 16 (PG074)
        fields.real("gbps", 0, 128, "Gb/s", above=True)
        fields.choice("encoding", tuple(ENCODINGS))
        fields.choice("adapter", ADAPTERS)
        fields.whole("latency", 0, 65535)
        if self.adapter == "aurora" and self.encoding == "none":
            fields.say("encoding = 'none' with adapter = 'aurora'; give 64b66b or 8b10b, or adapter parallel")
        fields.done()

    @property
    def width(self) -> int:
        """Bits of a link word."""
        return LANE_BITS * self.lanes

    @property
    def payload_gbps(self) -> float:
        """Gb/s of link words in one direction, all lanes, after encoding."""
        return float(self.lanes * Fraction(repr(self.gbps)) * ENCODINGS[self.encoding])

    @property
    def clock_mhz(self) -> float:
        """Clock of the ``link`` domain in MHz: a word a cycle, but for the cycles that 64b66b takes (1 in 33)."""
        word = LANE_BITS if self.encoding != "8b10b" else LANE_BITS * 10 // 8
        return self.gbps * 1000 / word


@dataclass(frozen=True)
class Fill:
    """Share of each resource that a plan may use, 0 to 1: a fuller device is hard to route."""

    dsp: float = 0.9
    bram: float = 0.85
    uram: float = 0.85
    lut: float = 0.7
    ff: float = 0.7

    def __post_init__(self) -> None:
        fields = Fields(self, "fill")
        for name in RESOURCES:
            fields.real(name, 0, 1)
        fields.done()


@dataclass(frozen=True)
class Device:
    """An FPGA. ``part`` is the name that vendor tools take.

    ``dsp`` multipliers of ``dsp_kind``, each ``dsp_widths`` bits signed; ``bram`` and ``uram`` memories of
    ``bram_bits`` and ``uram_bits``; ``lut``, ``ff``; of the LUTs ``lut_ram`` can be memory of ``lut_ram_bits``
    each; ``clock_mhz`` the logic clock that plans assume, in MHz.
    Raises TargetError naming every wrong field.
    """

    name: str
    vendor: str
    family: str
    part: str
    dsp_kind: str
    dsp_widths: tuple[int, int]
    dsp: int
    bram_kind: str
    bram_bits: int
    bram: int
    lut: int
    ff: int
    clock_mhz: float
    uram_bits: int = 0
    uram: int = 0
    lut_ram_bits: int = 0
    lut_ram: int = 0

    def __post_init__(self) -> None:
        fields = Fields(self, "device")
        for name in ("name", "vendor", "family", "dsp_kind", "bram_kind"):
            fields.text(name, TEXT, _WORDED)
        fields.text("part", PART, f"{_WORDED} /")
        fields.wholes("dsp_widths", 2, 2, 64)
        fields.whole("bram_bits", 256, 1 << 24)
        fields.whole("uram_bits", 0, 1 << 24)
        fields.whole("lut_ram_bits", 0, 1024)
        for name in (*RESOURCES, "lut_ram"):
            fields.whole(name, 0, 100_000_000)
        fields.real("clock_mhz", 0, 2000, "MHz", above=True)
        if not fields.problems:
            for name in ("uram", "lut_ram"):
                if (count := getattr(self, name)) and not getattr(self, f"{name}_bits"):
                    fields.say(f"{name} = {count} without {name}_bits; give the bits of one")
            if self.lut_ram > self.lut:
                fields.say(
                    f"lut_ram = {self.lut_ram} of lut = {self.lut}; give those of the LUTs that can be memory"
                )
        fields.done()


@dataclass(frozen=True)
class Board:
    """A device on its board.

    ``memory_bytes`` and ``memory_gbytes_per_s`` (10⁹ bytes a second, peak) of external memory;
    ``transceivers`` that a cable between boards can reach, up to ``transceiver_gbps`` each; ``clocks``
    oscillators as (name, MHz); ``link`` the cable to a neighbour unless another is given, None if the board
    has no usual one; ``pins`` of clock, reset, serial port and LEDs, None if not told; ``sockets`` of cables
    between boards, in the order in which links take them; the ``pcie`` edge; pins that are ``held``; ``sources`` where
    figures come from, as (field or table, text). Raises TargetError naming every wrong field.
    """

    name: str
    device: Device
    memory_bytes: int = 0
    memory_gbytes_per_s: float = 0.0
    transceivers: int = 0
    transceiver_gbps: float = 0.0
    clocks: tuple[tuple[str, float], ...] = ()
    fill: Fill = Fill()
    link: Link | None = None
    pins: Pins | None = None
    sockets: tuple[Socket, ...] = ()
    pcie: Pcie | None = None
    held: tuple[Held, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        fields = Fields(self, f"board {self.name}" if isinstance(self.name, str) else "board")
        fields.text("name", NAME, _NAMED)
        kinds = {"device": Device, "fill": Fill, "link": Link, "pins": Pins, "pcie": Pcie}
        for name, kind in kinds.items():
            value: object = getattr(self, name)
            if not isinstance(value, kind) and not (name in ("link", "pins", "pcie") and value is None):
                fields.say(f"{name} = {shorten(value)}; give a {kind.__name__}")
        for name, kind in (("sockets", Socket), ("held", Held)):
            fields.items(name, kind)
        fields.whole("memory_bytes", 0, 1 << 50)
        fields.real("memory_gbytes_per_s", 0, 100_000, "GB/s")
        fields.whole("transceivers", 0, 256)
        fields.real("transceiver_gbps", 0, 256, "Gb/s")
        clocks = fields.pairs("clocks", NAME, "pairs of a name and MHz")
        for name, mhz in clocks:
            if not is_real(mhz, 0, 2000, above=True):
                fields.say(f"clocks.{name} = {shorten(mhz)}; give a number above 0 and up to 2000 MHz")
        sources = fields.pairs("sources", _FIGURE, "pairs of a field and a text")
        for name, text in sources:
            if not isinstance(text, str) or not text.strip():
                fields.say(f"sources.{name} = {shorten(text)}; give a text")
        if self.link is not None and not fields.problems:
            _reach(fields, "link", self, [self.link])
        fields.done()
        fields.store("clocks", tuple((name, float(mhz)) for name, mhz in clocks))  # type: ignore[arg-type]
        fields.store("sources", tuple(sources))

    def available(self, resource: str) -> int:
        """How many of one of RESOURCES a plan may use: the device's count times the fill limit, rounded down.

        Of "lut_ram" as many as the limit of "lut" says; they are LUTs too.
        """
        count: int = getattr(self.device, resource)
        limit: float = getattr(self.fill, "lut" if resource == "lut_ram" else resource)
        return floor(count * Fraction(repr(limit)))


@dataclass(frozen=True)
class Cluster:
    """Boards in a chain, the first at the host; ``links[i]`` joins board i and board i + 1.

    Raises TargetError naming every link that a board cannot take.
    """

    boards: tuple[Board, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        fields = Fields(self, "cluster")
        for name, kind in (("boards", Board), ("links", Link)):
            items: object = getattr(self, name)
            if not isinstance(items, (tuple, list)) or not all(isinstance(item, kind) for item in items):
                fields.say(f"{name} = {shorten(items)}; give a tuple of {kind.__name__}")
                continue
            fields.store(name, tuple(items))
        if not fields.problems:
            self._check(fields)
        fields.done()

    def _check(self, fields: Fields) -> None:
        count = len(self.boards)
        if not 1 <= count <= MAX_BOARDS:
            fields.say(f"{count} boards; give 1 to {MAX_BOARDS}")
        elif len(self.links) != count - 1:
            fields.say(f"{count} boards have {count - 1} cables between them, {len(self.links)} links given")
        else:
            seen: set[tuple[Board, tuple[Link, ...]]] = set()
            for index, board in enumerate(self.boards):
                ends = self.links[max(index - 1, 0) : index + 1]
                if (board, ends) not in seen:  # a long chain of equal boards has one mistake
                    seen.add((board, ends))
                    _reach(fields, f"board {index} ({board.name})", board, ends)

    def __str__(self) -> str:
        """The boards as :meth:`parse` reads them: "vc709*2,alveo_u280"."""
        runs = [(name, len(list(run))) for name, run in groupby(board.name for board in self.boards)]
        return ",".join(name if count == 1 else f"{name}*{count}" for name, count in runs)

    @staticmethod
    def chain(
        boards: str | Board | Sequence[str | Board],
        count: int | None = None,
        link: Link | Sequence[Link] | None = None,
    ) -> Cluster:
        """A chain of ``count`` equal boards, or of a list of them; names are those of ``boards/`` or paths.

        ``link`` is one for all cables, or one a cable; by default each cable carries what the usual links of
        both its ends can: the fewer lanes at the lower rate. Raises TargetError.
        """
        return _make_chain(boards, count, link)

    @staticmethod
    def parse(spec: str | os.PathLike[str]) -> Cluster:
        """The cluster of "vc709*3", "vc709*2,alveo_u280", boards/mine.toml*2, or the path of a cluster.toml.

        Raises TargetError.
        """
        return _parse(spec)


def _make_chain(boards: object, count: object, link: object) -> Cluster:
    from .target_chain import make_chain  # it needs the classes of this module

    return make_chain(boards, count, link)


def _parse(spec: str | os.PathLike[str]) -> Cluster:
    from .target_chain import parse_cluster

    return parse_cluster(spec)


def _reach(fields: Fields, who: str, board: Board, links: Sequence[Link]) -> None:
    """Whether a board has the transceivers for all of its ``links``."""
    serial = [link for link in links if link.adapter == "aurora"]
    lanes, gbps = sum(link.lanes for link in serial), max((link.gbps for link in serial), default=0.0)
    if lanes > board.transceivers:
        other = "links of fewer lanes" if board.transceivers else 'Link(adapter="parallel", encoding="none")'
        fields.say(
            f"{who}: {_count(lanes, 'lane')} but {_count(board.transceivers, 'transceiver')}; give {other}"
        )
    elif gbps > board.transceiver_gbps:
        fields.say(
            f"{who}: gbps = {gbps:g} a lane but its transceivers reach {board.transceiver_gbps:g}; "
            "give a slower link"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
