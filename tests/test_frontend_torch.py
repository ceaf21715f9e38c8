"""PyTorch modules become the same networks as the DSL's; PyTorch says what they compute."""

import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_bench import *
from onnx_models import whole
from ref_networks import digits_model
from torch import nn

import hwgen
from hwgen.backend.arrays import pack
from hwgen.backend.build import load_build
from hwgen.backend.trained import framework_tensors, parameter_tensors, real_tensors
from hwgen.data import random_dataset
from hwgen.errors import BuildError, DataError, HwgenError, ModelError
from hwgen.frontend.float_run import FloatRun
from hwgen.frontend.loader import load_source
from hwgen.frontend.onnx_import import model_from_onnx
from hwgen.ir.initial import real_parameters
from hwgen.ref.executor import Reference

ROOT = Path(__file__).parent.parent
CHAIN = "networks are chains without branches so far: let one layer follow another"


class Flow(nn.Module):
    """A module whose forward is a function of itself and the data."""

    def __init__(self, forward, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)
        self._flow = forward

    def forward(self, x):
        return self._flow(self, x)


def digits_module():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding="same"), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def whole_numbers(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(whole(rng, *parameter.shape)))
    return module


def forward(model, images):
    """The real network of hwgen on images [N, C, H, W] or [N, features]."""
    network = model.network()
    run = FloatRun(network, real_parameters(network, 0, model.weights))
    given = images.transpose(0, 2, 3, 1) if images.ndim == 4 else images[:, None, None]
    return run.forward(given.astype(float)).reshape(len(images), -1)


SEEDS = [seed for seed in range(60) if seed not in (36, 59)]
"""Of random modules; kernels of the others are larger than their images."""


def random_module(seed):
    """A module of any layers, dims of its input."""
    pick = random.Random(seed)
    channels, height, width = pick.sample((3, 5, 6, 7, 8, 9), 3)
    dims, layers = (channels, height, width), []
    shape = torch.zeros(1, *dims)
    for _ in range(pick.randint(1, 2)):
        groups = pick.choice([1, shape.shape[1]])
        out, kernel = groups * pick.randint(1, 2), (pick.randint(1, 3), pick.randint(1, 3))
        settings = {"groups": groups, "bias": pick.random() < 0.7}
        if pick.random() < 0.3:
            settings |= {"padding": pick.choice(["same", "valid"]), "dilation": pick.randint(1, 2)}
        else:
            settings |= {
                "padding": (pick.randint(0, 1), pick.randint(0, 2)),
                "stride": (pick.randint(1, 2), 1),
            }
        layers.append(nn.Conv2d(shape.shape[1], out, kernel, **settings))
        if pick.random() < 0.7:
            inplace = pick.random() < 0.5
            number = out + sum(kernel)
            bounded = nn.ReLU6(inplace) if number % 2 else nn.Hardtanh(-20, 9, inplace)
            layers.append((nn.ReLU(inplace), nn.LeakyReLU(0.5, inplace), bounded)[number % 3])
        if pick.random() < 0.6:
            size = pick.randint(2, 3)
            pool = nn.MaxPool2d(
                size, pick.choice([None, 1, 2]), pick.randint(0, 1), ceil_mode=pick.random() < 0.5
            )
            if min(nn.Sequential(*layers)(torch.zeros(1, *dims)).shape[2:]) >= size:
                layers.append(pool)
        shape = nn.Sequential(*layers)(torch.zeros(1, *dims)).detach()
        if min(shape.shape[2:]) < 3:
            break
    features = shape.numel()
    layers += [nn.Flatten(), nn.Linear(features, pick.randint(2, 5), bias=pick.random() < 0.5)]
    return nn.Sequential(*layers), dims


@pytest.mark.parametrize("seed", SEEDS)
def test_pytorch_and_hwgen_compute_the_same(seed):
    module, dims = random_module(seed)
    whole_numbers(module, seed)
    images = whole(np.random.default_rng(seed), 3, *dims)
    model = hwgen.from_torch(module, torch.zeros(2, *dims))
    with torch.no_grad():
        wanted = module(torch.from_numpy(images.copy())).numpy()
    assert np.array_equal(forward(model, images), wanted)


