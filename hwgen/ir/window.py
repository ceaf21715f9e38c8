"""Sliding-window geometry shared by convolution and pooling, forward and adjoint."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Window2d"]


@dataclass(frozen=True)
class Window2d:
    """A window over an image of ``height`` × ``width`` pixels, kernel positions and outputs in raster order.

    ``pads`` is (top, left, bottom, right); ``kernel``, ``stride`` and ``dilation`` are (vertical,
    horizontal). Output (oy, ox) looks at input (oy*sy - top + ky*dy, ox*sx - left + kx*dx) for every kernel
    position (ky, kx); positions outside the image are zero (convolution) or left out (pooling).

    ``starts`` takes the place of oy*sy - top where the rows of outputs are not evenly spaced: the row of the first tap
    of every output row, in increasing order; negative above the image. The vertical stride and pads then mean nothing.
    """

    height: int
    width: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    starts: tuple[int, ...] | None = None

    @property
    def out_height(self) -> int:
        """Output rows: floor((H + top + bottom - dilation*(kernel-1) - 1) / stride) + 1, or those of ``starts``."""
        if self.starts is not None:
            return len(self.starts)
        span = self.dilation[0] * (self.kernel[0] - 1) + 1
        return (self.height + self.pads[0] + self.pads[2] - span) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Output columns, as :attr:`out_height`."""
        span = self.dilation[1] * (self.kernel[1] - 1) + 1
        return (self.width + self.pads[1] + self.pads[3] - span) // self.stride[1] + 1

    @property
    def pixels_in(self) -> int:
        """Input pixels of one sample."""
        return self.height * self.width

    @property
    def pixels_out(self) -> int:
        """Output pixels of one sample (M of the matrix product)."""
        return self.out_height * self.out_width

    @property
    def positions(self) -> int:
        """Kernel positions kh·kw."""
        return self.kernel[0] * self.kernel[1]

    def first_row(self, oy: int) -> int:
        """The input row under the first tap of an output row, negative above the image."""
        return oy * self.stride[0] - self.pads[0] if self.starts is None else self.starts[oy]

    def tap(self, oy: int, ox: int, ky: int, kx: int) -> tuple[int, int] | None:
        """The input pixel under one kernel position, or None outside the image."""
        iy = self.first_row(oy) + ky * self.dilation[0]
        ix = ox * self.stride[1] - self.pads[1] + kx * self.dilation[1]
        return (iy, ix) if 0 <= iy < self.height and 0 <= ix < self.width else None
