"""The host's side of a device: register bus, settings, status, access to the stages' memories."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..plan.plan import Plan
from ..plan.registers import DEVICE_ID, GLOBAL, LINK_BASE, SPACES, STAGE_BASE, STAGE_COUNTERS, STAGE_STRIDE
from .stage import HOST_LAYOUT

__all__ = ["BUS", "Host"]

BUS = wiring.Signature(
    {"valid": Out(1), "write": Out(1), "addr": Out(16), "wdata": Out(32), "ready": In(1), "rdata": In(32)}
)
"""One transaction at a time: hold valid, write, addr and wdata until ready = 1; rdata is valid in that
cycle."""


class Host(wiring.Component):
    """Registers of hwgen.plan.registers.

    A register takes 2 cycles of the bus, a counter 5, reading an element of a memory 5 + ``peek_delay``.

    Members: ``bus``; settings out (``train``, ``hold``, ``rate``, ``batch``, ``seed``); ``stage`` (whom
    ``host`` speaks to, and whose ``counter`` is asked), ``host``, ``peeked``; ``link``: value of
    the link register that the bus names; ``busy``: the answer must wait, ``peeked`` is there when it no longer is;
    status in. Behind the stages come ``regions`` of masters that lie elsewhere, whose pointer is a plain 32-bit index.
    """

    def __init__(self, plan: Plan, build: int, peek_delay: int, regions: int = 0):
        self.plan, self.build, self.peek_delay, self.regions = plan, build, peek_delay, regions
        update = plan.network.update
        stages = range(max(2, len(plan.stages) + regions))
        super().__init__(
            {
                "bus": In(BUS),
                "train": Out(1, init=1),
                "hold": Out(1),
                "rate": Out(signed(update.lr.width), init=update.rate),
                "batch": Out(range(update.batch + 1), init=update.batch),
                "seed": Out(32, init=update.seed & 0xFFFFFFFF),
                "stage": Out(stages),
                "host": Out(HOST_LAYOUT),
                "peeked": In(signed(64)),
                "counter_stage": Out(stages),
                "counter_select": Out(range(len(STAGE_COUNTERS))),
                "counter": In(32),
                "link": In(32),
                "snapshot": Out(1),
                "samples": In(32),
                "idle": In(1),
                "bad_frame": In(1),
                "bad_label": In(1),
                "held": In(1),
                "busy": In(1),
                "bad_memory": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        cycles, copy = Signal(64), Signal(64)
        m.d.sync += cycles.eq(cycles + 1)
        space, pe, address = Signal(16), Signal(16), Signal(16)
        wait = Signal(range(self.peek_delay + 6))
        value = Signal(32)
        strobe, was_busy = Signal(), Signal()
        m.d.sync += was_busy.eq(self.busy)
        names = {name: register.address for name, register in GLOBAL.items()}

        m.d.comb += [
            self.stage.eq(space[4:]),
            self.host.space.eq(space[:4]),
            self.host.pe.eq(pe),
            self.host.address.eq(address),
            self.host.value.eq(bus.wdata),
            self.counter_stage.eq((bus.addr - STAGE_BASE) >> STAGE_STRIDE.bit_length() - 1),
            self.counter_select.eq(bus.addr[: STAGE_STRIDE.bit_length() - 1]),
        ]
        is_data = bus.addr == names["data"]
        with m.FSM():
            with m.State("WAIT"):
                m.d.comb += strobe.eq(bus.valid)
                m.d.sync += wait.eq(0)
                with m.If(bus.valid):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.sync += wait.eq(wait + 1)
                late = Mux(bus.addr >= STAGE_BASE, 3, Mux(is_data & ~bus.write, self.peek_delay + 3, 0))
                with m.If(wait >= late):
                    m.d.sync += wait.eq(wait)
                with m.If((wait >= late) & ~self.busy & ~was_busy):
                    m.d.comb += bus.ready.eq(1)
                    m.next = "WAIT"
                    with m.If(is_data):
                        self._step(m, space, pe, address)
        m.d.comb += bus.rdata.eq(value)

        read = {
            "id": DEVICE_ID,
            "build": self.build,
            "control": Cat(self.train, self.hold),
            "status": Cat(self.idle, self.bad_frame, self.bad_label, self.held, self.bad_memory),
            "rate": self.rate,
            "batch": self.batch,
            "seed": self.seed,
            "samples": self.samples,
            "cycles_low": copy[:32],
            "cycles_high": copy[32:],
            "space": space,
            "pointer": Cat(address, pe),
            "data": self.peeked,
        }
        m.d.sync += value.eq(0)
        with m.Switch(bus.addr):
            for name, source in read.items():
                with m.Case(names[name]):
                    m.d.sync += value.eq(source)
        with m.If(bus.addr >= STAGE_BASE):
            m.d.sync += value.eq(self.counter)
        with m.If(bus.addr >= LINK_BASE):
            m.d.sync += value.eq(self.link)
        m.d.comb += self.host.peek.eq(strobe & ~bus.write & is_data)
        with m.If(strobe & bus.write), m.Switch(bus.addr):
            with m.Case(names["control"]):
                m.d.sync += Cat(self.train, self.hold).eq(bus.wdata)
            for name, target in (
                ("rate", self.rate),
                ("batch", self.batch),
                ("seed", self.seed),
                ("space", space),
            ):
                with m.Case(names[name]):
                    m.d.sync += target.eq(bus.wdata)
            with m.Case(names["pointer"]):
                m.d.sync += Cat(address, pe).eq(bus.wdata)
            with m.Case(names["snapshot"]):
                m.d.comb += self.snapshot.eq(1)
                m.d.sync += copy.eq(cycles)
            with m.Case(names["data"]):
                m.d.comb += self.host.load.eq(1)
        return m

    def _step(self, m, space, pe, address):
        """Next address; after the last word of a PE (of a lane, for biases) the next PE."""
        last = Signal(16, name="last_address", init=0xFFFF if self.regions else 0)
        for number, planned in enumerate(self.plan.stages):
            with m.If(space[4:] == number):
                m.d.comb += last.eq(planned.fold.depth - 1)
                with m.If(space[:4] >= SPACES["bias"]):
                    m.d.comb += last.eq(planned.fold.y_words - 1)
        m.d.sync += address.eq(address + 1)
        with m.If(address == last):
            m.d.sync += [address.eq(0), pe.eq(pe + 1)]
