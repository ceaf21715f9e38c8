"""Between a link end and a transceiver core: plain pins, the user side of an Aurora core, a narrower core."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream import Buffer, connect_streams
from .phy import phy_signature, phy_word

__all__ = ["AuroraAdapter", "Narrow", "ParallelAdapter"]


class ParallelAdapter(wiring.Component):
    """Carries link words over plain pins: one a cycle, no handshake.

    Everything to and from the pins is a register; latency 1 each way. ``phy.tx.ready`` is 1 always. On one clock;
    rename ``sync`` to that of the link.

    Members: ``phy`` (of ``width`` bits); ``tx_data``, ``tx_last``, ``tx_valid``; ``rx_data``, ``rx_last``,
    ``rx_valid``; ``link_up``: the pins carry something, 1 if nothing says so.
    """

    latency = 1

    def __init__(self, width: int):
        pins = {"data": width, "last": 1, "valid": 1}
        super().__init__(
            {
                "phy": In(phy_signature(width)),
                **{f"tx_{name}": Out(bits) for name, bits in pins.items()},
                **{f"rx_{name}": In(bits) for name, bits in pins.items()},
                "link_up": In(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        phy = self.phy
        m.d.comb += phy.tx.ready.eq(1)
        m.d.sync += [
            self.tx_valid.eq(phy.tx.valid),
            self.tx_data.eq(phy.tx.payload.data),
            self.tx_last.eq(phy.tx.payload.last),
            phy.rx_valid.eq(self.rx_valid),
            phy.rx.data.eq(self.rx_data),
            phy.rx.last.eq(self.rx_last),
            phy.up.eq(self.link_up),
        ]
        return m


class AuroraAdapter(wiring.Component):
    """Carries link words through an Aurora 64B/66B core in framing mode, by its AXI4-Stream user side.

    A frame of the link is a frame of the core. Bit i of a link word is bit i of ``tdata``; so byte 0, bits 7..0, is
    the first of a word that is read with the low byte first. All bytes of every word count: ``tkeep`` is all ones,
    and that of the receiver is not looked at. On the core's ``user_clk``; rename ``sync`` to that. Latency 1 each
    way, one word a cycle; ``phy.tx.ready`` is a register, whatever ``s_axi_tx_tready`` does (the core drops it one
    cycle in 33).

    Words that wait when the channel goes down go out when it is up again; what they belonged to is sent again by
    the link.

    Members: ``phy`` (of ``width`` bits, 64 a lane); the core's ports by their names.
    """

    latency = 1

    def __init__(self, width: int):
        if width < 64 or width % 64:
            raise ValueError(f"AuroraAdapter: words of {width} bits; a lane takes 64, so 64, 128, …")
        self.width = width
        super().__init__(
            {
                "phy": In(phy_signature(width)),
                "s_axi_tx_tdata": Out(width),
                "s_axi_tx_tkeep": Out(width // 8),
                "s_axi_tx_tlast": Out(1),
                "s_axi_tx_tvalid": Out(1),
                "s_axi_tx_tready": In(1),
                "m_axi_rx_tdata": In(width),
                "m_axi_rx_tlast": In(1),
                "m_axi_rx_tvalid": In(1),
                "channel_up": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        phy = self.phy
        m.submodules.buffer = buffer = Buffer(phy_word(self.width))
        connect_streams(m, producer=phy.tx, consumer=buffer.i)
        m.d.comb += [
            self.s_axi_tx_tdata.eq(buffer.o.payload.data),
            self.s_axi_tx_tkeep.eq(~0),
            self.s_axi_tx_tlast.eq(buffer.o.payload.last),
            self.s_axi_tx_tvalid.eq(buffer.o.valid),
            buffer.o.ready.eq(self.s_axi_tx_tready),
        ]
        m.d.sync += [
            phy.rx_valid.eq(self.m_axi_rx_tvalid),
            phy.rx.data.eq(self.m_axi_rx_tdata),
            phy.rx.last.eq(self.m_axi_rx_tlast),
            phy.up.eq(self.channel_up),
        ]
        return m


class Narrow(wiring.Component):
    """Carries link words over a core with narrower words: each as ``width``/``narrow`` of them, low bits first.

    One narrow word a cycle. A frame that comes with words missing is filled up at its end, so that the next one
    starts anew; its CRC tells. ``phy.tx.ready`` depends on ``core.tx.ready``, ``core.tx.valid`` on registers only.

    Members: ``phy`` (of ``width`` bits), ``core`` (the same of ``narrow`` bits, seen by a link end).
    """

    latency = 1

    def __init__(self, width: int, narrow: int):
        if narrow < 1 or width % narrow or width == narrow:
            raise ValueError(
                f"Narrow: words of {width} bits over {narrow}; a whole number of them, at least 2"
            )
        self.width, self.narrow, self.beats = width, narrow, width // narrow
        super().__init__({"phy": In(phy_signature(width)), "core": Out(phy_signature(narrow))})

    def elaborate(self, platform):
        m = Module()
        self._transmit(m)
        self._receive(m)
        m.d.comb += self.phy.up.eq(self.core.up)
        return m

    def _transmit(self, m):
        taken, given = self.phy.tx, self.core.tx
        word = Signal(phy_word(self.width), reset_less=True)
        left = Signal(range(self.beats + 1))
        m.d.comb += [
            given.valid.eq(left != 0),
            given.payload.data.eq(word.data[: self.narrow]),
            given.payload.last.eq(word.last & (left == 1)),
            taken.ready.eq((left == 0) | ((left == 1) & given.ready)),
        ]
        with m.If(taken.ready):
            m.d.sync += [word.eq(taken.payload), left.eq(Mux(taken.valid, self.beats, 0))]
        with m.Elif(given.ready):
            m.d.sync += [word.data.eq(word.data >> self.narrow), left.eq(left - 1)]

    def _receive(self, m):
        core, phy = self.core, self.phy
        beat = Signal(range(self.beats))
        full = Signal()
        m.d.comb += full.eq(core.rx.last | (beat == self.beats - 1))
        m.d.sync += phy.rx_valid.eq(core.rx_valid & full)
        with m.If(core.rx_valid):
            m.d.sync += [
                phy.rx.data.word_select(beat, self.narrow).eq(core.rx.data),
                phy.rx.last.eq(core.rx.last),
                beat.eq(Mux(full, 0, beat + 1)),
            ]
        with m.If(~core.up):
            m.d.sync += beat.eq(0)
