"""Number formats by role: limits, defaults, and the learning rate's binary point."""

import math

import numpy as np
import pytest

from hwgen.ir.formats import (
    MAX_MASTER,
    MAX_WIDTH,
    MIN_BIAS,
    MIN_WIDTH,
    Formats,
    LayerFormats,
    layer_format_problems,
    lr_format,
)
from hwgen.ir.initial import draw, real_parameters
from hwgen.numeric import Q


def test_the_limits():
    assert (MIN_WIDTH, MAX_WIDTH) == (4, 24)
    assert (MIN_BIAS, MAX_MASTER) == (8, 32)  # the host writes either through a 32-bit register


@pytest.mark.parametrize("role", ["activation", "weight", "error", "lr"])
def test_widths_of_multipliers(role):
    for width in range(-1, 40):
        said = Formats(**{role: width}).problems()
        wanted = f"formats: {role} = {width} bits, which no multiplier carries; give 4..24"
        assert said == ([] if 4 <= width <= 24 else [wanted])
    for value in (None, 16.0, "16", True, np.float64(8)):
        assert Formats(**{role: value}).problems() == [
            f"formats: {role} = {value!r} bits, which no multiplier carries; give 4..24"
        ]


def test_widths_of_masters_and_biases():
    for weight in (4, 16, 24):
        for master in range(2, 40):
            said = Formats(weight=weight, master=master).problems()
            wanted = f"formats: master = {master} bits; give {weight}..32 (the weight is its top bits)"
            assert said == ([] if weight <= master <= 32 else [wanted])
    for bias in range(5, 40):
        said = Formats(bias=bias).problems()
        assert said == ([] if 8 <= bias <= 32 else [f"formats: bias = {bias} bits; give 8..32"])


def test_numpy_integers_are_widths_too():
    formats = Formats(np.int64(8), np.int32(8), np.int64(24))
    assert formats.problems() == []
    assert formats == Formats(8, 8, 24)
    assert type(formats.master) is int


def test_several_mistakes_at_once():
    found = Formats(activation=0, weight=99, master=2, bias=True, rounding=None, input=Q(8, 1.5)).problems()
    assert found == [
        "formats: activation = 0 bits, which no multiplier carries; give 4..24",
        "formats: weight = 99 bits, which no multiplier carries; give 4..24",
        "formats: master = 2 bits; give 4..32 (the weight is its top bits)",
        "formats: bias = True bits; give 8..32",
        'formats: rounding = None; give "nearest" or "stochastic"',
        "formats: input = Q(8,1.5): 1.5 fractional bits; give an integer in ±48",
    ]


def test_default_points():
    formats = Formats()
    assert formats.input_format() == Q(16, 14)
    assert formats.activation_format() == Q(16, 11)
    assert formats.weight_format() == Q(16, 14)
    assert formats.error_format() == Q(16, 14)
    assert formats.master_format(Q(16, 14)) == Q(32, 30)
    assert formats.bias_format(25) == Q(32, 25)
    assert formats.bias_format(40) == Q(32, 26)
    assert Formats(activation=4).activation_format() == Q(4, 2)
    assert Formats(activation=9).activation_format() == Q(9, 4)
    assert Formats(input=Q(8, 8)).input_format() == Q(8, 8)


@pytest.mark.parametrize("width", range(4, 25))
def test_the_weight_is_the_top_bits_of_its_master(width):
    for master in (width, 24, 32):
        if master < width:
            continue
        weight = Formats(weight=width).weight_format()
        whole = Formats(weight=width, master=master).master_format(weight)
        assert whole.width - weight.width == whole.frac - weight.frac
        assert whole.to_float(whole.min) == weight.to_float(weight.min)


def test_formats_of_a_layer():
    assert layer_format_problems("c", LayerFormats(), 32) == []
    assert layer_format_problems("c", LayerFormats(Q(24, 60 - 12), Q(4, -48), Q(16, 0), Q(32, 9)), 24) == []
    assert layer_format_problems("c", LayerFormats(Q(3, 1), 16, Q(25, 99), Q(7, 0)), 32) == [
        "c: w = Q(3,1): 3 bits, which no multiplier carries; give 4..24",
        "c: y = 16; give a format Q(width, frac)",
        "c: dy = Q(25,99): 25 bits, which no multiplier carries; give 4..24",
        "c: dy = Q(25,99): 99 fractional bits; give an integer in ±48",
        "c: bias = Q(7,0): 7 bits, which the host cannot write; give 8..32",
    ]
    assert layer_format_problems("c", LayerFormats(w=Q(20, 18)), 19) == [
        "c: w = Q(20,18) is wider than its master of 19 bits; give Formats(master=20) or more"
    ]
    assert layer_format_problems("c", LayerFormats(w=Q(20, 18)), 20) == []
    assert layer_format_problems("c", LayerFormats(w=Q(20, 18)), "no master") == []  # reported elsewhere


@pytest.mark.parametrize("width", range(4, 25))
def test_the_learning_rate_has_all_its_bits(width):
    rng = np.random.default_rng(width)
    edges = [2.0**-k for k in range(30)] + [1 - 2.0**-30, 0.1 / 16, (2**width - 1) / 2**width]
    for step in [*edges, *np.exp(rng.uniform(-15, 10, 300))]:
        q, rate = lr_format(width, float(step))
        assert q.width == width
        assert 0 <= q.frac <= 40
        assert rate == round(math.ldexp(step, q.frac))
        if q.frac < 40 and step < 2.0 ** (width - 2):
            assert 2 ** (width - 2) <= rate <= q.max
        if q.frac == 0 and step > q.max + 0.5:
            assert rate > q.max


def test_the_first_weights_are_pytorchs_and_independent_by_layer():
    weight, bias = draw(3, 1, (3, 3, 4, 64), True)
    bound = 1 / 6
    assert weight.shape == (3, 3, 4, 64)
    assert bias.shape == (64,)
    assert np.abs(weight).max() < bound
    assert np.abs(weight).max() > 0.99 * bound
    assert np.array_equal(draw(3, 1, (3, 3, 4, 64), False)[0], weight)
    assert draw(3, 1, (3, 3, 4, 64), False)[1] is None
    assert not np.array_equal(draw(3, 2, (3, 3, 4, 64), True)[0], weight)
    assert not np.array_equal(draw(4, 1, (3, 3, 4, 64), True)[0], weight)


def test_first_parameters():
    from hwgen import Model, nn

    given = np.arange(8.0).reshape(1, 1, 4, 2) / 8
    model = Model(
        input=(4,), layers=[nn.Linear(4, 2), nn.Linear(2, 3, bias=False)], weights={"linear1": given}
    )
    network = model.network()
    parameters = model.parameters(network, 9)
    real = real_parameters(network, 9)
    assert np.array_equal(parameters.weights[0], network.stages[0].master.quantise(given))
    assert np.array_equal(parameters.weights[1], network.stages[1].master.quantise(real[1][0]))
    assert np.array_equal(parameters.biases[0], network.stages[0].bias.quantise(real[0][1]))
    assert parameters.biases[1] is None
    assert parameters == model.parameters(network, 9)
    assert parameters != model.parameters(network, 8)
    assert parameters != 3
