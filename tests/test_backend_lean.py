"""Netlists made fast are Amaranth's own, and Amaranth is as it was afterwards."""

import enum
import gc
import re

import amaranth
import pytest
from amaranth import *
from amaranth.back import rtlil
from amaranth.hdl import _ir, _nir
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hwgen.backend.convert import _without_zero_memories
from hwgen.backend.flows import _runs
from hwgen.backend.lean import OTHER, SAME, lean_netlists
from hwgen.gateware.relane import Relane
from hwgen.gateware.stream import Fifo, lanes
from hwgen.gateware.tile import ArrayShape, Tile

REPLACED = (*OTHER, *SAME)
SHAPE = ArrayShape(
    depth=4, x=8, w=8, dy=8, master=16, grad=24, psum=20, back=20, rate=8, shift=12,
    backward=True, gradient=True, stochastic=True,
)  # fmt: skip


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Mixed(wiring.Component):
    """Every kind of value and cell that the functions replaced see: signs, cuts, parts, cases, a memory with words."""

    def __init__(self):
        super().__init__({"a": In(signed(5)), "b": In(7), "c": Out(signed(20)), "d": Out(9), "e": Out(16)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=9, depth=4, init=[1, 0, 3])
        m.submodules.inner = inner = Module()
        port, kept = memory.read_port(), Signal(12, init=5)
        total = self.a + self.b.as_signed()
        m.d.comb += [port.en.eq(self.b[0]), port.addr.eq(self.b[1:3]), self.d.eq(port.data)]
        m.d.comb += self.c.eq(Mux(self.a[-1], total * self.a, Cat(self.b, Const(5, 4), ~self.a)))
        inner.d.sync += kept.eq(Cat(kept[3:], self.b.bit_select(self.a[:2], 3)))
        colour = Signal(2, decoder=Colour)
        m.d.sync += colour.eq(self.b[3:5])
        with m.Switch(self.b):
            with m.Case("1--0---"):
                m.d.sync += self.e[4:9].eq(self.a)
            with m.Default():
                m.d.sync += self.e.eq(kept - total)
        return m


class Deep(wiring.Component):
    """Words in pieces between modules at three depths and an instance of two outputs, up, down and across."""

    def __init__(self):
        super().__init__({"a": In(12), "o": Out(12), "p": Out(9)})

    def elaborate(self, platform):
        m = Module()
        left, right, inner, across, later = (Module() for _ in range(5))
        first, second, third, fourth = (Signal(12, name=f"s{k}") for k in range(4))
        low, high = Signal(4), Signal(5)
        m.submodules.right, m.submodules.left = right, left  # its uses are seen first
        left.submodules.inner = inner
        inner.submodules.across, inner.submodules.later = across, later
        inner.submodules.box = Instance("box", i_a=first[3:9], o_low=low, o_high=high)
        inner.d.sync += first.eq(self.a + third[2:7])
        right.d.sync += [second[:5].eq(first[4:9]), second[5:].eq(high)]
        across.d.comb += third.eq(Cat(second[6:], second[:6]) ^ first)
        left.d.sync += fourth.eq(third - second)
        right.d.comb += self.o.eq(Cat(fourth[2:], low[1:3]))
        m.d.comb += self.p.eq(Cat(low[:2], high[2:4], low[3], second[:3]))
        again = Signal(12)
        right.d.comb += again.eq(first)
        right.d.sync += Signal(12, name="kept").eq(again + third)
        later.d.sync += Signal(12, name="late").eq(third + 1)
        return m


COMPONENTS = {
    "deep": Deep,
    "mixed": Mixed,
    "shift": lambda: Relane(5, (6, 4), (6, 3)),
    "gather": lambda: Relane(5, (6, 2), (6, 6)),
    "fifo": lambda: Fifo(lanes(3, 7), 40),
    "tile": lambda: Tile(SHAPE, 2, 3, ((0, 1, 2), (3, 4, 5))),
}


def netlist(name):
    return rtlil.convert(COMPONENTS[name](), name="top", emit_src=False)


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_same_netlist(name, monkeypatch):
    with lean_netlists():
        lean = netlist(name)
    monkeypatch.setattr(amaranth, "__version__", "0.5.11")  # without SAME
    with lean_netlists():
        assert netlist(name) == lean


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_same_flows_and_ports(name):
    def modules():
        netlist = _ir.build_netlist(_ir.Fragment.get(COMPONENTS[name](), None), ports=())
        return [(module.net_flow, list(module.ports.items())) for module in netlist.modules]

    plain = modules()
    with lean_netlists():
        assert modules() == plain


def test_a_port_is_of_one_cell():
    assert list(_runs([0x1FFFE, 0x1FFFF, 0x20000, 0x20001, 0x20003], {0x20001})) == [
        (0, 2),
        (2, 3),
        (3, 4),
        (4, 5),
    ]


FIELD = re.compile(
    r"(?m)^(  wire( width \d+)?( signed)? \\\S+(\[\d+\]|\.\w+)\n|connect \\\S+(\[\d+\]|\.\w+) .*)\n"
)


@pytest.mark.parametrize("name", COMPONENTS)
def test_amaranths_netlist_but_for_names_of_fields(name):
    plain = netlist(name)
    with lean_netlists():
        lean = netlist(name)
    assert FIELD.sub("", _without_zero_memories(plain)) == _without_zero_memories(lean)


def test_amaranth_is_put_back():
    before = [owner.__dict__[name] for owner, name, _ in REPLACED]
    assert gc.isenabled()
    seen = []

    def leave():
        with lean_netlists():
            seen.append((gc.isenabled(), [owner.__dict__[name] for owner, name, _ in REPLACED]))
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        leave()
    ((collecting, meanwhile),) = seen
    assert not collecting
    assert all(new is not old for new, old in zip(meanwhile, before, strict=True))
    assert gc.isenabled()
    assert [owner.__dict__[name] for owner, name, _ in REPLACED] == before
    with pytest.raises(AssertionError):
        _nir.Value([3])


def test_another_amaranth_keeps_its_own(monkeypatch):
    before = [owner.__dict__[name] for owner, name, _ in REPLACED]
    monkeypatch.setattr(amaranth, "__version__", "0.5.11")
    with lean_netlists():
        meanwhile = [owner.__dict__[name] for owner, name, _ in REPLACED]
    changed = [new is not old for new, old in zip(meanwhile, before, strict=True)]
    assert changed == [True] * len(OTHER) + [False] * len(SAME)


def test_clock_domains_by_name():
    """Eight names: a set has them so once in 40,320 processes."""
    m = Module()
    names = [f"clock{k}" for k in (5, 2, 7, 0, 3, 6, 1, 4)]
    for name in names:
        m.d[name] += Signal(name=f"q_{name}").eq(1)
    with lean_netlists():
        text = rtlil.convert(m, name="top", ports=[], emit_src=False)
    clocks = re.findall(r"input \d+ +\\(\w+)_clk\n", text)
    assert clocks == sorted(names)


def test_a_caller_without_collection_keeps_it_so():
    gc.disable()
    try:
        with lean_netlists():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_values_too_wide_for_a_net():
    m = Module()
    a, b = Signal(40_000), Signal(70_000)
    m.d.comb += b.eq(a * a)
    with lean_netlists(), pytest.raises(ValueError, match=r"a value of 80000 bits; at most 65536"):
        rtlil.convert(m, ports=[a, b])


def test_late_values_that_lead_to_others():
    netlist = _nir.Netlist()
    netlist.connections = {
        _nir.Net(-3): _nir.Net(-2),
        _nir.Net(-2): _nir.Net(1),
        _nir.Net(-1): _nir.Net(1 << 16),
    }
    with lean_netlists():
        value = _nir.Value(map(_nir.Net, (-3, -1, 0, 5 << 16)))
        assert netlist.resolve_value(value) == (1, 1 << 16, 0, 5 << 16)
        emitter = _ir.NetlistEmitter(netlist, None)
        assert emitter.extend(value, True, 6) == (*value, 5 << 16, 5 << 16)
        assert emitter.extend(value, False, 5) == (*value, 0)
