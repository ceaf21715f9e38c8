"""Two ends of a link in Verilator, joined by two channels, with traffic on all of theirs, every word of it checked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .. import __version__, templates
from ..backend.convert import convert
from ..errors import ToolError
from ..gateware.link.end import LinkEnd
from ..gateware.link.tally import OVERFLOW
from ..plan.links import LINK_COUNTERS, LINK_STATES
from .verilate import CPP, BuildOptions, build_program

__all__ = ["LinkConditions", "LinkDesign", "LinkEndOutcome", "LinkOutcome", "build_link_bench", "run_link"]

HERE = Path(__file__).parent
FAULTS = {"crc_errors": "damaged", "frames_lost": "lost", "frames_repeated": "repeated"}
"""Counters of a receiving end, and what the channel to it counts."""


@dataclass(frozen=True)
class LinkDesign:
    """What is built: words of ``width`` bits, parameters of the ends, words in flight of the cable as a power of two.

    ``down`` and ``up``: depths of the channels' receive buffers, from end a to end b and back.
    """

    width: int = 64
    down: tuple[int, ...] = (300, 200, 100)
    up: tuple[int, ...] = (300, 150)
    frame_words: int = 64
    replay_words: int = 1024
    timeout: int = 2048
    depth_bits: int = 10


@dataclass(frozen=True)
class LinkConditions:
    """How it runs.

    ``limit`` words a channel (``up_limit`` towards a, if given); chances a bit (``bit_errors``), a frame (``loss``,
    ``repeat``) and a cycle (stalls); cycles of the link's clocks (``latency``, ``jitter``, ``down_at``, ``down_for``,
    ``patience``); clock ``periods`` in ps (a, a's link, b, b's link); the ends of the ``resets`` in ps. ``pauses``:
    users stop now and then.

    Faults begin when both ends are up (``early``: at once), and end when all words have come and the ``inject``
    (damaged, lost, repeated) frames of both directions have begun, one every ``spread`` cycles. ``identities``: those
    of a and b, and what a and b expect.
    """

    limit: int = 1000
    up_limit: int | None = None
    latency: int = 0
    jitter: int = 0
    rate: float = 1.0
    drop33: bool = False
    bit_errors: float = 0.0
    loss: float = 0.0
    repeat: float = 0.0
    early: bool = False
    source_stall: float = 0.0
    sink_stall: float = 0.0
    pauses: bool = False
    inject: tuple[int, int, int] = (0, 0, 0)
    spread: int = 1
    down_at: int = 0
    down_for: int = 0
    periods: tuple[int, int, int, int] = (4000, 4000, 4000, 4000)
    resets: tuple[int, int] = (100_000, 100_000)
    identities: tuple[int, int, int, int] = (1, 2, 2, 1)
    seed: int = 1
    patience: int = 200_000

    def settings(self, design: LinkDesign) -> dict[str, int]:
        """Arguments of the driver."""
        named = {
            field.name: int(getattr(self, field.name))
            for field in fields(self)
            if field.type in ("int", "bool") and field.name != "limit"
        }
        named |= {
            name: _threshold(getattr(self, name), 32)
            for name in ("loss", "repeat", "source_stall", "sink_stall")
        }
        named |= {"error": _threshold(self.bit_errors * design.width, 64), "rate": round(self.rate * 65536)}
        named |= dict(zip(("inject_error", "inject_loss", "inject_repeat"), self.inject, strict=True))
        named |= dict(
            zip(("a_period", "a_link_period", "b_period", "b_link_period"), self.periods, strict=True)
        )
        named |= dict(zip(("a_reset", "b_reset"), self.resets, strict=True))
        names = ("a_identity", "b_identity", "a_expected", "b_expected")
        named |= dict(zip(names, self.identities, strict=True))
        # Time for the last faults to show: the next frame, at the latest a heartbeat, in the slower clock.
        slow = max(self.periods) // min(self.periods) + 1
        named["settle"] = slow * (4 * (self.latency + self.jitter) + 4 * design.timeout)
        up_limit = self.limit if self.up_limit is None else self.up_limit
        named |= {"a_limit": self.limit, "b_limit": up_limit, "counters": OVERFLOW + 1}
        return named | {"down": len(design.down), "up": len(design.up)}


@dataclass(frozen=True)
class LinkEndOutcome:
    """An end's ``state``, ``counters`` and ``overflow``, and what the ``cable`` away from it counted."""

    state: str
    counters: dict[str, int]
    overflow: bool
    cable: dict[str, int]


