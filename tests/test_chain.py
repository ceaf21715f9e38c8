"""Chains of boards with their real links: the same bits as one board, whatever cuts, cables, clocks and resets."""

import dataclasses
import re
from pathlib import Path

import pytest
from chain_cases import chain_device, chain_plan, random_chain
from device_cases import doubled, with_depths
from hwgen.sim.cables import CableOptions, rare_frames
from hwgen.sim.run import SimOptions, simulate
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ref_networks import random_network

from hwgen.backend import requests, verilog
from hwgen.errors import BuildError, WatchdogError
from hwgen.frontend.loader import load_source
from hwgen.plan.buffers import least_depths
from hwgen.plan.cuts import Cut
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster

EXAMPLES = Path(__file__).parent.parent / "examples"

ROUGH = CableOptions(
    latency=(0, 60), jitter=5, ber=1e-5, loss=0.02, repeat=0.02, reset_skew=500, stutter=True
)
OWN = dataclasses.replace(ROUGH, clocks=True)
MOST_CYCLES = 800
"""Of a batch, for a run under Icarus to take seconds and not minutes."""
DRAWN = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


def run(device, cables=CableOptions(), **options):  # noqa: B008  (frozen)
    wanted = {"batches": 3, "simulator": "icarus", "watchdog": 20_000} | options
    return simulate(device, SimOptions(cables=cables, **wanted))


def faults(result):
    """Sums of all link ends."""
    names = result["links"][0]["counters"]
    return {name: sum(end["counters"][name] for end in result["links"]) for name in names}


def check_random(seed, simulator="icarus"):
    # Under Icarus two boards, and gradients read back for one network in three: tests of cuts compare them all.
    plan = random_chain(seed, boards=2 if simulator == "icarus" else None)
    assume(plan is not None and (simulator != "icarus" or plan.prediction.cycles_per_batch < MOST_CYCLES))
    cables = OWN if seed % 2 else ROUGH
    options = {"seed": seed, "stall": 0.1 * (seed % 3), "gradients": seed % 3 == 0, "simulator": simulator}
    result = run(chain_device(plan, verilog.emit, seed), cables, **options)
    assert result["mismatched"] == 0
    assert result["compared"] > 0
    assert [end["state"] for end in result["links"]] == ["up"] * (2 * len(plan.links))
    found = faults(result)
    assert found["frames_received"] > 0
    assert found["frames_lost"] + found["crc_errors"] + found["frames_repeated"] > 0


@pytest.mark.parametrize("part", range(3))
def test_random_cuts_over_rough_cables(part):
    @DRAWN
    @given(seed=st.integers(part * 1000, part * 1000 + 999))
    def check(seed):
        check_random(seed)

    check()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(16))
def test_many_random_cuts_over_rough_cables(part):
    @DRAWN
    @given(seed=st.integers(part * 10_000 + 5000, part * 10_000 + 9999))
    def check(seed):
        check_random(seed, "verilator" if part % 4 == 0 else "icarus")

    check()


def small_chain(boards=2, seed=5, choose=None):
    """A small network of three stages or two, cut over boards."""
    network = random_network(seed)
    count = len(network.stages)
    cuts = choose or (lambda *_: tuple(Cut(min(i, boards - 1)) for i in range(count)))
    return chain_plan(network, boards, cuts)


def test_a_dead_cable_is_named_in_time():
    plan = small_chain()
    device = chain_device(plan, verilog.emit)
    with pytest.raises(WatchdogError) as caught:
        run(device, CableOptions(loss=0.999999), watchdog=3000)
    assert re.fullmatch(
        r"watchdog: nothing moved for 3000 cycles .* while waiting for register \d+.*; "
        r"link 0 at board 0 is waiting; link 0 at board 1 is waiting",
        str(caught.value),
    )


