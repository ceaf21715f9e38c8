"""What the tests of whole simulations on a device that replays the reference share."""

import re

import pytest
from fake_device import fake_build
from hwgen.sim.run import SimOptions, simulate

__all__ = ["QUICK", "cache", "fails", "good"]

QUICK = SimOptions(batches=1, simulator="icarus", watchdog=300)
"""Icarus compiles a device in a tenth of the time that the C++ needs."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def good():
    return fake_build(count=3)


def fails(build, error, pattern, options=QUICK):
    with pytest.raises(error) as caught:
        simulate(build, options)
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)
