#!/usr/bin/env python3
"""Registers around ECP5 multipliers become the multipliers' own: python ecp5_registers.py IN.json OUT.json

Yosys takes no registers into MULT18X18D, whose product then takes 3.9 ns beside the ways to it (nextpnr-ecp5, speed 6).
This goes over a netlist of ``synth_ecp5`` (``write_json``). Needs nothing but Python: projects carry a copy.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["pack_registers"]

SLOTS = 4
"""Clock, enable and reset inputs of each kind that a MULT18X18D has."""


def pack_registers(netlist: dict[str, Any]) -> tuple[int, int]:
    """Changes a netlist of Yosys, as its JSON has it, in place. Returns (multipliers, those with registers now).

    A multiplier gets input and output registers where every bit of A and of B comes from a flip-flop without a reset,
    of one clock, of one enable each, and every bit of P goes into one alone. Input flip-flops that others
    read stay for them. The states are the same in every cycle, from the first on: all are 0 after configuration.
    """
    all_found = packed = 0
    for module in netlist["modules"].values():
        cells = module.get("cells", {})
        multipliers = [cell for cell in cells.values() if cell["type"] == "MULT18X18D"]
        drivers, readers = _connections(module)
        for cell in multipliers:
            packed += _pack(cells, cell, drivers, readers)
        all_found += len(multipliers)
        _sweep(module)
    return all_found, packed


def _connections(module: Any) -> tuple[dict[Any, str], dict[Any, list[Any]]]:
    """Of every bit: the flip-flop that drives it, and (cell, port) of who reads it, (None, None) for the module."""
    drivers: dict[Any, str] = {}
    readers: dict[Any, list[Any]] = defaultdict(list)
    for port in module["ports"].values():
        for bit in port["bits"]:
            if port["direction"] != "input":
                readers[bit].append((None, None))
    for name, cell in module.get("cells", {}).items():
        for port, bits in cell["connections"].items():
            for bit in bits:
                if cell["port_directions"][port] != "output":
                    readers[bit].append((name, port))
                elif cell["type"] == "TRELLIS_FF":
                    drivers[bit] = name
    return drivers, readers


def _control(cell: Any) -> Any:
    """(clock, enable) of a flip-flop; None if a multiplier has none like it."""
    # Yosys writes a string of digits alone with a space behind it.
    parameters = {name: value.strip() for name, value in cell["parameters"].items()}
    pins = cell["connections"]
    plain = parameters.get("CLKMUX", "CLK") == "CLK" and parameters.get("REGSET", "RESET") == "RESET"
    never = parameters.get("LSRMUX", "LSR") == "LSR" and pins.get("LSR", ["0"])[0] in ("0", "x")
    enable = {"CE": pins.get("CE", ["1"])[0], "1": "1"}.get(parameters.get("CEMUX", "CE"))
    return (pins["CLK"][0], enable) if plain and never and enable is not None else None


def _one(controls: Iterable[Any]) -> Any:
    """What all have; None if they differ, or there is none."""
    found = set(controls)
    return found.pop() if len(found) == 1 else None


def _inputs(cells: Any, cell: Any, port: str, drivers: dict[Any, str]) -> Any:
    """((clock, enable), bits before the registers) of input ``port``; None if it has none."""
    bits = [cell["connections"][f"{port}{k}"][0] for k in range(18)]
    wires = [bit for bit in bits if isinstance(bit, int)]
    if "1" in bits or any(bit not in drivers for bit in wires):
        return None
    control = _one(_control(cells[drivers[bit]]) for bit in wires)
    before = [cells[drivers[bit]]["connections"]["DI"][0] if isinstance(bit, int) else bit for bit in bits]
    return (control, before) if control is not None else None


def _outputs(cells: Any, cell: Any, readers: dict[Any, list[Any]]) -> Any:
    """((clock, enable), flip-flop of every bit of P that somebody reads); None if it has none."""
    found: dict[int, str] = {}
    for k in range(36):
        bit = cell["connections"].get(f"P{k}", ["x"])[0]
        if not (users := readers.get(bit, []) if isinstance(bit, int) else []):
            continue
        name, port = users[0]
        if len(users) > 1 or name is None or port != "DI" or cells[name]["type"] != "TRELLIS_FF":
            return None
        found[k] = name
    control = _one(_control(cells[name]) for name in found.values())
    return (control, found) if control is not None else None


def _pack(cells: Any, cell: Any, drivers: dict[Any, str], readers: dict[Any, list[Any]]) -> bool:
    """Whether a multiplier got registers."""
    a, b = (_inputs(cells, cell, port, drivers) for port in "AB")
    product = _outputs(cells, cell, readers)
    if a is None or b is None or product is None or len({each[0][0] for each in (a, b, product)}) > 1:
        return False
    pins, parameters = cell["connections"], cell["parameters"]
    for kind in ("CLK", "CE", "RST"):
        for slot in range(SLOTS):
            pins[f"{kind}{slot}"], cell["port_directions"][f"{kind}{slot}"] = ["0"], "input"
    pins["CLK0"] = [a[0][0]]
    slots: dict[Any, int] = {}
    for name, ((_, enable), _) in (("INPUTA", a), ("INPUTB", b), ("OUTPUT", product)):
        slot = slots.setdefault(enable, len(slots))
        pins[f"CE{slot}"] = [enable]
        parameters |= {f"REG_{name}_CLK": "CLK0", f"REG_{name}_CE": f"CE{slot}", f"REG_{name}_RST": "RST0"}
    for port, (_, before) in (("A", a), ("B", b)):
        for k, bit in enumerate(before):
            pins[f"{port}{k}"] = [bit]
    for k, name in product[1].items():
        pins[f"P{k}"] = cells[name]["connections"]["Q"]
        del cells[name]
    return True


def _sweep(module: Any) -> None:
    """Takes away flip-flops that nobody reads any more."""
    cells = module.get("cells", {})
    while True:
        used = {bit for port in module["ports"].values() for bit in port["bits"]}
        for cell in cells.values():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] != "output":
                    used.update(bits)
        flops = [name for name, cell in cells.items() if cell["type"] == "TRELLIS_FF"]
        dead = [name for name in flops if not used.intersection(cells[name]["connections"]["Q"])]
        if not dead:
            return
        for name in dead:
            del cells[name]


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    count, some = pack_registers(read)
    Path(sys.argv[2]).write_text(json.dumps(read), encoding="utf-8")
    sys.stdout.write(f"{some} of {count} multipliers have registers of their own\n")
