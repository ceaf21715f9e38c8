"""A schedule whose repeating samples are left out is the schedule with all of them computed."""

import dataclasses
import random
from unittest import mock

import numpy as np
import pytest
from chain_cases import random_chain
from ref_networks import random_network

from hwgen.plan.buffers import stall_free_depths
from hwgen.plan.planner import bottleneck, plan_network
from hwgen.plan.repeats import Series, Watch
from hwgen.plan.schedule import _Chain, run_schedule

ARRAYS = ("x", "forward", "relu", "y", "dy", "masked", "backward", "dx")
NUMBERS = ("first_forward", "first_backward", "update")


def with_batch(plan, batch):
    update = dataclasses.replace(plan.network.update, batch=batch)
    return dataclasses.replace(plan, network=dataclasses.replace(plan.network, update=update))


def computed(plan, samples, pace):
    """Every sample by itself."""
    with mock.patch.object(Watch, "steady", False):
        return run_schedule(plan, samples, pace)


def check_equal(found, wanted):
    assert list(found.results) == list(wanted.results)
    assert found.idle == wanted.idle
    for one, other in zip(found.stages, wanted.stages, strict=True):
        for name in NUMBERS:
            assert list(getattr(one, name)) == list(getattr(other, name)), name
        for name in ARRAYS:
            pairs = zip(getattr(one, name), getattr(other, name), strict=True)
            assert all(np.array_equal(*pair) for pair in pairs), name


@pytest.mark.parametrize("seed", range(24))
def test_schedules_and_depths_are_those_of_every_sample(seed):
    rng = random.Random(seed)
    plan = random_chain(seed) if seed % 2 else plan_network(random_network(seed))
    if plan is None:
        plan = plan_network(random_network(seed))
    batch = rng.choice([1, 2, 7, 30])
    plan = with_batch(plan, batch)
    pace, _ = bottleneck(plan)
    for samples, offered in ((3 * batch, 0), (40, pace), (25, pace * 2 // 3), (20, pace + 5)):
        found, wanted = run_schedule(plan, samples, offered), computed(plan, samples, offered)
        check_equal(found, wanted)
        for planned, short, full in zip(plan.stages, found.stages, wanted.stages, strict=True):
            if full.backward:
                assert stall_free_depths(planned, short) == stall_free_depths(planned, full)


def test_paced_samples_of_one_batch_are_hardly_computed():
    plan = with_batch(plan_network(random_network(3)), 1 << 20)
    pace, _ = bottleneck(plan)
    with mock.patch.object(_Chain, "sample", autospec=True, side_effect=_Chain.sample) as sample:
        times = run_schedule(plan, 500, pace)
    assert sample.call_count < 10
    assert len(times.results) == len(times.stages[0].x) == 500


def test_series_works_out_what_it_does_not_store():
    series = Series()
    for item in (3, 9, 14):
        series.append(item)
    series.repeat(4)
    series.append(100)
    series.append(107)
    series.repeat(2)
    assert list(series) == [3, 9, 14, 19, 24, 29, 34, 100, 107, 114, 121]
    assert series[-1] == 121
    assert series[2:5] == [14, 19, 24]
    assert (series.start, series.step) == (9, 7)
    series.append(122)
    assert (series.start, series.step) == (None, None)
    with pytest.raises(IndexError):
        series[12]


def watched(*samples):
    """A watch that has seen (result, source) pairs of a single queue, sample by sample."""
    watch = Watch()
    for k, (result, source) in enumerate(samples):
        watch.begin(k == 0)
        watch.see("queue", np.array(result), np.array(source))
    return watch


@pytest.mark.parametrize(
    ("samples", "steady"),
    [
        ([([5, 6], [1, 2]), ([8, 9], [4, 5])], True),
        ([([5, 6], [1, 2]), ([8, 9], [2, 3])], True),  # ahead of its source for ever
        ([([5, 6], [1, 2]), ([8, 9], [5, 6])], False),  # the source catches up
        ([([5, 6], [1, 2]), ([8, 10], [4, 5])], False),
        ([([5, 6], [1, 2]), ([8, 9], [4, 6])], False),
        ([([5, 6], [1, 2])], False),
    ],
)
def test_watch(samples, steady):
    assert watched(*samples).steady == steady


def test_first_sample_of_a_batch_is_not_compared():
    watch = watched(([5], [1]), ([8], [4]))
    watch.begin(True)
    watch.see("queue", np.array([11]), np.array([7]))
    assert not watch.steady
