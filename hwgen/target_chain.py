"""Putting boards into a chain: by name, by a spec such as "vc709*2,alveo_u280", or from a cluster.toml."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import TargetError
from .target import MAX_BOARDS, Board, Cluster, Link
from .target_fields import is_whole, shorten
from .target_files import built_in, known_boards, read_board, read_cluster

__all__ = ["find_boards", "join_links", "make_chain", "parse_cluster"]

_ENTRY = re.compile(r"(?P<name>[^*]+?)\s*(\*\s*(?P<count>[^*]*))?")
_EXAMPLE = 'such as "vc709*3" or "vc709*2,alveo_u280", or the path of a cluster.toml'


def make_chain(boards: object, count: object = None, link: object = None) -> Cluster:
    """:meth:`Cluster.chain`, whose arguments are checked here."""
    alone = isinstance(boards, (str, Board))
    if count is not None and not (alone and is_whole(count, 1, MAX_BOARDS)):
        advice = f"an integer in 1..{MAX_BOARDS}" if alone else "a list of boards without it"
        raise TargetError(f"cluster: count = {shorten(count)}; give {advice}")
    if not alone and not (isinstance(boards, (list, tuple)) and boards):
        raise TargetError(f"cluster: boards = {shorten(boards)}; give names of boards, at least one")
    named = [boards] * int(count or 1) if alone else list(boards)  # type: ignore[call-overload]
    return _join(find_boards(named), link)


def parse_cluster(spec: str | os.PathLike[str]) -> Cluster:
    """:meth:`Cluster.parse`."""
    if isinstance(spec, os.PathLike):
        return _from_file(Path(spec))
    if not isinstance(spec, str) or not spec.strip():
        raise TargetError(f"cluster: {shorten(spec)}; give boards {_EXAMPLE}")
    if spec.strip().endswith(".toml") and "," not in spec:
        return _from_file(Path(spec.strip()))
    return _join(find_boards(_entries(spec, "cluster")))


def find_boards(
    named: Sequence[object],
    own: Mapping[str, Board] | None = None,
    folder: Path | None = None,
    where: str = "cluster",
) -> list[Board]:
    """The boards behind names (``own`` ones, then those of ``boards/``), paths from ``folder``, and Boards.

    Raises TargetError naming every unknown one; ``where`` starts its messages.
    """
    boards: list[Board] = []
    problems: list[str] = []
    for name in named:
        try:
            boards.append(_board(name, own or {}, folder or Path(), where))
        except TargetError as error:
            problems += error.problems
    if problems:
        raise TargetError(list(dict.fromkeys(problems)))
    return boards


def join_links(boards: Sequence[Board]) -> tuple[Link, ...]:
    """The cables that the usual links of both ends make: the fewer lanes at the lower rate.

    Raises TargetError naming the ends that do not fit each other.
    """
    problems: list[str] = []
    links: list[Link] = []
    for index in range(len(boards) - 1):
        pair = boards[index : index + 2]
        first, second = (board.link for board in pair)
        what = ""
        if first is None or second is None:
            what = f"{next(board.name for board in pair if board.link is None)} has no usual link"
        elif first.adapter != second.adapter:
            what = f"adapter {first.adapter} at one end, {second.adapter} at the other"
        elif first.encoding != second.encoding:
            what = f"encoding {first.encoding} at one end, {second.encoding} at the other"
        else:
            lanes, gbps = min(first.lanes, second.lanes), min(first.gbps, second.gbps)
            latency = max(first.latency, second.latency)
            links.append(Link(lanes, gbps, first.encoding, first.adapter, latency))
        if what:
            ends = f"link {index} ({pair[0].name} to {pair[1].name})"
            problems.append(
                f"cluster: {ends}: {what}; give the link, link=Link(...) or [link] in a cluster.toml"
            )
    if problems:
        raise TargetError(problems)
    return tuple(links)


def _join(boards: Sequence[Board], link: object = None) -> Cluster:
    if link is None:
        return Cluster(tuple(boards), join_links(boards))
    if isinstance(link, Link):
        return Cluster(tuple(boards), (link,) * (len(boards) - 1))
    if isinstance(link, (list, tuple)) and all(isinstance(each, Link) for each in link):
        return Cluster(tuple(boards), tuple(link))
    raise TargetError(f"cluster: link = {shorten(link)}; give a Link, or a list with one a cable")


def _entries(spec: str, where: str) -> list[str]:
    """The names in a spec, each as often as it says."""
    names: list[str] = []
    problems: list[str] = []
    for entry in spec.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            problems.append(
                f"{where}: {shorten(entry.strip())} in {shorten(spec)} is no board; give boards {_EXAMPLE}"
            )
            continue
        text = match["count"]
        count = int(text) if text is not None and re.fullmatch(r"[0-9]{1,6}", text) else 0
        if text is None:
            count = 1
        elif not 1 <= count <= MAX_BOARDS:
            problems.append(
                f"{where}: {shorten(entry.strip())}: a count of {shorten(text)}; give 1 to {MAX_BOARDS}"
            )
        names += [match["name"]] * count
    if problems:
        raise TargetError(problems)
    return names


def _from_file(path: Path) -> Cluster:
    """The chain that a cluster.toml describes, or the one board of a board file."""
    content = read_cluster(path)
    if isinstance(content, Board):
        return Cluster((content,))
    try:
        names = [name for spec in content.chain for name in _entries(spec, "chain")]
        boards = find_boards(names, content.boards, path.parent)
        return _join(boards, content.link)
    except TargetError as error:
        raise TargetError([f"{path}: {problem}" for problem in error.problems]) from None


def _board(name: object, own: Mapping[str, Board], folder: Path, where: str) -> Board:
    if isinstance(name, Board):
        return name
    if not isinstance(name, str):
        raise TargetError(f"{where}: {shorten(name)} is no board; give names of boards, or Board(...)")
    if name.endswith(".toml"):
        return read_board(folder / name)
    if name in own:
        return own[name]
    names = (*own, *known_boards())
    if name in names:
        return built_in(name)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}? " if near else ""
    raise TargetError(
        f"{where}: no board {shorten(name)}; {advice}there are {', '.join(names)}, "
        "or give the path of a board's .toml file"
    )
