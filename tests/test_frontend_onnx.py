"""ONNX files become the same networks as the DSL's; ONNX Runtime says what they compute."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import OPSET, OnnxChain, digits_onnx, random_chain, run_onnx, whole
from ref_networks import digits_model

from hwgen import Formats, Q, nn
from hwgen.errors import ModelError
from hwgen.frontend.float_run import FloatRun
from hwgen.frontend.loader import load_source
from hwgen.frontend.onnx_import import model_from_onnx
from hwgen.ir.initial import real_parameters
from hwgen.ir.ops import Conv2d, Linear
from hwgen.ref.executor import Reference

EXAMPLES = Path(__file__).parent.parent / "examples"
WEIGHTS, WHOLE = Q(16, 0), Q(24, 0)
SEEDS = range(160)


def whole_formats(model):
    """The model in formats of whole numbers."""
    layers = [
        dataclasses.replace(
            layer,
            formats=nn.Formats(w=WEIGHTS, y=WHOLE, bias=Q(16, 0))
            if isinstance(layer.op, Conv2d | Linear)
            else layer.formats,
        )
        for layer in model.layers
    ]
    return model.replace(layers=layers, formats=Formats(input=WHOLE))


@pytest.mark.parametrize("block", range(8))
def test_onnx_runtime_and_hwgen_compute_the_same(block, tmp_path):
    compared = 0
    for seed in SEEDS[block::8]:
        chain, given, images = random_chain(seed)
        wanted = run_onnx(chain.save(tmp_path / "net.onnx"), given).reshape(len(given), -1)
        model = model_from_onnx(tmp_path / "net.onnx")
        network = model.network()
        run = FloatRun(network, real_parameters(network, 0, model.weights))
        assert np.array_equal(run.forward(images.astype(float)).reshape(len(images), -1), wanted), seed
        halves = any(stage.activation and stage.activation.slope for stage in network.stages)
        if halves or max(peaks.y for peaks in run.peaks) > WHOLE.max:
            continue
        network = whole_formats(model).network()
        reference = Reference(network, model.parameters(network))
        logits = reference.forward(images.astype(np.int64)).y[-1]
        assert np.array_equal(logits.reshape(len(images), -1), wanted), seed
        compared += 1
    assert compared > 7


def test_the_digits_network_is_that_of_the_dsl(tmp_path):
    source = load_source(EXAMPLES / "digits.py")
    digits_onnx(source.network, source.parameters).save(tmp_path / "digits.onnx")
    model = model_from_onnx(tmp_path / "digits.onnx", optimizer=nn.SGD(lr=0.15, batch=16))
    assert str(model.graph()) == str(digits_model(optimizer=nn.SGD(lr=0.15), name="digits").graph())
    network = model.network()
    assert network == dataclasses.replace(
        source.network,
        name="digits",
        stages=tuple(dataclasses.replace(stage, array=None) for stage in source.network.stages),
    )
    real = {}
    for stage, weight, bias in zip(
        source.network.stages, source.parameters.weights, source.parameters.biases, strict=True
    ):
        real[stage.name] = stage.master.to_float(weight).astype(np.float32)
        real[f"{stage.name}.bias"] = stage.bias.to_float(bias).astype(np.float32)
    written = source.model.replace(weights=real)
    assert model.parameters(network) == written.parameters(source.network)


def conv(**attributes):
    return OnnxChain(3, 5, 7).node("Conv", np.ones((4, 3, 2, 3), np.float32), **attributes)


def end(chain, features):
    return chain.node("Flatten").node("Gemm", np.ones((features, 2), np.float32))


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["w", "clk", "rst", "module"], ["w", "clk", "rst", "module"]),
        (["a-b", "a.b", "a_b", "a b"], ["a_b", "a_b_2", "a_b_3", "a_b_4"]),
        (["", "", "same", "same"], ["linear1", "linear2", "same", "same_2"]),
        (["input", "loss", "/3/Gemm", "ä"], ["input_2", "loss_2", "linear_3", "linear1"]),
        (["x" * 50, "x" * 60, "linear1", ""], ["x" * 40, "x" * 38 + "_2", "linear1", "linear2"]),
    ],
)
def test_names_are_legal_and_different(names, wanted, tmp_path):
    chain = OnnxChain(2)
    for name in names:
        chain.node("Gemm", np.eye(2, dtype=np.float32), name=name)
    network = model_from_onnx(chain.save(tmp_path / "net.onnx")).network()
    assert [stage.name for stage in network.stages] == wanted


def test_weights_beyond_the_default_format_get_another(tmp_path):
    chain = OnnxChain(2).node("Gemm", np.array([[1.9, 0], [0, 1]], np.float32), name="fits")
    chain.node("Gemm", np.array([[2.1, 0], [0, 1]], np.float32), name="clips")
    model = model_from_onnx(chain.save(tmp_path / "net.onnx"))
    assert [stage.w for stage in model.network().stages] == [Q(16, 14), Q(16, 12)]


def test_shapes_may_be_computed(tmp_path):
    """What exporters write for x.view(x.size(0), -1)."""
    chain = conv(pads=[0, 1, 1, 1])
    head, zero = chain.head, chain.constant(np.array(0))
    for kind, inputs, settings in (
        ("Shape", [head], {}),
        ("Gather", ["shape", zero], {"axis": 0}),
        ("Unsqueeze", ["size", chain.constant(np.array([0]))], {}),
        ("Concat", ["batch", chain.constant(np.array([-1]))], {"axis": 0}),
    ):
        out = {"Shape": "shape", "Gather": "size", "Unsqueeze": "batch", "Concat": "target"}[kind]
        chain.nodes.append(helper.make_node(kind, inputs, [out], **settings))
    chain.node("Reshape", "target").node("Gemm", whole(np.random.default_rng(0), 140, 3))
    images = whole(np.random.default_rng(1), 2, 3, 5, 7)
    wanted = run_onnx(chain.save(tmp_path / "net.onnx"), images)
    model = model_from_onnx(tmp_path / "net.onnx")
    network = model.network()
    run = FloatRun(network, real_parameters(network, 0, model.weights))
    found = run.forward(images.transpose(0, 2, 3, 1).astype(float))
    assert np.array_equal(found.reshape(2, -1), wanted)


def test_a_softmax_at_the_end_is_that_of_the_loss(tmp_path):
    for kind in ("Softmax", "LogSoftmax"):
        chain = end(conv(), 80).node(kind, axis=1)
        assert len(model_from_onnx(chain.save(tmp_path / "net.onnx")).network().stages) == 2


@pytest.mark.parametrize("opset", [13, 14, 18, 21, 22])
def test_every_opset_from_13_on(opset, tmp_path):
    path = end(conv(), 80).save(tmp_path / "net.onnx", opset=opset)
    assert len(model_from_onnx(path).network().stages) == 2


def test_an_older_opset_is_refused(tmp_path):
    path = end(conv(), 80).save(tmp_path / "net.onnx", opset=OPSET - 1)
    with pytest.raises(ModelError, match=r"net\.onnx: opset 12; hwgen reads 13 and later: export with .*"):
        model_from_onnx(path)
