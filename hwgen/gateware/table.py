"""A constant table: several named numbers for every index, looked up within the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Table"]


class Table(wiring.Component):
    """Field ``name`` shows ``fields[name][index]``; an index past the end shows anything.

    No latency. Members: ``index``, and an output a field, signed if any of its numbers is negative.
    """

    def __init__(self, fields: Mapping[str, Sequence[int]]):
        self.fields = {name: [int(value) for value in values] for name, values in fields.items()}
        lengths = {len(values) for values in self.fields.values()}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError(
                f"Table: fields of {sorted(lengths)} numbers; they must have the same length, at least 1"
            )
        (self.length,) = lengths
        shapes = {name: _shape(values) for name, values in self.fields.items()}
        super().__init__(
            {"index": In(range(max(2, self.length))), **{name: Out(s) for name, s in shapes.items()}}
        )

    def elaborate(self, platform):
        m = Module()
        varying = {name: values for name, values in self.fields.items() if len(set(values)) > 1}
        for name, values in self.fields.items():
            if name not in varying:
                m.d.comb += getattr(self, name).eq(values[0])
        if varying:
            layout = data.StructLayout({name: _shape(values) for name, values in varying.items()})
            init = [{name: values[k] for name, values in varying.items()} for k in range(self.length)]
            memory = m.submodules.rom = Memory(MemoryData(shape=layout, depth=self.length, init=init))
            reader = memory.read_port(domain="comb")
            m.d.comb += reader.addr.eq(self.index)
            for name in varying:
                m.d.comb += getattr(self, name).eq(getattr(reader.data, name))
        return m


def _shape(values: Sequence[int]) -> Shape:
    low, high = min(values), max(values)
    return Shape.cast(range(min(low, 0), max(high, 1) + 1))
