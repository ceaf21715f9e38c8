"""The fewest boards of one kind that hold a network, or keep a pace."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.stage import Network
from ...target import MAX_BOARDS, Board, Cluster, Link
from ..layout import Storage
from .search import Search

__all__ = ["fewest_at_all", "fewest_boards"]


def fewest_at_all(
    network: Network, board: Board, link: Link | None, slow: int, storages: Sequence[Storage]
) -> int | None:
    """The fewest boards in a chain that hold ``network`` at any pace of :meth:`Search.slowly`; None if no chain does.

    ``slow``: a pace at which memory alone should count, to begin with.
    """
    count = fewest_boards(network, board, link, slow, storages)
    while count is not None and count > 1:
        found = Search(network, Cluster.chain(board, count - 1, link), storages).slowly()
        if found is None:
            break
        count = len(found.steps)
    return count


def fewest_boards(
    network: Network,
    board: Board,
    link: Link | None,
    pace: int,
    storages: Sequence[Storage],
    reserve: float = 0.0,
) -> int | None:
    """The fewest boards in a chain that keep ``pace`` with a share of memory left free; None if no chain does."""

    def chain(count: int) -> Search:
        return Search(network, Cluster.chain(board, count, link), storages, reserve=reserve)

    most = chain(MAX_BOARDS)
    if pace < most.floor:
        return None
    found = most.steady(pace)
    if found is None:
        return None
    count = len(found.steps)
    # A shorter chain has fewer samples in flight.
    while count > 1 and (fewer := chain(count).steady(pace)):
        if len(fewer.steps) == count:
            break
        count = len(fewer.steps)
    return count
