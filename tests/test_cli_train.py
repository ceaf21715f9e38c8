"""`hwgen train`: its text and JSON, counters, and that random data is called so."""

import json
import re

from cli_bench import *
from sample_model import SOURCE, write_model

from hwgen.plan.registers import STAGE_COUNTERS


def test_train(run, source, tmp_path):
    code, out, err = run("train", source, "--epochs", 3, "--json", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result == read_result(tmp_path / "out")
    assert (result["command"], result["epochs"], result["batch"]) == ("train", 3, 2)
    assert (result["batches"], result["samples"], len(result["losses"])) == (24, 48, 3)
    assert [stage["name"] for stage in result["stages"]] == ["conv1", "linear1"]
    again = json.loads(run("train", source, "--epochs", 3, "--json")[1])
    other = json.loads(run("train", source, "--epochs", 3, "--json", "--seed", 1)[1])
    assert {**again, "seconds": 0} == {**result, "seconds": 0}
    assert other["losses"] != result["losses"]


def test_train_text(run, source):
    code, out, _ = run("train", source, "--epochs", 1)
    assert code == 0
    assert re.fullmatch(
        r"1 epochs in \d+\.\d s: 8 batches of 2\n"
        r"mean loss: (\d\.\d{4}) in the first epoch, \1 in the last\n"
        r"accuracy on held-out samples: \d+\.\d\d%\n"
        r"the model file sets no data: images and labels are random, and losses mean nothing\n",
        out,
    )


def test_own_data_is_not_called_random(run, source, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(source.read_text() + "from hwgen.data import random_dataset\n"
                    "data = lambda network: random_dataset(network, 4)\n")  # fmt: skip
    for command in (("train", path, "--epochs", 1), ("build", path, "-o", tmp_path / "built")):
        code, out, _ = run(*command)
        assert (code, "random" in out) == (0, False)
    assert read_result(tmp_path / "built")["random_data"] is False


def test_random_data_of_a_build_is_said(run, source, tmp_path):
    code, out, _ = run("build", source, "-o", tmp_path / "built")
    assert code == 0
    assert "\nthe model file sets no data: images and labels are random, and losses mean nothing\n" in out
    assert read_result(tmp_path / "built")["random_data"] is True


def test_train_into_a_file(run, source):
    code, out, err = run("train", source, "--epochs", 1, "-o", source)
    assert (code, out) == (2, "")
    assert err == f"hwgen: {source}: cannot be written (Not a directory); nothing was changed"


def test_train_without_held_out_samples(run, tmp_path):
    data = "from hwgen.data import random_dataset\ndata = lambda network: random_dataset(network, 4, 0, 0)\n"
    code, out, _ = run("train", write_model(tmp_path, SOURCE + data), "--epochs", 1, "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] is None


def test_counters_of_training_have_the_devices_names(run, source):
    result = json.loads(run("train", source, "--epochs", 1, "--json")[1])
    for stage in result["stages"]:
        assert stage["counters"].keys() <= set(STAGE_COUNTERS)
        assert len(stage["counters"]) == 6
