"""A chain of boards under given conditions of its cables, clocks and resets, ready to simulate."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from ..backend.verilog import board_top
from ..errors import BuildError
from ..plan.links import LINK_STATES, SIDE_DOWN, SIDE_UP
from ..plan.plan import Plan
from ..plan.registers import LINK_REGISTERS, channel_names
from .alone_top import ALONE, alone_files
from .boundary import Recording
from .chain_top import CHAIN, Cable, chain_files, knob
from .layout import Words
from .memory_top import memory_settings
from .ports import STREAMS, Ports, read_ports
from .surroundings import Clock, Reset, Setting, Surroundings

__all__ = [
    "IDEAL",
    "CableOptions",
    "alone_simulation",
    "chain_simulation",
    "dead_links",
    "device_channels",
    "link_results",
    "rare_frames",
    "refused_link",
]

BOARD_PERIOD, LINK_PERIOD = 5000, 6206
"""Picoseconds: 200 MHz, and the words of 10.3125 Gb/s in 64b66b."""
SPREAD = 0.02
"""Share by which independent clocks of boards differ; ends of links differ by a hundredth of that."""
RESET_CYCLES = 8
RARE = 0.1
"""Share of full frames that come through below which a link is as good as dead."""


@dataclass(frozen=True)
class CableOptions:
    """``latency`` (least, most) cycles of a cable, drawn for every direction, None: what the plan was made for;
    ``jitter`` cycles more at random; ``ber`` chance of a flipped bit; ``loss`` and ``repeat`` chances of a frame to
    be lost or to come twice; ``stutter``: transmitters pause one cycle in 33; boards leave reset within
    ``reset_skew`` cycles, in any order; ``clocks``: every board and link end with a clock of its own; ``down``
    (first, last) cycles in which one of the cables, drawn, loses everything in both directions."""

    latency: tuple[int, int] | None = None
    jitter: int = 0
    ber: float = 0.0
    loss: float = 0.0
    repeat: float = 0.0
    stutter: bool = False
    reset_skew: int = 0
    clocks: bool = False
    down: tuple[int, int] | None = None


IDEAL = CableOptions()
"""Cables that only take their time."""


def chain_simulation(
    plan: Plan, files: Mapping[str, str], options: CableOptions, seed: int, stall: float = 0.0
) -> tuple[dict[str, str], Ports, Surroundings]:
    """All Verilog, the ports of the chain's top, and its surroundings drawn from ``seed``; ``stall`` of external
    memories as memory_top has it."""
    rng = random.Random(seed)
    boards = [read_ports(files, board_top(k), STREAMS if k == 0 else ()) for k in plan.present]
    settings, depth_bits = _settings(plan, options, rng)
    whole = {**files, **chain_files(boards, not options.clocks, depth_bits, plan)}
    ports = read_ports(whole, CHAIN)
    settings += _memories(ports, stall, seed)
    clocks = _clocks(plan, len(boards), options, rng)
    resets = [_reset(k, k if options.clocks else 0, options, rng) for k in range(len(boards))]
    return whole, ports, Surroundings(clocks, resets, settings)


def alone_simulation(
    plan: Plan,
    files: Mapping[str, str],
    options: CableOptions,
    seed: int,
    recording: Recording,
    stall: float = 0.0,
) -> tuple[dict[str, str], Ports, Surroundings]:
    """The same of the one board of ``plan`` (see Plan.alone) with its neighbours' ends, fed from ``recording``."""
    rng = random.Random(seed)
    settings, depth_bits = _settings(plan, options, rng)
    whole = alone_files(recording.plan, recording.board, files, not options.clocks, depth_bits)
    clocks = _clocks(plan, 1, options, rng)
    resets = [_reset(k, 0, options, rng) for k in range(1 + len(plan.cables))]
    hosts = tuple(name for name in STREAMS if name != "image" or recording.board == 0)
    ports = read_ports(whole, ALONE, hosts)
    settings += _memories(ports, stall, seed)
    return whole, ports, Surroundings(clocks, resets, settings, recording.samples())


def _memories(ports: Ports, stall: float, seed: int) -> list[Setting]:
    """Settings of the models of external memories, if the top has any."""
    return memory_settings(stall, seed) if "memory_seed" in ports.widths else []


def _settings(plan: Plan, options: CableOptions, rng: random.Random) -> tuple[list[Setting], int]:
    """Settings of both directions of every cable, and the bits of a number of words on one."""
    cables = [_cable(plan, direction, options, rng) for direction in range(2 * len(plan.cables))]
    words = max(cable.latency + cable.jitter for cable in cables) + 64
    settings = [one for direction, cable in enumerate(cables) for one in cable.settings(direction)]
    if options.down is not None:
        settings += _outage(rng.randrange(len(plan.cables)), *options.down)
    return settings, words.bit_length()


def _outage(cable: int, first: int, last: int) -> list[Setting]:
    """Both directions of a cable lose all between two cycles of the host's clock."""
    return [
        knob("down", direction, value, 0, cycle)
        for value, cycle in ((1, first), (0, last))
        for direction in (2 * cable, 2 * cable + 1)
    ]


