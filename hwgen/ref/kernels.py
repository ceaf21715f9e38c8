"""The passes of one stage on whole batches: convolution in three directions, max-pool, activations; exact integers.

Tensors are channels-last, [B, H, W, C] int64; weights are [kh, kw, Cin/groups, Cout], outputs group-major.
``bits`` are the widths of the two operands by type, in the order of the arguments. Only slopes of activations round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ..ir.activation import Activation
from ..ir.window import Window2d
from ..numeric import Q, round_shift
from .gemm import matmul

__all__ = [
    "MAX_COLUMNS",
    "activate",
    "activation_adjoint",
    "col2im",
    "conv_backward",
    "conv_forward",
    "conv_gradient",
    "im2col",
    "max_pool",
    "max_pool_adjoint",
]

Ints = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)

MAX_COLUMNS = 1 << 23
"""Elements of one im2col matrix (64 MiB); larger batches are taken in slices of samples."""

_LEAST = np.iinfo(np.int64).min


def _padded(x: NDArray[Number], window: Window2d, fill: int = 0) -> NDArray[Number]:
    assert window.starts is None, "the reference takes whole stages"
    top, left, bottom, right = window.pads
    if not any(window.pads):
        return x
    batch, height, width, channels = x.shape
    padded = np.full((batch, top + height + bottom, left + width + right, channels), fill, dtype=x.dtype)
    padded[:, top : top + height, left : left + width] = x
    return padded


def _taps(window: Window2d) -> Iterator[tuple[slice, slice]]:
    """For every kernel position in raster order: the rows and columns of the padded image under it."""
    (sy, sx), (dy, dx) = window.stride, window.dilation
    for ky in range(window.kernel[0]):
        for kx in range(window.kernel[1]):
            yield (
                slice(ky * dy, ky * dy + (window.out_height - 1) * sy + 1, sy),
                slice(kx * dx, kx * dx + (window.out_width - 1) * sx + 1, sx),
            )


def im2col(x: NDArray[Number], window: Window2d, groups: int = 1) -> NDArray[Number]:
    """Columns [groups, B·M, K] of images [B, H, W, C]: what every output pixel sees; zero outside the image.

    K runs over (ky, kx, channel of the group). Keeps the type (int64 or float64); may be a view.
    """
    batch, _, _, channels = x.shape
    padded = _padded(x, window)
    (kh, kw), cin = window.kernel, channels // groups
    sb, sh, sw, sc = padded.strides
    views = as_strided(
        padded,
        (groups, batch, window.out_height, window.out_width, kh, kw, cin),
        (
            cin * sc,
            sb,
            window.stride[0] * sh,
            window.stride[1] * sw,
            window.dilation[0] * sh,
            window.dilation[1] * sw,
            sc,
        ),
        writeable=False,
    )
    return views.reshape(groups, batch * window.pixels_out, kh * kw * cin)


def col2im(columns: Ints, window: Window2d, batch: int) -> Ints:
    """The adjoint of :func:`im2col`: columns [groups, B·M, K] added into images [B, H, W, C], elsewhere 0."""
    groups, _, length = columns.shape
    cin = length // window.positions
    assert window.starts is None, "the reference takes whole stages"
    top, left, bottom, right = window.pads
    parts = columns.reshape(groups, batch, window.out_height, window.out_width, window.positions, cin)
    images = np.zeros(
        (batch, top + window.height + bottom, left + window.width + right, groups, cin), dtype=np.int64
    )
    for position, (rows, cols) in enumerate(_taps(window)):
        images[:, rows, cols] += parts[..., position, :].transpose(1, 2, 3, 0, 4)
    images = images[:, top : top + window.height, left : left + window.width]
    return images.reshape(batch, window.height, window.width, groups * cin)


def _matrix(w: Ints, groups: int) -> NDArray[np.float64]:
    """Weights as [groups, K, N]."""
    outputs = w.shape[3]
    split = w.astype(np.float64).reshape(-1, groups, outputs // groups)
    return split.transpose(1, 0, 2)


def _grouped(dy: Ints, groups: int) -> NDArray[np.float64]:
    """Errors [B, Ho, Wo, Cout] as [groups, B·M, N]."""
    split = dy.astype(np.float64).reshape(-1, groups, dy.shape[3] // groups)
    return split.transpose(1, 0, 2)


def _slices(batch: int, per_sample: int) -> Iterator[slice]:
    step = max(1, MAX_COLUMNS // max(1, per_sample))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def conv_forward(
    x: Ints,
    w: Ints,
    window: Window2d,
    groups: int = 1,
    bias: Ints | None = None,
    bits: tuple[int, int] = (24, 24),
) -> Ints:
    """Sums [B, Ho, Wo, Cout] of x·w + bias, ``bias`` [Cout] at the sums' binary point. ``bits``: x, w."""
    batch, outputs = len(x), w.shape[3]
    matrix = _matrix(w, groups)
    sums = np.empty((batch, window.pixels_out, outputs), dtype=np.int64)
    for part in _slices(batch, window.pixels_out * w[..., 0].size * groups):
        product = matmul(im2col(x[part].astype(np.float64), window, groups), matrix, *bits)
        sums[part] = product.transpose(1, 0, 2).reshape(-1, window.pixels_out, outputs)
    if bias is not None:
        sums += bias
    return sums.reshape(batch, window.out_height, window.out_width, outputs)