@pytest.mark.parametrize("kernel", [(2, 4), (4, 1), (3, 2)])
def test_the_same_size_with_even_kernels(kernel):
    """PyTorch pads more behind than before."""
    conv = nn.Conv2d(3, 2, kernel, padding="same", dilation=(1, 3))
    module = whole_numbers(nn.Sequential(conv, nn.Flatten(), nn.Linear(70, 4)), 5)
    images = whole(np.random.default_rng(5), 3, 3, 5, 7)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it copies the data for an odd sum of pads
        wanted = module(torch.from_numpy(images.copy())).numpy()
    assert np.array_equal(forward(hwgen.from_torch(module, torch.zeros(2, 3, 5, 7)), images), wanted)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's exporter without onnxscript
def test_the_digits_network_three_ways(tmp_path):
    """From the module, from the ONNX file that PyTorch writes of it, and written in the DSL: the same bits."""
    module = digits_module()
    model = hwgen.from_torch(module, torch.zeros(1, 1, 8, 8))
    torch.onnx.export(
        module, (torch.zeros(1, 1, 8, 8),), str(tmp_path / "net.onnx"), dynamo=False, opset_version=13,
        input_names=["images"], dynamic_axes={"images": {0: "n"}},
    )  # fmt: skip
    onnx = model_from_onnx(tmp_path / "net.onnx").replace(name="Sequential")
    assert [layer.op for layer in onnx.layers] == [layer.op for layer in model.layers]
    network = model.network()
    assert network == onnx.network()
    assert [stage.name for stage in network.stages] == ["conv_0", "conv_3", "linear_7"]
    assert model.parameters(network) == onnx.parameters(network)
    assert model.origins == onnx.origins
    written = digits_model()
    assert [layer.op for layer in written.layers] == [layer.op for layer in model.layers]


def test_training_is_pytorchs(tmp_path):
    """Losses of some steps beside float32 PyTorch from the same weights."""
    torch.manual_seed(0)
    module = digits_module()
    rng = np.random.default_rng(0)
    images, labels = rng.uniform(-1, 1, (32, 8, 8, 1)), rng.integers(0, 10, 32)
    rule = hwgen.nn.SGD(lr=0.1, batch=16)
    model = hwgen.from_torch(module, torch.zeros(1, 1, 8, 8), optimizer=rule)
    network = model.network()
    reference = Reference(network, model.parameters(network))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    pictures = torch.tensor(images.transpose(0, 3, 1, 2).copy(), dtype=torch.float32)
    for part in (slice(0, 16), slice(16, 32)) * 3:
        loss = nn.functional.cross_entropy(module(pictures[part]), torch.from_numpy(labels[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trace = reference.train_batch(images[part], labels[part])
        assert abs(trace.losses.mean() / 65536 - float(loss.detach())) < 2e-3
    back = framework_tensors(
        network, model.origins, real_tensors(network, reference.parameters, masters=True)
    )
    for name, parameter in module.state_dict().items():
        assert np.abs(back[name] - parameter.numpy()).max() < 2e-3


def test_a_model_file_and_its_state_dict(run, tmp_path):
    """hwgen build of a file with from_torch; what is exported loads into the module, strictly."""
    (tmp_path / "net.py").write_text(
        "import torch\nimport hwgen\nfrom torch import nn\ntorch.manual_seed(1)\n"
        "net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(60, 4))\n"
        "model = hwgen.from_torch(net, torch.zeros(1, 2, 5, 6), optimizer=hwgen.nn.SGD(batch=2))\n"
    )
    assert run("build", tmp_path / "net.py", "-o", tmp_path / "out")[0] == 0
    build = load_build(tmp_path / "out")
    (tmp_path / "run.npz").write_bytes(pack(parameter_tensors(build.plan.network, build.parameters)))
    options = ("--weights", tmp_path / "run.npz", "--state-dict", tmp_path / "net.pt", "--masters")
    assert run("export", tmp_path / "out", *options)[0] == 0
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(60, 4))
    net.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    torch.manual_seed(1)
    first = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(60, 4))
    for name, parameter in first.state_dict().items():
        assert (net.state_dict()[name] - parameter).abs().max() < 2.0**-25


def test_a_model_is_built_without_a_file(tmp_path):
    """hwgen.build of what from_torch gives is the build of a file with the same."""
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    model = hwgen.from_torch(net, torch.zeros(1, 6), optimizer=hwgen.nn.SGD(batch=2), name="net")
    result = hwgen.build(model, tmp_path / "out", data=lambda network: random_dataset(network, 6), seed=3)
    assert result["random_data"] is False
    build = load_build(tmp_path / "out")
    assert build.plan.network == model.network(3)
    assert len(build.dataset.train_images) == 6
    assert build.origins == model.origins
    assert hwgen.build(model, str(tmp_path / "other"))["random_data"] is True
    with pytest.raises(
        DataError, match=r"data: of type list; give a Dataset or a function network -> Dataset"
    ):
        hwgen.build(model, tmp_path / "out", data=[1])
    with pytest.raises(DataError, match=r"data: 1 training samples make no batch of 2; give more samples"):
        hwgen.build(model, tmp_path / "out", data=lambda network: random_dataset(network, 1))
    with pytest.raises(
        BuildError, match=r"data beside .*net\.py, which says its own; give a model, or leave data out"
    ):
        hwgen.build(tmp_path / "net.py", tmp_path / "new", data=[1])


def test_the_example_of_the_documentation_runs(tmp_path):
    page = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "net.py").write_text(block)
    stages = load_source(tmp_path / "net.py").network.stages
    assert [(stage.name, stage.out_shape) for stage in stages] == [
        ("conv_0", (6, 6, 8)),
        ("linear_3", (1, 1, 10)),
    ]


