"""Fixtures of several test files."""

import pytest
import small_device


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The small device, built by the command line; see small_device."""
    return small_device.built(tmp_path_factory.mktemp("small") / "build")
