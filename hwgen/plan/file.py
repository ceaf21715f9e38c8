"""The plan file: what `hwgen plan` found, complete and checked, so that it can be edited and built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from .. import __version__
from ..errors import BuildError, TargetError
from ..ir.stage import Network
from ..target import Board, Cluster, Link
from .codec import decode, encode
from .layout import Layout
from .legal import require_legal
from .plan import Plan
from .planner import bottleneck, plan_layout
from .report import PlanReport

__all__ = ["FORMAT", "PlanFile", "network_digest", "plan_from_file", "plan_text", "read_plan"]

FORMAT = 3
"""Version of the file's keys; another one is refused."""
AGAIN = "correct the file, or plan again"
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True)
class _Run:
    """``count`` times item number ``item`` of a list."""

    item: int
    count: int


@dataclass(frozen=True)
class _Chain:
    """A cluster: each distinct board and link once, and runs of them from the host on."""

    boards: tuple[Board, ...]
    links: tuple[Link, ...]
    chain: tuple[_Run, ...]
    cables: tuple[_Run, ...]


@dataclass(frozen=True)
class _Named:
    name: str
    digest: str


@dataclass(frozen=True)
class _File:
    format: int
    hwgen: str
    network: _Named
    cluster: _Chain
    image_lanes: int
    pace: int
    layout: Layout
    report: PlanReport


@dataclass(frozen=True)
class PlanFile:
    """A plan as it lies in a file: of which network (its name and digest), for which boards, and what was chosen.

    ``pace`` are the cycles a sample that links have to carry it at; ``report`` is what the search said.
    """

    network: str
    digest: str
    cluster: Cluster
    image_lanes: int
    pace: int
    layout: Layout
    report: PlanReport


def network_digest(network: Network) -> str:
    """A hash of all that a plan depends on: not of the learning rate, nor of the seed."""
    update = network.update
    update = replace(update, lr=replace(update.lr, frac=0), rate=0, learning_rate=0.0, seed=0)
    text = json.dumps(encode(replace(network, update=update), Network, "network"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plan_text(plan: PlanFile) -> str:
    """The file's text; the same plan gives the same bytes."""
    chain = _chain(plan.cluster)
    file = _File(
        FORMAT,
        __version__,
        _Named(plan.network, plan.digest),
        chain,
        plan.image_lanes,
        plan.pace,
        plan.layout,
        plan.report,
    )
    return json.dumps(encode(file, _File, "plan"), indent=1, allow_nan=False) + "\n"


def read_plan(path: Path) -> PlanFile:
    """The plan of a file. Raises BuildError, ``file: place: what; what to do``, if it is none."""
    try:
        data = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BuildError(f"{path}: {reason}; give the file that hwgen plan -o wrote") from None
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: no JSON ({error}); give the file that hwgen plan -o wrote") from None
    if not isinstance(data, dict) or "format" not in data:
        raise BuildError(f"{path}: no plan; give the file that hwgen plan -o wrote")
    if data["format"] != FORMAT:
        raise BuildError(f"{path}: format {data['format']!r}, this hwgen reads {FORMAT}; plan again")
    try:
        file = decode(data, _File, "plan", AGAIN)
        cluster = _cluster(file.cluster)
    except (BuildError, TargetError) as error:
        raise BuildError([f"{path}: {problem}" for problem in error.problems]) from None
    return PlanFile(
        file.network.name, file.network.digest, cluster, file.image_lanes, file.pace, file.layout, file.report
    )


def plan_from_file(file: PlanFile, network: Network) -> Plan:
    """The full plan of ``network`` that a file stands for, with depths, budgets and prediction computed anew.

    Raises BuildError if the file is another network's, ModelError for a layout that cannot be, BudgetError for boards
    and links that cannot hold what it gives them.
    """
    digest = network_digest(network)
    if digest != file.digest:
        raise BuildError(
            f"plan: made of {file.network} ({file.digest[:8]}), this is {network.name} ({digest[:8]}); plan again: "
            "layers, formats, batch or pins differ"
        )
    row = network.in_shape[1] * network.in_shape[2]
    if not 1 <= file.image_lanes <= row:
        raise BuildError(f"plan.image_lanes: {file.image_lanes}; give 1 to {row}, the elements of a row")
    if file.pace < 0:
        raise BuildError(f"plan.pace: {file.pace}; give cycles a sample, 0 for as fast as the engines are")
    require_legal(network, file.layout, len(file.cluster.boards))
    plan = plan_layout(network, file.layout, file.image_lanes, file.cluster, file.pace)
    least, slowest = bottleneck(plan)
    if 0 < file.pace < least:
        raise BuildError(
            f"plan.pace: {file.pace} cycles a sample, {slowest} takes {least:,}; give as many or more, or 0 for as "
            "fast as the engines are"
        )
    return plan


def _chain(cluster: Cluster) -> _Chain:
    boards, links = tuple(dict.fromkeys(cluster.boards)), tuple(dict.fromkeys(cluster.links))
    return _Chain(boards, links, _runs(boards, cluster.boards), _runs(links, cluster.links))


def _runs(distinct: Sequence[Item], items: Sequence[Item]) -> tuple[_Run, ...]:
    return tuple(_Run(distinct.index(item), len(list(run))) for item, run in groupby(items))


def _cluster(chain: _Chain) -> Cluster:
    boards = _unroll(chain.boards, chain.chain, "chain")
    return Cluster(boards, _unroll(chain.links, chain.cables, "cables"))


def _unroll(distinct: Sequence[Item], runs: Sequence[_Run], name: str) -> tuple[Item, ...]:
    found: list[Item] = []
    for i, run in enumerate(runs):
        where = f"plan.cluster.{name}[{i}]"
        if not 0 <= run.item < len(distinct):
            raise BuildError(f"{where}.item: {run.item} of {len(distinct)} listed; {AGAIN}")
        if not 1 <= run.count <= 1024:
            raise BuildError(f"{where}.count: {run.count}; give 1 to 256 boards in all")
        found += [distinct[run.item]] * run.count
    return tuple(found)
