"""The memories that elaboration of a component really makes."""

from collections import Counter

from amaranth import Value
from amaranth.hdl import Fragment, _ir, _nir

__all__ = ["built_memories"]


def built_memories(component):
    """How often (words, bits, read ports, asynchronous) is in a component's netlist, but for tables of constants."""
    ports = [
        ("__".join(map(str, path)), Value.cast(value), None)
        for path, _, value in component.signature.flatten(component)
    ]
    cells = _ir.build_netlist(Fragment.get(component, None), ports=ports).cells
    readers, asynchronous = Counter(), Counter()
    written = set()
    for cell in cells:
        if isinstance(cell, _nir.SyncWritePort):
            written.add(cell.memory)
        elif isinstance(cell, _nir.SyncReadPort):
            readers[cell.memory] += 1
        elif isinstance(cell, _nir.AsyncReadPort):
            asynchronous[cell.memory] += 1
    assert not readers.keys() & asynchronous.keys()
    return Counter(
        (cells[k].depth, cells[k].width, readers[k] + asynchronous[k], k in asynchronous) for k in written
    )
