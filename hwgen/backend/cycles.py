"""Loops through logic in Amaranth's netlist, looked for cell by cell before bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amaranth.hdl import _nir

__all__ = ["has_cycle"]

LOGIC = (
    _nir.Operator,
    _nir.Part,
    _nir.Matches,
    _nir.PriorityMatch,
    _nir.AssignmentList,
    _nir.AsyncReadPort,
)
"""Cells whose outputs may follow any of their inputs at once."""
Graph = Mapping[int, Iterable[int]]


def has_cycle(netlist: Any) -> bool:
    """Whether ``netlist.check_comb_cycles()`` raises, in a fraction of the time.

    Amaranth walks over every pair of bits that depend on each other, 10⁸ of them in a word of 10⁴ bits. A loop of bits
    is a loop of cells too, and hardly any cell lies on one of those; only there bits are looked at.
    """
    drivers = _drivers(netlist.connections)
    if drivers is None:
        return True
    sources = {k: found for k, cell in enumerate(netlist.cells) if (found := _sources(cell, drivers))}
    core = _without_ends(sources)
    users: dict[int, list[int]] = {k: [] for k in core}
    for k in core:
        for source in core & sources[k]:
            users[source].append(k)
    core = _without_ends(users)
    return bool(core) and _loops(netlist, core, drivers)


def _drivers(connections: Mapping[int, int]) -> dict[int, int] | None:
    """The net behind every late one; None if some lead to each other only."""
    found: dict[int, int] = {}
    for late in connections:
        path = []
        net = late
        while net < 0 and net not in found:
            found[net] = net  # marks it as on the path
            path.append(net)
            net = connections[net]
        net = found.get(net, net)
        if net < 0:
            return None
        for each in path:
            found[each] = net
    return found


def _sources(cell: Any, drivers: Mapping[int, int]) -> set[int]:
    """Cells that a cell's outputs depend on at once; the top's ports and constants left out."""
    if isinstance(cell, LOGIC):
        nets: Iterable[int] = cell.input_nets()
    elif isinstance(cell, _nir.FlipFlop):
        nets = (cell.clk, cell.arst)
    elif isinstance(cell, _nir.IOBuffer):
        nets = cell.input_nets()
    else:
        return set()
    return {drivers.get(net, net) >> 16 for net in nets} - {0}


def _without_ends(sources: Graph) -> set[int]:
    """Nodes that no order puts behind all their sources."""
    users: dict[int, list[int]] = {}
    waiting = {}
    for k, found in sources.items():
        own = [source for source in found if source in sources]
        waiting[k] = len(own)
        for source in own:
            users.setdefault(source, []).append(k)
    done = [k for k, count in waiting.items() if not count]
    while done:
        k = done.pop()
        del waiting[k]
        for user in users.get(k, ()):
            waiting[user] -= 1
            if not waiting[user]:
                done.append(user)
    return set(waiting)


def _loops(netlist: Any, core: set[int], drivers: Mapping[int, int]) -> bool:
    """Whether bits of the cells in ``core`` make a loop."""

    def sources(net: int) -> Iterator[int]:
        for source, _ in netlist.cells[net >> 16].comb_edges_to(net & 0xFFFF):
            source = drivers.get(source, source)
            if source >> 16 in core:
                yield source

    done: set[int] = set()
    for start in (net for k in sorted(core) for net in netlist.cells[k].output_nets(k)):
        if start in done:
            continue
        path, busy, stack = [start], {start}, [sources(start)]
        while stack:
            net = next(stack[-1], None)
            if net is None:
                stack.pop()
                left = path.pop()
                busy.remove(left)
                done.add(left)
            elif net in busy:
                return True
            elif net not in done:
                path.append(net)
                busy.add(net)
                stack.append(sources(net))
    return False
