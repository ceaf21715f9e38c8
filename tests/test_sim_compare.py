"""Comparisons: what is counted, and how the first difference is named."""

import re

import numpy as np
import pytest
from hwgen.sim.compare import Comparison

from hwgen.errors import MismatchError


def fails(comparison, pattern):
    with pytest.raises(MismatchError) as caught:
        comparison.finish()
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)
    assert caught.value.exit_code == 1


def test_equal_integers_are_counted():
    comparison = Comparison()
    comparison.equal("conv.y", "batch 0", np.zeros((2, 3)), np.zeros((2, 3)))
    comparison.equal("conv.updates", "", 4, 4)
    comparison.zero("conv.y", "batch 0", np.zeros(9))
    comparison.finish()
    assert (comparison.compared, comparison.mismatched, comparison.first) == (8, 0, None)


def test_nothing_compared_is_a_failure():
    fails(Comparison(), r"simulation: nothing was compared; ask for at least one batch, epoch or evaluation")
    comparison = Comparison()
    comparison.equal("conv.y", "batch 0", np.zeros((0, 3)), np.zeros((0, 3)))
    fails(comparison, r"simulation: nothing was compared; .*")


def test_the_first_difference_is_named():
    comparison = Comparison()
    hardware = np.arange(24).reshape(2, 3, 4)
    reference = hardware.copy()
    reference[1, 0, 2] += 5
    reference[1, 2, 3] = -1
    comparison.equal("conv.w", "after batch 0", hardware, hardware)
    comparison.equal("conv.y", "batch 1", hardware, reference, samples=True)
    comparison.equal("fc.y", "batch 1", 1, 2)
    comparison.equal("fc.y", "batch 2", 1, 2)
    fails(
        comparison,
        r"conv\.y: batch 1, sample 1, index \[0, 2\]: hardware 14, reference 19 \(2 of 24 differ\); "
        r"different too: fc\.y; 4 of 50 compared integers differ",
    )


def test_a_difference_without_samples_or_index():
    comparison = Comparison()
    comparison.equal("fc.updates", "at the end", 1, 2)
    fails(
        comparison,
        r"fc\.updates: at the end: hardware 1, reference 2 \(1 of 1 differ\); 1 of 1 compared .*",
    )


def test_predictions_name_the_sample():
    comparison = Comparison()
    comparison.equal(
        "result.prediction", "evaluation", np.array([1, 2, 3]), np.array([1, 2, 4]), samples=True
    )
    fails(
        comparison,
        r"result\.prediction: evaluation, sample 2: hardware 3, reference 4 \(1 of 3 differ\); 1 of 3 .*",
    )


@pytest.mark.parametrize(("hardware", "reference"), [((2, 3), (3, 3)), ((0,), (4,)), ((4,), (0,))])
def test_another_shape_differs_in_every_integer(hardware, reference):
    comparison = Comparison()
    comparison.equal("conv.y", "batch 0", np.zeros(hardware), np.zeros(reference))
    size = max(np.prod(hardware), np.prod(reference))
    assert comparison.compared == comparison.mismatched == size
    fails(
        comparison, rf"conv\.y: batch 0: hardware gives shape \(.*\), reference \(.*\); {size} of {size} .*"
    )


def test_a_value_in_a_lane_without_an_element():
    comparison = Comparison()
    comparison.zero("conv.dx", "batch 0", np.array([[0, 0], [0, -7]]))
    fails(
        comparison, r"conv\.dx: batch 0: hardware -7 in a lane that holds no element, reference 0; 1 of 1 .*"
    )


def test_adding_keeps_the_order():
    first, second = Comparison(), Comparison()
    second.equal("b", "", 1, 2)
    first.equal("a", "", 1, 1)
    first.add(second)
    first.equal("c", "", 3, 4)
    assert (first.compared, first.mismatched, first.tensors) == (3, 2, ["b", "c"])
    assert first.first is not None
    assert first.first.startswith("b:")


def test_many_differing_tensors_are_cut_short():
    comparison = Comparison()
    for i in range(12):
        comparison.equal(f"t{i}", "", 0, 1)
    fails(
        comparison, r"t0: hardware 0, .*; different too: t1, t2, t3, t4, t5, t6, t7, t8, \.\.\.; 12 of 12 .*"
    )
