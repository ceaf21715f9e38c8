"""`hwgen check`: shapes, formats and what they do to tensors, or all mistakes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_bench import *
from onnx_models import OnnxChain

from hwgen.errors import ModelError
from hwgen.frontend.format_report import format_report
from hwgen.frontend.loader import load_source
from hwgen.frontend.training import Training
from hwgen.numeric import Q
from hwgen.ref.executor import Reference

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def model(tmp_path):
    """A net whose second layer's output clips in the default format ±16, with data."""
    rng = np.random.default_rng(0)
    chain = OnnxChain(2, 5, 4).node("Conv", rng.uniform(-1, 1, (3, 2, 3, 2)).astype(np.float32), name="first")
    chain.node("Relu").node("Flatten").node(
        "Gemm", rng.uniform(-9, 9, (27, 3)).astype(np.float32), name="last"
    )
    chain.save(tmp_path / "net.onnx")
    images, labels = rng.uniform(-2, 2, (8, 5, 4, 2)), rng.integers(0, 3, 8)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    return tmp_path / "net.onnx"


def test_without_data(run, model):
    code, out, err = run("check", model)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1:3] == [
        "first  conv 3×2 + ReLU  5×4×2   3×3×3   36",
        "last   linear           1×1×27  1×1×3   81",
    ]
    assert "3 classes, batches of 16, 891 multiply-accumulates a sample" in lines
    assert lines[-1] == "no data: outputs, errors and updates were not tried; give --data FILE.npz"


def test_what_clips_is_told_and_calibration_mends_it(run, model):
    options = ("check", model, "--data", model.parent / "data.npz", "--batch", 4, "--lr", "0.01", "--json")
    code, out, err = run(*options)
    assert (code, err) == (0, "")
    result = json.loads(out)
    (last,) = (stage for stage in result["stages"] if stage["name"] == "last")
    tensors = {tensor["role"]: tensor for tensor in last["tensors"]}
    assert tensors["w"]["format"] == [16, 10]
    assert 8 < tensors["w"]["peak"] <= 9
    assert tensors["w"]["clipped"] == 0
    assert tensors["y"]["format"] == [16, 11]
    assert tensors["y"]["peak"] > 16
    assert 0 < tensors["y"]["clipped"] < 1
    advice = [text for text in result["advice"] if text.startswith("last: y = Q(16,")]
    assert re.fullmatch(r"last: y = Q\(16,\d\) would hold ±[\d.]+", advice[0])
    result = json.loads(run(*options, "--calibrate", 4)[1])
    clipped = [tensor["clipped"] for stage in result["stages"] for tensor in stage["tensors"]]
    assert len(clipped) == 6
    assert clipped == [0] * 6
    assert not any("would hold" in text for text in result["advice"])


def test_the_report_counts_what_the_reference_does(model):
    source = load_source(model, 0, Training(batch=4, lr=0.01, data=model.parent / "data.npz"))
    found = format_report(source, 2)
    reference = Reference(source.network, source.parameters)
    images, labels = source.dataset.train_images, source.dataset.train_labels
    traces = [reference.train_batch(images[i : i + 4], labels[i : i + 4]) for i in (0, 4)]
    for stage, told in zip(source.network.stages, found, strict=True):
        clipped = {tensor.role: tensor.clipped for tensor in told.tensors}
        counted = [trace.saturated[stage.index] for trace in traces]
        elements = 8 * np.prod(stage.conv_shape)
        assert clipped["y"] == sum(count["y"] for count in counted) / elements
        assert told.zero_updates == sum(count["zero_updates"] for count in counted) / (
            2 * stage.K * stage.out_channels
        )
    real = source.network.stages[1].y.to_float(reference.forward(images[:4]).y[1])
    assert np.abs(real).max() <= 16
    assert found[1].tensors[0].format == Q(16, 10)
    assert 50 < found[0].tensors[0].snr < 120


def test_small_steps_are_told(run, model):
    options = ("check", model, "--data", model.parent / "data.npz", "--batch", 4, "--lr", "1e-8", "--json")
    result = json.loads(run(*options)[1])
    assert max(stage["zero_updates"] for stage in result["stages"]) > 0.5
    assert any("of the updates round to zero; give a larger lr" in text for text in result["advice"])


def test_a_python_file(run):
    code, out, _ = run("check", EXAMPLES / "digits.py", "--batches", 2)
    assert code == 0
    assert "conv1    conv 3×3 pads 1,1,1,1 + ReLU + max-pool 2×2  8×8×1   4×4×8   72" in out
    assert "advice" not in out


def test_mistakes(run, tmp_path):
    path = (
        OnnxChain(4)
        .node("Sigmoid")
        .node("Gemm", np.ones((3, 2), np.float32), alpha=2.0)
        .save(tmp_path / "n.onnx")
    )
    with pytest.raises(ModelError) as caught:
        load_source(path)
    code, out, err = run("check", path)
    assert (code, out) == (2, "")
    assert err.splitlines() == [f"hwgen: {problem}" for problem in caught.value.problems]
    assert len(caught.value.problems) == 2
