"""Who reads and writes the memories of a stage's array beside its passes: the host, and what runs between batches."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring

from ..plan.registers import SPACES
from .masters import MasterUpdate, master_streams
from .sums import GradientSums, sum_streams
from .tile import control_layout

__all__ = ["host_access", "masters_elsewhere", "shared_sums"]


def host_access(m, stage, array, bias) -> None:
    """Loads and peeks; the peek of a weight travels through the array as an op (see _backward)."""
    host = stage.host
    weight = host.space <= SPACES["grad_high"]
    high = (host.space == SPACES["grad_high"]) | (host.space == SPACES["bias_grad_high"])
    grad = Signal(signed(64))
    m.d.comb += [
        array.load.eq(host.load & (host.space == SPACES["master"])),
        array.load_select.eq(host.pe),
        array.load_address.eq(host.address),
        array.load_value.eq(host.value),
        array.peek_select.eq(host.pe),
        array.rate.eq(stage.rate),
    ]
    if stage.shape.gradient:
        m.d.comb += grad.eq(array.peek_grad)
    if bias is not None:
        m.d.comb += [
            bias.load.eq(
                Mux(host.load & (host.space == SPACES["bias"]), 1 << host.pe[: len(bias.peek_lane)], 0)
            ),
            bias.load_word.eq(host.address),
            bias.load_value.eq(host.value),
            bias.peek.eq(host.peek & ~weight),
            bias.peek_word.eq(host.address),
            bias.peek_lane.eq(host.pe),
        ]
        if stage.shape.gradient:
            with m.If(~weight):
                m.d.comb += grad.eq(bias.peek_grad)
    with m.If(host.space == SPACES["master"]):
        m.d.comb += stage.peeked.eq(array.peek_master)
    with m.Elif(host.space == SPACES["bias"]):
        m.d.comb += stage.peeked.eq(bias.peek_bias if bias is not None else 0)
    with m.Else():
        m.d.comb += stage.peeked.eq(Mux(high, grad >> 32, grad))


def shared_sums(m, stage, array, bias, host_peek):
    """Puts the sums of all parts in the place of own ones. The component, and control of peeks, its own while it
    runs."""
    sums = GradientSums(stage.plan, stage.whole, stage.shape.grad, array.peek_latency)
    m.submodules.sums = sums
    for name in sum_streams(stage.plan, stage.whole, stage.shape.grad):
        wiring.connect(m, getattr(sums, name), wiring.flipped(getattr(stage, name)))
    peek = Signal(control_layout(stage.shape), name="sums_peek")
    m.d.comb += [
        peek.peek.eq(sums.peek),
        peek.address.eq(sums.peek_address),
        sums.sum.eq(array.peek_grad),
    ]
    with m.If(sums.running):
        m.d.comb += array.peek_select.eq(sums.peek_pe)
    with m.If(sums.load & ~sums.load_bias):
        m.d.comb += [
            array.load.eq(1),
            array.load_sum.eq(1),
            array.load_select.eq(sums.load_pe),
            array.load_address.eq(sums.load_address),
        ]
    m.d.comb += array.load_grad.eq(sums.load_sum)
    if bias is not None:
        with m.If(sums.bias_peek):
            m.d.comb += [
                bias.peek.eq(1),
                bias.peek_word.eq(sums.bias_word),
                bias.peek_lane.eq(sums.bias_lane),
            ]
        with m.If(sums.load & sums.load_bias):
            m.d.comb += [
                bias.load.eq(1 << sums.load_pe[: len(bias.peek_lane)]),
                bias.load_sum.eq(1),
                bias.load_word.eq(sums.load_address),
            ]
        m.d.comb += [bias.load_grad.eq(sums.load_sum), sums.bias_sum.eq(bias.peek_grad)]
    return sums, Mux(sums.running, peek, host_peek)


def masters_elsewhere(m, stage, array, peek):
    """Updates masters that are not here. The component, and control of peeks: its own while it runs."""
    update = MasterUpdate(stage.network, stage.plan, stage.shape, array.peek_latency)
    m.submodules.masters = update
    for name in master_streams(stage.plan):
        wiring.connect(m, getattr(update, name), wiring.flipped(getattr(stage, name)))
    own = Signal(control_layout(stage.shape), name="masters_peek")
    m.d.comb += [
        own.peek.eq(update.peek),
        own.address.eq(update.peek_address),
        update.sum.eq(array.peek_grad),
        update.rate.eq(stage.rate),
    ]
    with m.If(update.running):
        m.d.comb += array.peek_select.eq(update.peek_pe)
    with m.If(update.load):
        m.d.comb += [
            array.load.eq(1),
            array.load_select.eq(update.load_pe),
            array.load_address.eq(update.load_address),
            array.load_value.eq(update.load_weight),
        ]
    return update, Mux(update.running, own, peek)
