"""Reading boards and clusters from TOML; docs/boards.md has the format. Unknown fields are errors."""

from __future__ import annotations

import difflib
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from .errors import TargetError
from .target import Board, Device, Fill, Link
from .target_fields import NAME, shorten
from .target_pins import Pin, Pins
from .target_serial import Held, Pcie, Socket

__all__ = ["ClusterFile", "built_in", "known_boards", "read_board", "read_cluster"]

Table = Mapping[str, Any]
_TABLES: dict[str, type] = {"device": Device, "fill": Fill, "link": Link, "pins": Pins, "pcie": Pcie}
"""Tables of a board that are objects of their own."""
_LISTS: dict[str, type] = {"sockets": Socket, "held": Held}
"""Lists of such tables."""
_SIGNALS: dict[type, tuple[str, ...]] = {
    Pins: ("clock", "reset", "uart_tx", "uart_rx", "leds"), Pcie: ("clock", "reset"), Socket: ("clock",),
    Held: ("pin",),
}  # fmt: skip
"""Fields of these that are a table of a Pin."""
_CLUSTER = ("chain", "link", "links", "boards")


@dataclass(frozen=True)
class ClusterFile:
    """What a cluster.toml says: specs of boards in order, own boards by name, one link or one a cable."""

    chain: tuple[str, ...]
    boards: Mapping[str, Board]
    link: Link | tuple[Link, ...] | None


@cache
def known_boards() -> tuple[str, ...]:
    """Names of the boards that come with hwgen."""
    files = importlib.resources.files("hwgen.boards").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


@cache
def built_in(name: str) -> Board:
    """A board that comes with hwgen."""
    file = importlib.resources.files("hwgen.boards") / f"{name}.toml"
    return _make_board(tomllib.loads(file.read_text(encoding="utf-8")), f"boards/{name}.toml", "")


def read_board(path: Path) -> Board:
    """The board of a file. Raises TargetError, ``file: what; what to do``, with the mistakes found."""
    data = _load(path)
    if "chain" in data or "boards" in data:
        raise TargetError(f"{path}: a cluster, not a board; give it alone, or the path of a board's file")
    return _make_board(data, str(path), "")


def read_cluster(path: Path) -> ClusterFile | Board:
    """What a cluster.toml says; a file with a [device] is one board. Raises TargetError as :func:`read_board`."""
    data = _load(path)
    if "device" in data and "chain" not in data:
        return read_board(path)
    where = str(path)
    problems = _unknown(data, _CLUSTER, where, "the file")
    specs = _specs(data.get("chain"), where, problems)
    own = _own_boards(data.get("boards", {}), where, problems)
    link = _links(data, where, problems)
    if problems:
        raise TargetError(problems)
    return ClusterFile(specs, own, link)


def _specs(chain: object, where: str, problems: list[str]) -> tuple[str, ...]:
    specs = [chain] if isinstance(chain, str) else chain
    if isinstance(specs, list) and specs and all(isinstance(spec, str) and spec.strip() for spec in specs):
        return tuple(specs)
    given = "missing" if chain is None else f"= {shorten(chain)}"
    problems.append(f'{where}: chain {given}; give the boards in order, chain = ["vc709*2", "alveo_u280"]')
    return ()


def _own_boards(tables: object, where: str, problems: list[str]) -> dict[str, Board]:
    own: dict[str, Board] = {}
    for name, value in _table(tables, where, "boards", problems).items():
        place = f"boards.{name}"
        table = _table(value, where, place, problems)
        if table is not value:
            continue
        if not NAME.fullmatch(name):
            problems.append(
                f"{where}: [{place}]: no name for a board; "
                "give up to 40 small letters, digits and underscores, starting with a letter"
            )
        elif name in known_boards():
            problems.append(f"{where}: [{place}]: hwgen has a board of this name; rename it")
        elif "name" in table:
            problems.append(
                f"{where}: [{place}]: name = {shorten(table['name'])}; the heading says it, drop it"
            )
        else:
            try:
                own[name] = _make_board({"name": name, **table}, where, place)
            except TargetError as error:
                problems += error.problems
    return own


def _links(data: Table, where: str, problems: list[str]) -> Link | tuple[Link, ...] | None:
    if "link" in data and "links" in data:
        problems.append(f"{where}: [link] and [[links]] both given; give one link for all, or one a cable")
        return None
    if "link" in data:
        link: Link | None = _object(Link, data["link"], where, "link", problems)
        return link
    if "links" not in data:
        return None
    links: tuple[Link, ...] = _objects(Link, data["links"], where, "links", problems)
    return links


