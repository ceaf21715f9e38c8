"""Trained weights go back: the same numbers in ONNX Runtime and PyTorch as in the reference, up to rounding."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
import torch
from cli_bench import *
from float_twin import torch_digits
from onnx_models import digits_onnx, random_chain

from hwgen.backend.arrays import pack
from hwgen.backend.onnx_export import onnx_bytes
from hwgen.backend.trained import framework_tensors, parameter_tensors, read_parameters, real_tensors
from hwgen.data import quantise_images
from hwgen.errors import DataError
from hwgen.frontend.float_run import FloatRun
from hwgen.frontend.loader import load_source
from hwgen.frontend.onnx_import import model_from_onnx
from hwgen.frontend.training import Training
from hwgen.ref.executor import Reference
from hwgen.ref.trainer import predict, train

EXAMPLES = Path(__file__).parent.parent / "examples"


def run_bytes(content, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": images.astype(np.float32)})
    return found


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The digits network from an ONNX file, trained for an epoch: (source, trained parameters)."""
    folder = tmp_path_factory.mktemp("digits")
    example = load_source(EXAMPLES / "digits.py")
    digits_onnx(example.network, example.parameters).save(folder / "digits.onnx")
    names = ("train_images", "train_labels", "test_images", "test_labels")
    real = example.model.network().input.to_float(example.dataset.train_images)
    test = example.model.network().input.to_float(example.dataset.test_images)
    arrays = (real, example.dataset.train_labels, test, example.dataset.test_labels)
    np.savez(folder / "data.npz", **dict(zip(names, arrays, strict=True)))
    source = load_source(folder / "digits.onnx", training=Training(lr=0.15, data=folder / "data.npz"))
    trained = train(source.network, source.parameters, source.dataset, epochs=1, seed=0).parameters
    return source, trained


def test_digits_and_back(digits):
    """Predictions on all held-out digits; logits to the rounding of activations that is stated."""
    source, trained = digits
    network = source.network
    images = source.dataset.test_images
    content = onnx_bytes(network, source.model.origins, real_tensors(network, trained))
    real = network.input.to_float(images)
    logits = run_bytes(content, real.transpose(0, 3, 1, 2))
    wanted = Reference(network, trained).forward(images).y[-1].reshape(len(images), -1)
    step = 2.0 ** -network.stages[-1].y.frac
    assert np.abs(logits - network.stages[-1].y.to_float(wanted)).max() < 8 * step
    assert np.array_equal(logits.argmax(axis=1), predict(network, trained, images))
    assert len(images) == 359


def test_digits_in_pytorch(digits):
    source, trained = digits
    network = source.network
    twin = torch_digits(network, trained)
    state = {
        name: torch.from_numpy(array.copy())
        for name, array in framework_tensors(network, {}, real_tensors(network, trained)).items()
    }
    places = dict(zip(state, [name for name, _ in twin.named_parameters()], strict=True))
    twin.load_state_dict({places[name]: tensor for name, tensor in state.items()})
    real = network.input.to_float(source.dataset.test_images).transpose(0, 3, 1, 2)
    with torch.no_grad():
        found = twin(torch.tensor(np.ascontiguousarray(real, dtype=np.float32))).argmax(1).numpy()
    assert np.array_equal(found, predict(network, trained, source.dataset.test_images))


@pytest.mark.parametrize("seed", range(40))
def test_any_chain_and_back(seed, tmp_path):
    """The exported file computes what hwgen's real network does, and is imported as the same network."""
    chain, _, images = random_chain(seed)
    model = model_from_onnx(chain.save(tmp_path / "net.onnx"))
    network = model.network()
    parameters = model.parameters(network)
    content = onnx_bytes(network, model.origins, real_tensors(network, parameters))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    run = FloatRun(
        network,
        [
            (
                stage.w.to_float(w >> (stage.master.width - stage.w.width)),
                None if b is None else stage.bias.to_float(b),
            )
            for stage, w, b in zip(network.stages, parameters.weights, parameters.biases, strict=True)
        ],
    )
    wanted = run.forward(images.astype(float)).reshape(len(images), -1)
    first = network.stages[0]
    if first.in_shape[:2] == (1, 1) and first.in_channels > images.shape[-1]:
        order = model.origins[f"{first.name}.weight"].order
        given = images.reshape(len(images), -1)
        given = given if order is None else given[:, list(order)]
    else:
        given = images.transpose(0, 3, 1, 2)
    assert np.array_equal(run_bytes(content, given).reshape(len(images), -1), wanted)
    (tmp_path / "net.onnx").write_bytes(content)
    again = model_from_onnx(tmp_path / "net.onnx")
    assert again.network().in_shape == network.in_shape or first.in_shape[:2] == (1, 1)
    for one, two in zip(again.network().stages, network.stages, strict=True):
        assert dataclasses.replace(one, name=two.name) == two
    if given.ndim == 4:
        assert again.parameters(again.network()) == parameters


