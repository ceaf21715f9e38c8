"""What the plan predicts is what the device does: cycles a sample and cycles a batch within 1 %, fill and drain
included."""

import pytest
from device_cases import device_of, run
from ref_networks import digits_model
from small_device import with_data

from hwgen import nn
from hwgen.plan.planner import plan_network

LIMIT = 0.01


def deviations(result):
    """Relative distance of what was measured from what was predicted, by figure."""
    names = ("cycles_per_sample", "cycles_per_batch")
    return {name: abs(result[name] / result[f"predicted_{name}"] - 1) for name in names if result[name]}


@pytest.mark.parametrize("seed", range(2))
def test_the_small_device_runs_as_predicted(small, seed):
    """Batches are too short for a steady state; the batch's own figure holds nevertheless."""
    result = run(with_data(small, seed), simulator="verilator", poison=True, batches=3, gradients=False)
    found = deviations(result)
    assert set(found) == {"cycles_per_batch"}
    assert found["cycles_per_batch"] <= LIMIT, result["cycles_per_batch"]


@pytest.mark.soak  # the chain of test_chain_prediction has the same layers
@pytest.mark.parametrize("batch", [16])
def test_digits_run_as_predicted(batch):
    network = digits_model(optimizer=nn.SGD(lr=0.1, batch=batch)).network()
    result = run(
        device_of(plan_network(network), batches=4), simulator="verilator", batches=1, gradients=False
    )
    found = deviations(result)
    assert set(found) == {"cycles_per_sample", "cycles_per_batch"}
    assert max(found.values()) <= LIMIT, found
