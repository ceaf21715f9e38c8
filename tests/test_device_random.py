"""Random devices from end to end: any network, folding, tiles, depths and image lanes, equal to the reference
in training and in inference, with stalls on every host stream."""

import pytest
from device_cases import random_device, run

FAST = {"icarus": (0, 23, 34, 45), "verilator": (7, 55)}
"""Seeds of small devices whose networks differ in kind."""
LARGE = {6, 9, 10, 11, 12, 13, 16, 18, 27, 28, 29, 33, 57, 70, 73}
"""Arrays of more than 64 cells, often a tile each: minutes of emission."""
SOAK = [seed for seed in range(75) if seed not in LARGE]


def check(seed, simulator):
    device = random_device(seed, extreme=seed % 4 == 3)
    result = run(
        device, simulator=simulator, seed=seed, batches=1, stall=0.3 * (seed % 3), poison=seed % 2 == 1,
        evaluate=True, watchdog=20_000,
    )  # fmt: skip
    assert result["mismatched"] == 0
    assert result["accuracy"] is not None


@pytest.mark.parametrize(
    ("simulator", "seed"), [(name, seed) for name, seeds in FAST.items() for seed in seeds]
)
def test_random_devices(simulator, seed):
    check(seed, simulator)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK)
def test_more_random_devices(seed):
    check(seed, "icarus" if seed % 3 == 0 else "verilator")
