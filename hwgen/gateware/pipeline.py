"""Registers of a pipeline."""

from __future__ import annotations

from amaranth import *

__all__ = ["delayed", "kept", "multiply_add", "passed_on"]


def delayed(m, value, cycles, name):
    """Registers in a row: the value after 1, 2, ... cycles."""
    stages = []
    for k in range(cycles):
        stage = Signal(value.shape(), name=f"{name}_{k}", reset_less=True)
        m.d.sync += stage.eq(value)
        stages.append(stage)
        value = stage
    return stages


def kept(m, name, value, load):
    """A register that takes the value with ``load``."""
    register = Signal(value.shape(), name=name, reset_less=True)
    with m.If(load):
        m.d.sync += register.eq(value)
    return register


def multiply_add(m, name, a, b, carry, width):
    """Product register, then sum register: the two pipeline registers of a DSP slice."""
    product = Signal(signed(len(a) + len(b)), name=f"{name}_product", reset_less=True)
    total = Signal(signed(width), name=f"{name}_sum", reset_less=True)
    m.d.sync += [product.eq(a * b), total.eq(carry + product)]
    return total


def passed_on(m, port, columns, name):
    """To ``port`` what is peeked of ``columns`` (word, whether it is this column's): it moves on a column a cycle, as
    peeks themselves do, so that one may follow the other."""
    before: Value = Const(0)
    for j, (word, hit) in enumerate(columns):
        moved = Signal(port.shape(), name=f"peeked_{name}_{j}", reset_less=True)
        m.d.sync += moved.eq(Mux(hit, word, before))
        before = moved
    m.d.comb += port.eq(before)
