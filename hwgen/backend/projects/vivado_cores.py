"""What projects for Vivado connect to AMD's cores: ports of Aurora 64B/66B, parameters of XDMA, Verilog in between."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from ...gateware.link.adapter import AuroraAdapter
from ...gateware.link.startup import AuroraReset
from ...gateware.serial.beats import ByteBeats
from ...target_serial import Pcie
from ..convert import convert
from .aurora import Aurora

__all__ = ["aurora_ports", "beats_of", "support_verilog", "xdma_parameters"]

STREAMS = ((64, "62.5"), (64, "125"), (64, "250"), (128, "250"), (256, "250"), (512, "250"))
"""Width and clock of the DMA engine's streams, slowest first (PG195)."""


def aurora_ports(core: Aurora, shares: bool) -> list[tuple[str, str]]:
    """Ports of an Aurora 64B/66B core (PG074) and what the top connects to each, in the top's names.

    ``shares``: another core uses this one's clocks and PLL.
    """
    side = core.side
    ports = [
        ("s_axi_tx_tdata", f"{side}_tx_tdata"),
        ("s_axi_tx_tkeep", f"{side}_tx_tkeep"),
        ("s_axi_tx_tlast", f"{side}_tx_tlast"),
        ("s_axi_tx_tvalid", f"{side}_tx_tvalid"),
        ("s_axi_tx_tready", f"{side}_tx_tready"),
        ("m_axi_rx_tdata", f"{side}_rx_tdata"),
        ("m_axi_rx_tkeep", ""),
        ("m_axi_rx_tlast", f"{side}_rx_tlast"),
        ("m_axi_rx_tvalid", f"{side}_rx_tvalid"),
        *((name, f"{side}_{name}") for name in ("rxp", "rxn", "txp", "txn")),
        ("channel_up", f"{side}_channel_up"),
        ("lane_up", ""),
        ("hard_err", ""),
        ("soft_err", ""),
        ("init_clk", "init_clk"),
        ("pma_init", f"{side}_pma_init"),
        ("reset_pb", f"{side}_reset_pb"),
        ("sys_reset_out", f"{side}_core_rst"),
        ("link_reset_out", ""),
        ("gt_pll_lock", f"{side}_pll_lock"),
        ("tx_out_clk", ""),
        ("gt_rxcdrovrden_in", "1'b0"),
        ("power_down", "1'b0"),
        ("loopback", "3'b0"),
    ]
    ports += _own_clocks(core, shares) if core.master is None else _lent_clocks(core)
    return ports + (_drp(core.link.lanes) if core.series == "7" else [("gt_powergood", "")])


def _own_clocks(core: Aurora, shares: bool) -> list[tuple[str, str]]:
    """Of a core with the shared logic inside."""
    side = core.side
    lent = {
        name: f"{side}_{name}" if shares else ""
        for name in ("sync_clk", "mmcm_not_locked", "gt_reset", "refclk")
    }
    ports = [
        ("gt_refclk1_p", f"refclk{core.socket}_p"),
        ("gt_refclk1_n", f"refclk{core.socket}_n"),
        ("gt_refclk1_out", lent["refclk"]),
        ("user_clk_out", f"{side}_clk"),
        ("sync_clk_out", lent["sync_clk"]),
        ("mmcm_not_locked_out", lent["mmcm_not_locked"]),
        ("gt_reset_out", lent["gt_reset"]),
    ]
    if not shares:
        return ports
    return ports + [(port, f"{side}_{name}") for name, port in _qpll_outputs(core).items()]


def _qpll_outputs(core: Aurora) -> dict[str, str]:
    quad = f"quad{core.place + 1 if core.series == '7' else 1}"
    found = {"qpllclk": f"gt_qpllclk_{quad}_out", "qpllrefclk": f"gt_qpllrefclk_{quad}_out"}
    if core.series == "7":
        return {**found, "qplllock": "gt_qplllock_out", "qpllrefclklost": "gt_qpllrefclklost_out"}
    return {**found, "qplllock": f"gt_qplllock_{quad}_out", "qpllrefclklost": f"gt_qpllrefclklost_{quad}_out"}