@dataclass(frozen=True)
class LinkOutcome:
    """``complete``: all words arrived, in ``cycles`` of a's link clock; ``wrong`` ones among them.

    ``received``: words a channel, all of ``down``, then ``up``.
    """

    complete: bool
    cycles: int
    received: tuple[int, ...]
    wrong: int
    a: LinkEndOutcome
    b: LinkEndOutcome

    @property
    def frames(self) -> int:
        """Frames that went into the cable, both directions."""
        return self.a.cable["frames"] + self.b.cable["frames"]

    def miscounts(self) -> list[str]:
        """Where an end's counters differ from what the cable did."""
        found = []
        for name, end, cable in (("b", self.b, self.a.cable), ("a", self.a, self.b.cable)):
            for counter, fault in FAULTS.items():
                counted = end.counters[counter]
                if counted != cable[fault]:
                    found.append(f"{name}: {counter} = {counted}, cable: {fault} = {cable[fault]}")
        return found


def _threshold(chance: float, bits: int) -> int:
    return min(round(chance * (1 << bits)), (1 << bits) - 1)


def link_files(design: LinkDesign) -> dict[str, str]:
    """Verilog of both ends, the cable, the traffic and module link_bench, by path."""
    numbered = [("a", "b", k) for k in range(len(design.down))] + [
        ("b", "a", k) for k in range(len(design.up))
    ]
    channels = [
        {"number": number, "index": index, "source": source, "sink": sink}
        for number, (source, sink, index) in enumerate(numbered)
    ]
    files = {}
    ends = []
    for name, peer, tx, rx in (("a", "b", design.down, design.up), ("b", "a", design.up, design.down)):
        end = LinkEnd(
            design.width,
            tx,
            rx,
            frame_words=design.frame_words,
            replay_words=design.replay_words,
            timeout=design.timeout,
        )
        files[f"end_{name}.v"] = convert(end, f"link_end_{name}")
        ends.append({"name": name, "peer": peer, "module": f"link_end_{name}"})
    environment = Environment(
        loader=FileSystemLoader(Path(templates.__file__).parent), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    files["link_bench.sv"] = environment.get_template("link_bench.sv.j2").render(
        version=__version__, ends=ends, channels=channels, width=design.width, depth_bits=design.depth_bits
    )
    for name in ("hwgen_channel.sv", "hwgen_traffic.sv"):
        files[name] = (HERE / "verilog" / name).read_text()
    return files


def build_link_bench(design: LinkDesign, fast: bool = True) -> Path:
    """The executable, from the cache or newly built (``fast``: for long runs).

    Raises ToolError if a tool is missing or refuses the files.
    """
    drivers = {"link_bench.cpp": (CPP / "link" / "link_bench.cpp").read_text()}
    files = link_files(design)
    return build_program("link_bench", files, drivers, "link_bench.cpp", "link_bench", BuildOptions(fast))


def run_link(executable: Path, design: LinkDesign, conditions: LinkConditions) -> LinkOutcome:
    """One run. Raises ToolError if the driver breaks off; a run without progress is an outcome that is not complete."""
    arguments = [f"{name}={value}" for name, value in conditions.settings(design).items()]
    ended = subprocess.run([str(executable), *arguments], capture_output=True, text=True)
    if ended.returncode not in (0, 4):
        raise ToolError(
            f"link bench: the driver ended with code {ended.returncode}: {ended.stderr.strip() or 'no message'}"
        )
    values = {name: int(value) for name, value in (line.split() for line in ended.stdout.splitlines())}

    def end(name: str) -> LinkEndOutcome:
        return LinkEndOutcome(
            LINK_STATES[values[f"{name}_state"]],
            {counter: values[f"{name}_{k}"] for k, counter in enumerate(LINK_COUNTERS)},
            values[f"{name}_{OVERFLOW}"] != 0,
            {
                fault: values[f"{name}_{fault}"]
                for fault in ("words", "frames", "damaged", "lost", "repeated", "most")
            },
        )

    received = tuple(values[f"received_{k}"] for k in range(len(design.down) + len(design.up)))
    return LinkOutcome(
        ended.returncode == 0, values.get("cycles", 0), received, values["wrong"], end("a"), end("b")
    )
