"""A model from ONNX through planner, emitter and simulator, and its weights back."""

import json

import numpy as np
import pytest
from onnx_models import OnnxChain, run_onnx
from test_cli_whole import command

from hwgen.backend.build import load_build
from hwgen.ref.executor import Reference


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An ONNX file with awkward names, data, and their build."""
    path, rng = tmp_path_factory.mktemp("onnx"), np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32) * 0.4  # noqa: E731
    chain = OnnxChain(2, 5, 4).node("Conv", normal(3, 2, 3, 2), normal(3), auto_pad="SAME_UPPER", name="clk")
    chain.node("Relu", name="w").node("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, name="rst")
    chain.node("Transpose", perm=[0, 3, 1, 2]).node("Flatten").node("MatMul", normal(18, 3), name="a.b")
    chain.node("Add", normal(1, 3)).save(path / "net.onnx")
    images, labels = rng.uniform(-1, 1, (16, 5, 4, 2)), rng.integers(0, 3, 16)
    np.savez(
        path / "data.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels
    )
    options = ("--loss", "cross_entropy", "--lr", "0.1", "--batch", 4, "--data", path / "data.npz")
    code, _, err = command("build", path / "net.onnx", *options, "-o", path / "out")
    assert code == 0, err
    return path


def test_hardware_is_the_reference_and_its_weights_go_back(folder):
    weights = folder / "run.npz"
    code, out, err = command("sim", folder / "out", "--batches", 1, "--eval", "--weights", weights, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["mismatched"], result["batches"]) == (0, 3)
    assert [stage["name"] for stage in result["stages"]] == ["clk", "a_b"]
    out = folder / "trained.onnx"
    assert command("export", folder / "out", "--weights", weights, "--onnx", out)[0] == 0
    build = load_build(folder / "out")
    images = build.plan.network.input.to_float(build.dataset.test_images)
    predictions = run_onnx(out, images.transpose(0, 3, 1, 2)).argmax(axis=1)
    assert float(np.mean(predictions == build.dataset.test_labels)) == result["accuracy"]


def test_the_build_starts_with_the_weights_of_the_file(folder):
    """Logits of the first weights: ONNX Runtime's, to the rounding of activations."""
    build = load_build(folder / "out")
    network = build.plan.network
    images = network.input.to_float(build.dataset.test_images)
    wanted = run_onnx(folder / "net.onnx", images.transpose(0, 3, 1, 2))
    logits = Reference(network, build.parameters).forward(build.dataset.test_images).y[-1]
    step = 2.0 ** -network.stages[-1].y.frac
    difference = np.abs(network.stages[-1].y.to_float(logits).reshape(wanted.shape) - wanted)
    assert difference.max() < 8 * step