def _lent_clocks(core: Aurora) -> list[tuple[str, str]]:
    """Of a core that takes the shared logic of its master."""
    master = core.master
    quad = f"quad{core.place + 1 if core.series == '7' else 1}"
    lock, lost = ("gt_qplllock_in", "gt_qpllrefclklost_in")
    if core.series == "ultra":
        lock, lost = (f"gt_qplllock_{quad}_in", f"gt_qpllrefclklost_{quad}")
    ports = [
        ("refclk1_in", f"{master}_refclk"),
        ("user_clk", f"{master}_clk"),
        ("sync_clk", f"{master}_sync_clk"),
        ("mmcm_not_locked", f"{master}_mmcm_not_locked"),
        (f"gt_qpllclk_{quad}_in", f"{master}_qpllclk"),
        (f"gt_qpllrefclk_{quad}_in", f"{master}_qpllrefclk"),
        (lock, f"{master}_qplllock"),
        (lost, f"{master}_qpllrefclklost"),
        ("gt_to_common_qpllreset_out", ""),
    ]
    return ports + ([("bufg_gt_clr_out", "")] if core.series == "ultra" else [])


def _drp(lanes: int) -> list[tuple[str, str]]:
    """The reconfiguration ports that cores for 7-series parts have, unused."""
    ports = [("drp_clk_in", "init_clk"), ("qpll_drpaddr_in", "8'b0"), ("qpll_drpdi_in", "16'b0")]
    ports += [
        ("qpll_drpdo_out", ""),
        ("qpll_drprdy_out", ""),
        ("qpll_drpen_in", "1'b0"),
        ("qpll_drpwe_in", "1'b0"),
    ]
    inputs = {
        "awaddr": 32,
        "awvalid": 1,
        "wdata": 32,
        "wstrb": 4,
        "wvalid": 1,
        "bready": 1,
        "araddr": 32,
        "arvalid": 1,
    }
    outputs = ("awready", "wready", "bvalid", "bresp", "arready", "rdata", "rvalid", "rresp")
    for lane in range(lanes):
        suffix = f"_lane{lane}" if lane else ""
        ports += [(f"s_axi_{name}{suffix}", f"{bits}'b0") for name, bits in {**inputs, "rready": 1}.items()]
        ports += [(f"s_axi_{name}{suffix}", "") for name in outputs]
    return ports


def xdma_parameters(pcie: Pcie) -> list[tuple[str, str]]:
    """Of the PCIe DMA engine with one stream each way (PG195)."""
    width, clock = _stream(pcie)
    return [
        ("mode_selection", "Advanced"),
        ("pcie_blk_locn", pcie.block),
        ("pl_link_cap_max_link_width", f"X{pcie.lanes}"),
        ("pl_link_cap_max_link_speed", f"{pcie.gtps:.1f}_GT/s"),
        ("axi_data_width", f"{width}_bit"),
        ("axisten_freq", clock),
        ("xdma_axi_intf_mm", "AXI_Stream"),
        ("xdma_rnum_chnl", "1"),
        ("xdma_wnum_chnl", "1"),
        ("cfg_mgmt_if", "false"),
    ]


def _stream(pcie: Pcie) -> tuple[int, str]:
    """The slowest streams that carry what the lanes do."""
    rate = Fraction(repr(pcie.gtps)) * pcie.lanes * (1000 if pcie.gtps == 8 else 800)
    return next(((w, clock) for w, clock in STREAMS if w * Fraction(clock) >= rate), STREAMS[-1])


def beats_of(pcie: Pcie | None) -> int:
    """Bytes of a beat of the DMA engine's streams."""
    return _stream(pcie)[0] // 8 if pcie is not None else 0


def support_verilog(cores: Sequence[Aurora], beats: int, init_mhz: Fraction) -> str:
    """Adapters of links, resets of their cores, bytes of the host port as beats of ``beats`` bytes (0: none)."""
    texts = [_adapter(width) for width in sorted({one.link.width for one in cores})]
    if cores:
        texts.append(_reset(int(init_mhz * 10**6)))
    if beats:
        texts.append(_beats(beats))
    first, _, _ = texts[0].partition("\n")
    return "\n".join([first, *(text.partition("\n")[2] for text in texts)])


@cache
def _adapter(width: int) -> str:
    return convert(AuroraAdapter(width), f"hwgen_aurora_adapter{width}")


@cache
def _reset(second: int) -> str:
    return convert(AuroraReset(second), "hwgen_aurora_reset")


@cache
def _beats(size: int) -> str:
    return convert(ByteBeats(size), "hwgen_byte_beats")
