"""How nets of Amaranth's netlist pass through its modules, worked out for many at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import _nir

__all__ = ["compute_net_flows", "compute_ports"]

INTERNAL, INPUT, OUTPUT = (getattr(_nir.ModuleNetFlow, name) for name in ("Internal", "Input", "Output"))


def compute_net_flows(netlist: Any) -> None:
    """As Amaranth's ``_compute_net_flows``: every module's nets, and whether they come in, go out or stay inside.

    A net is found by its own history alone, so those of a cell or a signal that its module knows are left out at once.
    """
    modules = netlist.modules
    depths = [len(module.name) for module in modules]
    home: dict[int, int] = {}  # the innermost module around all that use the net
    for index, cell in enumerate(netlist.cells):
        nets = cell.output_nets(index)
        home.update(dict.fromkeys(nets, cell.module_idx))
        modules[cell.module_idx].net_flow.update(dict.fromkeys(nets, INTERNAL))

    def use(nets: Iterable[int], user: int) -> None:
        for net in set(nets).difference(modules[user].net_flow):
            if net >= 2:  # no constant
                home[net] = route(net, home[net], user)

    def route(net: int, driver: int, user: int) -> int:
        while depths[driver] > depths[user]:
            modules[driver].net_flow[net] = OUTPUT
            driver = modules[driver].parent
        while depths[driver] < depths[user]:
            if net in modules[user].net_flow:
                return home[net]
            modules[user].net_flow[net] = INPUT
            user = modules[user].parent
        while driver != user:
            modules[driver].net_flow[net] = OUTPUT
            modules[user].net_flow[net] = INPUT
            driver, user = modules[driver].parent, modules[user].parent
        modules[driver].net_flow[net] = INTERNAL
        return driver

    for cell in netlist.cells:
        use(cell.input_nets(), cell.module_idx)
    for index, module in enumerate(modules):
        for signal in module.signal_names:
            use(netlist.signals[signal], index)


def compute_ports(netlist: Any) -> None:
    """As Amaranth's ``_compute_ports``: a module's ports are a cell's nets that follow each other."""
    starts = {start for start, _ in netlist.top.ports_i.values()}
    for index, cell in enumerate(netlist.cells):
        if isinstance(cell, _nir.Instance):
            starts.update(index << 16 | start for start, _ in cell.ports_o.values())
    for module in netlist.modules:
        names: dict[Any, str] = {}
        for signal, name in module.signal_names.items():
            if not name.startswith("$"):
                names.setdefault(netlist.signals[signal], name)
        flows = module.net_flow
        crossing = sorted(net for net, flow in flows.items() if flow is not INTERNAL)
        for first, last in _runs(crossing, starts):
            value = _nir.Value(crossing[first:last])
            name = names.get(value, f"port${value[0].cell}${value[0].bit}")
            module.ports[name] = (value, flows[value[0]])
    top = netlist.modules[0]
    for name, (start, width) in netlist.top.ports_i.items():
        top.ports[name] = (_nir.Value(map(_nir.Net, range(start, start + width))), INPUT)
    for name, value in netlist.top.ports_o.items():
        top.ports[name] = (value, OUTPUT)


def _runs(nets: list[int], starts: set[int]) -> Iterable[tuple[int, int]]:
    """Where runs begin and end among ``nets`` that cross a module's border: those of a cell all do in one direction."""
    first = 0
    for place in range(1, len(nets) + 1):
        if place < len(nets):
            net, before = nets[place], nets[place - 1]
            if net == before + 1 and net & 0xFFFF and net not in starts:
                continue
        if place > first:
            yield first, place
        first = place
