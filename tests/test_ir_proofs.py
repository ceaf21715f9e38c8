"""The operator table: every operation has its proofs, they are there, they run, and they have the operation."""

import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import test_device_random
import test_frontend_onnx
import test_ref_executor
import torch
from cli_bench import *
from onnx_models import random_chain
from ref_networks import random_network
from test_frontend_torch import SEEDS, random_module

import hwgen
from hwgen.frontend.onnx_import import model_from_onnx
from hwgen.ir.activation import Activation
from hwgen.ir.ops import (
    OPS,
    Conv2d,
    Flatten,
    Hardtanh,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
    SoftmaxCrossEntropy,
    Unknown,
)
from hwgen.ir.proofs import PROOFS

ROOT = Path(__file__).parent.parent
KINDS = ("reference", "hardware", "imports")
IDS = sorted({test for proof in PROOFS.values() for kind in KINDS for test in getattr(proof, kind)})


def test_every_operation_has_proofs_of_every_kind():
    assert set(PROOFS) == set(OPS) - {Unknown}
    for op, proof in PROOFS.items():
        for kind in KINDS:
            assert getattr(proof, kind), f"{op.__name__} has no proof: {kind}"


@pytest.mark.parametrize("test", IDS)
def test_the_test_is_there_and_not_left_out(test):
    file, name = test.split("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    marks = " ".join(ast.unparse(mark) for mark in function.decorator_list)
    assert not any(word in marks for word in ("skip", "xfail", "soak")), marks


def operations(network):
    """The operations that the stages of a network are made of."""
    found = [SoftmaxCrossEntropy]
    pixels = 0
    for stage in network.stages:
        linear = stage.window.pixels_in == 1 and stage.window.positions == 1
        found.append(Linear if linear else Conv2d)
        found += [Flatten] * (linear and pixels > 1) + [MaxPool2d] * (stage.pool is not None)
        if stage.activation is not None:
            plain = ReLU if stage.activation == Activation() else Hardtanh
            found.append(LeakyReLU if stage.activation.slope is not None else plain)
        pixels = stage.out_shape[0] * stage.out_shape[1]
    return found


@cache
def occurrences(folder):
    """How often the networks of the tests with random ones have each operation."""
    chains = [random_chain(seed)[0].save(folder / f"{seed}.onnx") for seed in test_frontend_onnx.SEEDS]
    modules = [random_module(seed) for seed in SEEDS]
    networks = {
        "tests/test_ref_executor.py::test_random_networks": map(
            random_network, range(test_ref_executor.SEEDS)
        ),
        "tests/test_device_random.py::test_random_devices": (
            random_network(seed) for seeds in test_device_random.FAST.values() for seed in seeds
        ),
        "tests/test_frontend_onnx.py::test_onnx_runtime_and_hwgen_compute_the_same": (
            model_from_onnx(path).network() for path in chains
        ),
        "tests/test_frontend_torch.py::test_pytorch_and_hwgen_compute_the_same": (
            hwgen.from_torch(module, torch.zeros(1, *dims)).network() for module, dims in modules
        ),
    }
    return {
        test: Counter(op for network in found for op in operations(network))
        for test, found in networks.items()
    }


@pytest.mark.parametrize("op", PROOFS, ids=lambda op: op.__name__)
def test_the_random_networks_have_the_operation(op, tmp_path_factory):
    counted = occurrences(tmp_path_factory.getbasetemp())
    listed = [test for kind in KINDS for test in getattr(PROOFS[op], kind) if test in counted]
    assert len(listed) >= 2
    for test in listed:
        assert counted[test][op] >= (1 if "device" in test else 10), test


def test_the_table(run):
    code, out, err = run("ops")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["operation", "ONNX", "PyTorch", "tests", "takes"]
    assert [line.split()[0] for line in lines[1 : 1 + len(PROOFS)]] == [op.__name__ for op in PROOFS]
    assert "imported from ONNX: Add, Clip, Conv, Dropout, Flatten, Gemm," in out
    assert "BatchNormalization" in out
    result = json.loads(run("ops", "--json")[1])
    assert [facts["onnx"] for facts in result["ops"]] == [OPS[op].onnx for op in PROOFS]
    assert all(facts["torch"] and all(facts["proofs"].values()) for facts in result["ops"])
    assert set(result["onnx"]["taken"]).isdisjoint(result["onnx"]["refused"])
    assert set(result["torch"]["taken"]).isdisjoint(result["torch"]["refused"])


def test_one_operation(run):
    code, out, _ = run("ops", "ReLU")
    assert code == 0
    assert out.splitlines() == [
        "ReLU: Relu in ONNX, relu in PyTorch",
        "takes nothing",
        *(f"{kind}: {test}" for kind in KINDS for test in getattr(PROOFS[ReLU], kind)),
    ]
    code, out, err = run("ops", "Relu")
    assert (code, out) == (2, "")
    assert err == (
        "hwgen: ops: 'Relu' is no operation; there are Conv2d, Linear, ReLU, LeakyReLU, Hardtanh, "
        "MaxPool2d, Flatten, SoftmaxCrossEntropy"
    )
