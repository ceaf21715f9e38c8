"""The arithmetic of softmax cross-entropy: 2**-x, ln and the exactly rounded quotient.

Model of all: hwgen.ref.softmax, whose docstring defines the results. Tables are read through a register.
"""

from __future__ import annotations

from amaranth import *
from amaranth.hdl import MemoryData
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..numeric import Q
from ..numeric_tables import (
    EXP2_TABLE,
    FRACTION_BITS,
    INDEX_BITS,
    LERP_BITS,
    LN2,
    LOG1P_TABLE,
    LOG2E,
    LOG2E_BITS,
    SLOPE_BITS,
    UNIT_BITS,
)

__all__ = ["Divider", "Exponential", "Logarithm", "scaled", "sum_bits"]

_VALUE_BITS = UNIT_BITS + 1
_WHOLE_BITS = 5


def sum_bits(classes: int) -> int:
    """Bits of a sum of ``classes`` exponentials, each at most 1.0."""
    return (classes << UNIT_BITS).bit_length()


def scaled(value, shift, bits):
    """The low ``bits`` of floor(value · 2**shift) of an unsigned value, and whether there are more."""
    wide = Cat(Const(0, shift), value) if shift > 0 else value[-shift:]
    return wide[:bits], Cat(wide[bits:], Const(0, 1)).any()


def _read(m, name, table, index):
    """The row of a table of (value, slope) that ``index`` named one cycle ago."""
    row = data.StructLayout({"value": _VALUE_BITS, "slope": SLOPE_BITS})
    init = [{"value": value, "slope": slope} for value, slope in table]
    memory = m.submodules[name] = Memory(MemoryData(shape=row, depth=len(table), init=init))
    reader = memory.read_port()
    m.d.comb += reader.addr.eq(index)
    return reader.data


class Exponential(wiring.Component):
    """exp(-d) of a number every cycle.

    Latency ``latency``; nothing ever stalls.

    Parameters: format of the logits.

    Members: ``d`` z.width bits unsigned, in units of 2**-z.frac; ``e`` in units of 2**-24.
    """

    latency = 5

    def __init__(self, z: Q):
        self.z = z
        super().__init__({"d": In(z.width), "e": Out(_VALUE_BITS)})

    def elaborate(self, platform):
        m = Module()
        product = Signal(self.z.width + LOG2E.bit_length(), reset_less=True)
        t, far = scaled(product, FRACTION_BITS - LOG2E_BITS - self.z.frac, FRACTION_BITS + _WHOLE_BITS)
        exponent = Signal(FRACTION_BITS + _WHOLE_BITS)
        row = _read(m, "exp2", EXP2_TABLE, exponent[LERP_BITS:FRACTION_BITS])
        low = Signal(LERP_BITS, reset_less=True)
        correction = Signal(LERP_BITS + SLOPE_BITS, reset_less=True)
        value, mantissa = (Signal(_VALUE_BITS, name=name, reset_less=True) for name in ("value", "mantissa"))
        # What the last stage needs, behind each stage: the whole part of t and whether it is out of range.
        right = [Signal(_WHOLE_BITS + 1, name=f"right_{k}", reset_less=True) for k in range(3)]
        m.d.comb += exponent.eq(t)
        m.d.sync += [
            product.eq(self.d * LOG2E),
            low.eq(exponent),
            right[0].eq(Cat(exponent[FRACTION_BITS:], far)),
            correction.eq(row.slope * low),
            value.eq(row.value),
            right[1].eq(right[0]),
            mantissa.eq(value - (correction >> LERP_BITS)),
            right[2].eq(right[1]),
            self.e.eq(Mux(right[2][-1], 0, mantissa >> right[2][:-1])),
        ]
        return m


class Logarithm(wiring.Component):
    """ln of a sum of ``classes`` exponentials, a number every cycle.

    Latency ``latency``; nothing ever stalls.

    Members: ``total`` at least 1.0, ``log``; both in units of 2**-24.
    """

    latency = 4

    def __init__(self, classes: int):
        self.bits = sum_bits(classes)
        super().__init__({"total": In(self.bits), "log": Out(range((self.bits - UNIT_BITS) * LN2 + 1))})

    def elaborate(self, platform):
        m = Module()
        fraction = Signal(FRACTION_BITS, reset_less=True)
        bases = [Signal.like(self.log, name=f"base_{k}", reset_less=True) for k in range(3)]
        for top in range(UNIT_BITS, self.bits):  # the highest bit that is set comes last and wins
            with m.If(self.total[top]):
                m.d.sync += [
                    fraction.eq(self.total[top - FRACTION_BITS : top]),
                    bases[0].eq((top - UNIT_BITS) * LN2),
                ]
        row = _read(m, "log1p", LOG1P_TABLE, fraction[FRACTION_BITS - INDEX_BITS :])
        low = Signal(LERP_BITS, reset_less=True)
        correction = Signal(LERP_BITS + SLOPE_BITS, reset_less=True)
        m.d.sync += [
            low.eq(fraction),
            bases[1].eq(bases[0]),
            correction.eq(row.slope * low),
            bases[2].eq(bases[1] + row.value),
            self.log.eq(bases[2] + (correction >> LERP_BITS)),
        ]
        return m


class Divider(wiring.Component):
    """Quotients in format ``dz``: ±numerator / total, half to even, saturated.

    One bit a cycle by restoring division: one quotient every ``cycles`` = max(dz.frac, -1) + 2, given one
    cycle after its last bit. ``i`` is taken with the last bit; ``i.ready`` depends on ``o.ready``,
    ``o.valid`` on registers only.

    Members: ``i`` {numerator: 0 .. total, negative: 1 bit}; ``total`` constant while any quotient is under
    way; ``o`` dz.width bits signed.
    """

    def __init__(self, bits: int, dz: Q):
        self.bits, self.dz = bits, dz
        self.cycles = max(dz.frac, -1) + 2
        layout = data.StructLayout({"numerator": bits, "negative": 1})
        super().__init__(
            {
                "total": In(bits),
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(signed(dz.width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = self.dz.width
        step = Signal(range(max(2, self.cycles)))
        last = step == self.cycles - 1
        rest = Signal(self.bits, reset_less=True)
        # Bit 0 is the one behind the result's last; what leaves at the top saturates whatever follows.
        quotient = Signal(width + 1, reset_less=True)
        big = Signal(reset_less=True)
        negative = Signal(reset_less=True)
        run = Signal()
        dividend = Signal(self.bits + 1)
        fits = Signal()
        m.d.comb += [
            run.eq(~self.o.valid | self.o.ready),
            dividend.eq(Mux(step == 0, self.i.payload.numerator, rest << 1)),
            fits.eq(dividend >= self.total),
            self.i.ready.eq(run & last),
        ]
        with m.If(run):
            m.d.sync += self.o.valid.eq(self.i.valid & last)
        with m.If(run & self.i.valid):
            m.d.sync += [
                step.eq(Mux(last, 0, step + 1)),
                rest.eq(Mux(fits, dividend - self.total, dividend)),
                quotient.eq(Mux(step == 0, fits, Cat(fits, quotient))),
                big.eq((step != 0) & (big | quotient[-1])),
                negative.eq(self.i.payload.negative),
            ]
        size = Signal(width + 1)
        m.d.comb += size.eq(quotient[1:] + (quotient[0] & (quotient[1] | rest.any())))
        large = big | (size > self.dz.max)
        m.d.comb += self.o.payload.eq(
            Mux(negative, Mux(large, self.dz.min, -size), Mux(large, self.dz.max, size))
        )
        return m
