"""What is computed after lowering: a chain of stages, each one matrix product with its activation and pool.

A :class:`Network` is complete and exact: shapes, number formats, widths of all sums, update rule. The
reference executes it, the planner folds it, the gateware builds it; none of them adds a rule of arithmetic of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Q, bits_for_sum, product_bits
from .activation import Activation
from .window import Window2d

__all__ = ["MASTERS", "SPLITS", "Loss", "Network", "Place", "Stage", "Update", "Wish"]

SPLITS = ("output_channels", "input_channels", "groups", "rows")
"""Axes along which a layer may be cut over boards (docs/chain.md)."""

MASTERS = ("here", "memory", "up", "down")
"""Where master weights may be asked to be: beside the weights, in the board's external memory, on the chip of the board
before (towards the host) or behind."""


@dataclass(frozen=True)
class Wish:
    """What the user asks of a layer's folding, beside ``Stage.array``; None leaves the choice to the planner.

    ``u`` kernel positions and ``pc`` channels of a chunk, ``pn`` columns, ``b`` pixels in a block. An illegal
    wish is an error that lists the legal values; it is never replaced silently.
    """

    u: int | None = None
    pc: int | None = None
    pn: int | None = None
    b: int | None = None


@dataclass(frozen=True)
class Place:
    """Where the user wants a layer in a chain of boards; None leaves the choice to the planner.

    ``device`` the boards by their index from the host, one a part, consecutive; ``split`` one of SPLITS;
    ``shares`` the channels of every part (for "groups" whole groups), which sum to those of the cut axis. For "rows"
    ``shares`` are the rows of y that every part gets in its turn, again and again; or they are dealt in ``turns`` turns
    a part; ``master`` one of MASTERS: where its master weights are.
    """

    device: tuple[int, ...] | None = None
    split: str | None = None
    shares: tuple[int, ...] | None = None
    turns: int | None = None
    master: str | None = None


@dataclass(frozen=True)
class Stage:
    """One layer with weights (Conv2d, or Linear as 1×1 on one pixel), then its activation, then max-pool.

    Tensors are channels-last. Weights are indexed [ky, kx, c, n]: c within the group (0..Cin/groups-1), n
    over all outputs, group-major (n // (Cout/groups) is the group). Sample by sample:

        acc[m, n]  = Σ_k xcol[m, k]·w[k, n] + (bias[n] << (acc_frac - bias.frac))       exact
        y          = maxpool(activation(requantise(acc, acc_frac, y)))
        dy'        = activation adjoint(saturate(pool adjoint of dy))                     in format dy
        dx         = requantise(col2im(dy' · wᵀ), dy.frac + w.frac, dx)
        dw[k, n]  += Σ_m xcol[m, k]·dy'[m, n],   db[n] += Σ_m dy'[m, n]                   exact, over a batch

    ``summed`` is the M of the sums dw and db where they go beyond this stage: of a part of the rows, all pixels of the
    whole.
    """

    name: str
    index: int
    window: Window2d
    in_channels: int
    out_channels: int
    x: Q
    w: Q
    master: Q
    bias: Q | None
    y: Q
    dy: Q
    dx: Q | None
    groups: int = 1
    activation: Activation | None = None
    pool: Window2d | None = None
    frozen: bool = False
    array: tuple[int, int] | None = None
    wish: Wish = Wish()
    place: Place = Place()
    summed: int | None = None

    @property
    def M(self) -> int:
        """Output pixels of one sample, before the pool."""
        return self.window.pixels_out

    @property
    def K(self) -> int:
        """Products in one sum: kh·kw·Cin/groups."""
        return self.window.positions * self.in_channels // self.groups

    @property
    def N(self) -> int:
        """Outputs of one group: Cout/groups."""
        return self.out_channels // self.groups

    @property
    def cin(self) -> int:
        """Input channels of one group."""
        return self.in_channels // self.groups

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(kh, kw, Cin/groups, Cout)."""
        return (*self.window.kernel, self.cin, self.out_channels)

    @property
    def in_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of x."""
        return (self.window.height, self.window.width, self.in_channels)

    @property
    def conv_shape(self) -> tuple[int, int, int]:
        """(Ho, Wo, Cout) before the pool."""
        return (self.window.out_height, self.window.out_width, self.out_channels)

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of y."""
        if self.pool is None:
            return self.conv_shape
        return (self.pool.out_height, self.pool.out_width, self.out_channels)

    @property
    def acc_frac(self) -> int:
        """Fractional bits of forward sums."""
        return self.x.frac + self.w.frac

    @property
    def psum_bits(self) -> int:
        """Width of forward sums without bias, by type."""
        return bits_for_sum(product_bits(self.x.width, self.w.width), self.K)

    @property
    def acc_bits(self) -> int:
        """Width of forward sums with bias, by type."""
        if self.bias is None:
            return self.psum_bits
        return max(self.psum_bits, self.bias.width + self.acc_frac - self.bias.frac) + 1

    @property
    def back_bits(self) -> int:
        """Width of backward sums over n (one kernel position), by type."""
        return bits_for_sum(product_bits(self.dy.width, self.w.width), self.N)

    @property
    def col_bits(self) -> int:
        """Width of dX sums after col2im, by type."""
        return bits_for_sum(self.back_bits, self.window.positions)

    @property
    def back_frac(self) -> int:
        """Fractional bits of backward sums."""
        return self.dy.frac + self.w.frac

    @property
    def pool_back_bits(self) -> int:
        """Width of pool adjoint sums, by type: every window that covers a pixel may name it."""
        return self.dy.width if self.pool is None else bits_for_sum(self.dy.width, self.pool.positions)

    def grad_bits(self, batch: int) -> int:
        """Width of dW summed over a batch, by type."""
        return bits_for_sum(product_bits(self.x.width, self.dy.width), (self.summed or self.M) * batch)

    def bias_grad_bits(self, batch: int) -> int:
        """Width of db summed over a batch, by type."""
        return bits_for_sum(self.dy.width, (self.summed or self.M) * batch)

    def update_shift(self, lr: Q) -> int:
        """Right shift from lr·dW to the master weight."""
        return self.x.frac + self.dy.frac + lr.frac - self.master.frac

    def bias_update_shift(self, lr: Q) -> int:
        """Right shift from lr·db to the bias."""
        assert self.bias is not None
        return self.dy.frac + lr.frac - self.bias.frac

    @property
    def macs(self) -> tuple[int, int, int]:
        """Useful multiply-accumulates of one sample: forward, backward (data), gradient."""
        forward = self.M * self.K * self.N * self.groups
        return (forward, forward if self.dx is not None else 0, 0 if self.frozen else forward)


@dataclass(frozen=True)
class Loss:
    """Softmax cross-entropy over ``classes`` logits in format ``z``; error p - onehot in format ``dz``."""

    classes: int
    z: Q
    dz: Q


@dataclass(frozen=True)
class Update:
    """SGD: master ← saturate(master - round(rate·dW / 2**shift)), once a batch.

    ``rate`` is the integer in format ``lr`` that stands for learning rate / batch (PyTorch's mean over the
    batch). ``rounding`` is "nearest" (half to even) or "stochastic" (counter hash; r = hash_words(seed,
    tensor = stage index, step = number of the update from 0, index = k·Cout + n with k = (ky·kw + kx)·cin +
    c), taken as the top ``shift`` bits of 32: r = h >> (32 - shift), or h << (shift - 32)); biases always
    round to nearest.
    """

    lr: Q
    rate: int
    batch: int
    learning_rate: float
    rounding: str = "nearest"
    seed: int = 0


@dataclass(frozen=True)
class Network:
    """A chain of stages, its loss and its update. ``policy`` is the version rule of ARCHITECTURE §5."""

    name: str
    input: Q
    stages: tuple[Stage, ...]
    loss: Loss
    update: Update
    policy: str = "sync"

    @property
    def in_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of an image."""
        return self.stages[0].in_shape

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates of one training sample, all passes of all stages."""
        return sum(sum(stage.macs) for stage in self.stages)
