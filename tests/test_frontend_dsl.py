"""Every mistake of a model is reported, all at once, in words that say where, what, and what to do."""

import pytest
from model_mistakes import HEAD, MISTAKES, conv, small

import hwgen
from hwgen import Formats, Model, Q, nn
from hwgen.errors import ModelError
from hwgen.ir.stage import Wish
from hwgen.ir.window import Window2d


def problems(model):
    with pytest.raises(ModelError) as caught:
        model.network()
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named(kind):
    make, message = MISTAKES[kind]
    assert problems(make()) == [message]


@pytest.mark.parametrize("name", ["a-b", "a.b", "", " ", "1st", "é", "a" * 41, 7, "w;", "w\n"])
def test_names_that_verilog_could_not_take(name):
    assert problems(conv(name=name)) == [
        f"conv1: name = {name!r}; give up to 40 letters, digits and underscores, starting with a letter"
    ]


@pytest.mark.parametrize(
    "name", ["w", "clk", "rst", "module", "a_b", "wire", "always", "begin", "i", "o", "A"]
)
def test_names_that_are_taken_elsewhere_are_fine(name):
    assert conv(name=name).network().stages[0].name == name


def test_unnamed_layers_avoid_given_names():
    layers = [
        nn.Flatten(),
        nn.Linear(64, 5, name="linear2"),
        nn.Linear(5, 4),
        nn.Linear(4, 3),
        nn.Linear(3, 2),
    ]
    names = [stage.name for stage in small(layers).network().stages]
    assert names == ["linear2", "linear3", "linear4", "linear5"]


def test_everything_is_reported_at_once():
    model = Model(
        input=(8, 8, 2),
        layers=[
            nn.Conv2d(3, 8, 3, strides=2, name="a-b"),
            nn.Relu(),
            nn.ReLU(6),
            nn.MaxPool2d(2, padding=5),
            nn.Linear(10, 10, array=(0, 2), formats=nn.Formats(y=Q(2, 0))),
        ],
        loss=nn.NLLLoss(),
        optimizer=nn.SGD(lr=0, nesterov=True),
        formats=Formats(activation=2, rounding="down"),
    )
    found = problems(model)
    assert [problem.split(";")[0] for problem in found] == [
        "loss: nn.NLLLoss",
        "optimizer: SGD has no option 'nesterov'",
        "optimizer: lr = 0",
        "conv1: Conv2d has no option 'strides'",
        "conv1: name = 'a-b'",
        "conv1: in_channels = 3 but its input has 2 channels",
        "layers[1]: nn.Relu is no layer of hwgen",
        "relu1: ReLU takes no arguments but name, (6,) given",
        "pool1: padding = (5, 5, 5, 5) is not below the kernel (2, 2)",
        "linear1: array = (0, 2)",
        "linear1: y = Q(2,0): 2 bits, which no multiplier carries",
        "formats: activation = 2 bits, which no multiplier carries",
        "formats: rounding = 'down'",
    ]
    assert all("\n" not in problem and "; " in problem for problem in found)


def test_groups_that_do_not_divide():
    assert problems(small([nn.Conv2d(3, 4, 3, groups=2), nn.MaxPool2d(2), *HEAD], input=(8, 8, 3))) == [
        "conv1: groups = 2 does not divide in_channels = 3; give a divisor of both"
    ]
    assert problems(
        small([nn.Conv2d(2, 3, 3, groups=2), nn.Flatten(), nn.Linear(108, 9)], input=(8, 8, 2))
    ) == ["conv1: groups = 2 does not divide out_channels = 3; give a divisor of both"]


def test_no_layers():
    assert problems(small([])) == [
        "layers: empty; give at least one nn.Conv2d or nn.Linear",
    ]


@pytest.mark.parametrize("wrong", [{"stride": 0}, {"strides": 2}, {"padding": "same"}])
def test_nothing_is_judged_behind_a_layer_of_unknown_size(wrong):
    assert len(problems(conv(**wrong))) == 1


@pytest.mark.parametrize("wrong", [{"array": 9}, {"b": 0}, {"name": "a-b"}, {"bias": 1}])
def test_other_mistakes_do_not_hide_what_does_not_fit_behind(wrong):
    layers = [nn.Conv2d(1, 4, 3, **wrong), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(37, 10)]
    assert problems(small(layers))[1:] == ["linear1: in_features = 37 but its input has 36; give 36"]


def test_given_weights_that_do_not_fit():
    model = small(
        weights={
            "conv1": [[1.0]],
            "conv1.bias": [0.0, 1.0, float("inf"), 0.0],
            "linear1.weight": "none",
            "linear2.bias": [1.0],
        }
    )
    with pytest.raises(ModelError) as caught:
        model.parameters(model.network())
    assert caught.value.problems == [
        "conv1.weight: given with shape (1, 1); give (3, 3, 1, 4)",
        "conv1.bias: inf at (2,); give finite numbers",
        "linear1.weight: str is no array of numbers; give (1, 1, 36, 10)",
        "weights: linear2.bias is no parameter of the model; it has conv1.weight, conv1.bias, "
        "linear1.weight, linear1.bias",
    ]


def test_attributes_arrive_in_the_stage():
    layer = nn.Conv2d(
        4, 6, (3, 2), stride=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2), groups=2, bias=False,
        u=2, pc=1, pn=3, b=4, frozen=True, name="c", formats=nn.Formats(w=Q(8, 5)),
    )  # fmt: skip
    model = Model(input=(9, 7, 4), layers=[layer, nn.Flatten(), nn.Linear(5 * 6 * 6, 3, array=(4, 3))])
    stage, head = model.network().stages
    assert stage.window == Window2d(9, 7, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2))
    assert (stage.in_channels, stage.out_channels, stage.groups, stage.bias) == (4, 6, 2, None)
    assert (stage.wish, stage.array, stage.frozen, stage.name) == (Wish(2, 1, 3, 4), None, True, "c")
    assert (stage.w, stage.master) == (Q(8, 5), Q(32, 29))
    assert (head.array, head.dx) == ((4, 3), None)  # nothing before it trains


def test_the_public_names():
    assert hwgen.nn is nn
    assert all(getattr(hwgen, name) is not None for name in hwgen.__all__)
    with pytest.raises(AttributeError, match=r"^module 'hwgen' has no attribute 'modle'$"):
        hwgen.modle  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'hwgen\.nn' has no attribute 'conv'$"):
        nn.conv  # noqa: B018


def test_wrong_sizes_have_no_consequences():
    layers = [nn.Conv2d(0, -1, 3, groups=2), nn.Flatten(), nn.Linear(None, 0)]
    assert [problem.partition(" =")[0] for problem in problems(small(layers))] == [
        "conv1: in_channels",
        "conv1: out_channels",
        "linear1: in_features",
        "linear1: out_features",
    ]


@pytest.mark.parametrize("weights", [[1], {3: [1.0]}])
def test_weights_without_names(weights):
    assert problems(small(weights=weights)) == [f'weights: {weights}; give weights={{"conv1": array, ...}}']
