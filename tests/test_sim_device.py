"""The emitted device itself, small, in both simulators: equal to the reference, clean, robust to faults."""

import re
from dataclasses import replace

import pytest
from fake_device import FakeBuild, tiny_plan
from hwgen.sim.faults import run_faults
from hwgen.sim.lint import lint
from hwgen.sim.run import SimOptions, simulate

from hwgen.backend.verilog import emit
from hwgen.data import random_dataset
from hwgen.errors import MismatchError
from hwgen.ir.initial import initial_parameters
from hwgen.ir.stage import Wish
from hwgen.ir.window import Window2d
from hwgen.plan.planner import plan_network

OPTIONS = SimOptions(batches=1, simulator="icarus", watchdog=5000)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def device():
    """A 1x1 convolution, one in two groups with ReLU and pool, a linear layer, as the planner folds them."""
    network = tiny_plan().network
    conv, linear = network.stages
    first = replace(
        conv,
        name="first",
        window=Window2d(5, 4),
        in_channels=3,
        out_channels=4,
        groups=1,
        activation=None,
        pool=None,
        dx=None,
    )
    stages = (
        replace(first, array=(2, 3)),
        replace(conv, index=1, array=(4, 2), wish=Wish(b=2)),
        replace(linear, index=2, array=(7, 3)),
    )
    plan = plan_network(replace(network, stages=stages))
    dataset = random_dataset(plan.network, 12, seed=1)
    return FakeBuild(plan, initial_parameters(plan.network, 5), dataset, emit(plan))


def test_every_tensor_is_equal(device):
    result = simulate(device, OPTIONS)
    assert result["mismatched"] == 0
    assert result["compared"] > 1000
    for stage in result["stages"]:
        assert stage["counters"]["updates"] == 3
        for name, depth in stage["depths"].items():
            assert stage["counters"][f"{name}_high"] <= depth, (stage["name"], name)


def test_stalls_and_evaluation(device):
    result = simulate(device, replace(OPTIONS, batches=None, epochs=1, evaluate=True, stall=0.5, seed=3))
    assert (result["batches"], result["samples"]) == (4, 12)
    assert result["accuracy"] is not None


@pytest.mark.soak
def test_poisoned_memories_in_cpp(device):
    for seed in range(4):
        result = simulate(device, replace(OPTIONS, simulator="verilator", poison=True, seed=seed, stall=0.2))
        assert result["mismatched"] == 0


def test_lint_is_clean(device):
    assert lint(device.files) == []


def test_faults(device, tmp_path):
    assert run_faults(device.plan, device.files, tmp_path, "icarus") == 11


def test_a_changed_sign_is_found(device):
    """One forward multiplier of an array gives the negative product: tensor, index and values are named."""
    name = next(name for name in sorted(device.files) if "tile" in name)
    text = device.files[name]
    changed = re.sub(r"= (\$signed\(x_0_\d\) \* .*);", r"= -(\1);", text, count=1)
    assert changed != text
    pattern = r"^\w+\.y: batch 0, sample 0, index \[\d, \d, \d\]: hardware -?\d+, reference -?\d+ "
    with pytest.raises(MismatchError, match=pattern):
        simulate(replace(device, files={**device.files, name: changed}), OPTIONS)
