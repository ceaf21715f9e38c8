"""The command line with ONNX files: what is said of the training, data, calibration."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cli_bench import *
from onnx_models import OnnxChain

GIVE = "give train_images, train_labels, and test_images, test_labels or neither"


def write(path):
    rng = np.random.default_rng(0)
    chain = OnnxChain(3, 5, 7).node("Conv", rng.normal(size=(4, 3, 2, 3)).astype(np.float32), name="first")
    chain.node("Relu").node("Flatten").node(
        "Gemm", rng.normal(size=(80, 2)).astype(np.float32) * 3, name="last"
    )
    return chain.save(path / "net.onnx")


def samples(path, count=8, **changes):
    rng = np.random.default_rng(1)
    arrays = {
        "train_images": rng.uniform(-1, 1, (count, 5, 7, 3)),
        "train_labels": rng.integers(0, 2, count),
        "test_images": rng.uniform(-1, 1, (4, 5, 7, 3)),
        "test_labels": rng.integers(0, 2, 4),
        **changes,
    }
    np.savez(path / "data.npz", **{name: array for name, array in arrays.items() if array is not None})
    return path / "data.npz"


def test_build_says_how_to_train(run, tmp_path):
    options = ("--loss", "cross_entropy", "--lr", "0.5", "--batch", 4, "--data", samples(tmp_path))
    code, _, err = run("build", write(tmp_path), *options, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    network = json.loads((tmp_path / "out" / "plan.json").read_text())["network"]
    assert network["update"]["batch"] == 4
    assert network["update"]["learning_rate"] == 0.5
    assert [stage["name"] for stage in network["stages"]] == ["first", "last"]
    result = read_result(tmp_path / "out")
    assert (result["batch"], result["random_data"]) == (4, False)


def test_train_with_data_that_calibrates(run, tmp_path):
    model, data = write(tmp_path), samples(tmp_path)
    plain = run("train", model, "--epochs", 1, "--batch", 4, "--data", data, "--json")
    calibrated = run("train", model, "--epochs", 1, "--batch", 4, "--data", data, "--calibrate", 2, "--json")
    assert plain[0] == calibrated[0] == 0
    assert json.loads(plain[1])["losses"] != json.loads(calibrated[1])["losses"]
    assert json.loads(plain[1])["accuracy"] is not None


def test_held_out_samples_may_be_missing(run, tmp_path):
    data = samples(tmp_path, test_images=None, test_labels=None)
    code, out, _ = run("train", write(tmp_path), "--epochs", 1, "--batch", 4, "--data", data, "--json")
    assert (code, json.loads(out)["accuracy"]) == (0, None)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"train_labels": None}, f"holds train_images, test_images, test_labels; {GIVE}"),
        ({"test_labels": None}, f"holds train_images, train_labels, test_images; {GIVE}"),
        ({"more": np.zeros(2)}, f"holds train_images, train_labels, test_images, test_labels, more; {GIVE}"),
        (
            {"train_images": np.zeros((8, 3, 5, 7))},
            "train_images: shape (8, 3, 5, 7); the network takes images (H, W, C) = (5, 7, 3), "
            "give (N, H, W, C) = (N, 5, 7, 3)",
        ),
        ({"count": 3}, "3 training samples make no batch of 4; give more samples or a smaller batch"),
    ],
)
def test_wrong_data(run, tmp_path, changes, wanted):
    data = samples(tmp_path, **changes)
    code, out, err = run("train", write(tmp_path), "--epochs", 1, "--batch", 4, "--data", data)
    assert (code, out, err) == (2, "", f"hwgen: {data}: {wanted}")


def test_data_that_is_no_npz(run, tmp_path):
    (tmp_path / "data.npz").write_text("no zip")
    options = ("train", write(tmp_path), "--epochs", 1, "--data")
    assert run(*options, tmp_path / "data.npz")[2].startswith(
        f"hwgen: {tmp_path}/data.npz: no .npz file of arrays, or damaged ("
    )
    assert run(*options, tmp_path / "none.npz")[2] == (
        f"hwgen: {tmp_path}/none.npz: no such file or directory; give an .npz file"
    )


def test_options_that_do_not_fit(run, tmp_path, source):
    model = write(tmp_path)
    code, _, err = run("train", model, "--epochs", 1, "--calibrate", 2)
    assert (code, err) == (2, f"hwgen: {model}: calibrate = 2 without data; give --data FILE.npz, too")
    code, _, err = run("train", source, "--epochs", 1, "--lr", "0.1", "--batch", 2)
    assert (code, err) == (
        2, f"hwgen: {source}: sets lr, batch itself; leave the option out, and change the file"
    )  # fmt: skip
    for rate in ("0", "-1", "inf", "x"):
        code, _, err = run("train", model, "--epochs", 1, f"--lr={rate}")
        assert code == 2
        assert f"{rate!r}; give a number above 0" in err


def test_only_an_import_loads_what_it_needs(source):
    """Models in Python need neither onnx nor PyTorch."""
    code = (
        "import sys\nfrom hwgen import cli\n"
        f"assert cli.main(['train', {str(source)!r}, '--epochs', '1']) == 0\n"
        "assert cli.main(['ops']) == 0\n"
        "sys.exit(sum(name in sys.modules for name in ('onnx', 'torch', 'onnxruntime', 'safetensors')))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
