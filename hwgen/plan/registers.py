"""The register map of a device, used alike by the gateware, the simulation drivers and the host.

Word addresses of 32-bit registers. Global registers stand at 0x00.., stage counters at STAGE_BASE + 32·stage.
"""

from __future__ import annotations

from dataclasses import dataclass

from .links import LINK_COUNTERS
from .plan import Plan

__all__ = [
    "CONTROL_HOLD", "CONTROL_TRAIN", "DEVICE_ID", "GLOBAL", "LINK_BASE", "LINK_REGISTERS", "LINK_STRIDE", "SPACES",
    "STAGE_BASE", "STAGE_COUNTERS", "STAGE_STRIDE", "STATUS_BAD_FRAME", "STATUS_BAD_LABEL", "STATUS_BAD_MEMORY",
    "STATUS_HELD", "STATUS_IDLE", "Register", "channel_names", "link_register", "stage_register",
]  # fmt: skip

DEVICE_ID = 0x4857474E  # "HWGN"

CONTROL_TRAIN = 1 << 0
"""1: train; 0: inference (no labels, no gradient). Change only while idle."""
CONTROL_HOLD = 1 << 1
"""1: every stage waits before its update until this is written 0, so that dW and db can be read."""

STATUS_IDLE = 1 << 0
"""No sample is anywhere in the device, no update is running."""
STATUS_BAD_FRAME = 1 << 1
"""An image had too few or too many beats (``last`` at the wrong place); the device stops taking images."""
STATUS_BAD_LABEL = 1 << 2
"""A label was not below the number of classes; the device stops taking labels."""
STATUS_HELD = 1 << 3
"""Every stage that trains has finished its gradients of this batch and waits (CONTROL_HOLD)."""
STATUS_BAD_MEMORY = 1 << 4
"""The external memory answered with an error; what was trained since is worth nothing."""


@dataclass(frozen=True)
class Register:
    """One register: word address, access ("r", "w", "rw"), meaning."""

    address: int
    access: str
    meaning: str


GLOBAL: dict[str, Register] = {
    "id": Register(0, "r", "DEVICE_ID"),
    "build": Register(1, "r", "the build's number (32 bits of the plan's hash)"),
    "control": Register(2, "rw", "bit 0 train, bit 1 hold"),
    "status": Register(3, "r", "bit 0 idle, bit 1 bad frame, bit 2 bad label, bit 3 held, bit 4 bad memory"),
    "rate": Register(4, "rw", "learning rate / batch in format lr"),
    "batch": Register(5, "rw", "samples an update, 1 .. the batch of the build"),
    "seed": Register(6, "rw", "seed of stochastic rounding"),
    "samples": Register(7, "r", "results given since reset"),
    "cycles_low": Register(8, "r", "cycles since reset at the last snapshot, low word"),
    "cycles_high": Register(9, "r", "high word"),
    "snapshot": Register(
        10, "w", "any write copies all stage counters and the cycle counter, at one instant"
    ),
    "space": Register(11, "rw", "memory behind `data`: stage·16 + space (SPACES)"),
    "pointer": Register(
        12, "rw", "pe << 16 | address; for weights pe = i·Pn + j, for biases pe = lane, address = word"
    ),
    "data": Register(
        13, "rw", "the element; each access steps `pointer`: next address, after the last one the next pe"
    ),
}

SPACES: dict[str, int] = {
    "master": 0,
    "grad_low": 1,
    "grad_high": 2,
    "bias": 3,
    "bias_grad_low": 4,
    "bias_grad_high": 5,
}
"""Memories of a stage: master weights (writing also sets the forward copy and clears dW), dW, bias (clears
db), db.

Signed values are sign-extended to 32 bits, dW and db to 64 (low, then high word). Writes only to master and
bias.
"""