def _objects(kind: type, tables: object, where: str, place: str, problems: list[str]) -> Any:
    """A tuple of objects from a list of tables; None with what is wrong noted."""
    if not isinstance(tables, list):
        what = "every cable" if kind is Link else "each"
        problems.append(f"{where}: {place} = {shorten(tables)}; give a table [[{place}]] for {what}")
        return None
    made = [_object(kind, table, where, f"{place}.{index}", problems) for index, table in enumerate(tables)]
    return tuple(one for one in made if one is not None)


def _make_board(data: Table, where: str, place: str) -> Board:
    """A board from its table at ``place`` of a file (empty: the file itself)."""
    problems: list[str] = []
    inner = {key: f"{place}.{key}" if place else key for key in (*_TABLES, *_LISTS, "clocks", "sources")}
    made: dict[str, object] = dict(data)
    for key, kind in _TABLES.items():
        if key in data:
            made[key] = _object(kind, data[key], where, inner[key], problems)
    for key, kind in _LISTS.items():
        if key in data:
            made[key] = _objects(kind, data[key], where, inner[key], problems)
    if "clocks" in data:
        made["clocks"] = tuple(_table(data["clocks"], where, inner["clocks"], problems).items())
    if "sources" in data:
        texts = _table(data["sources"], where, inner["sources"], problems)
        figures = [f.name for f in fields(Board)]
        tables = {**_TABLES, **_LISTS}
        figures += [f"{key}.{f.name}" for key, kind in tables.items() for f in fields(kind)]
        figures += [f"clocks.{name}" for name, _ in made.get("clocks", ())]  # type: ignore[attr-defined]
        problems += _unknown(texts, figures, where, f"[{inner['sources']}]")
        made["sources"] = tuple(texts.items())
    parts = not problems
    if _complete(Board, made, where, place, problems) and parts:
        board = _construct(Board, made, where, place, problems)
    if problems:
        raise TargetError(problems)
    assert isinstance(board, Board)
    return board


def _object(kind: type, value: object, where: str, place: str, problems: list[str]) -> Any:
    """An object from its table; None with what is wrong noted."""
    table = _table(value, where, place, problems)
    if table is not value or not _complete(kind, table, where, place, problems):
        return None
    if kind in _SIGNALS:
        known = len(problems)
        table = {
            name: _object(Pin, item, where, f"{place}.{name}", problems) if name in _SIGNALS[kind] else item
            for name, item in table.items()
        }
        if len(problems) > known:
            return None
    return _construct(kind, table, where, place, problems)


def _complete(kind: type, table: Table, where: str, place: str, problems: list[str]) -> bool:
    """Whether a table has all that ``kind`` demands; what is missing or unknown is noted."""
    spot = f"[{place}]" if place else "the file"
    problems += _unknown(table, [f.name for f in fields(kind)], where, spot)
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in table]
    if missing:
        problems.append(
            f"{where}: {spot} lacks {', '.join(missing)}; give {'it' if len(missing) == 1 else 'them'}"
        )
    return not missing


def _construct(kind: type, table: Table, where: str, place: str, problems: list[str]) -> Any:
    try:
        return kind(**{f.name: table[f.name] for f in fields(kind) if f.name in table})
    except TargetError as error:
        at = f"[{place}]: " if "." in place else ""
        problems += [f"{where}: {at}{problem}" for problem in error.problems]
        return None


def _unknown(table: Table, known: list[str] | tuple[str, ...], where: str, spot: str) -> list[str]:
    problems = []
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean {near[0]}? " if near else ""
            problems.append(
                f"{where}: {spot} has no field {shorten(key)}; {advice}it takes {', '.join(known)}"
            )
    return problems


def _table(value: object, where: str, place: str, problems: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{where}: {place} = {shorten(value)}; give a table [{place}]")
    return {}


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8")
        return tomllib.loads(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TargetError(f"{path}: {reason}; give the path of a .toml file") from None
    except UnicodeDecodeError:
        raise TargetError(f"{path}: no UTF-8 text; give a .toml file") from None
    except ValueError as error:  # tomllib's own, and Python's limit on the digits of an integer
        raise TargetError(f"{path}: {error}; correct the file") from None
