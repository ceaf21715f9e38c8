"""The passes of a stage in numpy: against PyTorch autograd in float64, Python integers, at every extreme."""

import itertools
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hwgen.ir.activation import Activation, slope_of
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.ref import kernels
from hwgen.ref.gemm import exact_terms, matmul

WIDTHS = (4, 8, 12, 16, 18, 24)
GRID = {
    "kernel": [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 5), (3, 2)],
    "stride": [(1, 1), (2, 2), (3, 3), (1, 2), "beyond"],
    "pads": [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (2, 0, 1, 1), (3, 0, 0, 2)],
    "dilation": [(1, 1), (2, 2), (2, 1)],
    "size": [(7, 9), (13, 14), (8, 8), (1, 6)],
    "cin": [1, 3, 5, 8],
    "cout": [1, 3, 5, 8],
    "groups": [1, 2, "depthwise"],
    "batch": [1, 2, 3],
    "widths": [(4, 24), (24, 4), (8, 8), (12, 16), (16, 16), (18, 18), (24, 24)],
}


def window_of(case):
    stride = tuple(k + 1 for k in case["kernel"]) if case["stride"] == "beyond" else case["stride"]
    window = Window2d(*case["size"], case["kernel"], stride, case["pads"], case["dilation"])
    return window if window.out_height > 0 and window.out_width > 0 else None


def pairs_of(case):
    items = [(name, str(case[name])) for name in GRID]
    return set(itertools.combinations(items, 2))


def covering(seed, extra):
    """Cases in which every pair of settings that fits together occurs, and random ones."""
    rng = random.Random(seed)
    cases, seen, misses = [], set(), 0
    while misses < 1500:
        case = {name: rng.choice(values) for name, values in GRID.items()}
        if window_of(case) is None:
            continue
        new = pairs_of(case) - seen
        misses = 0 if new else misses + 1
        if new or extra > 0:
            extra -= not new
            seen |= new
            cases.append(case)
    return cases


def integers(rng, width, shape, extreme=False):
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    if extreme:
        return rng.choice([low, high], shape).astype(np.int64)
    return rng.integers(low, high + 1, shape, dtype=np.int64)


def torch_conv(x, w, bias, window, groups):
    """NCHW leaves and the sums, in float64."""
    leaves = [
        torch.tensor(np.ascontiguousarray(value, dtype=float), requires_grad=True)
        for value in (x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), bias)
    ]
    top, left, bottom, right = window.pads
    padded = F.pad(leaves[0], (left, right, top, bottom))
    sums = F.conv2d(padded, *leaves[1:], window.stride, 0, window.dilation, groups)
    return leaves, sums


def exact(tensor):
    assert tensor.abs().max() < 2**53
    return tensor.detach().numpy().astype(np.int64)


