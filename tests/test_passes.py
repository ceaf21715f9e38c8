"""The passes: what each makes of a graph, its stable text, and the network at the end."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hwgen import Formats, Model, Q, nn
from hwgen.errors import ModelError
from hwgen.ir.activation import Activation
from hwgen.ir.formats import LayerFormats
from hwgen.ir.graph import Graph, Node, Optimizer
from hwgen.ir.ops import OPS, Conv2d, Flatten, Linear, MaxPool2d, ReLU, SoftmaxCrossEntropy
from hwgen.ir.stage import Loss, Stage, Update
from hwgen.ir.window import Window2d
from hwgen.passes import PIPELINE, lower, prepare
from hwgen.passes.fusion import fuse
from hwgen.passes.learning_rate import learning_rate
from hwgen.passes.lowering import MAX_SUM_BITS
from hwgen.passes.shapes import infer_shapes
from hwgen.plan.fold import Folding, resolve_array

GOLDEN = Path(__file__).parent / "golden"


def model(**settings):
    return Model(
        input=(9, 7, 4),
        layers=[
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0, 2, 1), groups=2, name="stem", array=(4, 3)),
            nn.MaxPool2d(3, 2, padding=(0, 1)),
            nn.ReLU(),
            nn.ReLU(),
            nn.Conv2d(6, 8, 1, bias=False, formats=nn.Formats(w=Q(9, 7), y=Q(12, 5)), u=1, pc=2, pn=4, b=2),
            nn.Flatten(),
            nn.Linear(64, 5, frozen=True),
            nn.ReLU(),
            nn.Linear(5, 3),
        ],
        optimizer=nn.SGD(lr=0.25, batch=8),
        name="golden net",
        **settings,
    )


def test_the_text_of_a_graph():
    graph = model().graph()
    text = f"{graph}\n{infer_shapes(graph)}\n{prepare(graph)}\n"
    golden = GOLDEN / "graph.txt"
    if os.environ.get("HWGEN_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_equal_models_give_equal_text_and_networks():
    assert str(model().graph()) == str(model().graph())
    assert model().graph() == model().graph()
    assert model().network(5) == model().network(5)
    assert str(prepare(model().graph())) == str(prepare(model().graph()))


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": nn.SGD(lr=0.5, batch=8)},
        {"formats": Formats(weight=15)},
        {"name": "other"},
        {"input": (9, 8, 4)},
    ],
)
def test_another_model_gives_another_text(change):
    assert str(model().replace(**change).graph()) != str(model().graph())


def test_the_pipeline_is_in_its_order():
    assert [name for name, _ in PIPELINE] == ["shapes", "checks", "fusion", "formats"]


def test_shapes():
    graph = infer_shapes(model().graph())
    shapes = [(5, 7, 6), (2, 4, 6), (2, 4, 6), (2, 4, 6), (2, 4, 8), (64,), (5,), (5,), (3,), (3,)]
    assert [node.shape for node in graph.nodes] == shapes


def test_fusion_keeps_one_node_a_stage():
    fused = prepare(model().graph())
    assert [
        (node.name, node.activation is not None, node.pool is not None, node.input) for node in fused.nodes
    ] == [
        ("stem", True, True, "input"),
        ("conv2", False, False, "stem"),
        ("linear1", True, False, "conv2"),
        ("linear2", False, False, "linear1"),
        ("loss", False, False, "linear2"),
    ]
    assert fused.nodes[0].conv_shape == (5, 7, 6)
    assert fused.nodes[0].shape == (2, 4, 6)


def test_relu_may_stand_before_or_behind_the_pool():
    before = Model(input=(4, 4, 1), layers=[nn.Conv2d(1, 2, 1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten()])
    behind = before.replace(layers=[before.layers[i] for i in (0, 2, 1, 3)])
    assert before.network() == behind.network()


def test_flatten_may_stand_before_relu():
    layers = [nn.Conv2d(2, 3, 2), nn.Flatten(), nn.ReLU(), nn.Linear(27, 2)]
    stage = Model(input=(4, 4, 2), layers=layers).network().stages[0]
    assert stage.activation == Activation()


def test_the_network():
    network = model().network(seed=(1 << 32) + 7)
    assert network.name == "golden_net"
    assert network.stages[0] == Stage(
        name="stem",
        index=0,
        window=Window2d(9, 7, (3, 2), (2, 1), (1, 0, 2, 1), (1, 1)),
        in_channels=4,
        out_channels=6,
        x=Q(16, 14),
        w=Q(16, 14),
        master=Q(32, 30),
        bias=Q(32, 26),
        y=Q(16, 11),
        dy=Q(16, 14),
        dx=None,
        groups=2,
        activation=Activation(),
        pool=Window2d(5, 7, (3, 3), (2, 2), (0, 1, 0, 1)),
        array=(4, 3),
    )
    conv, frozen, last = network.stages[1:]
    assert (conv.w, conv.master, conv.bias, conv.y, conv.x) == (Q(9, 7), Q(32, 30), None, Q(12, 5), Q(16, 11))
    assert (conv.dx, conv.in_shape, conv.out_shape) == (Q(16, 14), (2, 4, 6), (2, 4, 8))
    assert (frozen.in_shape, frozen.frozen, frozen.activation, frozen.x) == (
        (1, 1, 64),
        True,
        Activation(),
        Q(12, 5),
    )
    assert frozen.dx == Q(16, 14)  # an earlier stage trains
    assert last.bias == Q(32, 25)
    assert network.loss == Loss(3, last.y, last.dy)
    assert network.update == Update(Q(16, 19), 1 << 14, 8, 0.25, "nearest", 7)


def test_errors_stop_before_the_first_stage_that_trains():
    layers = [nn.Linear(4, 4, frozen=True), nn.Linear(4, 4, frozen=True), nn.Linear(4, 4), nn.Linear(4, 2)]
    stages = Model(input=(4,), layers=layers).network().stages
    assert [stage.dx is not None for stage in stages] == [False, False, False, True]
    assert [stage.macs for stage in stages] == [(16, 0, 0), (16, 0, 0), (16, 0, 16), (8, 8, 8)]


@pytest.mark.parametrize("lr", [1e-9, 3e-4, 0.1, 0.5, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("batch", [1, 7, 16, 128])
@pytest.mark.parametrize("width", [4, 8, 16, 24])
def test_the_learning_rate_keeps_its_bits(lr, batch, width):
    graph = replace(model(formats=Formats(lr=width)).graph(), optimizer=Optimizer(lr, batch))
    q, rate = learning_rate(graph)
    assert q.width == width
    assert 0 <= q.frac <= 40
    assert rate == round(lr / batch * 2**q.frac)
    if 0 < q.frac < 40:
        assert 2 ** (width - 2) <= rate <= q.max


def test_sums_that_just_fit():
    formats = Formats(24, 24, error=24, bias=8)
    layers = [nn.Linear(4, 2, bias=False)]
    fits = Model(input=(4,), layers=layers, formats=formats, optimizer=nn.SGD(batch=2**14))
    assert fits.network().stages[0].grad_bits(2**14) == MAX_SUM_BITS
    with pytest.raises(ModelError) as caught:
        fits.replace(optimizer=nn.SGD(batch=2**14 + 1)).network()
    assert caught.value.problems == [
        "linear1: its weight gradients need 63 bits (1 pixels × 16385 samples of 24 × 24 bits), "
        "at most 62 fit; give narrower formats"
    ]


def test_points_that_just_fit():
    def network(frac):
        formats = nn.Formats(y=Q(16, frac), w=Q(16, 0))
        settings = {"formats": Formats(input=Q(16, 0))}
        return Model(input=(4,), layers=[nn.Linear(4, 2, bias=False, formats=formats)], **settings).network()

    stage = network(0).stages[0]
    assert (stage.acc_bits, stage.acc_frac) == (34, 0)
    assert network(-33).stages[0].y == Q(16, -33)
    assert network(MAX_SUM_BITS - 34).stages[0].y == Q(16, 28)
    with pytest.raises(
        ModelError, match=r"^linear1: y = Q\(16,-34\) is too coarse: .*; give frac above -34$"
    ):
        network(-34)
    with pytest.raises(
        ModelError, match=r"^linear1: y = Q\(16,29\) is too fine for .*; give frac of at most 28$"
    ):
        network(29)


def test_an_illegal_folding_lists_the_legal_ones():
    layers = [nn.Conv2d(2, 3, (3, 2)), nn.Flatten(), nn.Linear(18, 4)]
    stage = Model(input=(5, 3, 2), layers=layers).network().stages[0]
    assert resolve_array(stage, (12, 3)) == Folding(6, 2, 3)
    assert resolve_array(stage, (2, 1)) == Folding(1, 2, 1)  # as many folds as (2, 1, 1): 6
    assert resolve_array(stage, (6, 1), b=4) == Folding(6, 1, 1, 4)
    with pytest.raises(ModelError) as caught:
        resolve_array(stage, (9, 2))
    assert str(caught.value) == ("conv1: array=(9, 2): Pk = 9 is not u·pc; legal Pk: [1, 2, 4, 6, 12]")
    with pytest.raises(ModelError) as caught:
        resolve_array(stage, (6, 4))
    assert str(caught.value) == "conv1: array=(6, 4): Pn = 4 is outside 1..3"


def test_verification_names_the_pass():
    nodes = (
        Node("a", Linear(2, 2), "input"),
        Node("loss", SoftmaxCrossEntropy(), "a"),
    )
    Graph("g", (2,), nodes).verify("shapes", fused=True)
    for wrong, message in (
        ((Node("a", Linear(2, 2), "b"), nodes[1]), r"^after x: a reads b, which does not exist$"),
        ((nodes[0], Node("a", ReLU(), "a"), nodes[1]), r"^after x: the name a stands twice$"),
        ((nodes[0],), r"^after x: the graph does not end in a loss$"),
        ((), r"^after x: the graph does not end in a loss$"),
        (
            (nodes[0], Node("r", ReLU(), "a"), nodes[1]),
            r"^after x: unfused nodes among \['matrix', 'activation', 'loss'\]$",
        ),
    ):
        with pytest.raises(AssertionError, match=message):
            Graph("g", (2,), wrong).verify("x", fused=True)


def test_every_operation_is_in_the_table():
    assert {info.slot for info in OPS.values()} == {
        "matrix",
        "activation",
        "pool",
        "reshape",
        "loss",
        "unknown",
    }
    assert OPS[Conv2d].onnx == "Conv"
    assert len({info.prefix for info in OPS.values()}) == len(OPS)
    assert OPS[MaxPool2d].infer(MaxPool2d((2, 2), (3, 3)), (7, 8, 5)) == ((2, 3, 5), [])
    assert OPS[Flatten].infer(Flatten(), (2, 3, 4)) == ((24,), [])


def test_lower_is_the_pipeline_and_the_last_step():
    graph = model().graph()
    assert lower(graph, 3) == model().network(3)
    assert fuse(infer_shapes(graph)).nodes[0].formats == LayerFormats()
