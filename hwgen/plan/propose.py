"""From a network and boards to the plan that is proposed: the best way to store it, the fewest boards for a rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import ModelError, TargetError
from ..ir.stage import Network
from ..target import MAX_BOARDS, Board, Cluster, Link
from .errors import BudgetError
from .file import PlanFile, network_digest, plan_from_file
from .layout import Storage
from .refusal import pin_problems, refusal
from .search.fewest import fewest_boards
from .search.place import layout_of
from .search.search import MOST_PACE, Found, Search, usual_storages
from .summary import scheduled, summarise

__all__ = ["MASTERS", "Proposal", "propose", "propose_for_rate"]

MASTERS = ("here", "memory", "auto")
"""Where master weights may be: beside the weights, in external memory, or what makes the faster plan."""
RESERVES = (0.0, 0.03, 0.08)
"""Shares of memory that the search leaves free, one after the other: it does not count the smallest buffers."""
ROUNDED = 1e-8
"""A rate that a report shows, in decimals, is still reached."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Proposal:
    """A plan, and for a chain as short as a rate allows the rate of one board fewer (0: there is no such plan)."""

    plan: PlanFile
    smaller: float | None = None


def propose(
    network: Network, cluster: Cluster, masters: str = "here", progress: Progress = lambda step: None
) -> Proposal:
    """The fastest plan on all boards of a cluster, confirmed by the full plan's budgets and schedule.

    Raises ModelError saying why there is none, or that fewer boards do; BudgetError if the full plan breaks a budget.
    """
    failed: dict[int, int] = {}
    for reserve in RESERVES:
        search, found = _fastest(network, cluster, masters, progress, reserve, failed)
        used, count = len(found.steps), len(cluster.boards)
        if used < count:
            fewer = Cluster(cluster.boards[:used], cluster.links[: used - 1])
            raise ModelError(
                f"cluster: {count} boards, but the fastest plan found fills {used} ({found.pace:,} cycles a sample), "
                f"and no board may be empty; take {fewer}"
            )
        try:
            return Proposal(_full(search, found, progress))
        except BudgetError:
            if reserve == RESERVES[-1]:
                raise
    raise AssertionError("no reserve")


def propose_for_rate(
    network: Network,
    cluster: Cluster,
    rate: float,
    masters: str = "here",
    progress: Progress = lambda step: None,
) -> Proposal:
    """The plan with the fewest boards of the cluster's one kind that reaches ``rate`` images a second.

    Raises ModelError with the most that any chain reaches if that is less, BudgetError if the full plan breaks a
    budget.
    """
    board, link = _one_kind(cluster)
    clock = board.device.clock_mhz
    pace = int(clock * 1e6 / rate * (1 + ROUNDED))
    progress(f"the fewest boards for {rate:,.10g} images a second")
    for reserve in RESERVES:
        counts = [
            (count, number)
            for number, storages in enumerate(_candidates(network, cluster, masters))
            if (count := fewest_boards(network, board, link, pace, storages, reserve)) is not None
        ]
        if not counts:
            raise ModelError(_unreachable(network, board, link, rate, masters, progress))
        count, number = min(counts)
        storages = _candidates(network, cluster, masters)[number]
        search, found = _at_most(network, _chain(board, count, link), storages, pace, reserve)
        try:
            proposal = Proposal(_full(search, found, progress), 0.0)
            break
        except BudgetError:
            if reserve == RESERVES[-1]:
                raise
    count = len(found.steps)
    if count > 1:
        try:
            _, less = _fastest(network, _chain(board, count - 1, link), masters, progress)
        except ModelError:
            return proposal
        return replace(proposal, smaller=round(clock * 1e6 / less.pace, 4))
    return replace(proposal, smaller=None)


def _at_most(
    network: Network, cluster: Cluster, storages: Sequence[Storage], pace: int, reserve: float
) -> tuple[Search, Found]:
    """The fastest plan on a chain that is known to keep ``pace``; on fewer boards where those are as fast."""
    search = Search(network, cluster, storages, reserve=reserve)
    found = search.run()
    if found is None or found.pace > pace:  # paces that are tried may jump over it
        steady = search.steady(pace)
        assert steady is not None
        found = replace(steady, bound=found.bound) if found is not None else steady
    if len(found.steps) < len(cluster.boards):
        used = len(found.steps)
        fewer = Cluster(cluster.boards[:used], cluster.links[: used - 1])
        search = Search(network, fewer, storages, reserve=reserve)
    return search, found


