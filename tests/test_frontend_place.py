"""Where a user wants layers in a chain: every mistake in its words, and what is right arrives in the stage."""

import re

import pytest
from model_mistakes import HEAD, small

from hwgen import Model, nn
from hwgen.errors import ModelError
from hwgen.ir.stage import SPLITS, Place
from hwgen.passes.pipeline import prepare
from hwgen.plan.part import CUTS

CHANNELS = 'give split="output_channels" or split="input_channels"'
CHOICE = f'{CHANNELS} or split="rows"'


def problems(model):
    with pytest.raises(ModelError) as caught:
        model.network()
    return caught.value.problems


def placed(in_channels=3, out_channels=4, **settings):
    """A model whose first layer is a convolution with a place."""
    return Model(
        input=(8, 8, in_channels),
        layers=[
            nn.Conv2d(in_channels, out_channels, 3, **settings),
            nn.Flatten(),
            nn.Linear(36 * out_channels, 3),
        ],
    )


MISTAKES = [
    ({"device": -1}, "device = -1; give the number of a board, 0 or more, or a tuple of them"),
    ({"device": True}, "device = True; give the number of a board, 0 or more, or a tuple of them"),
    ({"device": 1.0}, "device = 1.0; give the number of a board, 0 or more, or a tuple of them"),
    ({"device": "1"}, "device = '1'; give the number of a board, 0 or more, or a tuple of them"),
    ({"device": ()}, "device = (); give the number of a board, 0 or more, or a tuple of them"),
    ({"device": (0, None)}, "device = (0, None); give the number of a board, 0 or more, or a tuple of them"),
    ({"device": (0, 2)}, "device = (0, 2); the parts of a layer stand on consecutive boards, give (0, 1)"),
    ({"device": [2, 1]}, "device = (2, 1); the parts of a layer stand on consecutive boards, give (2, 3)"),
    ({"device": (1, 1)}, "device = (1, 1); the parts of a layer stand on consecutive boards, give (1, 2)"),
    ({"split": "row"}, f"split = 'row'; {CHOICE}"),
    ({"split": 1}, f"split = 1; {CHOICE}"),
    ({"split": ("output_channels",)}, f"split = ('output_channels',); {CHOICE}"),
    (
        {"split": "rows", "shares": (2, 0)},
        "shares = (2, 0); give a tuple with the rows of each part's turn, 1 or more",
    ),
    (
        {"split": "rows", "shares": (2, 1), "device": (0, 1, 2)},
        "shares = (2, 1) makes 2 parts but device = (0, 1, 2) is 3 boards; give one share a board",
    ),
    ({"split": "rows", "turns": 0}, "turns = 0; give the number of turns of each part, 1 or more"),
    ({"split": "rows", "turns": (2, 2)}, "turns = (2, 2); give the number of turns of each part, 1 or more"),
    ({"turns": 2}, 'turns = 2 without split="rows"; only image rows are dealt in turns'),
    (
        {"split": "output_channels", "turns": 2},
        'turns = 2 without split="rows"; only image rows are dealt in turns',
    ),
    (
        {"split": "rows", "turns": 2, "shares": (3, 3)},
        "turns = 2 beside shares = (3, 3), which repeat to the last row; give one of them",
    ),
    ({"split": "groups"}, f'split = "groups" but the layer has one group; {CHOICE}'),
    (
        {"in_channels": 4, "groups": 2, "split": "input_channels"},
        'split = "input_channels" but the layer has 2 groups; give split="groups" or '
        'split="output_channels" or split="rows"',
    ),
    ({"shares": (2, 2)}, f"shares = (2, 2) without split; {CHOICE} beside it"),
    (
        {"split": "output_channels", "shares": 4},
        "shares = 4; give a tuple with the channels of each part, 1 or more",
    ),
    (
        {"split": "output_channels", "shares": (4, 0)},
        "shares = (4, 0); give a tuple with the channels of each part, 1 or more",
    ),
    (
        {"split": "output_channels", "shares": (0.5, 0.5)},
        "shares = (0.5, 0.5); give a tuple with the channels of each part, 1 or more",
    ),
    (
        {"split": "output_channels", "shares": (2, 1)},
        "shares = (2, 1) sum to 3 but the layer has 4 output channels; give shares that sum to 4",
    ),
    (
        {"split": "input_channels", "shares": [2, 2]},
        "shares = (2, 2) sum to 4 but the layer has 3 input channels; give shares that sum to 3",
    ),
    (
        {"in_channels": 4, "groups": 2, "split": "groups", "shares": (2, 2)},
        "shares = (2, 2) sum to 4 but the layer has 2 groups; give shares that sum to 2",
    ),
    (
        {"device": (0, 1, 2), "split": "output_channels", "shares": (3, 1)},
        "shares = (3, 1) makes 2 parts but device = (0, 1, 2) is 3 boards; give one share a board",
    ),
    (
        {"device": 2, "split": "input_channels"},
        'split = "input_channels" but device = 2 is one board; '
        "give the boards of all parts, device=(2, 3), or drop split",
    ),
    (
        {"device": (0, 1, 2, 3), "split": "input_channels"},
        "device = (0, 1, 2, 3) cuts 3 input channels into 4 parts; give at most 3 boards",
    ),
    (
        {"in_channels": 1, "device": (0, 1), "split": "input_channels"},
        "device = (0, 1) cuts 1 input channels into 2 parts; give at most 1 board",
    ),
    (
        {"divice": 1},
        "Conv2d has no option 'divice'; did you mean device? it takes in_channels, out_channels, kernel_size, "
        "stride, padding, dilation, groups, bias, array, b, u, pc, pn, frozen, formats, name, device, split, shares, "
        "turns, master",
    ),
    ({"master": "there"}, 'master = \'there\'; give "here", "memory", "up" or "down"'),
    ({"master": 1}, 'master = 1; give "here", "memory", "up" or "down"'),
    (
        {"master": "memory", "frozen": True},
        'master = "memory" but frozen = True: its weights never change; drop one of them',
    ),
]


