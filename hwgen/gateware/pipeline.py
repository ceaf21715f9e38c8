"""Registers of a pipeline."""

from __future__ import annotations

from amaranth import *

__all__ = ["delayed", "kept", "multiply_add"]


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
