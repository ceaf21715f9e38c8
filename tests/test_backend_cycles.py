"""Loops through logic are found where Amaranth finds them, and nowhere else."""

import random

import pytest
from amaranth import *
from amaranth.hdl import _ir, _nir
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out

from hwgen.backend.convert import convert
from hwgen.backend.cycles import has_cycle


class Built(Exception):
    """Carries a netlist out of its construction."""


def verdicts(m, ports, monkeypatch):
    """What Amaranth says of the netlist, and what has_cycle does."""
    found = []

    def both(netlist):
        found.append(has_cycle(netlist))
        raise Built(netlist)

    original = _nir.Netlist.check_comb_cycles
    with monkeypatch.context() as patch:
        patch.setattr(_nir.Netlist, "check_comb_cycles", both)
        with pytest.raises(Built) as built:
            _ir.build_netlist(Fragment.get(m, None), ports=ports)
    try:
        original(built.value.args[0])
    except _nir.CombinationalCycle:
        return True, found[0]
    return False, found[0]


def random_logic(seed):
    """Bits of a few words, each driven by an expression of random bits and words, or by a register."""
    rng = random.Random(seed)
    m = Module()
    words = [Signal(4, name=f"w{k}") for k in range(5)]
    source = Signal(4, name="source")
    memory = Memory(shape=4, depth=16, init=[])
    m.submodules.memory = memory
    read = memory.read_port(domain="comb")
    m.d.comb += read.addr.eq(rng.choice(words))

    def bit():
        return rng.choice([*words, source, read.data])[rng.randrange(4)]

    def expression():
        kind = rng.randrange(7)
        if kind == 0:
            return bit() & bit()
        if kind == 1:
            return Mux(bit(), bit(), bit())
        if kind == 2:
            return (rng.choice(words) + source)[rng.randrange(4)]
        if kind == 3:
            return rng.choice(words).matches("1--0")
        if kind == 4:
            return rng.choice(words).bit_select(rng.choice(words)[:2], 1)
        return bit() if kind == 5 else ~source[rng.randrange(4)]

    for word in words:
        for k in range(4):
            if rng.random() < 0.15:
                m.d.sync += word[k].eq(expression())
            elif rng.random() < 0.2:
                with m.If(bit()):
                    m.d.comb += word[k].eq(expression())
            else:
                m.d.comb += word[k].eq(source[k] if rng.random() < 0.6 else expression())
    out = Signal(20)
    m.d.comb += out.eq(Cat(*words))
    return m, [source, out]


def one_driver(seed):
    """Random logic in which no word mixes domains, which Amaranth refuses."""
    try:
        m, ports = random_logic(seed)
        Fragment.get(m, None)
    except SyntaxError:
        return None
    return m, ports


def test_random_logic_as_amaranth(monkeypatch):
    seen = set()
    for seed in range(600):
        made = one_driver(seed)
        if made is None:
            continue
        expected, found = verdicts(*made, monkeypatch)
        assert found == expected, seed
        seen.add(expected)
    assert seen == {False, True}


@pytest.mark.parametrize("loop", [True, False])
def test_wires_alone(loop, monkeypatch):
    m = Module()
    a, b, c = Signal(name="a"), Signal(name="b"), Signal(name="c")
    m.d.comb += [a.eq(b), b.eq(a if loop else c)]
    assert verdicts(m, [c, b] if not loop else [b], monkeypatch) == (loop, loop)


@pytest.mark.parametrize("loop", [True, False])
def test_bits_of_one_word_that_follow_each_other(loop, monkeypatch):
    """One cell that depends on itself, though only a loop of bits is a loop."""
    m = Module()
    word, source = Signal(8), Signal()
    m.d.comb += word[0].eq(~word[7] if loop else source)
    m.d.comb += [word[k].eq(~word[k - 1] & source) for k in range(1, 8)]
    assert verdicts(m, [source, word], monkeypatch) == (loop, loop)


class Loop(wiring.Component):
    """An inverter that drives itself."""

    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~self.o)
        return m


def test_conversion_refuses_a_loop():
    with pytest.raises(_nir.CombinationalCycle, match="operator ~"):
        convert(Loop(), "loop")
