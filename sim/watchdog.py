"""Says in one line where a simulation got stuck."""

from __future__ import annotations

from collections.abc import Sequence

from .program import Outcome

__all__ = ["explain", "stuck_channels"]

BACK = ("dy", "errors", "masked_out", "back", "back_in", "back_out", "dx")
"""Channels of a stage on the way back, in their order."""


def _along_the_way(names: Sequence[str]) -> list[int]:
    """Bits in the order of the data's way: forward from stage to stage, then back from the last to the first; over
    the boards of a chain likewise ("board1:conv1.x"; "up" and "down" are its links).

    A stage's ``store`` comes first: it holds an op ready whenever the errors are late, which blocks nothing.
    """
    places = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    ends = {place for place in places if place.rpartition(":")[2] in ("up", "down")}

    def key(bit: int) -> tuple[int, int, int]:
        place, _, channel = names[bit].rpartition(".")
        stage = places.index(place)
        if not place:
            return (0, 0, bit) if channel.rpartition(":")[2] in ("image", "label") else (3, 0, bit)
        if channel == "label":  # waits for its sample all the way
            return (0, stage, bit)
        if channel == "result":  # of a link, on its way to the host
            return (3, -stage, 0)
        if channel == "dz":
            return (2, -len(places), 0)
        if channel in BACK:
            return (2, -stage, BACK.index(channel))
        return (1, stage, -1 if channel == "store" and place not in ends else bit)

    return sorted(range(len(names)), key=key)


def stuck_channels(outcome: Outcome, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Channels that hold a value nobody takes (valid, not ready), and those that wait for one (ready, not
    valid); both in the order of the data's way."""
    valid = [bool(outcome.valid >> bit & 1) for bit in range(len(names))]
    ready = [bool(outcome.ready >> bit & 1) for bit in range(len(names))]
    way = _along_the_way(names)
    blocked = [names[bit] for bit in way if valid[bit] and not ready[bit]]
    starving = [names[bit] for bit in way if ready[bit] and not valid[bit]]
    return blocked, starving


def explain(outcome: Outcome, names: Sequence[str], waiting_for: str, watchdog: int) -> str:
    """The watchdog's message: how long nothing moved, what the driver waited for, and the channel that is
    stuck.

    ``names`` are those of plan.registers.channel_names. What is stuck blocks all before it, so the culprit is
    the last blocked channel on the data's way; with none blocked, the first that starves.
    """
    blocked, starving = stuck_channels(outcome, names)
    if outcome.end == "limit":
        head = f"watchdog: not finished after {outcome.cycles} cycles"
    else:
        head = f"watchdog: nothing moved for {watchdog} cycles (cycle {outcome.cycles})"
    head += f" while waiting for {waiting_for}; {outcome.results} results of {outcome.fed} images"
    if outcome.bus_waits:
        return f"{head}; stuck channel: command (a register access has no answer)"
    if blocked:
        rest = f", blocked too: {', '.join(blocked[:-1])}" if blocked[:-1] else ""
        return f"{head}; stuck channel: {blocked[-1]} (valid, not ready{rest})"
    if starving:
        rest = f", also starving: {', '.join(starving[1:])}" if starving[1:] else ""
        return f"{head}; stuck channel: {starving[0]} (ready, nothing comes{rest})"
    return f"{head}; stuck channel: none shows valid or ready"
