"""Says in one line where a simulation got stuck."""

from __future__ import annotations

from collections.abc import Sequence

from .program import Outcome

__all__ = ["explain", "stuck_channels"]


def stuck_channels(outcome: Outcome, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Channels that hold a value nobody takes (valid, not ready), and those that wait for one (ready, not
    valid)."""
    valid = [bool(outcome.valid >> bit & 1) for bit in range(len(names))]
    ready = [bool(outcome.ready >> bit & 1) for bit in range(len(names))]
    blocked = [name for name, v, r in zip(names, valid, ready, strict=True) if v and not r]
    starving = [name for name, v, r in zip(names, valid, ready, strict=True) if r and not v]
    return blocked, starving


def explain(outcome: Outcome, names: Sequence[str], waiting_for: str, watchdog: int) -> str:
    """The watchdog's message: how long nothing moved, what the driver waited for, and the channel that is
    stuck.

    ``names`` are in the order of the data's way (forward, then back), so the most downstream blocked channel
    is the last of them; with none blocked, the first starving one behind the last that moved is the culprit.
    """
    blocked, starving = stuck_channels(outcome, names)
    if outcome.end == "limit":
        head = f"watchdog: not finished after {outcome.cycles} cycles"
    else:
        head = f"watchdog: nothing moved for {watchdog} cycles (cycle {outcome.cycles})"
    head += f" while waiting for {waiting_for}; {outcome.results} results of {outcome.fed} images"
    if outcome.bus_waits:
        return f"{head}; stuck channel: bus (an access has no answer)"
    if blocked:
        rest = f", blocked too: {', '.join(blocked[:-1])}" if blocked[:-1] else ""
        return f"{head}; stuck channel: {blocked[-1]} (valid, not ready{rest})"
    if starving:
        rest = f", also starving: {', '.join(starving[1:])}" if starving[1:] else ""
        return f"{head}; stuck channel: {starving[0]} (ready, nothing comes{rest})"
    return f"{head}; stuck channel: none shows valid or ready"
