"""Verilog of a chain is clean under lint: its boards, its link ends, the cables and the top that joins them."""

import pytest
from chain_cases import chain_plan
from hwgen.sim.chain_top import CHAIN, CHANNEL, chain_files, channel_text
from hwgen.sim.lint import lint, read_waivers
from hwgen.sim.ports import STREAMS, read_ports
from ref_networks import random_network

from hwgen.backend.verilog import board_top, emit, link_module
from hwgen.plan.cuts import Cut


@pytest.fixture(scope="module")
def chain():
    """A layer over three boards: the one in the middle has two ends."""
    plan = chain_plan(random_network(6), 3, lambda *_: (Cut(0, "output_channels", (0, 1, 3, 5)),))
    return plan, emit(plan)


def whole(chain, shared_clock):
    plan, files = chain
    boards = [read_ports(files, board_top(k), STREAMS if k == 0 else ()) for k in plan.present]
    return {**files, **chain_files(boards, shared_clock)}


def test_a_chain_is_clean(chain):
    assert lint(whole(chain, False), CHAIN) == []


def test_a_chain_on_one_clock_shows_the_reset_of_its_crossings_and_nothing_else(chain):
    others = [waiver for waiver in read_waivers() if waiver.rule != "SYNCASYNCNET"]
    warnings = lint(whole(chain, True), CHAIN, others)
    assert {warning.split(":")[0] for warning in warnings} == {"SYNCASYNCNET"}


def test_every_board_and_link_end_is_clean_alone(chain):
    plan, files = chain
    ends = {link_module(link, side) for link in plan.links for side in ("up", "down")}
    assert len(ends) > 1
    for top in (*map(board_top, plan.present), *sorted(ends)):
        assert lint(files, top) == []


@pytest.mark.parametrize(("width", "depth_bits"), [(64, 3), (128, 10), (256, 12)])
def test_a_cable_is_clean(width, depth_bits):
    text = channel_text().replace("WIDTH = 64", f"WIDTH = {width}")
    text = text.replace("DEPTH_BITS = 10", f"DEPTH_BITS = {depth_bits}")
    assert lint({CHANNEL: text}, "hwgen_channel") == []
