"""Adapters of a link: words and order over cores that stall, and over narrower ones."""

import gc
import re

import numpy as np
import pytest
from phy_loop import Loop, one_in_33, phy_wire, random_frames, wire

from hwgen.gateware.link.adapter import AuroraAdapter, Narrow, ParallelAdapter


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_parallel(width, stall):
    part = ParallelAdapter(width)
    frames = random_frames(np.random.default_rng(1), width, 60, shortest=1)
    loop = Loop(part, frames, stall=stall, cycles=3000)
    pins = wire(
        (part.tx_valid, None, part.tx_data, part.tx_last),
        (part.rx_valid, part.rx_data, part.rx_last),
        part.link_up,
    )
    assert loop.run(pins) == frames


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("stall", [0.0, 0.3])
@pytest.mark.parametrize("core", ["one_in_33", "random", "always"])
def test_aurora(width, stall, core):
    part = AuroraAdapter(width)
    frames = random_frames(np.random.default_rng(1), width, 60, shortest=1)
    rng = np.random.default_rng(2)
    ready = {"one_in_33": one_in_33(4), "random": lambda cycle: rng.random() < 0.5, "always": None}[core]
    loop = Loop(part, frames, stall=stall)
    core_side = wire(
        (part.s_axi_tx_tvalid, part.s_axi_tx_tready, part.s_axi_tx_tdata, part.s_axi_tx_tlast),
        (part.m_axi_rx_tvalid, part.m_axi_rx_tdata, part.m_axi_rx_tlast),
        part.channel_up, latency=7, ready=ready, start=30,
    )  # fmt: skip
    keeps = []

    async def keep(ctx):
        while True:
            _, _, value = await ctx.tick().sample(part.s_axi_tx_tkeep)
            keeps.append(value)

    assert loop.run(core_side, keep) == frames
    assert set(keeps) == {(1 << width // 8) - 1}


def test_aurora_takes_a_word_every_cycle_the_core_does():
    part = AuroraAdapter(64)
    frames = random_frames(np.random.default_rng(1), 64, 200)
    words = sum(map(len, frames))
    loop = Loop(part, frames, cycles=words * 33 // 32 + 16)
    core = (part.s_axi_tx_tvalid, part.s_axi_tx_tready, part.s_axi_tx_tdata, part.s_axi_tx_tlast)
    back = (part.m_axi_rx_tvalid, part.m_axi_rx_tdata, part.m_axi_rx_tlast)
    assert loop.run(wire(core, back, part.channel_up, ready=one_in_33(0))) == frames


@pytest.mark.parametrize(("width", "narrow"), [(128, 64), (256, 32), (64, 8), (192, 64)])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.2, 0.4)])
def test_narrow(width, narrow, stalls):
    part = Narrow(width, narrow)
    frames = random_frames(np.random.default_rng(1), width, 30, shortest=1)
    rng = np.random.default_rng(2)
    ready = (lambda cycle: rng.random() >= stalls[1]) if stalls[1] else None
    loop = Loop(part, frames, stall=stalls[0])
    assert loop.run(phy_wire(part.core, ready=ready, latency=3)) == frames


def test_narrow_sends_a_beat_every_cycle():
    part = Narrow(128, 32)
    frames = random_frames(np.random.default_rng(1), 128, 50)
    loop = Loop(part, frames, cycles=4 * sum(map(len, frames)) + 8)
    assert loop.run(phy_wire(part.core)) == frames


def test_narrow_starts_anew_at_every_frame():
    part = Narrow(128, 32)
    rng = np.random.default_rng(3)
    frames = random_frames(rng, 128, 200)
    loop = Loop(part, frames, cycles=8000)
    lost = 0

    def spoil(cycle, data, last):
        nonlocal lost
        gone = not last and rng.random() < 0.004
        lost += gone
        return [] if gone else [(data, last)]

    got = loop.run(phy_wire(part.core, spoil=spoil))
    assert len(got) == len(frames)
    assert 5 < lost < 30
    assert len(frames) - lost <= sum(a == b for a, b in zip(got, frames, strict=True)) < len(frames)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AuroraAdapter(96), "AuroraAdapter: words of 96 bits; a lane takes 64, so 64, 128, …"),
        (lambda: Narrow(64, 24), "Narrow: words of 64 bits over 24; a whole number of them, at least 2"),
        (lambda: Narrow(64, 64), "Narrow: words of 64 bits over 64; a whole number of them, at least 2"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
    gc.collect()  # the refused part, while its warning is ignored