def test_frozen_parameters_make_frozen_layers():
    module = digits_module()
    module[0].requires_grad_(False)
    stages = hwgen.from_torch(module, torch.zeros(1, 1, 8, 8)).network().stages
    assert [stage.frozen for stage in stages] == [True, False, False]


def test_shapes_products_and_sums():
    def flow(self, x):
        x = torch.relu(self.conv(x).permute(0, 2, 3, 1)).contiguous()
        x = x.unsqueeze(1).squeeze(1).reshape(x.size(0), -1)
        return torch.log_softmax(x @ self.weight + self.bias, dim=1)

    module = Flow(
        flow,
        conv=nn.Conv2d(3, 4, 2),
        weight=nn.Parameter(torch.zeros(96, 5)),
        bias=nn.Parameter(torch.zeros(5)),
    )
    whole_numbers(module, 1)
    images = whole(np.random.default_rng(0), 3, 3, 5, 7)
    found = forward(hwgen.from_torch(module, torch.zeros(2, 3, 5, 7)), images)
    with torch.no_grad():
        logits = module.conv(torch.from_numpy(images)).relu().permute(0, 2, 3, 1).reshape(3, -1)
        wanted = (logits @ module.weight + module.bias).numpy()
    assert np.array_equal(found, wanted)


def flows():
    shared = nn.Linear(4, 4)
    nan = nn.Linear(4, 2)
    with torch.no_grad():
        nan.weight[1, 2] = float("nan")
    half = nn.Linear(4, 2)
    half.bias.requires_grad_(False)
    image, vector = torch.zeros(2, 3, 5, 7), torch.zeros(2, 4)
    end = [nn.Flatten(), nn.Linear(105, 2)]
    conv = nn.Conv2d(3, 4, 2)
    dead = r"hwgen ops lists what is\)"
    return {
        "BatchNorm": (
            nn.Sequential(conv, nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(96, 2)), image,
            rf"batch_norm \(batch_norm of '1'\): batch_norm is not supported; fold it .*\({dead}",
        ),
        "conv1d": (
            nn.Sequential(nn.Conv1d(3, 2, 2), nn.Flatten(), nn.Linear(8, 2)), torch.zeros(1, 3, 5),
            rf"conv1d \(conv1d of '0'\): conv1d is not supported; unsqueeze .*\({dead}",
        ),
        "dropout": (
            nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25), nn.Linear(4, 2)), vector,
            r"dropout \(dropout of '1'\): drops with p = 0\.25; .*",
        ),
        "holes in a pool": (
            nn.Sequential(conv, nn.MaxPool2d(2, dilation=2), nn.Flatten(), nn.Linear(8, 2)), image,
            r"max_pool2d \(max_pool2d of '1'\): dilation = \[2, 2\]; hwgen has 1 only: use a pool without holes",
        ),
        "residual": (
            Flow(lambda self, x: self.last(x + self.layer(x)), layer=nn.Linear(4, 4), last=nn.Linear(4, 2)), vector,
            rf"add \(add\): works on x and linear; {CHAIN}, with parameters as weights",
        ),
        "two results": (
            Flow(lambda self, x: (self.layer(x), x), layer=nn.Linear(4, 4)), vector,
            r"outputs: 2; hwgen trains one: return the logits only",
        ),
        "shared layer": (
            Flow(lambda self, x: self.layer(torch.relu(self.layer(x))), layer=shared), vector,
            r"linear_1 \(linear of 'layer'\): tensor 'layer\.weight' is also that of linear \(linear of 'layer'\); .*\n"
            r"linear_1 \(linear of 'layer'\): tensor 'layer\.bias' is also .*",
        ),
        "layer of two names": (
            Flow(lambda self, x: self.a(torch.relu(self.b(x))), a=shared, b=shared), vector,
            r"linear_1 \(linear of 'a'\): tensor 'a\.weight' is also .*\n.*",
        ),
        "NaN": (nn.Sequential(nan), vector, r"linear \(linear of '0'\): tensor '0\.weight' is nan at \[1, 2\]; .*"),
        "half frozen": (nn.Sequential(half), vector, r".*: only one of tensor '0\.weight' and .* is frozen; .*"),
        "integers": (
            Flow(lambda self, x: self.layer(x.float()), layer=nn.Linear(4, 2)), torch.zeros(2, 4, dtype=torch.int64),
            r"input: numbers of type torch\.int64; .*\nto \(to\): to is not supported; .*",
        ),
        "constant": (
            Flow(lambda self, x: self.layer(x) + 1.0, layer=nn.Linear(4, 2)), vector,
            r"add \(add\): other is no parameter or buffer of the model; hwgen needs one there",
        ),
        "buffer as bias": (
            Flow(lambda self, x: self.layer(x) + self.shift, layer=nn.Linear(4, 2, bias=False),
                 shift=nn.Buffer(torch.ones(2))), vector,
            r"add \(add\): tensor 'shift' is frozen and its weights are not; .*",
        ),
        "batch mixed in": (
            Flow(lambda self, x: self.layer(x.reshape(1, 8)), layer=nn.Linear(8, 2)), vector,
            r"reshape \(reshape\): shape = \[1, 8\] of \[N, 4\]; hwgen keeps the batch apart: .*",
        ),
        "wrong last": (nn.Sequential(conv), image, r"output: \[N, 4, 4, 6\]; the loss takes one logit a class, .*"),
        "pool first": (nn.Sequential(nn.MaxPool2d(1), *end), image, r"pool_0: MaxPool2d stands before any layer .*"),
    }  # fmt: skip


@pytest.mark.parametrize("case", flows())
def test_what_is_refused(case):
    module, example, wanted = flows()[case]
    with pytest.raises(ModelError) as caught:
        hwgen.from_torch(module, example).network()
    assert re.fullmatch(wanted, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("module", "example", "wanted"),
    [
        (3, torch.zeros(1, 4), r"from_torch: module is a int; give a torch\.nn\.Module"),
        (nn.Linear(4, 2), 3, r"from_torch: example_input; give one tensor .*"),
        (
            Flow(lambda self, x: x if x.sum() > 0 else -x),
            torch.zeros(1, 4),
            r"from_torch: torch\.export cannot trace Flow \(.*\); write forward .*",
        ),
    ],
)
def test_what_is_no_module(module, example, wanted):
    with pytest.raises(HwgenError, match=wanted):
        hwgen.from_torch(module, example)
