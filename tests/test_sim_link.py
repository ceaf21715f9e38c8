"""A link over a bad cable in Verilator: nothing lost, doubled, altered or reordered, every fault counted exactly."""

import itertools
from dataclasses import replace

import pytest
from hwgen.sim.link_bench import LinkConditions, LinkDesign, build_link_bench, run_link

from hwgen.plan.links import LINK_STATES

WIDE = LinkDesign(128, (40,), (64, 70), frame_words=16, replay_words=256, timeout=700)
DESIGNS = {"three and two channels": LinkDesign(), "wide": WIDE}
CLOCKS = {
    "equal": (4000, 4000, 4000, 4000),
    "nearly equal": (4000, 4000, 4004, 4004),
    "unequal": (4000, 6400, 5000, 6410),
    "fast users": (3000, 6400, 2500, 3200),
    "slow users": (10000, 6400, 9000, 6400),
}
BAD = LinkConditions(
    limit=4000, latency=60, jitter=5, bit_errors=1e-5, loss=0.02, repeat=0.02, drop33=True, source_stall=0.3,
    sink_stall=0.3, pauses=True, resets=(100_000, 900_000),
)  # fmt: skip


@pytest.fixture(scope="module")
def built():
    """Runs a design, built when first asked for."""
    executables = {}

    def run(conditions, name="three and two channels", fast=False):
        design = DESIGNS[name]
        if (name, fast) not in executables:
            executables[name, fast] = build_link_bench(design, fast)
        return run_link(executables[name, fast], design, conditions)

    return run


def check(outcome, conditions, design):
    """All words came and all is counted; the outcome."""
    assert outcome.complete
    assert outcome.wrong == 0
    assert set(outcome.received) == {conditions.limit}
    for end, peer, depths in ((outcome.a, outcome.b, design.up), (outcome.b, outcome.a, design.down)):
        assert end.state == "up"
        assert not end.overflow
        assert end.counters["high"] <= max(depths)
        assert peer.counters["frames_sent"] == end.counters["frames_received"]
        assert end.cable["most"] <= 1 << design.depth_bits
    if not conditions.early:
        assert outcome.miscounts() == []
    return outcome


@pytest.mark.parametrize("clocks", CLOCKS)
def test_bad_cable(built, clocks):
    conditions = replace(BAD, periods=CLOCKS[clocks])
    outcome = check(built(conditions), conditions, LinkDesign())
    faults = outcome.a.cable
    assert min(faults["damaged"], faults["lost"], faults["repeated"]) > 3
    assert outcome.b.counters["discarded"] > 0


def test_wide_words(built):
    check(built(BAD, "wide"), BAD, WIDE)


@pytest.mark.parametrize("resets", [(100_000, 3_000_000), (3_000_000, 100_000), (100_000, 108_000)])
def test_faults_from_the_start_and_any_order_of_resets(built, resets):
    conditions = replace(BAD, early=True, loss=0.3, limit=500, resets=resets)
    check(built(conditions), conditions, LinkDesign())


def test_the_rest_of_a_frame_is_no_crc_error(built):
    """An end that leaves reset in the middle of one."""
    base = LinkConditions(limit=200, periods=(4000, 6400, 4000, 3200), resets=(344_077, 1_638_187))
    for shift in range(0, 64_000, 4567):
        conditions = replace(base, resets=(base.resets[0], base.resets[1] + shift))
        check(built(conditions), conditions, LinkDesign())


@pytest.mark.parametrize("number", [1, 3, 17, 129])
@pytest.mark.parametrize("spread", [1, 90])
def test_injected_faults_are_counted_exactly(built, number, spread):
    """One kind after the other, in both directions, frame after frame or apart."""
    for kind in range(3):
        inject = tuple(number if k == kind else 0 for k in range(3))
        conditions = LinkConditions(limit=6000, latency=20, inject=inject, spread=spread, source_stall=0.5)
        outcome = check(built(conditions), conditions, LinkDesign())
        for end in (outcome.a, outcome.b):
            assert tuple(end.cable[name] for name in ("damaged", "lost", "repeated")) == inject


def test_cable_that_is_down_for_a_while(built):
    """Shorter than `silence`, and longer."""
    for cycles in (3000, 70000):
        conditions = replace(BAD, down_at=1500, down_for=cycles, patience=300_000, early=True)
        outcome = check(built(conditions), conditions, LinkDesign())
        assert outcome.cycles > cycles


def test_swapped_cable_is_refused(built):
    outcome = built(LinkConditions(identities=(1, 2, 3, 1), patience=5000))
    assert not outcome.complete
    assert set(outcome.received) == {0}
    assert outcome.a.state == "refused"
    assert outcome.b.state in LINK_STATES
    assert outcome.a.counters["frames_sent"] == 0


def test_a_wrong_count_is_told(built):
    outcome = built(replace(BAD, limit=1000))
    cable = {**outcome.a.cable, "lost": outcome.a.cable["lost"] + 1}
    lost = cable["lost"]
    tampered = replace(outcome, a=replace(outcome.a, cable=cable))
    assert tampered.miscounts() == [f"b: frames_lost = {lost - 1}, cable: lost = {lost}"]


TABLE = list(
    itertools.product(
        [0, 1e-9, 1e-7, 1e-6, 1e-5],
        [(0, 0), (0.001, 0), (0.02, 0.02), (0.1, 0.05)],
        [(0, 0), (30, 3), (100, 0), (300, 20)],
    )
)


@pytest.mark.soak
def test_a_million_frames(built):
    """Bit errors × losses × latencies; clocks, resets, stalls and designs alternate."""
    frames = 0
    for k, (bit_errors, (loss, repeat), (latency, jitter)) in enumerate(TABLE):
        name = list(DESIGNS)[k % 5 == 0]
        conditions = LinkConditions(
            limit=20_000, bit_errors=bit_errors, loss=loss, repeat=repeat, latency=latency, jitter=jitter, seed=k + 1,
            periods=CLOCKS[list(CLOCKS)[k % len(CLOCKS)]], drop33=k % 2 == 0, pauses=k % 3 == 0,
            rate=(1, 0.8)[k % 7 == 0], source_stall=(0, 0.3, 0.9, 0.95)[k % 4], sink_stall=(0, 0.4, 0.7)[k % 3],
            resets=(100_000 + 77_777 * (k % 13), 100_000 + 55_555 * (k % 11)),
        )  # fmt: skip
        frames += check(built(conditions, name, fast=True), conditions, DESIGNS[name]).frames
    assert frames >= 1_000_000


@pytest.mark.soak
@pytest.mark.parametrize("power", range(1, 13))
def test_powers_of_two_and_one_faults(built, power):
    number = 2**power + 1
    # The tick tells up to 255 frames lost in a row, so many faults come no faster than heartbeats.
    for spread in (1, 50) if number < 250 else (400,):
        for kind in range(3):
            inject = tuple(number if k == kind else 0 for k in range(3))
            conditions = LinkConditions(
                limit=20_000, latency=20, inject=inject, spread=spread, source_stall=0.9
            )
            outcome = check(built(conditions), conditions, LinkDesign())
            for end in (outcome.a, outcome.b):
                assert tuple(end.cable[name] for name in ("damaged", "lost", "repeated")) == inject