def test_origins_go_back_where_they_came_from(tmp_path):
    """Every tensor of the file, in its own layout; whole numbers pass the formats unchanged."""
    compared = 0
    for seed in range(60):
        chain, _, _ = random_chain(seed)
        model = model_from_onnx(chain.save(tmp_path / "net.onnx"))
        network = model.network()
        back = framework_tensors(network, model.origins, real_tensors(network, model.parameters(network)))
        for tensor in chain.initializers:
            values = onnx.numpy_helper.to_array(tensor)
            if tensor.name in back:
                assert np.array_equal(back[tensor.name], values), (seed, tensor.name)
                compared += 1
            else:
                assert values.dtype == np.int64 or values.ndim == 0  # of Reshape, and bounds of Clip
    assert compared > 200


def test_masters_keep_more_than_what_is_multiplied(digits):
    source, trained = digits
    narrow, wide = (real_tensors(source.network, trained, masters=m) for m in (False, True))
    stage = source.network.stages[0]
    assert np.array_equal(wide["conv1.weight"], stage.master.to_float(trained.weights[0]).astype(np.float32))
    difference = wide["conv1.weight"] - narrow["conv1.weight"]
    assert (difference >= 0).all()
    assert (difference <= 2.0**-stage.w.frac).all()
    assert (difference > 0).any()


def test_the_command(run, tmp_path, digits):
    source, trained = digits
    options = ("--lr", "0.15", "--data", source.path.parent / "data.npz")
    out, weights = tmp_path / "out", tmp_path / "run.npz"
    assert run("build", source.path, *options, "-o", out)[0] == 0
    code, _, err = run("train", source.path, *options, "--epochs", 1, "--weights", weights)
    assert (code, err) == (0, "")
    assert weights.read_bytes() == pack(parameter_tensors(source.network, trained))
    places = {kind: tmp_path / kind for kind in ("onnx", "safetensors", "state-dict")}
    asked = [item for kind, path in places.items() for item in (f"--{kind}", path)]
    code, text, err = run("export", out, "--weights", weights, *asked, "--json")
    assert (code, err) == (0, "")
    result = json.loads(text)
    assert result["command"] == "export"
    assert [tensor["shape"] for tensor in result["tensors"]] == [
        [8, 1, 3, 3],
        [8],
        [16, 8, 3, 3],
        [16],
        [64, 10],
        [10],
    ]
    names = [tensor["name"] for tensor in result["tensors"]]
    assert names == [f"c{i}" for i in range(6)]
    wanted = framework_tensors(source.network, source.model.origins, real_tensors(source.network, trained))
    loaded = safetensors.numpy.load_file(places["safetensors"])
    state = torch.load(places["state-dict"], weights_only=True)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(places["onnx"]).graph.initializer}
    for name in names:
        assert np.array_equal(loaded[name], wanted[name])
        assert np.array_equal(state[name].numpy(), wanted[name])
        assert np.array_equal(stored[name], wanted[name])
    assert run("export", out, "--weights", weights)[2] == (
        "hwgen: export: nothing asked for; give --onnx, --safetensors or --state-dict FILE"
    )


def test_wrong_weights_are_told_at_once(digits, tmp_path):
    source, trained = digits
    tensors = parameter_tensors(source.network, trained)
    tensors["conv1.weight"] = tensors["conv1.weight"][..., :4]
    tensors["conv1.bias"] = tensors["conv1.bias"] * 0.5
    tensors["conv2.weight"] = tensors["conv2.weight"] + (1 << 40)
    del tensors["linear1.bias"]
    np.savez(tmp_path / "run.npz", **tensors, other=np.zeros(2), **{"@updates": np.array(3)})
    with pytest.raises(DataError) as caught:
        read_parameters(tmp_path / "run.npz", source.network)
    end = "; give the trained weights of this build"
    assert caught.value.problems == [
        f"{tmp_path / 'run.npz'}: {text}{end}"
        for text in (
            "conv1.weight has shape (3, 3, 1, 4), the build has (3, 3, 1, 8)",
            "conv1.bias has type float64, the build has integers in Q(32,26)",
            "conv2.weight reaches beyond Q(32,30), -2147483648..2147483647",
            "linear1.bias is missing",
            "other is no parameter of the build",
        )
    ]


def test_real_images_are_those_of_the_reference(digits):
    """The export takes real images; the reference quantises the same to its input format."""
    source, _ = digits
    real = source.network.input.to_float(source.dataset.test_images)
    assert np.array_equal(quantise_images(source.network, real), source.dataset.test_images)
