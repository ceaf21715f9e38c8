"""Chains of 1 to 8 boards: the same bits whatever the cut and the cables; cycles predicted and simulated; speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hwgen.sim.cables import CableOptions
from hwgen.sim.run import SimOptions, simulate

from hwgen.backend.verilog import emit
from hwgen.data import Dataset
from hwgen.frontend.loader import Source, load_source
from hwgen.ir.initial import Parameters
from hwgen.ir.stage import Network
from hwgen.plan.cuts import Chooser, Cut, axis_channels, balanced_cuts, legal_axes
from hwgen.plan.fold import Folding
from hwgen.plan.plan import Plan
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster

from .command import EXAMPLES

__all__ = ["run"]

BATCHES = 3
BOARDS = (1, 2, 3, 5, 8)
ROUGH = CableOptions(
    latency=(0, 300), jitter=20, ber=1e-6, loss=0.005, repeat=0.005, stutter=True, reset_skew=5000
)  # fmt: skip
OWN_CLOCKS = 3
"""Boards of the chains that run with a clock a board and link end too; each costs another compilation."""
SPEED_RUNS = 5
"""Runs of one and of three boards in turn, of which the median ratio counts."""


class _Chain:
    """What a simulation needs of a build."""

    def __init__(self, source: Source, plan: Plan):
        self.plan, self.files = plan, emit(plan)
        self.parameters: Parameters = source.parameters
        self.dataset: Dataset = source.dataset


def _all_on_one_axis(axis: str) -> Chooser:
    """Every layer that can be is cut along ``axis``, unevenly, over as many boards as there are parts for."""

    def choose(network: Network, foldings: Sequence[Folding], capacities: Sequence[int]) -> tuple[Cut, ...]:
        boards, cuts, board = len(capacities), [], 0
        for i, stage in enumerate(network.stages):
            left = len(network.stages) - 1 - i
            room = boards - board - left
            channels = axis_channels(stage, axis) if axis in legal_axes(stage) else 1
            parts = max(1, min(room, 3, channels))
            if parts == 1:
                cuts.append(Cut(board))
            else:
                third = max(1, channels // (2 * parts))
                inner = [third * (p + 1) for p in range(parts - 1)]
                cuts.append(Cut(board, axis, (0, *inner, channels)))
            board = min(board + parts, boards - 1)
        return tuple(cuts)

    return choose


def _row(name: str, source: Source, boards: int, cut: str, choose: Chooser) -> dict[str, Any]:
    cluster = Cluster.chain("vc709", boards) if boards > 1 else None
    plan = plan_network(source.network, cluster=cluster, choose=choose)
    chain = _Chain(source, plan)
    calm = simulate(chain, SimOptions(batches=BATCHES))
    runs = [calm]
    if boards > 1:
        runs.append(simulate(chain, SimOptions(batches=BATCHES, cables=ROUGH, stall=0.02, seed=1)))
    if boards == OWN_CLOCKS:
        cables = replace(ROUGH, clocks=True)
        runs.append(simulate(chain, SimOptions(batches=BATCHES, cables=cables, stall=0.02, seed=2)))
    rough = runs[-1]
    faults = {
        kind: sum(end["counters"][kind] for end in rough["links"])
        for kind in ("crc_errors", "frames_lost", "frames_repeated", "frames_replayed")
    }
    found = {
        "network": name, "boards": boards, "cuts": cut,
        "parts": [f"{p.stage.name}:{p.part.cut}" for p in plan.stages],
        "compared": sum(one["compared"] for one in runs),
        "mismatched": sum(one["mismatched"] for one in runs),
        "faults": faults,
    }  # fmt: skip
    for unit in ("sample", "batch"):
        predicted, measured = calm[f"predicted_cycles_per_{unit}"], calm[f"cycles_per_{unit}"]
        found |= {f"predicted_cycles_per_{unit}": predicted, f"cycles_per_{unit}": measured}
        found[f"cycles_per_{unit}_rough"] = rough[f"cycles_per_{unit}"]
    return found


def _speed(source: Source) -> dict[str, Any]:
    """Multiply-accumulates a second of one board and of three, run in turn."""
    found: dict[int, list[float]] = {1: [], 3: []}
    chains = {}
    for boards in found:
        cluster = Cluster.chain("vc709", boards) if boards > 1 else None
        chains[boards] = _Chain(source, plan_network(source.network, cluster=cluster))
    for _ in range(SPEED_RUNS):
        for boards, chain in chains.items():
            result = simulate(chain, SimOptions(epochs=2, gradients=False))
            found[boards].append(result["macs_per_second"])
    ratios = sorted(three / one for one, three in zip(found[1], found[3], strict=True))
    return {"one_board": found[1], "three_boards": found[3], "median_ratio": ratios[len(ratios) // 2]}


def run() -> dict[str, Any]:
    """Partition invariance over all networks, boards and cuts, calm and rough; and the speed of simulation."""
    rows = []
    for name in ("digits", "digits_deep", "digits_mlp"):
        source = load_source(EXAMPLES / f"{name}.py")
        for boards in BOARDS:
            rows.append(_row(name, source, boards, "balanced", balanced_cuts))
        for axis in ("output_channels", "input_channels"):
            rows.append(_row(name, source, 5, axis, _all_on_one_axis(axis)))
    return {"batches": BATCHES, "rows": rows, "speed": _speed(load_source(EXAMPLES / "digits.py"))}
