"""Boards whose links have several lanes: the same bits as over one."""

import pytest
from chain_cases import chain_device, chain_plan
from hwgen.sim.cables import CableOptions
from hwgen.sim.run import SimOptions, simulate
from ref_networks import random_network

from hwgen.backend.verilog import emit
from hwgen.plan.cuts import Cut
from hwgen.target import Link

CABLES = CableOptions(latency=(0, 40), jitter=3, ber=1e-5, loss=0.02, repeat=0.02, stutter=True)


@pytest.mark.parametrize("lanes", [2, 4])
def test_wide_links(lanes):
    link = Link(lanes=lanes, gbps=10.3125, latency=20)
    plan = chain_plan(random_network(6), 2, lambda *_: (Cut(0, "output_channels", (0, 2, 5)),), link)
    assert plan.links[0].width == 64 * lanes
    options = SimOptions(batches=1, simulator="icarus", watchdog=20_000, cables=CABLES)
    result = simulate(chain_device(plan, emit), options)
    assert result["mismatched"] == 0
    assert result["compared"] > 0
    assert [end["state"] for end in result["links"]] == ["up", "up"]
    assert sum(end["counters"]["frames_replayed"] for end in result["links"]) > 0