@pytest.mark.parametrize(("settings", "message"), MISTAKES)
def test_a_mistake_is_named(settings, message):
    (found,) = problems(placed(**settings))
    assert re.fullmatch(re.escape(f"conv1: {message}"), found), found


def test_a_linear_layer_has_one_row():
    layers = [nn.Flatten(), nn.Linear(64, 10, split="rows", shares=(1, 1))]
    assert problems(small(layers)) == [f'linear1: split = "rows" but the layer has one row; {CHANNELS}']


def test_a_linear_layer_has_features_for_channels():
    layers = [nn.Flatten(), nn.Linear(64, 10, split="input_channels", shares=(32, 31))]
    assert problems(small(layers)) == [
        "linear1: shares = (32, 31) sum to 63 but the layer has 64 input channels; give shares that sum to 64"
    ]


BEHIND = "cut at a layer with weights, give {} to nn.Conv2d or nn.Linear"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            nn.MaxPool2d(2, device=1),
            "pool1: device = 1 on MaxPool2d, which stays with the layer before it: a pool is never cut; "
            + BEHIND.format("device"),
        ),
        (
            nn.MaxPool2d(2, split="rows", shares=(1, 1)),
            "pool1: split = 'rows', shares = (1, 1) on MaxPool2d, which stays with the layer before it: "
            "a pool is never cut; " + BEHIND.format("split, shares"),
        ),
    ],
)
def test_a_cut_inside_a_pool(layer, message):
    assert problems(small([nn.Conv2d(1, 4, 3), layer, *HEAD])) == [message]


@pytest.mark.parametrize(("make", "name"), [(nn.ReLU, "relu1"), (nn.Flatten, "flatten1")])
def test_a_place_for_what_has_no_weights(make, name):
    layers = [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 10)]
    layers[2 if make is nn.ReLU else 3] = make(device=(0, 1))
    assert problems(small(layers)) == [
        f"{name}: device = (0, 1) on {make.__name__}, which stays with the layer before it: "
        "it has no weights; " + BEHIND.format("device")
    ]