def _reset(index: int, clock: int, options: CableOptions, rng: random.Random) -> Reset:
    skew = options.reset_skew * BOARD_PERIOD
    return Reset("board_rst", index, RESET_CYCLES * LINK_PERIOD + rng.randint(0, skew), clock)


def _cable(plan: Plan, direction: int, options: CableOptions, rng: random.Random) -> Cable:
    link = plan.cables[direction // 2]
    least, most = options.latency or (link.latency, link.latency)
    hit = 1 - (1 - options.ber) ** link.width
    return Cable(
        latency=rng.randint(least, most), jitter=options.jitter, error=int(hit * 2**64) if hit < 1 else 2**64 - 1,
        loss=int(options.loss * 2**32), repeat=int(options.repeat * 2**32), drop33=int(options.stutter),
        seed=rng.getrandbits(64) | 1,
    )  # fmt: skip


def _clocks(plan: Plan, count: int, options: CableOptions, rng: random.Random) -> list[Clock]:
    """Clocks of ``count`` boards and of both ends of every cable."""
    if not options.clocks:
        return [Clock("clk", 0, BOARD_PERIOD)]

    def draw(name: str, index: int, period: int, spread: float) -> Clock:
        own = round(period * (1 + rng.uniform(-spread, spread)))
        return Clock(name, index, own, rng.randrange(own))

    boards = [draw("board_clk", k, BOARD_PERIOD, SPREAD) for k in range(count)]
    return boards + [draw("link_clk", k, LINK_PERIOD, SPREAD / 100) for k in range(2 * len(plan.cables))]


def device_channels(plan: Plan) -> tuple[str, ...]:
    """Names of the bits of ``channel_valid``: those of a device, or of all boards with the board before a colon."""
    if not plan.links:
        return channel_names(plan)
    return tuple(f"board{k}:{name}" for k in plan.present for name in channel_names(plan, k))


def link_results(
    plan: Plan, reads: Words, registers: Mapping[tuple[int, int], slice], outputs: Mapping[str, int]
) -> list[dict[str, object]]:
    """State and counters of the ends of links at all boards, as read from them; of a whole chain also the link words
    that each end has sent of every channel."""
    found: list[dict[str, object]] = []
    passed = _passed(plan, outputs)
    for link in plan.cables:
        for board, side in ((link.index, SIDE_DOWN), (link.index + 1, SIDE_UP)):
            if board not in plan.present:
                continue
            values = dict(zip(LINK_REGISTERS, map(int, reads[registers[board, side]]), strict=True))
            state = LINK_STATES[values.pop("state")]
            del values["peer_low"], values["peer_high"]
            side_name, channels = ("down", link.down) if side == SIDE_DOWN else ("up", link.up)
            sent = {
                channel.kind: passed[name] * channel.beats(link.width)
                for channel in channels
                if (name := f"board{board}:{side_name}.{channel.kind}") in passed
            }
            found.append(
                {
                    "link": link.index, "board": board, "state": state, "counters": values,
                    "words": sent if passed else None,
                }
            )  # fmt: skip
    return found


def _passed(plan: Plan, outputs: Mapping[str, int]) -> dict[str, int]:
    """Words that have passed every channel of the boards, by its name; none where they were not counted."""
    if "channel_words" not in outputs:
        return {}
    counts = outputs["channel_words"]
    return {name: counts >> 32 * k & 0xFFFFFFFF for k, name in enumerate(device_channels(plan))}


def refused_link(plan: Plan, outputs: Mapping[str, int]) -> None:
    """Raises BuildError naming a link whose ends refuse each other, from the ``link_state`` of all ends."""
    for link, board, state in _states(plan, outputs):
        other = link + 1 if board == link else link
        if state == "refused":
            raise BuildError(
                f"link {link}: board {board} refuses what is at the other end of its cable: not board {other} "
                "of this build; check the cables, and build all boards together"
            )


def dead_links(plan: Plan, outputs: Mapping[str, int]) -> list[str]:
    """Ends of links that are not up, in words."""
    return [
        f"link {link} at board {board} is {state}"
        for link, board, state in _states(plan, outputs)
        if state != "up"
    ]


def rare_frames(plan: Plan, options: CableOptions) -> list[str]:
    """The link whose full frames hardly ever come through such a cable, in words; none: an empty list."""
    chances = {
        (1 - options.loss) * (1 - options.ber) ** (link.width * (link.frame_words + 2)): link
        for link in plan.cables
    }
    if not chances or (chance := min(chances)) > RARE:
        return []
    link = chances[chance]
    return [
        f"a full frame of link {link.index} ({link.frame_words + 2} words of {link.width} bits) comes through whole "
        f"with a chance of {chance:.1g}; lower --ber or --frame-loss, or raise --watchdog"
    ]


def _states(plan: Plan, outputs: Mapping[str, int]) -> list[tuple[int, int, str]]:
    """(link, board, state) of both ends of every cable."""
    states = outputs.get("link_state", 0)
    return [
        (link.index, link.index + end, LINK_STATES[states >> 3 * (2 * k + end) & 7])
        for k, link in enumerate(plan.cables)
        for end in (0, 1)
    ]
