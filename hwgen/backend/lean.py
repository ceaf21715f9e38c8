"""Amaranth's netlists made faster: the same ones, without what it checks of every bit again and again; in one order."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import amaranth
from amaranth.back import rtlil
from amaranth.hdl import _ast, _ir, _nir

from .cycles import has_cycle
from .flows import compute_net_flows, compute_ports

__all__ = ["lean_netlists"]

KNOWN = "0.5.10"
"""The version of Amaranth whose insides SAME knows; pyproject.toml pins it."""
WIDEST = 1 << 16
"""A net's number is that of its cell and 16 bits for its place there."""
BITS = {0: "0", 1: "1"}
"""Nets of constants."""


@contextmanager
def lean_netlists() -> Iterator[None]:
    """Netlists built meanwhile are built faster, and without initial values for memories that start as zeros.

    Nothing relies on those (the host loads weights, the rest is written before it is read). Amaranth works
    them out bit by bit, and as Verilog they are one line a word: most of the time and most of the text of a
    large design.

    A value is a tuple with a number for every bit of a signal, 10⁷ in a board. Amaranth asks of each, in Python,
    whether it is one whenever a value is copied, cut or looked up; that was half of the time of an emission. The few
    functions that do are replaced by ones of the same results (tests/test_backend_lean.py). Another version of Amaranth
    than the pinned one keeps its own, and its time.

    Nor are reference cycles looked for: a netlist's objects all live until its text is written. What is left then is
    found by the next search.
    """
    replaced = (*OTHER, *SAME) if amaranth.__version__ == KNOWN else OTHER
    saved = [(owner, name, owner.__dict__[name]) for owner, name, _ in replaced]
    collecting = gc.isenabled()
    gc.disable()
    for owner, name, new in replaced:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in saved:
            setattr(owner, name, old)
        if collecting:
            gc.enable()


_build_netlist, _check_comb_cycles = _ir.build_netlist, _nir.Netlist.check_comb_cycles
_create_missing_domains = _ir.Fragment._create_missing_domains


def _build(*arguments: Any, **options: Any) -> Any:
    netlist = _build_netlist(*arguments, **options)
    for cell in netlist.cells:
        if isinstance(cell, _nir.Memory) and not any(cell.init):
            cell.init = ()
    return netlist


def _missing_domains(fragment: Any, *arguments: Any, **options: Any) -> Any:
    """Clock domains by name. Amaranth has them as a set does: in another order in every process, and so the ports."""
    return sorted(_create_missing_domains(fragment, *arguments, **options), key=lambda domain: domain.name)


def _check_cycles(netlist: Any) -> None:
    if has_cycle(netlist):
        _check_comb_cycles(netlist)  # which words the error


def _own_field(emitter: Any) -> None:
    """A signal as a whole, without a name for every lane and field: names of slices, which nothing reads."""
    for signal in emitter.design.signal_lca:
        kind = signal._format
        names = (
            {"enum_name": kind._name, "enum_variants": kind._variants}
            if isinstance(kind, _ast.Format.Enum)
            else {}
        )
        field = _nir.SignalField(emitter.emit_signal(signal), signed=signal.shape().signed, **names)
        emitter.netlist.signal_fields[signal] = {(): field}


def _new_value(cls: Any, nets: Any = ()) -> Any:
    if type(nets) is cls:
        return nets
    return tuple.__new__(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


def _from_cell(cls: Any, cell: int, bit: int) -> Any:
    if bit >= WIDEST:
        raise ValueError(f"a value of more than {WIDEST} bits")
    return cls(cell << 16 | bit)


def _add_value_cell(netlist: Any, width: int, cell: Any) -> Any:
    if width > WIDEST:
        raise ValueError(f"a value of {width} bits; at most {WIDEST}")
    first = netlist.add_cell(cell) << 16
    return _nir.Value(map(_nir.Net, range(first, first + width)))


def _resolve_value(netlist: Any, value: Any) -> Any:
    if not value or min(value) >= 0:
        return value
    connections = netlist.connections
    nets = []
    for net in value:
        while net < 0:
            net = connections[net]
        nets.append(net)
    return _nir.Value(nets)


def _extend(emitter: Any, value: Any, signed: bool, width: int) -> Any:
    missing = width - len(value)
    if missing <= 0:
        return value
    return _nir.Value((*value, *[value[-1] if signed else _nir.Net.from_const(0)] * missing))


def _sigspec(emitter: Any, *parts: Any) -> str:
    value: tuple[Any, ...] = ()
    for part in parts:
        value += (part,) if isinstance(part, _nir.Net) else tuple(part)
    nets, chunks, width, end = emitter.nets, [], len(value), 0
    while end < width:
        start, first = end, value[end]
        end += 1
        if first in BITS:
            while end < width and value[end] in BITS:
                end += 1
            chunks.append(f"{end - start}'" + "".join([BITS[net] for net in value[start:end]])[::-1])
            continue
        wire, low = nets[first]
        high = low
        while end < width and value[end] not in BITS:
            other, bit = nets[value[end]]
            if other is not wire or bit != high + 1:
                break
            high, end = bit, end + 1
        chunks.append(f"{wire.name} [{high}:{low}]" if high > low else f"{wire.name} [{low}]")
    return chunks[0] if len(chunks) == 1 else "{ " + " ".join(reversed(chunks)) + " }"


Replacements = Sequence[tuple[Any, str, Any]]
OTHER: Replacements = (
    (_ir, "build_netlist", _build),
    (_ir.Fragment, "_create_missing_domains", _missing_domains),
    (_ir.NetlistEmitter, "emit_signal_fields", _own_field),
    (_nir.Netlist, "check_comb_cycles", _check_cycles),
)
"""Owner, name and what takes its place, with other results."""
SAME: Replacements = (
    (_nir.Value, "__new__", _new_value),
    (_nir.Net, "from_cell", classmethod(_from_cell)),
    (_nir.Netlist, "add_value_cell", _add_value_cell),
    (_nir.Netlist, "resolve_value", _resolve_value),
    (_ir.NetlistEmitter, "extend", _extend),
    (_ir, "_compute_net_flows", compute_net_flows),
    (_ir, "_compute_ports", compute_ports),
    (rtlil.ModuleEmitter, "sigspec", _sigspec),
)
"""Those with the same results."""