def test_cables_that_full_frames_hardly_survive():
    plan = small_chain()
    (link,) = plan.links
    bits = link.width * (link.frame_words + 2)
    assert rare_frames(plan, CableOptions(ber=1 / bits, loss=0.5)) == []
    with pytest.raises(WatchdogError) as caught:
        run(chain_device(plan, verilog.emit), CableOptions(ber=3e-3), watchdog=3000)
    assert re.search(
        rf"; a full frame of link 0 \({link.frame_words + 2} words of {link.width} bits\) comes through whole "
        r"with a chance of \de-\d+; lower --ber or --frame-loss, or raise --watchdog$",
        str(caught.value),
    )


def test_resets_further_apart_than_the_watchdog_waits():
    result = run(chain_device(small_chain(), verilog.emit), CableOptions(reset_skew=20_000), watchdog=3000)
    assert result["mismatched"] == 0


def test_a_board_of_another_build_is_refused(monkeypatch):
    plan = small_chain()
    device = chain_device(plan, verilog.emit)
    number = verilog.build_number(plan)
    monkeypatch.setattr(requests, "build_number", lambda _: number ^ 1)
    name = f"verilog/{verilog.board_top(1)}.v"
    other = dataclasses.replace(device, files={**device.files, name: verilog.emit(plan)[name]})
    with pytest.raises(BuildError) as caught:
        run(other, watchdog=3000)
    assert re.fullmatch(
        r"link 0: board 0 refuses what is at the other end of its cable: not board 1 of this build; "
        r"check the cables, and build all boards together",
        str(caught.value),
    )


def test_swapped_boards_are_refused_before_any_computing():
    network = random_network(6)  # one layer of five channels
    plan = chain_plan(network, 4, lambda *_: (Cut(0, "output_channels", (0, 1, 2, 3, 5)),))
    device = chain_device(plan, verilog.emit)
    one, two = (verilog.board_top(k) for k in (1, 2))
    swapped = {
        name: re.sub(rf"\b({one}|{two})\b", lambda m: two if m[0] == one else one, text)
        for name, text in device.files.items()
    }
    with pytest.raises(BuildError, match=r"link 0: board 0 refuses .* not board 1 of this build"):
        run(dataclasses.replace(device, files=swapped), watchdog=3000)


def test_a_store_one_row_short_hangs_and_the_board_is_named():
    network = random_network(3)
    plan = chain_plan(network, 2, lambda *_: (Cut(0), Cut(0), Cut(1)))
    plan = with_depths(plan, least_depths)
    assert run(chain_device(plan, verilog.emit))["mismatched"] == 0
    conv, *others = plan.stages
    assert conv.depths.store_rows > 1
    short = dataclasses.replace(conv.depths, store_rows=conv.depths.store_rows - 1)
    plan = dataclasses.replace(plan, stages=(dataclasses.replace(conv, depths=short), *others))
    with pytest.raises(WatchdogError, match=r"stuck channel: board0:s0\.x \(valid, not ready"):
        run(chain_device(plan, verilog.emit), watchdog=3000)


def deeper(plan):
    """Every buffer of stages and links twice as deep."""
    links = tuple(
        dataclasses.replace(
            link,
            down=tuple(dataclasses.replace(c, depth=2 * c.depth) for c in link.down),
            up=tuple(dataclasses.replace(c, depth=2 * c.depth) for c in link.up),
        )
        for link in plan.links
    )
    return dataclasses.replace(with_depths(plan, doubled), links=links)


@pytest.mark.soak
def test_planned_depths_are_enough_for_full_rate():
    network = load_source(EXAMPLES / "digits.py").network
    plan = plan_network(network, cluster=Cluster.chain("vc709", 3))
    cycles = []
    for own in (plan, deeper(plan)):
        device = chain_device(own, verilog.emit, batches=5)
        result = run(device, simulator="verilator", batches=3, gradients=False, watchdog=100_000)
        for stage in result["stages"]:
            for name, depth in stage["depths"].items():
                assert stage["counters"][f"{name}_high"] <= depth
        for end in result["links"]:
            link = own.links[end["link"]]
            received = link.up if end["board"] == end["link"] else link.down
            assert end["counters"]["high"] <= max(channel.depth for channel in received)
        cycles.append((result["cycles_per_sample"], result["cycles_per_batch"]))
    assert cycles[0] == cycles[1]
