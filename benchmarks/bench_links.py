"""A link under errors: words delivered a cycle against the formula of go-back-N, and the overhead of frames."""

from __future__ import annotations

import time
from typing import Any

from hwgen.sim.link_bench import LinkConditions, LinkDesign, LinkOutcome, build_link_bench, run_link

__all__ = ["frames_of_a_round_trip", "run"]

DESIGN = LinkDesign(width=64, down=(2048,), up=(2048,), frame_words=64, replay_words=2048, timeout=1024)
FRAME = DESIGN.frame_words + 2
FRAME_BITS = FRAME * DESIGN.width
WORDS = 640_000
LATENCIES = (0, 30, 78, 150, 300)
CABLES = (
    (1e-9, 0.0),
    (1e-7, 0.0),
    (1e-6, 0.0),
    (1e-5, 0.0),
    (0.0, 0.001),
    (0.0, 0.01),
    (0.0, 0.03),
    (0.0, 0.1),
)
"""Bit errors, lost frames; in both directions."""
MICROSECOND = 78
"""Latency, of one way, of a round trip of 1 µs with 64 bits at 10 Gb/s."""
PIPELINE = 24
"""Cycles of a round trip that are not the cable's."""


def frames_of_a_round_trip(latency: int) -> float:
    """Frames that are sent again for one that failed.

    It, the next one that shows the gap, on average half of the one on its way when the answer comes, and those of
    the trip there and back.
    """
    return 2.5 + (2 * latency + PIPELINE) / FRAME


def _formula(p: float, answer_lost: float, latency: int) -> tuple[float, float]:
    """Efficiency of go-back-N: if answers always come, and with a time-out for those that do not."""
    N = frames_of_a_round_trip(latency)
    waiting = N + answer_lost * DESIGN.timeout / FRAME
    return (1 - p) / (1 - p + p * N), (1 - p) / (1 - p + p * waiting)


def _row(outcome: LinkOutcome, bit_errors: float, loss: float, latency: int, clean: float) -> dict[str, Any]:
    p = 1 - (1 - loss) * (1 - bit_errors) ** FRAME_BITS
    answer_lost = 1 - (1 - loss) * (1 - bit_errors) ** (2 * DESIGN.width)  # a control frame
    formula, with_timeouts = _formula(p, answer_lost, latency)
    faults = outcome.a.cable["damaged"] + outcome.a.cable["lost"]
    replayed = outcome.a.counters["frames_replayed"]
    return {
        "latency": latency,
        "bit_errors": bit_errors,
        "loss": loss,
        "frame_errors": round(p, 6),
        "efficiency": round(WORDS / outcome.cycles / clean, 4),
        "formula": round(formula, 4),
        "formula_with_timeouts": round(with_timeouts, 4),
        "faults": faults,
        "replayed_a_fault": round(replayed / faults, 2) if faults else None,
        "frames_of_a_round_trip": round(frames_of_a_round_trip(latency), 2),
        "timeouts": outcome.a.counters["timeouts"],
        "frames": outcome.frames,
    }


def run() -> dict[str, Any]:
    """One direction at full speed, the other with answers only; then both at full speed, without errors.

    Raises AssertionError if a word is not the right one or a fault is not counted.
    """
    executable = build_link_bench(DESIGN)
    started, cycles, frames = time.perf_counter(), 0, 0

    def outcome(conditions: LinkConditions) -> LinkOutcome:
        nonlocal cycles, frames
        got = run_link(executable, DESIGN, conditions)
        overflow = got.a.overflow or got.b.overflow
        assert (got.complete, got.wrong, overflow, got.miscounts()) == (True, 0, False, []), got
        cycles, frames = cycles + got.cycles, frames + got.frames
        return got

    rows, overhead = [], {}
    for latency in LATENCIES:
        clean = WORDS / outcome(LinkConditions(WORDS, up_limit=0, latency=latency)).cycles
        both = WORDS / outcome(LinkConditions(WORDS, latency=latency)).cycles
        overhead[latency] = {"one_way": round(1 - clean, 4), "both_ways": round(1 - both, 4)}
        for k, (bit_errors, loss) in enumerate(CABLES):
            conditions = LinkConditions(
                WORDS, up_limit=0, latency=latency, bit_errors=bit_errors, loss=loss, seed=latency + k + 1
            )
            rows.append(_row(outcome(conditions), bit_errors, loss, latency, clean))
    seconds = time.perf_counter() - started
    return {
        "frame_words": DESIGN.frame_words,
        "timeout": DESIGN.timeout,
        "overhead": overhead,
        "overhead_1us": max(overhead[MICROSECOND].values()),
        "frames": frames,
        "cycles_per_second": round(cycles / seconds),
        "table": rows,
    }
