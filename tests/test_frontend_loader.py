"""Model files: what they may define, and one line for everything that can be wrong with one."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hwgen.data import Dataset, random_dataset
from hwgen.errors import DataError, ModelError
from hwgen.frontend.loader import RANDOM_BATCHES, load_source
from hwgen.plan.fold import Fold, resolve_array

EXAMPLES = Path(__file__).parent.parent / "examples"
MODEL = """from hwgen import Dataset, Model, nn
import numpy as np
model = Model(input=(3,), layers=[nn.Linear(3, 2)], optimizer=nn.SGD(batch=4))
"""
ZEROS = "Dataset(np.zeros(({n}, 1, 1, 3)), np.zeros({n}, int), np.zeros((0, 1, 1, 3)), np.zeros(0, int))"


@pytest.fixture
def load(tmp_path):
    def run(text, seed=0):
        path = tmp_path / "net.py"
        path.write_text(text)
        return load_source(path, seed)

    return run


def test_digits():
    source = load_source(EXAMPLES / "digits.py")
    stages = source.network.stages
    folds = [Fold(stage, resolve_array(stage, stage.array)) for stage in stages]
    assert [fold.cycles for fold in folds] == [512, 512, 160]
    assert sum(fold.multipliers for fold in folds) == 138
    assert [stage.out_shape for stage in stages] == [(4, 4, 8), (2, 2, 16), (1, 1, 10)]
    assert source.dataset.train_images.shape == (1438, 8, 8, 1)
    assert source.dataset.test_images.shape == (359, 8, 8, 1)
    assert source.path == EXAMPLES / "digits.py"
    assert source.parameters == source.model.parameters(source.network, 0)


def test_cifar_1x():
    source = load_source(EXAMPLES / "cifar_1x.py")
    folds = [Fold(stage, resolve_array(stage, stage.array)) for stage in source.network.stages]
    assert [fold.cycles for fold in folds] == [27648, *5 * [32768], 10240]
    assert [fold.folding.u for fold in folds] == [1, 9, 9, 9, 9, 9, 1]
    assert sum(fold.multipliers for fold in folds) == 899
    assert source.network.macs / (899 * 32768) > 0.99
    assert source.dataset.train_images.shape == (64, 32, 32, 3)
    line = "ARRAYS = ((1, 16), (9, 8), (9, 4), (9, 8), (9, 4), (9, 8))"
    assert line in (EXAMPLES / "cifar_1x.py").read_text().splitlines()


def test_without_data_it_is_random(load):
    source = load(MODEL, seed=3)
    wanted = random_dataset(source.network, RANDOM_BATCHES * 4, 3)
    assert np.array_equal(source.dataset.train_images, wanted.train_images)
    assert np.array_equal(source.dataset.test_labels, wanted.test_labels)
    assert source.network.update.seed == 3
    assert source.parameters == load(MODEL, seed=3).parameters
    assert source.parameters != load(MODEL, seed=4).parameters
    assert not np.array_equal(source.dataset.train_images, load(MODEL, seed=4).dataset.train_images)
    assert source.given is None


@pytest.mark.parametrize(
    ("size", "batches"), [(1024, 8), (1025, 7), (2048, 4), (4095, 2), (8192, 1), (8193, 1)]
)
def test_random_images_are_few_where_they_are_large(load, size, batches, monkeypatch):
    monkeypatch.setattr("hwgen.frontend.loader.RANDOM_VALUES", 4 * 8192)
    source = load(
        MODEL.replace("input=(3,)", f"input=({size},)").replace("nn.Linear(3, 2)", f"nn.Linear({size}, 2)")
    )
    assert source.dataset.train_images.shape == (4 * batches, 1, 1, size)


def test_parameters_and_random_data_are_made_when_asked_for(load, monkeypatch):
    source = load(MODEL)
    assert not {"parameters", "dataset"} & set(vars(source))
    assert source.parameters is source.parameters
    assert source.dataset is source.dataset


def test_data_may_be_made_for_the_network(load):
    source = load(
        MODEL
        + "def data(network):\n"
        + "    x = np.full((5, *network.in_shape), 0.5)\n"
        + "    return Dataset(x, np.arange(5) % 2, x[:2], np.zeros(2, int))\n"
    )
    assert isinstance(source.dataset, Dataset)
    assert (source.dataset.train_images == 1 << 13).all()
    assert source.dataset.train_labels.tolist() == [0, 1, 0, 1, 0]


def test_neighbours_may_be_imported_and_are_forgotten(tmp_path):
    text = "from neighbour import classes\n" + MODEL.replace("nn.Linear(3, 2)", "nn.Linear(3, classes)")
    late = "def data(network):\n    from package.inner import make\n    return make(network)\n"
    path_before = list(sys.path)
    for count in (2, 5):
        folder = tmp_path / str(count)
        (folder / "package").mkdir(parents=True)
        (folder / "neighbour.py").write_text(f"classes = {count}\n")
        (folder / "package" / "__init__.py").write_text("")
        (folder / "package" / "inner.py").write_text(
            "from hwgen.data import random_dataset\n"
            f"make = lambda network: random_dataset(network, 4 + {count})\n"
        )
        (folder / "net.py").write_text(text + late)
        source = load_source(folder / "net.py")
        assert source.network.loss.classes == count
        assert len(source.dataset.train_images) == 4 + count
    assert sys.path == path_before
    assert not {"neighbour", "package", "package.inner", "hwgen_model_file"} & set(sys.modules)


def test_a_class_of_the_file_finds_its_module(load):
    load(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    b: int\n" + MODEL
    )


BAD = {
    "no model": ("x = 3\n", ModelError, "{}: sets no model; add model = Model(input=..., layers=[...])"),
    "another name": (
        MODEL.replace("model =", "net ="),
        ModelError,
        "{}:3: sets no model, but net = Model(...); name it model",
    ),
    "wrong type": (
        "import math\nmodel = 3\n\n",
        ModelError,
        "{}:2: model is of type int; set model = Model(input=..., layers=[...])",
    ),
    "model is None": (
        "model = None\n",
        ModelError,
        "{}:1: model is None; set model = Model(input=..., layers=[...])",
    ),
    "a function": (
        "\ndef model():\n    pass\n",
        ModelError,
        "{}:2: model is of type function; set model = Model(input=..., layers=[...])",
    ),
    "syntax": ("x = 1\ny = (\n", ModelError, "{}:2: SyntaxError: '(' was never closed; correct the file"),
    "indentation": (
        "def f():\nreturn 1\n",
        ModelError,
        "{}:2: IndentationError: expected an indented block after function definition on line 1; "
        "correct the file",
    ),
    "undefined name": (
        "from hwgen import nn\n\nmodel = Model()\n",
        ModelError,
        "{}:3: NameError: name 'Model' is not defined; correct the file",
    ),
    "missing import": (
        "import no_such_module_anywhere\n",
        ModelError,
        "{}:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'; correct the file",
    ),
    "in a function of the file": (
        "def f(x):\n    return 1 // x\n\nf(0)\n",
        ModelError,
        "{}:2: ZeroDivisionError: integer division or modulo by zero; correct the file",
    ),
    "inside a library": (
        "import json\n\njson.loads('{{')\n",
        ModelError,
        "{}:3: JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); "
        "correct the file",
    ),
    "message of several lines": (
        "raise ValueError('one\\n  two')\n",
        ModelError,
        "{}:1: ValueError: one two; correct the file",
    ),
    "no message": ("raise ValueError\n", ModelError, "{}:1: ValueError; correct the file"),
    "exit": ("import sys\nsys.exit(5)\n", ModelError, "{}:2: SystemExit: 5; correct the file"),
    "own error": (
        "from hwgen.data import split\nsplit([1], [1, 2])\n",
        DataError,
        "{}:2: split: 1 images beside 2 labels; give as many of both",
    ),
    "missing argument": (
        "from hwgen import nn\nnn.Linear(3)\n",
        ModelError,
        "{}:2: TypeError: Linear() missing 1 required positional argument: 'out_features'; correct the file",
    ),
    "data of another type": (
        MODEL + "data = (1, 2)\n",
        DataError,
        "{}:4: data is of type tuple; give a Dataset or a function network -> Dataset",
    ),
    "data without parentheses": (
        MODEL + "data = Dataset\n",
        DataError,
        "{}:4: data is of type type; give a Dataset or a function network -> Dataset",
    ),
    "function gives nothing": (
        MODEL + "def data(network):\n    pass\n",
        DataError,
        "{}:4: data(network) returns None; give a Dataset or a function network -> Dataset",
    ),
    "function fails": (
        MODEL + "def data(network):\n    return 1 / 0\n",
        DataError,
        "{}:5: ZeroDivisionError: division by zero; correct the file",
    ),
    "function takes nothing": (
        MODEL + "def data():\n    return 1\n",
        DataError,
        "{}:4: TypeError: data() takes 0 positional arguments but 1 was given; correct the file",
    ),
    "images of the wrong size": (
        MODEL + "data = " + ZEROS.format(n=4).replace("(4, 1, 1, 3)", "(4, 1, 2, 3)") + "\n",
        DataError,
        "{}:4: train_images: shape (4, 1, 2, 3); the network takes images (H, W, C) = (1, 1, 3), "
        "give (N, H, W, C) = (N, 1, 1, 3)",
    ),
    "too few samples": (
        MODEL + "data = " + ZEROS.format(n=3) + "\n",
        DataError,
        "{}:4: 3 training samples make no batch of 4; give more samples or a smaller batch",
    ),
    "mistake in the model": (
        "from hwgen import Model, nn\nmodel = Model(input=(3,), layers=[nn.Linear(4, 2)])\n",
        ModelError,
        "linear1: in_features = 4 but its input has 3; give 3",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_one_line_for_a_bad_file(load, tmp_path, kind):
    text, error, message = BAD[kind]
    with pytest.raises(error) as caught:
        load(text.replace("{{", "{"))
    assert type(caught.value) is error
    assert str(caught.value) == message.format(tmp_path / "net.py")
    assert "hwgen_model_file" not in sys.modules


def test_mistakes_of_a_network_lowered_in_the_file_all_have_the_line(load, tmp_path):
    with pytest.raises(ModelError) as caught:
        load("from hwgen import Model, nn\nModel(input=(3,), layers=[nn.Linear(4, 1)]).network()\n")
    where = f"{tmp_path / 'net.py'}:2: "
    assert caught.value.problems == [
        where + "linear1: in_features = 4 but its input has 3; give 3",
        where + "loss: the loss gets 1 logit; give the last layer one output for each class, at least 2",
    ]


def test_files_that_cannot_be_read(tmp_path):
    missing = tmp_path / "no.py"
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "null.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "latin.py").write_bytes(b"x = '\xff'\n")
    give = "give a .py file that sets model = Model(...)"
    for path, message in (
        (missing, f"{missing}: no such file or directory; {give}"),
        (folder, f"{folder}: is a directory; {give}"),
        (tmp_path / "a.txt", f"{tmp_path / 'a.txt'}: not a Python file; {give}"),
        (tmp_path / "a.onnx", f"{tmp_path / 'a.onnx'}: no such file or directory; give an ONNX file"),
        (
            tmp_path / "a.pt",
            f"{tmp_path / 'a.pt'}: .pt files are not read; load it in a .py file that sets "
            "model = hwgen.from_torch(module, example_input), or export it to ONNX",
        ),
        (
            tmp_path / "null.py",
            r"/.*null\.py:1: (Syntax|Value)Error: source code .* null bytes; correct the file/",
        ),
        (tmp_path / "latin.py", r"/.*latin\.py:1: SyntaxError: .*; correct the file/"),
    ):
        with pytest.raises(ModelError) as caught:
            load_source(path)
        said = str(caught.value)
        if message.startswith("/.*"):
            assert re.fullmatch(message[1:-1], said)
        else:
            assert said == message


def test_ctrl_c_is_not_an_error_of_the_file(load):
    with pytest.raises(KeyboardInterrupt):
        load("raise KeyboardInterrupt\n")


def test_the_examples_of_the_documentation_run(load):
    page = (EXAMPLES.parent / "docs" / "dsl.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    source = load("\n".join(blocks))
    assert [stage.name for stage in source.network.stages] == ["conv1", "classes"]
    assert len(source.dataset.train_images) == 32


def test_the_readme_shows_the_example():
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (block,) = (each for each in blocks if "model = Model(" in each)
    lines = (EXAMPLES / "digits.py").read_text(encoding="utf-8").partition('"""\n\n')[2].splitlines()
    assert block.splitlines() == [line for line in lines if not line.startswith("#")]