def conv_backward(
    dy: Ints, w: Ints, window: Window2d, groups: int = 1, bits: tuple[int, int] = (24, 24)
) -> Ints:
    """Sums [B, H, W, Cin] of dy·wᵀ over outputs and positions, dy [B, Ho, Wo, Cout]. ``bits``: dy, w."""
    batch = len(dy)
    matrix = _matrix(w, groups).transpose(0, 2, 1)
    sums = np.empty((batch, window.height, window.width, w.shape[2] * groups), dtype=np.int64)
    for part in _slices(batch, window.pixels_out * w[..., 0].size * groups):
        columns = matmul(_grouped(dy[part], groups), matrix, *bits)
        sums[part] = col2im(columns, window, part.stop - part.start)
    return sums


def conv_gradient(
    x: Ints, dy: Ints, window: Window2d, groups: int = 1, bits: tuple[int, int] = (24, 24)
) -> tuple[Ints, Ints]:
    """dw [kh, kw, Cin/groups, Cout] and db [Cout], summed over pixels and samples. ``bits``: x, dy."""
    batch, cin, outputs = len(x), x.shape[3] // groups, dy.shape[3]
    dw = np.zeros((groups, window.positions * cin, outputs // groups), dtype=np.int64)
    for part in _slices(batch, window.pixels_out * dw.shape[1] * groups):
        columns = im2col(x[part].astype(np.float64), window, groups)
        dw += matmul(columns.transpose(0, 2, 1), _grouped(dy[part], groups), *bits)
    return dw.transpose(1, 0, 2).reshape(*window.kernel, cin, outputs), dy.sum(axis=(0, 1, 2))


def max_pool(x: Ints, window: Window2d) -> tuple[Ints, Ints]:
    """Maxima [B, Ho, Wo, C] and where they stand, ky·kw + kx; the first in raster order wins ties.

    Positions outside the image are left out; every window must see at least one pixel of it.
    """
    padded = _padded(x, window, _LEAST)
    taps = _taps(window)
    best = padded[(slice(None), *next(taps))].copy()
    argmax = np.zeros(best.shape, dtype=np.int64)
    for position, tap in enumerate(taps, 1):
        seen = padded[(slice(None), *tap)]
        better = seen > best
        np.copyto(best, seen, where=better)
        np.copyto(argmax, position, where=better)
    return best, argmax


def max_pool_adjoint(dy: Ints, argmax: Ints, window: Window2d) -> Ints:
    """Exact sums [B, H, W, C]: every error [B, Ho, Wo, C] added to the pixel that won its window."""
    batch, _, _, channels = dy.shape
    top, left, bottom, right = window.pads
    sums = np.zeros(
        (batch, top + window.height + bottom, left + window.width + right, channels), dtype=np.int64
    )
    for position, (rows, cols) in enumerate(_taps(window)):
        sums[:, rows, cols] += dy * (argmax == position)
    return np.ascontiguousarray(sums[:, top : top + window.height, left : left + window.width])


def activate(y: Ints, activation: Activation, form: Q) -> tuple[Ints, NDArray[np.bool_]]:
    """Elements of format ``form`` behind an activation, and where its slope is 1."""
    if activation.slope is not None:
        s, shift = activation.slope
        return np.where(y > 0, y, round_shift(y * s, shift)), y > 0
    low, high = activation.bounds(form)
    mask = np.ones(y.shape, dtype=np.bool_)
    if low is not None:
        mask &= y > low
    if high is not None:
        mask &= y < high
    return y if low is None and high is None else np.clip(y, low, high), mask


def activation_adjoint(dy: Ints, mask: NDArray[np.bool_], activation: Activation) -> Ints:
    """Errors before an activation of those behind it."""
    if activation.slope is None:
        return dy * mask
    s, shift = activation.slope
    return np.where(mask, dy, round_shift(dy * s, shift))