def check_conv(case, rng, extreme=False):
    window = window_of(case)
    groups = {"depthwise": case["cin"]}.get(case["groups"], case["groups"])
    cin, cout = (case["cin"], case["cout"])
    channels, outputs = (cin, cin * cout) if case["groups"] == "depthwise" else (cin * groups, cout * groups)
    wide, narrow = case["widths"]
    x = integers(rng, wide, (case["batch"], *case["size"], channels), extreme)
    w = integers(rng, narrow, (*case["kernel"], channels // groups, outputs), extreme)
    bias = integers(rng, 32, outputs)
    leaves, sums = torch_conv(x, w, bias, window, groups)
    y = kernels.conv_forward(x, w, window, groups, bias, (wide, narrow))
    assert y.dtype == np.int64
    assert np.array_equal(y, exact(sums).transpose(0, 2, 3, 1)), case

    dy = integers(rng, narrow, y.shape, extreme)
    sums.backward(torch.tensor(dy.transpose(0, 3, 1, 2).astype(float)))
    dx = kernels.conv_backward(dy, w, window, groups, (narrow, narrow))
    assert np.array_equal(dx, exact(leaves[0].grad).transpose(0, 2, 3, 1)), case
    dw, db = kernels.conv_gradient(x, dy, window, groups, (wide, narrow))
    assert np.array_equal(dw, exact(leaves[1].grad).transpose(2, 3, 1, 0)), case
    assert np.array_equal(db, exact(leaves[2].grad)), case
    assert dx.dtype == dw.dtype == db.dtype == np.int64


def test_convolution_over_the_grid():
    cases = covering(1, 40)
    assert len(cases) > 60
    assert {str(c["kernel"]) for c in cases} == {str(k) for k in GRID["kernel"]}
    rng = np.random.default_rng(1)
    for case in cases:
        check_conv(case, rng)


@pytest.mark.soak
def test_convolution_over_many_combinations():
    for seed in range(10):
        for number, case in enumerate(covering(100 + seed, 100)):
            check_conv(
                case, np.random.default_rng(number), extreme=number % 3 == 0 and sum(case["widths"]) < 40
            )


def test_rows_that_nothing_reaches_are_zero():
    window = Window2d(7, 9, (2, 2), (3, 3))
    dy = np.ones((2, window.out_height, window.out_width, 3), dtype=np.int64)
    dx = kernels.conv_backward(dy, np.ones((2, 2, 4, 3), dtype=np.int64), window)
    reached = np.zeros((7, 9), dtype=bool)
    for oy, ox, ky, kx in np.ndindex(window.out_height, window.out_width, 2, 2):
        reached[window.tap(oy, ox, ky, kx)] = True
    assert (dx[:, ~reached] == 0).all()
    assert (dx[:, reached] == 3).all()
    assert not reached[2].any()


def test_columns_follow_the_taps():
    window = Window2d(5, 4, (3, 2), (2, 1), (1, 2, 0, 1), (1, 2))
    x = np.arange(1, 1 + 2 * 5 * 4 * 6, dtype=np.int64).reshape(2, 5, 4, 6)
    columns = kernels.im2col(x, window, 3)
    assert columns.shape == (3, 2 * window.pixels_out, 3 * 2 * 2)
    columns = columns.reshape(3, 2, window.out_height, window.out_width, 3, 2, 2)
    for g, b, oy, ox, ky, kx, c in np.ndindex(*columns.shape):
        tap = window.tap(oy, ox, ky, kx)
        assert columns[g, b, oy, ox, ky, kx, c] == (0 if tap is None else x[b, *tap, 2 * g + c])


def test_col2im_is_the_adjoint_of_im2col():
    rng = np.random.default_rng(5)
    for case in covering(7, 0)[:60]:
        window = window_of(case)
        x = integers(rng, 8, (2, *case["size"], 4))
        columns = kernels.im2col(x, window, 2)
        other = integers(rng, 8, columns.shape)
        assert (columns * other).sum() == (x * kernels.col2im(other, window, 2)).sum()


def test_slices_of_samples_give_the_same(monkeypatch):
    rng = np.random.default_rng(6)
    window = Window2d(6, 5, (3, 3), (1, 2), (1, 1, 1, 0))
    x, w = integers(rng, 16, (7, 6, 5, 4)), integers(rng, 16, (3, 3, 2, 6))
    dy = integers(rng, 16, (7, window.out_height, window.out_width, 6))

    def results():
        return (
            kernels.conv_forward(x, w, window, 2),
            kernels.conv_backward(dy, w, window, 2),
            *kernels.conv_gradient(x, dy, window, 2),
        )

    whole = results()
    for limit in (1, 3 * window.pixels_out * 36):
        monkeypatch.setattr(kernels, "MAX_COLUMNS", limit)
        assert all(np.array_equal(a, b) for a, b in zip(results(), whole, strict=True))


def test_one_gemm_for_sixteen_bits():
    assert exact_terms(16, 16) == 1 << 23
    assert exact_terms(24, 24) == 1 << 7
    assert exact_terms(4, 4) == 1 << 47


@pytest.mark.parametrize("a_bits", WIDTHS)
@pytest.mark.parametrize("b_bits", WIDTHS)
def test_products_are_exact(a_bits, b_bits):
    rng = np.random.default_rng(a_bits * 32 + b_bits)
    terms = exact_terms(a_bits, b_bits)
    for length in {1, 7, *(n for n in (terms, terms + 1, 3 * terms - 1, 5 * terms, 1500) if n <= 3000)}:
        for extreme in (False, True):
            a = integers(rng, a_bits, (2, length), extreme)
            b = integers(rng, b_bits, (length, 3), extreme)
            a[0], b[:, 0] = -(1 << (a_bits - 1)), -(1 << (b_bits - 1))
            want = a.astype(object) @ b.astype(object)
            assert np.array_equal(matmul(a, b, a_bits, b_bits), want), (length, extreme)
            stacked = matmul(np.stack([a, -a - 1]), np.stack([b, b]).astype(float), a_bits, b_bits)
            assert np.array_equal(stacked[0], want)


def test_the_sum_beyond_float64_is_exact():
    """All products at their extreme and an odd one: float64 alone loses the last bit."""
    for length in (200, 600, 5000):
        a = np.full((1, length), -(1 << 23), dtype=np.int64)
        b = np.full((length, 1), -(1 << 23), dtype=np.int64)
        a[0, 0], b[0, 0] = 1, 1
        assert matmul(a, b, 24, 24)[0, 0] == ((length - 1) << 46) + 1


def test_full_fan_in_does_not_wrap():
    window = Window2d(6, 5, (5, 5), pads=(2, 2, 2, 2))
    for low in (False, True):
        value = -(1 << 23) if low else (1 << 23) - 1
        x = np.full((2, 6, 5, 24), value, dtype=np.int64)
        w = np.full((5, 5, 24, 3), -(1 << 23), dtype=np.int64)
        y = kernels.conv_forward(x, w, window)
        assert y[0, 2, 2, 0] == 25 * 24 * value * -(1 << 23)
        dy = np.full((2, 6, 5, 3), value, dtype=np.int64)
        dx = kernels.conv_backward(dy, w, window)
        assert dx[1, 2, 2, 5] == 25 * 3 * value * -(1 << 23)
        dw, db = kernels.conv_gradient(x, dy, window)
        assert dw[2, 2, 0, 0] == 2 * 30 * value * value
        assert db[1] == 2 * 30 * value


POOLS = [
    Window2d(6, 8, (2, 2), (2, 2)),
    Window2d(7, 9, (2, 2), (2, 2)),
    Window2d(7, 9, (3, 3), (2, 2)),
    Window2d(6, 7, (3, 3), (1, 1), (1, 1, 1, 1)),
    Window2d(6, 7, (3, 2), (2, 3), (2, 0, 1, 1)),
    Window2d(7, 5, (1, 1), (2, 2)),
    Window2d(9, 8, (2, 3), (3, 4), (0, 1, 0, 1)),
    Window2d(5, 6, (5, 6), (1, 1)),
    Window2d(1, 9, (1, 4), (1, 3), (0, 3, 0, 2)),
]
VALUES = [("ties", -2, 3), ("constant", 1, 2), ("negative", -9, -1), ("any", -(1 << 23), 1 << 23)]


@pytest.mark.parametrize(
    "window", POOLS, ids=lambda w: f"{w.height}x{w.width}k{w.kernel}s{w.stride}p{w.pads}"
)
@pytest.mark.parametrize(("name", "low", "high"), VALUES)
def test_pool(window, name, low, high):
    rng = np.random.default_rng(len(name))
    x = rng.integers(low, high, (3, window.height, window.width, 5), dtype=np.int64)
    leaf = torch.tensor(x.transpose(0, 3, 1, 2).astype(float), requires_grad=True)
    top, left, bottom, right = window.pads
    padded = F.pad(leaf, (left, right, top, bottom), value=-torch.inf)
    best, index = F.max_pool2d(padded, window.kernel, window.stride, return_indices=True)
    y, argmax = kernels.max_pool(x, window)
    assert np.array_equal(y, exact(best).transpose(0, 2, 3, 1))
    at = index.numpy().transpose(0, 2, 3, 1)
    oy, ox = np.arange(window.out_height)[:, None, None], np.arange(window.out_width)[:, None]
    ky = at // (left + window.width + right) - oy * window.stride[0]
    kx = at % (left + window.width + right) - ox * window.stride[1]
    assert np.array_equal(argmax, ky * window.kernel[1] + kx)

    dy = integers(rng, 24, y.shape)
    best.backward(torch.tensor(dy.transpose(0, 3, 1, 2).astype(float)))
    dx = kernels.max_pool_adjoint(dy, argmax, window)
    assert np.array_equal(dx, exact(leaf.grad).transpose(0, 2, 3, 1))
    assert y.dtype == argmax.dtype == dx.dtype == np.int64


def test_pool_of_the_least_value_beside_padding():
    """The least value of a format still wins over padding, at the first pixel of the image in the window."""
    x = np.full((1, 2, 2, 1), -(1 << 23), dtype=np.int64)
    y, argmax = kernels.max_pool(x, Window2d(2, 2, (2, 2), (1, 1), (1, 1, 1, 1)))
    assert (y == -(1 << 23)).all()
    assert argmax[0, :, :, 0].tolist() == [[3, 2, 2], [1, 0, 0], [1, 0, 0]]


def test_relu_has_no_gradient_at_zero():
    y, mask = kernels.activate(np.array([-3, -1, 0, 1, 7], dtype=np.int64), Activation(), Q(8, 4))
    assert y.tolist() == [0, 0, 0, 1, 7]
    assert mask.tolist() == [False, False, False, True, True]


ACTIVATIONS = {
    "relu": (Activation(), F.relu),
    "relu6": (Activation(0.0, 6.0), F.relu6),
    "hardtanh": (Activation(-1.5, 0.75), lambda x: F.hardtanh(x, -1.5, 0.75)),
    "below only": (Activation(-2.0), lambda x: F.hardtanh(x, -2.0, 1e9)),
    "beyond the format": (Activation(-100.0, 100.0), lambda x: x),
    "half": (Activation(None, None, slope_of(0.5)), lambda x: F.leaky_relu(x, 0.5)),
    "hundredth": (Activation(None, None, slope_of(0.01)), lambda x: F.leaky_relu(x, 41 / 4096)),
    "nearly one": (Activation(None, None, slope_of(0.99)), lambda x: F.leaky_relu(x, 253 / 256)),
}


@pytest.mark.parametrize("form", [Q(8, 4), Q(12, 5), Q(16, 9), Q(6, 0)], ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_are_those_of_pytorch(kind, form):
    """Values and errors at every element of a format, rounded where a slope leaves it; bounds are multiples of
    2**-frac, or rounded to them."""
    activation, by_torch = ACTIVATIONS[kind]
    unit = 2.0**-form.frac
    x = np.arange(form.min, form.max + 1)
    dy = np.random.default_rng(3).integers(-5000, 5001, len(x))
    y, mask = kernels.activate(x, activation, form)
    real = torch.tensor(x * unit, dtype=torch.float64, requires_grad=True)
    found = by_torch(real)
    found.backward(torch.tensor(dy, dtype=torch.float64))
    inexact = form.frac < 2 and kind == "hardtanh"  # -1.5 and 0.75 are -2 and 1 there
    if inexact:
        assert (y.min(), y.max()) == (-2, 1)
        assert x[mask].tolist() == [-1, 0]
        return
    assert np.array_equal(y, np.rint(found.detach().numpy() / unit))
    assert np.array_equal(kernels.activation_adjoint(dy, mask, activation), np.rint(real.grad.numpy()))


@pytest.mark.parametrize("form", [Q(8, 4), Q(16, -20), Q(24, 40)], ids=str)
def test_bounds_beyond_a_format_are_none(form):
    unit = 2.0**-form.frac
    for beyond in (2.0 ** (form.width - 1) * unit, 1e308):
        assert Activation(-beyond - unit, beyond).bounds(form) == (None, None)
        assert Activation(beyond, None).problem(form) is not None
        assert Activation(None, -beyond - unit).problem(form) is not None
    assert Activation(form.min * unit, form.max * unit).bounds(form) == (form.min, form.max)


def test_slopes_have_eight_bits():
    assert [slope_of(v) for v in (0.5, 0.25, 0.01, 0.1, 0.3)] == [
        (1, 1),
        (1, 2),
        (41, 12),
        (205, 11),
        (77, 8),
    ]
    for outside in (
        0.999,
        1.0,
        2.0,
        300.0,
        1e300,
        0.0,
        -0.5,
        1e-300,
        float("inf"),
        float("-inf"),
        float("nan"),
    ):
        assert slope_of(outside) is None
    assert slope_of(0.998) == (255, 8)
    assert slope_of(6e-8) == (129, 31)
    assert slope_of(2.0**-31) == (1, 31)
    assert slope_of(2.0**-32) is None
    assert slope_of(4.7e-10) is None
    for real in np.random.default_rng(5).uniform(0.001, 0.99, 500):
        s, shift = slope_of(real)
        assert s % 2 == 1
        assert s < 256
        assert abs(s / 2**shift - real) <= real / 256


def test_operands_stay_as_they_are():
    rng = np.random.default_rng(9)
    window = Window2d(4, 4, (2, 2), (2, 2))
    x, dy = integers(rng, 8, (2, 4, 4, 2)), integers(rng, 8, (2, 2, 2, 2))
    w = integers(rng, 8, (2, 2, 2, 2))
    copies = [a.copy() for a in (x, dy, w)]
    kernels.conv_forward(x, w, window, bias=w[0, 0, 0])
    kernels.conv_backward(dy, w, window)
    kernels.conv_gradient(x, dy, window)
    best, argmax = kernels.max_pool(x, window)
    best += 1
    kernels.max_pool_adjoint(dy, argmax, window)
    assert all(np.array_equal(a, b) for a, b in zip((x, dy, w), copies, strict=True))
