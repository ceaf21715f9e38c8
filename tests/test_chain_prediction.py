"""A planned chain does what its plan says: cycles within 1 %, every byte on every link, marks of buffers."""

import pytest
from kept_modules import kept_files

from benchmarks.bench_truth import SEEDS, WANTED, compared, digits_chain, drawn_chain, kinds

LIMIT = 1.0


def check(chain):
    found = compared(chain)
    assert found["mismatched"] == 0
    for unit in ("sample", "batch"):
        assert abs(found[f"cycles_per_{unit}"]["error_percent"]) <= LIMIT, found
    assert len(found["links"]) == 2 * (found["boards"] - 1)
    for way in found["links"]:
        assert way["simulated_bytes"] == way["predicted_bytes"], way
        assert min(way["predicted_bytes"].values()) > 0
        assert 0 < way["mark"] <= way["capacity"], way
    assert {row["buffer"] for row in found["buffers"]} >= {"window", "store", "mask"}
    for row in found["buffers"]:
        assert 0 < row["mark"] <= row["capacity"], row
        assert row["predicted"] is None or row["predicted"] <= row["capacity"], row


def test_the_digits_chain_does_what_its_plan_says():
    check(digits_chain(kept_files))


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_do_what_their_plans_say(seed):
    check(drawn_chain(seed, kept_files))


def test_random_chains_are_cut_in_every_way():
    assert set().union(*(kinds(drawn_chain(seed, lambda plan: {}).plan) for seed in SEEDS)) == WANTED
