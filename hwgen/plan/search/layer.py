"""A stage as the search sees it: the few numbers that every share of it is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ...ir.stage import Network, Stage
from ..budget import pe_dsps
from ..fold import legal_u, resolve_array

__all__ = ["AXES", "Layer", "Share", "ceil_div", "layers_of", "rows_read"]

AXES = ("output_channels", "input_channels", "groups", "rows")
"""Axes along which the search cuts, in the order in which equal choices are preferred."""
MOST_B = 32
USUAL_B = 16
"""Pixels of a block: a memory word is then read and written once in so many cycles."""


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class Layer:
    """A stage of the network with what does not depend on pace and cut.

    ``grad`` and ``bias_grad`` bits of gradient sums, 0 for a frozen stage; ``rate`` bits of the learning rate;
    ``batch`` samples an update.
    """

    stage: Stage
    grad: int
    bias_grad: int
    rate: int
    batch: int

    @cached_property
    def axes(self) -> dict[str, int]:
        """How many units every legal axis has; only axes with two or more. Rows are those of y."""
        stage = self.stage
        found = {"output_channels": stage.out_channels, "input_channels": stage.cin}
        if stage.groups > 1:
            # Outputs may end where groups do, so that groups are an axis of their own only where asked for.
            outputs = stage.place.split == "output_channels" or (
                stage.N > 1 and stage.place.split != "groups"
            )
            found = {"output_channels": stage.out_channels} if outputs else {"groups": stage.groups}
        if stage.window.out_width % self.b == 0:
            found["rows"] = stage.out_shape[0]
        return {axis: extent for axis, extent in found.items() if extent > 1}

    def ends(self, axis: str, start: int) -> Sequence[int]:
        """Where a share that begins at ``start`` may end: outputs within their group, or with a whole one."""
        extent, n = self.axes[axis], self.stage.N
        if axis != "output_channels" or n == extent:
            return range(start + 1, extent + 1)
        near = range(start + 1, start // n * n + n)
        return [
            *near,
            *(range(start // n * n + n, extent + 1, n) if start % n == 0 else [start // n * n + n]),
        ]

    def closed_ends(self, axis: str, start: int) -> Sequence[int]:
        """Those of :meth:`ends` at which no group has outputs on both sides."""
        if axis != "output_channels":
            return self.ends(axis, start)
        n = self.stage.N
        closed = range(start // n * n + n, self.axes[axis] + 1, n)
        return closed if start % n == 0 else closed[:1]

    def closes_group(self, axis: str, end: int) -> bool:
        """Whether no group has outputs on both sides of ``end``."""
        return axis != "output_channels" or end % self.stage.N == 0

    @cached_property
    def b(self) -> int:
        """Pixels of a block: what divides a row of the output if that is possible, so that rows can be dealt."""
        stage = self.stage
        if stage.wish.b is not None:
            return stage.wish.b
        width = stage.window.out_width
        legal = [b for b in range(2, min(MOST_B, width) + 1) if width % b == 0]
        if legal:
            return min(legal, key=lambda b: abs(b - USUAL_B))
        return min(USUAL_B, stage.M)

    @cached_property
    def us(self) -> list[int]:
        """Kernel positions that a chunk may hold."""
        return legal_u(self.stage) if self.wish[0] is None else [self.wish[0]]

    @cached_property
    def wish(self) -> tuple[int | None, int | None, int | None]:
        """u, pc and pn that the user wants of the whole layer; legal ones (see foldings.wish_problems)."""
        stage = self.stage
        u, pc, pn = stage.wish.u, stage.wish.pc, stage.wish.pn
        if stage.array is None:
            return u, pc, pn
        if u is None and pc is None:
            folding = resolve_array(stage, stage.array)
            return folding.u, folding.pc, folding.pn
        u = u if u is not None else stage.array[0] // (pc or 1)
        return u, stage.array[0] // u, stage.array[1]

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Where the user wants it to be cut, with both ends; () where that is free."""
        shares = self.stage.place.shares
        return () if shares is None else (0, *accumulate(shares))

    @cached_property
    def useful(self) -> int:
        """Useful multiplications a sample, all passes."""
        return sum(self.stage.macs)

    @cached_property
    def backs(self) -> bool:
        """Errors come back to it."""
        return not (self.stage.frozen and self.stage.dx is None)

    @cached_property
    def conv_rows(self) -> int:
        """Rows of the convolution in a row of y."""
        return 1 if self.stage.pool is None else self.stage.pool.stride[0]

    @cached_property
    def pool_overlap(self) -> int:
        """Rows of the convolution under pool windows of two rows of y."""
        pool = self.stage.pool
        return 0 if pool is None else max(0, pool.dilation[0] * (pool.kernel[0] - 1) + 1 - pool.stride[0])

    @cached_property
    def rows_left(self) -> int:
        """Rows of the convolution that the rows of y do not count, under no window or the last ones."""
        return max(0, self.stage.window.out_height - self.conv_rows * self.stage.out_shape[0])

    def dsps(self, widths: tuple[int, int]) -> int:
        """DSPs of one PE on a device with multipliers of ``widths``."""
        return pe_dsps(self.stage, widths)


@dataclass(frozen=True)
class Share:
    """Units ``low``..``high`` of ``axis`` of stage ``layer``, or "whole"; ``turns``: pieces of a cut by rows."""

    layer: int
    axis: str
    low: int
    high: int
    turns: int = 1

    @property
    def size(self) -> int:
        """Units of the axis."""
        return self.high - self.low


def layers_of(network: Network) -> list[Layer]:
    """All stages of a network."""
    update = network.update
    found = []
    for stage in network.stages:
        sums = (0, 0) if stage.frozen else (stage.grad_bits(update.batch), stage.bias_grad_bits(update.batch))
        found.append(Layer(stage, *sums, update.lr.width, update.batch))
    return found


def rows_read(stage: Stage, rows: int, turns: int) -> int:
    """Rows of x under ``rows`` rows of the convolution in ``turns`` pieces, at most those of the image."""
    window = stage.window
    span = window.dilation[0] * (window.kernel[0] - 1) + 1
    return min(window.height, rows * window.stride[0] + turns * max(0, span - window.stride[0]))
