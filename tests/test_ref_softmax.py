"""The integer softmax cross-entropy: against real numbers, exact rationals, and at every extreme."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from hwgen.errors import DataError
from hwgen.ir.stage import Loss
from hwgen.numeric import Q
from hwgen.numeric_tables import EXP2_TABLE, LN2, LOG1P_TABLE, LOG2E
from hwgen.ref.softmax import exponentials, predict, softmax_cross_entropy

FORMATS = [Q(w, f) for w in (4, 5, 8, 12, 16, 18, 24) for f in (-3, 0, w // 2, w - 1, w + 3)] + [
    Q(24, 60),
    Q(16, -80),
]
ERRORS = [
    Q(4, 3),
    Q(4, 0),
    Q(8, 7),
    Q(8, 6),
    Q(12, 12),
    Q(16, 14),
    Q(16, 15),
    Q(18, 22),
    Q(24, 23),
    Q(24, 40),
    Q(9, -2),
]


def logits(q, batch, classes, rng):
    z = rng.integers(q.min, q.max + 1, (batch, classes))
    z[0] = q.min
    z[1] = q.max
    z[2] = rng.choice([q.min, q.max], classes)
    z[3] = rng.integers(max(q.min, -3), 4, classes)
    return z


def exact_error(e, total, hot, dz):
    """round(p - onehot) by fractions; Python's round is half to even."""
    value = (Fraction(int(e), int(total)) - int(hot)) * (Fraction(2) ** dz.frac)
    return min(max(round(value), dz.min), dz.max)


@pytest.mark.parametrize("classes", [2, 3, 10, 57])
@pytest.mark.parametrize("dz", ERRORS, ids=str)
def test_one_rounding_of_the_exact_quotient(dz, classes):
    rng = np.random.default_rng(classes)
    loss = Loss(classes, Q(9, 5), dz)
    z = logits(loss.z, 12, classes, rng)
    labels = rng.integers(0, classes, 12)
    got, _, _ = softmax_cross_entropy(z, labels, loss)
    e = exponentials(z, 5)
    for b, c in np.ndindex(z.shape):
        assert got[b, c] == exact_error(e[b, c], e[b].sum(), c == labels[b], dz)


@pytest.mark.parametrize("zq", FORMATS, ids=str)
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_sums_and_accuracy(zq, classes):
    rng = np.random.default_rng(zq.width)
    loss = Loss(classes, zq, Q(24, 22))
    z = logits(zq, 40, classes, rng)
    labels = rng.integers(0, classes, 40)
    dz, loss_q16, prediction = softmax_cross_entropy(z, labels, loss)
    assert np.abs(dz.sum(axis=1)).max() <= classes / 2
    real = zq.to_float(z)
    shifted = real - real.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    total = p.sum(axis=1, keepdims=True)
    want = p / total - (np.arange(classes) == labels[:, None])
    assert np.abs(loss.dz.to_float(dz) - want).max() < 2.0**-19 + classes * 2.0**-24 + 2.0**-23
    want_loss = np.log(total[:, 0]) - shifted[np.arange(40), labels]
    error = np.abs(loss_q16 / 2**16 - np.minimum(want_loss, (2**32 - 1) / 2**16))
    assert error.max() < 2.0**-15 + classes * 2.0**-24
    assert np.array_equal(prediction, z.argmax(axis=1))


@pytest.mark.parametrize("width", [4, 8, 16, 24])
def test_equal_logits_give_equal_errors(width):
    for classes in (2, 3, 7, 10):
        loss = Loss(classes, Q(width, 2), Q(16, 15))
        for value in (loss.z.min, 0, loss.z.max):
            dz, loss_q16, _ = softmax_cross_entropy([[value] * classes], [1], loss)
            others = np.delete(dz[0], 1)
            assert set(others.tolist()) == {round(2**15 / classes)}
            assert dz[0, 1] == round(Fraction(2**15, classes)) - 2**15
            assert abs(loss_q16[0] - np.log(classes) * 2**16) <= 2


def test_certain_sample_and_saturation():
    loss = Loss(3, Q(16, 4), Q(16, 15))
    z = [[20000, -20000, -20000]] * 2
    dz, loss_q16, _ = softmax_cross_entropy(z, [0, 1], loss)
    assert dz.tolist() == [[0, 0, 0], [32767, -32768, 0]]
    assert loss_q16.tolist() == [0, 40000 << 12]
    _, loss_q16, _ = softmax_cross_entropy(z, [0, 1], Loss(3, Q(16, -8), Q(16, 15)))
    assert loss_q16.tolist() == [0, 2**32 - 1]


def test_first_maximum_wins():
    assert predict([[1, 5, 5], [5, 5, 5], [-4, -7, -4]]).tolist() == [1, 0, 0]


def test_many_classes():
    loss = Loss(65535, Q(4, 0), Q(24, 23))
    dz, loss_q16, _ = softmax_cross_entropy(np.zeros((1, 65535), int), [7], loss)
    assert dz[0, 7] == -(2**23) + 128
    assert (np.delete(dz[0], 7) == 128).all()
    assert abs(loss_q16[0] - np.log(65535) * 2**16) < 2


def test_errors_name_the_label():
    loss = Loss(3, Q(8, 4), Q(8, 6))
    with pytest.raises(DataError, match=r"^loss: label 3 is outside 0\.\.2$"):
        softmax_cross_entropy(np.zeros((2, 3)), [0, 3], loss)
    with pytest.raises(
        DataError, match=r"^loss: logits \(2, 4\) and labels \(2,\); need \(B, 3\) and \(B,\)$"
    ):
        softmax_cross_entropy(np.zeros((2, 4)), [0, 2], loss)


def test_tables_are_the_same_on_every_machine():
    digest = hashlib.sha256(repr((EXP2_TABLE, LOG1P_TABLE, LN2, LOG2E)).encode()).hexdigest()
    assert digest[:16] == "cb621d3fe871cafe"
