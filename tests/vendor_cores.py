"""Modules with the ports of AMD's cores and primitives, to lint tops against.

The ports of the cores are those of stubs that Vivado wrote for cores of the same parameters (Aurora 64B/66B 12.0 in
framing mode for 7-series parts with AXI4-Lite reconfiguration, for UltraScale+ without; XDMA 4.1 with one stream each
way), written down here apart from hwgen.backend.projects. Primitives are those of Yosys's library.
"""

import re
from functools import cache
from pathlib import Path

import pyosys

__all__ = ["aurora_module", "primitive_modules", "xdma_module"]

SHARE = Path(pyosys.__file__).parent / "share" / "xilinx"

STREAMS = """
input [{data}] s_axi_tx_tdata; input [{keep}] s_axi_tx_tkeep; input s_axi_tx_tlast; input s_axi_tx_tvalid;
output s_axi_tx_tready; output [{data}] m_axi_rx_tdata; output [{keep}] m_axi_rx_tkeep; output m_axi_rx_tlast;
output m_axi_rx_tvalid;
input [0:{last}] rxp; input [0:{last}] rxn; output [0:{last}] txp; output [0:{last}] txn;
output hard_err; output soft_err; output channel_up; output [0:{last}] lane_up;
input reset_pb; input gt_rxcdrovrden_in; input power_down; input [2:0] loopback; input pma_init; output gt_pll_lock;
input init_clk; output link_reset_out; output sys_reset_out; output tx_out_clk;
"""
OWN = """
input gt_refclk1_p; input gt_refclk1_n; output gt_refclk1_out; output user_clk_out; output mmcm_not_locked_out;
output sync_clk_out; output gt_reset_out;
"""
LENT = "input refclk1_in; input mmcm_not_locked; input user_clk; input sync_clk; output gt_to_common_qpllreset_out;"
OWN_PLL = {
    "7": """output gt_qpllclk_quad{quad}_out; output gt_qpllrefclk_quad{quad}_out; output gt_qpllrefclklost_out;
        output gt_qplllock_out;""",
    "ultra": """output gt_qpllclk_quad1_out; output gt_qpllrefclk_quad1_out; output gt_qplllock_quad1_out;
        output gt_qpllrefclklost_quad1_out;""",
}
LENT_PLL = {
    "7": """input gt_qpllclk_quad{quad}_in; input gt_qpllrefclk_quad{quad}_in; input gt_qpllrefclklost_in;
        input gt_qplllock_in;""",
    "ultra": """input gt_qpllclk_quad1_in; input gt_qpllrefclk_quad1_in; input gt_qplllock_quad1_in;
        input gt_qpllrefclklost_quad1; output bufg_gt_clr_out;""",
}
SEVEN = """
input drp_clk_in; input [7:0] qpll_drpaddr_in; input [15:0] qpll_drpdi_in; output [15:0] qpll_drpdo_out;
output qpll_drprdy_out; input qpll_drpen_in; input qpll_drpwe_in;
"""
LANE = """
input [31:0] s_axi_awaddr{s}; input s_axi_awvalid{s}; output s_axi_awready{s}; input [31:0] s_axi_wdata{s};
input [3:0] s_axi_wstrb{s}; input s_axi_wvalid{s}; output s_axi_wready{s}; output s_axi_bvalid{s};
output [1:0] s_axi_bresp{s}; input s_axi_bready{s}; input [31:0] s_axi_araddr{s}; input s_axi_arvalid{s};
output s_axi_arready{s}; output [31:0] s_axi_rdata{s}; output s_axi_rvalid{s}; output [1:0] s_axi_rresp{s};
input s_axi_rready{s};
"""
XDMA = """
input sys_clk; {clock} input sys_rst_n; input [{lanes}:0] pci_exp_rxp; input [{lanes}:0] pci_exp_rxn;
output [{lanes}:0] pci_exp_txp; output [{lanes}:0] pci_exp_txn; output axi_aclk; output axi_aresetn; output user_lnk_up;
input [0:0] usr_irq_req; output [0:0] usr_irq_ack; output msi_enable; output [2:0] msi_vector_width;
output [{data}:0] m_axis_h2c_tdata_0; output [{keep}:0] m_axis_h2c_tkeep_0; output m_axis_h2c_tlast_0;
output m_axis_h2c_tvalid_0; input m_axis_h2c_tready_0;
input [{data}:0] s_axis_c2h_tdata_0; input [{keep}:0] s_axis_c2h_tkeep_0; input s_axis_c2h_tlast_0;
input s_axis_c2h_tvalid_0; output s_axis_c2h_tready_0;
"""


def module(name, ports):
    """A module that does nothing with its ports."""
    lines = [" ".join(port.split()) for port in ports.split(";") if port.strip()]
    names = [line.split()[-1] for line in lines]
    body = "".join(f"  {line};\n" for line in lines)
    return f"module {name}({', '.join(names)});\n{body}endmodule\n"


def aurora_module(name, series, lanes, shared_logic, quad=1):
    """An Aurora core; ``shared_logic`` is inside it, ``quad`` is what cores for 7-series parts call theirs."""
    ports = STREAMS.format(data=f"0:{64 * lanes - 1}", keep=f"0:{8 * lanes - 1}", last=lanes - 1)
    ports += OWN if shared_logic else LENT
    ports += (OWN_PLL if shared_logic else LENT_PLL)[series].format(quad=quad)
    if series == "7":
        ports += SEVEN + "".join(LANE.format(s=f"_lane{lane}" if lane else "") for lane in range(lanes))
    else:
        ports += f"output [{lanes - 1}:0] gt_powergood;"
    return module(name, ports)


def xdma_module(name, series, lanes, width):
    """A DMA engine whose streams are ``width`` bits wide."""
    clock = "input sys_clk_gt;" if series == "ultra" else ""
    return module(name, XDMA.format(clock=clock, lanes=lanes - 1, data=width - 1, keep=width // 8 - 1))


@cache
def library():
    return "".join((SHARE / name).read_text() for name in ("cells_sim.v", "cells_xtra.v"))


def primitive_modules(names):
    """AMD's primitives by name: their parameters and ports."""
    found = []
    for name in names:
        text = re.search(rf"(?ms)^module {name}\s*\(.*?^endmodule", library())[0]
        ports = re.findall(
            r"(input|output)\s+((?:\[\d+:\d+\]\s*)?)(\w+)(?=\s*[;,)\n])", re.sub(r"\(\*.*?\*\)", "", text)
        )
        assert ports, name
        parameters = "\n".join(re.findall(r"(?m)^\s*parameter .*?;", text))
        declared = "".join(f"  {side} {bits}{port};\n" for side, bits, port in ports)
        listed = ", ".join(port for _, _, port in ports)
        found.append(f"module {name}({listed});\n{parameters}\n{declared}endmodule\n")
    return "\n".join(found)
