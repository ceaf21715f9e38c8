"""Fixtures of several test files."""

import gc

import pytest
import small_device

# Amaranth makes millions of small objects that live until the text is there: looking through them for garbage again and
# again takes a fifth of the time.
gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The small device, built by the command line; see small_device."""
    return small_device.built(tmp_path_factory.mktemp("small") / "build")