STAGE_BASE = 0x100
STAGE_STRIDE = 32
STAGE_COUNTERS: tuple[str, ...] = (
    "forward_ops",  # cycles in which the forward multipliers work
    "backward_ops",
    "gradient_ops",
    "update_cycles",
    "forward_blocked",  # an op was ready but its output had no room
    "backward_blocked",
    "forward_starved",  # no op was ready (input missing)
    "backward_starved",
    "y_saturated",
    "dx_saturated",
    "dy_saturated",  # pool adjoint
    "master_saturated",
    "bias_saturated",
    "zero_updates",  # dW != 0 but round(lr·dW) = 0
    "updates",
    "window_high",  # high-water marks, units of plan.Depths
    "store_high",
    "col_high",
    "pool_high",
    "pool_col_high",
    "mask_high",
    "argmax_high",
)


def stage_register(stage: int, counter: str) -> int:
    """Word address of a stage's counter (its value at the last snapshot)."""
    return STAGE_BASE + STAGE_STRIDE * stage + STAGE_COUNTERS.index(counter)


LINK_BASE = 0x8000
LINK_STRIDE = 32
LINK_REGISTERS: tuple[str, ...] = ("state", "peer_low", "peer_high", *LINK_COUNTERS, "overflow")
"""Registers of each of a board's two links, at LINK_BASE + LINK_STRIDE·side (0: towards the host, 1: away from it):
number of the state in links.LINK_STATES, identity that the peer showed, counters at the last snapshot, and 1 if a
receive buffer ever had no room for a word, which credits exclude."""


def link_register(side: int, name: str) -> int:
    """Word address of a link's register."""
    return LINK_BASE + LINK_STRIDE * side + LINK_REGISTERS.index(name)


def channel_names(plan: Plan, board: int = 0) -> tuple[str, ...]:
    """Names of the channels of a board whose valid and ready bits `channel_valid` and `channel_ready` show, bit 0
    first: host or link before ("up"), stages, loss, link behind ("down")."""
    names = ["image", "label"] if board == 0 else _boundary(plan, board - 1, "up")
    for planned in plan.on(board):
        stage, part, whole = planned.stage, planned.part, plan.whole(planned)
        names += [f"{stage.name}.x", f"{stage.name}.window", f"{stage.name}.sums"]
        names += [f"{stage.name}.sums_in"] if part.takes_sums else []
        names.append(f"{stage.name}.sums_out" if part.sends_sums else f"{stage.name}.y")
        names += [f"{stage.name}.conv_in"] if part.pools_in(whole) else []
        names += [f"{stage.name}.conv_out"] if part.pools_out(whole) else []
        backs = not (stage.frozen and stage.dx is None)
        if backs:
            names += [f"{stage.name}.dy", f"{stage.name}.errors"]
        if not stage.frozen:
            names.append(f"{stage.name}.store")
        if stage.dx is not None:
            names.append(f"{stage.name}.back")
            names += [f"{stage.name}.back_in"] if part.back_in(whole) else []
            names += [f"{stage.name}.back_out"] if part.back_out(whole) else []
            names += [f"{stage.name}.dx"] if part.rounds_dx(whole) else []
        if backs and part.takes_sums and part.last:
            names.append(f"{stage.name}.masked_out")
        names += [f"{stage.name}.unpooled_in"] if backs and part.pools_out(whole) else []
        names += [f"{stage.name}.unpooled_out"] if backs and part.pools_in(whole) else []
        if part.shares_weights and not stage.frozen:
            names += [] if part.first else [f"{stage.name}.grads_in", f"{stage.name}.totals_out"]
            names += [] if part.last else [f"{stage.name}.grads_out", f"{stage.name}.totals_in"]
        if planned.storage.master != "here":
            names += [f"{stage.name}.masters", f"{stage.name}.updates"]
    if board == len(plan.boards) - 1:
        names += ["loss.z", "loss.dz"]
    else:
        names += _boundary(plan, board, "down")
    return (*names, "result") if board == 0 else tuple(names)


def _boundary(plan: Plan, link: int, side: str) -> list[str]:
    channels = (*plan.links[link].down, *plan.links[link].up)
    return [f"{side}.{channel.kind}" for channel in channels if channel.kind != "management"]
