"""What a plan says of a chain against what its simulation counts: cycles, bytes of every channel, marks of buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hwgen.sim.run import SimOptions, simulate

from hwgen.backend.verilog import emit
from hwgen.data import Dataset, random_dataset
from hwgen.frontend.loader import load_source
from hwgen.ir.initial import Parameters, initial_parameters
from hwgen.ir.stage import Network
from hwgen.plan.buffers import fills
from hwgen.plan.file import plan_from_file
from hwgen.plan.plan import Plan
from hwgen.plan.planner import bottleneck, paced, plan_network
from hwgen.plan.propose import propose
from hwgen.target import Cluster

from .command import EXAMPLES
from .truth_networks import random_chain

__all__ = ["Chain", "compared", "digits_chain", "drawn_chain", "kinds", "run"]

SEEDS = (17, 19, 21)
"""Their plans have cuts along every axis, groups, a pool and strides between them; see kinds()."""
WANTED = {"output_channels", "input_channels", "rows", "groups", "pool", "stride", "grouped"}
BATCHES = 1
"""Simulated of each before the two that are timed."""


Emitter = Callable[[Plan], Mapping[str, str]]


class Chain:
    """What a simulation needs of a build."""

    def __init__(self, plan: Plan, parameters: Parameters, dataset: Dataset, files: Emitter):
        self.plan, self.parameters, self.dataset, self.files = plan, parameters, dataset, files(plan)


def digits_chain(files: Emitter = emit) -> Chain:
    """The digits network over three boards."""
    source = load_source(EXAMPLES / "digits.py")
    plan = plan_network(source.network, cluster=Cluster.chain("vc709", 3))
    return Chain(plan, source.parameters, source.dataset, files)


def drawn_chain(seed: int, files: Emitter = emit) -> Chain:
    """A random network over the boards drawn for it, as ``hwgen plan`` lays it out."""
    network, cluster = random_chain(seed)
    plan = plan_from_file(propose(network, cluster).plan, network)
    return Chain(plan, initial_parameters(network, seed), _dataset(network), files)


def _dataset(network: Network) -> Dataset:
    return random_dataset(network, (BATCHES + 2) * network.update.batch)


def kinds(plan: Plan) -> set[str]:
    """What of WANTED a plan has."""
    found = {planned.part.cut for planned in plan.stages} & WANTED
    for stage in plan.network.stages:
        found |= {"pool"} if stage.pool is not None else set()
        found |= {"stride"} if stage.window.stride != (1, 1) else set()
        found |= {"grouped"} if stage.groups > 1 else set()
    return found


def compared(chain: Chain, **options: Any) -> dict[str, Any]:
    """Simulates a chain; predicted and simulated figures side by side."""
    plan = chain.plan
    result = simulate(chain, SimOptions(batches=BATCHES, gradients=False, **options))
    found: dict[str, Any] = {
        "network": plan.network.name, "boards": len(plan.boards), "batch": plan.network.update.batch,
        "parts": [f"{planned.stage.name} on {planned.board}: {planned.part.cut}" for planned in plan.stages],
        "bottleneck": plan.prediction.bottleneck, "mismatched": result["mismatched"],
    }  # fmt: skip
    for unit in ("sample", "batch"):
        predicted, measured = result[f"predicted_cycles_per_{unit}"], result[f"cycles_per_{unit}"]
        found[f"cycles_per_{unit}"] = {
            "predicted": predicted, "simulated": measured,
            "error_percent": round(100 * (predicted / measured - 1), 3),
        }  # fmt: skip
    return found | {"links": _links(plan, result), "buffers": _buffers(plan, result)}


def _links(plan: Plan, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Payload bytes of a sample (of what crosses once a batch: of a batch) by channel, and fill of receive buffers."""
    rows = []
    ends = {(end["link"], end["board"]): end for end in result["links"]}
    for link in plan.links:
        for away, channels in ((True, link.down), (False, link.up)):
            sender, receiver = ends[link.index, link.index + (not away)], ends[link.index, link.index + away]
            predicted, simulated = {}, {}
            for channel in channels:
                if channel.kind == "management":
                    continue
                times = result["batches"] if channel.batch else result["samples"]
                predicted[channel.kind] = channel.words(link.width) * link.width // 8
                simulated[channel.kind] = sender["words"][channel.kind] * link.width / 8 / times
            rows.append(
                {
                    "link": link.index, "way": "away from the host" if away else "towards the host",
                    "predicted_bytes": predicted, "simulated_bytes": simulated,
                    "mark": receiver["counters"]["high"], "capacity": max(channel.depth for channel in channels),
                }
            )  # fmt: skip
    return rows


def _buffers(plan: Plan, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Marks of every stage's buffers; ``predicted`` where the schedule tells how full it is at the plan's pace."""
    rows = []
    times = paced(plan, bottleneck(plan)[0]).stages
    for planned, events, stage in zip(plan.stages, times, result["stages"], strict=True):
        expected = fills(planned, events)
        for name, capacity in stage["depths"].items():
            if not capacity:
                continue
            predicted = next((most for key, most in expected.items() if key.startswith(f"{name}_")), None)
            rows.append(
                {
                    "part": planned.stage.name, "board": planned.board, "buffer": name,
                    "mark": stage["counters"][f"{name}_high"], "predicted": predicted, "capacity": capacity,
                }
            )  # fmt: skip
    return rows


def run() -> dict[str, Any]:
    """The digits chain and three random ones."""
    chains = [digits_chain(), *(drawn_chain(seed) for seed in SEEDS)]
    missing = WANTED - set().union(*(kinds(chain.plan) for chain in chains[1:]))
    if missing:
        raise AssertionError(f"no random network has {', '.join(sorted(missing))}; take other seeds")
    return {"batches": BATCHES, "chains": [compared(chain) for chain in chains]}