def test_a_place_for_the_loss():
    assert problems(small(loss=nn.SoftmaxCrossEntropy(device=2))) == [
        "loss: device = 2 on SoftmaxCrossEntropy, which stays with the layer before it: it has no weights; "
        + BEHIND.format("device")
    ]


def chain(*devices):
    """Linear layers on the given boards."""
    layers = [nn.Linear(8, 8, device=device) for device in devices]
    return Model(input=(8,), layers=layers)


@pytest.mark.parametrize(
    "devices", [(0, 0, 1), (0, (0, 1), (1, 2), 2), (None, 3, None, (3, 4)), ((0, 1, 2), 2, 5)]
)
def test_boards_follow_the_layers(devices):
    stages = chain(*devices).network().stages
    assert [stage.place.device for stage in stages] == [
        (device,) if isinstance(device, int) else device for device in devices
    ]


def test_boards_out_of_order():
    advice = "boards follow the order of layers, so give 2 or more"
    assert problems(chain((1, 2), None, 1, 2, 0)) == [
        f"linear3: device = 1 lies before board 2, which has linear1; {advice}",
        f"linear5: device = 0 lies before board 2, which has linear1; {advice}",
    ]
    assert problems(chain(1, (1, 2), 1)) == [
        f"linear3: device = 1 lies before board 2, which has linear2; {advice}"
    ]


def test_everything_is_reported_at_once():
    model = placed(device=(0, 1, 2), split="input_channels", shares=(2, 2))
    assert [problem.partition(";")[0] for problem in problems(model)] == [
        "conv1: shares = (2, 2) makes 2 parts but device = (0, 1, 2) is 3 boards",
        "conv1: shares = (2, 2) sum to 4 but the layer has 3 input channels",
    ]
    model = placed(device=-1, split="lines", shares=0)
    assert [problem.partition(" =")[0] for problem in problems(model)] == [
        "conv1: device",
        "conv1: split",
        "conv1: shares",
    ]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, Place()),
        ({"device": None, "split": None, "shares": None}, Place()),
        ({"device": 0}, Place((0,))),
        ({"device": 0, "master": "memory"}, Place((0,), master="memory")),
        ({"master": "here"}, Place(master="here")),
        ({"master": "up"}, Place(master="up")),
        ({"device": 1, "master": "down"}, Place((1,), master="down")),
        ({"device": [1, 2]}, Place((1, 2))),
        ({"split": "output_channels"}, Place(None, "output_channels")),
        ({"split": "rows", "device": (0, 1), "shares": (5, 2)}, Place((0, 1), "rows", (5, 2))),
        ({"split": "rows", "device": (0, 1), "turns": 2}, Place((0, 1), "rows", None, 2)),
        ({"split": "rows", "in_channels": 4, "groups": 2}, Place(None, "rows")),
        (
            {"device": (3, 4), "split": "input_channels", "shares": [1, 2]},
            Place((3, 4), "input_channels", (1, 2)),
        ),
        (
            {"in_channels": 6, "out_channels": 6, "groups": 3, "split": "groups", "shares": (2, 1)},
            Place(None, "groups", (2, 1)),
        ),
    ],
)
def test_a_place_arrives_in_the_stage(settings, place):
    model = placed(**settings)
    first, last = model.network().stages
    assert (first.place, last.place) == (place, Place())
    text = str(prepare(model.graph()))
    assert text.count("Place(") == (place != Place())
    assert place == Place() or str(place) in text


def test_a_mistake_hides_nothing_behind_it():
    layers = [nn.Conv2d(1, 4, 3, device=-1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(37, 10)]
    assert problems(small(layers))[1:] == ["linear1: in_features = 37 but its input has 36; give 36"]


def test_channels_that_are_wrong_themselves_are_not_summed():
    layers = [nn.Flatten(), nn.Linear(64, 0, split="output_channels", shares=(1, 1))]
    assert [problem.partition(" =")[0] for problem in problems(small(layers))] == ["linear1: out_features"]


def test_a_layer_splits_where_a_plan_cuts():
    assert SPLITS == CUTS
