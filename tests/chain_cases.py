"""Chains for tests: random cuts of random networks over boards, and what a simulation needs of them."""

import random
from itertools import pairwise

from device_cases import Device, device_of
from ref_networks import random_network

from hwgen.plan.cuts import Cut, axis_channels, legal_axes, within_groups
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster, Link

__all__ = ["chain_device", "chain_plan", "random_chain", "random_cuts"]

DRAWS = 20
"""Times that cuts of layers with groups are drawn until they suit the groups."""
SMALL_LINK = Link(lanes=1, gbps=10.3125, latency=20)


def random_cuts(network, boards, rng):
    """One cut a stage: random axes, shares and places, no board empty; None if the stages have too few channels."""
    axes = [rng.choice(legal_axes(stage) or [None]) for stage in network.stages]
    for _ in range(DRAWS):
        cuts = _draw_cuts(network, boards, rng, axes)
        if cuts is None or all(_within_groups(*pair) for pair in zip(network.stages, cuts, strict=True)):
            return cuts
    return None


def _within_groups(stage, cut):
    """Whether no part has pieces of two groups."""
    outputs = cut.axis == "output_channels"
    return not outputs or all(within_groups(stage, *bounds) for bounds in pairwise(cut.bounds))


def _draw_cuts(network, boards, rng, axes):
    most = [axis_channels(s, a) if a else 1 for s, a in zip(network.stages, axes, strict=True)]
    starts = [sum(most[:i]) for i in range(len(most))]  # as if every channel stood on a line
    inner = list(range(1, sum(most)))
    if len(inner) < boards - 1:
        return None
    ends = sorted(rng.sample(inner, boards - 1))
    cuts = []
    for start, count, axis in zip(starts, most, axes, strict=True):
        board = sum(end <= start for end in ends)
        bounds = [end - start for end in ends if start < end < start + count]
        cuts.append(Cut(board, axis, (0, *bounds, count)) if bounds else Cut(board))
    return tuple(cuts)


def chain_plan(network, boards, choose, link=SMALL_LINK, image_lanes=1):
    """The plan of ``boards`` VC709 with cuts by ``choose``(network, boards)."""
    cluster = Cluster.chain("vc709", boards, link=link)
    return plan_network(
        network, image_lanes, cluster, lambda net, foldings, capacities: choose(net, len(capacities))
    )


def random_chain(seed, boards=None, link=SMALL_LINK):
    """The plan of a random network under random cuts; None where it has too few channels."""
    rng = random.Random(seed)
    network = random_network(seed)
    boards = boards or rng.choice([2, 2, 3, 4])
    cuts = random_cuts(network, boards, rng)
    if cuts is None:
        return None
    return chain_plan(network, boards, lambda *_: cuts, link, rng.randint(1, network.in_shape[2]))


def chain_device(plan, files, seed=0, batches=5, extreme=False):
    """A chain with random parameters and samples; ``files`` makes its Verilog from the plan."""
    device = device_of(plan, seed, batches, extreme, files)
    assert isinstance(device, Device)
    return device
