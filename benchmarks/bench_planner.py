"""The search on AlexNet's and VGG's convolutions over VC709 boards: pace, bound, share of useful multipliers."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hwgen.frontend.loader import load_source
from hwgen.ir.stage import Network
from hwgen.passes.convolutions import convolutions as convolutions_of
from hwgen.plan.search.fewest import fewest_at_all
from hwgen.plan.search.search import Found, Search, usual_storages
from hwgen.target import Board, Cluster, Fill, Link

from .command import EXAMPLES
from .plot_planner import draw

__all__ = ["run"]

NETWORKS = ("alexnet", "vgg16", "vgg19")
BOARDS = (15, 30, 60, 83, 100, 128)
STORAGES = {
    "copy, masters here": (True, "here"),
    "masters here": (False, "here"),
    "masters in memory": (False, "memory"),
}
LINKS = {
    "125 Gb/s": Link(lanes=16, gbps=8.056640625, latency=150),
    "6 x 10 Gb/s": Link(lanes=6, gbps=10.3125, latency=150),
}
"""The first carries 125 Gb/s of words each way; both take more transceivers than the VC709 brings out."""
ANCHORS = {
    ("vgg16", "copy, masters here"): {60: 269_932, 83: 174_093, 100: 141_127, 128: 106_665},
    ("vgg16", "masters here"): {60: 254_104, 83: 169_663, 100: 135_000, 128: 105_947},
    ("vgg16", "masters in memory"): {60: 242_360, 83: 163_389, 100: 134_081, 128: 104_511},
    ("alexnet", "copy, masters here"): {60: 9_126, 83: 6_591, 100: 5_577, 128: 5_070},
}
"""Cycles a sample that a greedy search with fractional shares and memories packed to 85 % found."""


MIXES = ("vc709*60,kc705*60", "vcu118*12,vc709*40", "alveo_u280*8,vcu118*8,vc709*30")


def board(name: str = "vc709") -> Board:
    """A board of which everything but 30 % of the look-up tables may be used, with transceivers enough."""
    found = Cluster.parse(name).boards[0]
    gbps = max(13.1, found.transceiver_gbps)
    return replace(found, fill=Fill(1.0, 1.0, 1.0, 0.7, 1.0), transceivers=40, transceiver_gbps=gbps)


def convolutions(name: str) -> Network:
    """A network without its classifier: what stands behind the last pool is taken as free."""
    return convolutions_of(load_source(EXAMPLES / f"{name}.py").network)


def chain(count: int, link: Link) -> Cluster:
    """So many equal boards."""
    return Cluster.chain(board(), count, link)


def planned(
    network: Network, count: int, link: Link, copy: bool, master: str
) -> tuple[Search, Found | None, float]:
    """The plan of so many boards, and the seconds it took."""
    begin = time.perf_counter()
    search = Search(network, chain(count, link), usual_storages(network, copy, master), paced_by_loss=False)
    found = search.run()
    return search, found, time.perf_counter() - begin


def row(network: Network, count: int, link: str, stored: str) -> dict[str, Any]:
    """One line of the table."""
    search, found, seconds = planned(network, count, LINKS[link], *STORAGES[stored])
    key = {"network": network.name, "boards": count, "link": link, "storage": stored}
    if found is None:
        return key | {"cycles_per_sample": None, "seconds": round(seconds, 1)}
    multiplications = sum(sum(stage.macs) for stage in network.stages)
    dsp = sum(room.dsp for room in search.line.rooms)
    anchor = ANCHORS.get((network.name, stored), {}).get(count) if link == "125 Gb/s" else None
    return key | {
        "cycles_per_sample": found.pace,
        "useful_percent": round(100 * multiplications / (dsp * found.pace), 2),
        "boards_used": len(found.steps),
        "bound_cycles": found.bound.pace,
        "bound_held_by": found.bound.held_by,
        "gap_percent": round(100 * (found.pace / found.bound.pace - 1), 2),
        "greedy_cycles": anchor,
        "to_greedy": round(found.pace / anchor, 4) if anchor else None,
        "seconds": round(seconds, 1),
    }


def mixed(network: Network, mix: str) -> dict[str, Any]:
    """A chain of different boards against the sum of their multipliers."""
    boards = [board(each.name) for each in Cluster.parse(mix).boards]
    cluster = Cluster.chain(boards, link=LINKS["125 Gb/s"])
    begin = time.perf_counter()
    search = Search(network, cluster, usual_storages(network, False, "memory"), paced_by_loss=False)
    found = search.run()
    row = {"network": network.name, "boards": mix, "multiplier_bound_cycles": search.floor}
    if found is None:
        return row | {"cycles_per_sample": None}
    return row | {
        "cycles_per_sample": found.pace,
        "boards_used": len(found.steps),
        "bound_cycles": found.bound.pace,
        "reached_percent": round(100 * search.floor / found.pace, 2),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def cases() -> Iterator[tuple[str, int, str, str]]:
    """All lines of the table."""
    for name in NETWORKS:
        for stored in STORAGES:
            for count in BOARDS:
                yield name, count, "125 Gb/s", stored
        for count in BOARDS:
            yield name, count, "6 x 10 Gb/s", "masters in memory"


def run() -> dict[str, Any]:
    """Every case, and the fewest boards that hold each network at all."""
    networks = {name: convolutions(name) for name in NETWORKS}
    rows = [row(networks[name], count, link, stored) for name, count, link, stored in cases()]
    mixes = [mixed(networks["vgg16"], mix) for mix in MIXES]
    slowest = 1 << 30
    fewest = [
        {
            "network": name,
            "storage": stored,
            "fewest_boards": fewest_at_all(
                network, board(), LINKS["125 Gb/s"], slowest, usual_storages(network, copy, master)
            ),
        }
        for name, network in networks.items()
        for stored, (copy, master) in STORAGES.items()
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    draw({"rows": rows})
    return {"rows": rows, "mixed": mixes, "fewest": fewest, "peak_megabytes": round(peak)}