def _fastest(
    network: Network,
    cluster: Cluster,
    masters: str,
    progress: Progress,
    reserve: float = 0.0,
    failed: dict[int, int] | None = None,
) -> tuple[Search, Found]:
    """The best of all ways to store it, the earliest of equals. Raises ModelError if there is none.

    ``failed``: by way, paces up to which none was found with a smaller reserve; brought up to date.
    """
    failed = failed if failed is not None else {}
    if problems := pin_problems(network, cluster):
        raise ModelError(problems)
    best: tuple[Search, Found] | None = None
    ways = _candidates(network, cluster, masters)
    # The last one keeps the least on the chip and is mostly the fastest: others need not be tried at slower paces.
    for number, storages in reversed([*enumerate(ways)]):
        progress(f"searching, {cluster}, storage {len(ways) - number} of {len(ways)}")
        search = Search(network, cluster, storages, reserve=reserve)
        found = search.run(best[1].pace if best is not None else MOST_PACE, failed.get(number, 0))
        failed[number] = search.failed
        if found is not None and (best is None or found.pace <= best[1].pace):
            best = search, found
    if best is None:
        progress("looking for the reason")
        raise ModelError(refusal(network, cluster, ways[-1]))
    return best


def _candidates(network: Network, cluster: Cluster, masters: str) -> list[list[Storage]]:
    """Ways to store all stages: masters as asked for; with a forward copy of weights, and where b allows without."""
    places = ["here", "memory"] if masters == "auto" else [masters]
    bare = [f"{i} ({board.name})" for i, board in enumerate(cluster.boards) if not board.memory_bytes]
    if bare and masters == "memory":
        raise TargetError(
            f"--masters memory: board {bare[0]} has no external memory; give --masters here or auto"
        )
    if bare:
        places = ["here"]
    ways = [usual_storages(network, copy, place) for place in places for copy in (True, False)]
    return [way for k, way in enumerate(ways) if way not in ways[:k]]


def _full(search: Search, found: Found, progress: Progress) -> PlanFile:
    """The plan file of what was found, with the prediction of the full plan in its report."""
    line = search.line
    progress("confirming depths, budgets and schedule")
    report = summarise(search, found)
    layout = layout_of(line.layers, found)
    digest = network_digest(line.network)
    file = PlanFile(
        line.network.name, digest, line.cluster, report.image_lanes, report.cycles_per_sample, layout, report
    )
    plan = plan_from_file(file, line.network)
    return replace(file, report=scheduled(report, plan.prediction))


def _one_kind(cluster: Cluster) -> tuple[Board, Link | None]:
    kinds, links = {*cluster.boards}, {*cluster.links}
    if len(kinds) > 1 or len(links) > 1:
        raise TargetError(
            f"--target-ips: {cluster} has boards or links of several kinds; give one board, such as "
            f"{cluster.boards[0].name}"
        )
    board = cluster.boards[0]
    return board, cluster.links[0] if cluster.links else board.link


def _chain(board: Board, count: int, link: Link | None) -> Cluster:
    return Cluster.chain(board, count, link)


def _unreachable(
    network: Network, board: Board, link: Link | None, rate: float, masters: str, progress: Progress
) -> str:
    """What the longest chain does."""
    search, found = _fastest(network, _chain(board, MAX_BOARDS, link), masters, progress)
    most = board.device.clock_mhz * 1e6 / found.pace
    used = len(found.steps)
    if used < MAX_BOARDS:
        search = Search(network, _chain(board, used, link), found.storages)
    held = summarise(search, found).bottleneck
    return (
        f"--target-ips {rate:,.10g}: no chain of {board.name} makes so many images a second; the most is {most:,.1f}, "
        f"with {used} boards, held by {held}; ask for less, or give faster boards"
    )
