"""What a board has beside its stages and link ends: memories and multipliers of the loss, rings of a host's port."""

from __future__ import annotations

from ..ir.stage import Loss
from ..numeric_tables import EXP2_TABLE, LERP_BITS, LOG1P_TABLE, LOG2E, SLOPE_BITS, UNIT_BITS
from ..target import Device
from .multipliers import tiles
from .rooms import Memory

__all__ = ["RING", "loss_dsps", "loss_memories", "port_memories"]

RING = 2048
"""Bytes of each of the two rings of a serial port: gateware.serial.frames.RING."""
SHALLOW = 64
"""Words up to which synthesis takes look-up tables."""
_ROW = UNIT_BITS + 1 + SLOPE_BITS
"""Bits of a row of a table: value and slope."""


def loss_memories(loss: Loss) -> tuple[Memory, ...]:
    """Logits and exponentials of a sample, and two tables."""
    words = max(2, loss.classes)
    tables = words <= SHALLOW
    return (
        ("logits", 1, words, loss.z.width, 1, tables),
        ("exponentials", 1, words, UNIT_BITS + 1, 1, tables),
        ("powers of two", 1, len(EXP2_TABLE), _ROW, 1, False),
        ("logarithms", 1, len(LOG1P_TABLE), _ROW, 1, False),
    )


def loss_dsps(loss: Loss, device: Device) -> int:
    """DSPs of the loss: a logit times log2(e), whose last bits are 0, and a slope times a fraction twice. Of these
    numbers without a sign a DSP48 takes a bit less than of others."""
    first, second = device.dsp_widths
    widths = (first, second) if device.vendor == "xilinx" else (first + 1, second + 1)
    zeros = (LOG2E & -LOG2E).bit_length() - 1
    power = tiles(loss.z.width + 1, LOG2E.bit_length() - zeros + 1, widths)
    return power + 2 * tiles(SLOPE_BITS + 1, LERP_BITS + 1, widths)


def port_memories() -> tuple[Memory, ...]:
    """Bytes that wait on both ways of a serial port."""
    return (("port", 2, RING, 8, 1, False),)
