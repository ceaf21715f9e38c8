"""ReLU and its adjoint: values, masks, and that neither output holds up the other."""

import numpy as np
import pytest
from handshake import Trace, check_valid_ignores_ready
from stream_bench import run_streams

from hwgen.gateware.relu import ReLU, ReLUAdjoint
from hwgen.ir.activation import Activation, slope_of
from hwgen.numeric import Q
from hwgen.ref.kernels import activate, activation_adjoint

STALLS = [(0.0, 0.0), (0.5, 0.2), (0.1, 0.6)]


def words_of(P, width, count, seed=0):
    """Random words with zeros, both extremes and ±1 among them."""
    rng = np.random.default_rng(seed)
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    values = rng.integers(low, high + 1, (count, P))
    edges = rng.choice([0, low, high, -1, min(1, high)], (count, P))
    return [[int(v) for v in row] for row in np.where(rng.random((count, P)) < 0.4, edges, values)]


def mask_of(word):
    return sum((value > 0) << k for k, value in enumerate(word))


def lists(words, P):
    return [[word[k] for k in range(P)] for word in words]


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(("P", "width"), [(1, 4), (3, 4), (2, 8), (5, 16), (1, 24), (4, 1)])
def test_relu_in_training(P, width, stalls):
    sent = words_of(P, width, 200, P)
    part = ReLU(P, width)
    counts = {"o": len(sent), "mask": len(sent)}
    got, cycles = run_streams(part, {"i": sent}, counts, stalls=stalls, seed=width, settings={"train": 1})
    assert lists(got["o"], P) == [[max(v, 0) for v in word] for word in sent]
    assert got["mask"] == [mask_of(word) for word in sent]
    assert stalls != (0.0, 0.0) or cycles == len(sent) + part.latency


def test_relu_of_every_value():
    sent = [[v, -1 - v] for v in range(-32, 32)]
    got, _ = run_streams(ReLU(2, 6), {"i": sent}, {"o": 64, "mask": 64}, settings={"train": 1})
    assert lists(got["o"], 2) == [[max(v, 0) for v in word] for word in sent]
    assert got["mask"] == [mask_of(word) for word in sent]


@pytest.mark.parametrize("stalls", STALLS)
def test_relu_makes_no_masks_in_inference(stalls):
    sent = words_of(3, 8, 100)
    part = ReLU(3, 8)
    trace = Trace(part, ["mask"], 600)
    got, cycles = run_streams(
        part, {"i": sent}, {"o": 100}, stalls=stalls, settings={"train": 0}, bench=trace.bench
    )
    assert lists(got["o"], 3) == [[max(v, 0) for v in word] for word in sent]
    assert trace.valid["mask"] == []
    assert stalls != (0.0, 0.0) or cycles == 100 + part.latency


@pytest.mark.parametrize(("blocked", "open_"), [("o", "mask"), ("mask", "o")])
def test_a_blocked_output_lets_the_other_have_the_word(blocked, open_):
    """A word that entered reaches both outputs, each on its own; the next one waits outside."""
    part = ReLU(2, 8)
    trace = Trace(part, ["i", "o", "mask"], 60)

    async def look(ctx):
        ctx.set(getattr(part, blocked).ready, 0)
        ctx.set(getattr(part, open_).ready, 1)
        ctx.set(part.i.payload, [5, -5])
        ctx.set(part.i.valid, 1)
        await trace.bench(ctx)

    run_streams(part, {}, {}, settings={"train": 1}, bench=look)
    assert (len(trace.moved["i"]), len(trace.moved[open_]), len(trace.moved[blocked])) == (1, 1, 0)
    assert trace.valid[blocked] == list(range(1, 60))


@pytest.mark.parametrize("train", [0, 1])
def test_relu_valid_ignores_ready(train):
    part = ReLU(3, 5)
    check_valid_ignores_ready(part, ["i"], ["o", "mask"], held=[(part.train, train)])


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(("P", "width"), [(1, 4), (3, 4), (2, 8), (5, 16), (1, 24), (4, 1)])
def test_adjoint(P, width, stalls):
    sent = words_of(P, width, 200, P)
    masks = [int(v) for v in np.random.default_rng(width).integers(0, 1 << P, 200)]
    part = ReLUAdjoint(P, width)
    got, cycles = run_streams(part, {"i": sent, "mask": masks}, {"o": 200}, stalls=stalls, seed=width)
    want = [
        [v if mask >> k & 1 else 0 for k, v in enumerate(word)]
        for word, mask in zip(sent, masks, strict=True)
    ]
    assert lists(got["o"], P) == want
    assert stalls != (0.0, 0.0) or cycles == 200 + part.latency


@pytest.mark.parametrize(("early", "late"), [("i", "mask"), ("mask", "i")])
def test_adjoint_takes_both_or_none(early, late):
    part = ReLUAdjoint(2, 8)
    trace = Trace(part, ["i", "mask", "o"], 10)

    async def look(ctx):
        ctx.set(part.o.ready, 1)
        ctx.set(getattr(part, early).valid, 1)
        await trace.bench(ctx)
        assert ctx.get(getattr(part, early).ready) == 0
        ctx.set(getattr(part, late).valid, 1)
        assert ctx.get(part.i.ready) == ctx.get(part.mask.ready) == 1

    run_streams(part, {}, {}, bench=look)
    assert trace.moved == {"i": [], "mask": [], "o": []}


def test_adjoint_valid_ignores_ready():
    check_valid_ignores_ready(ReLUAdjoint(3, 5), ["i", "mask"], ["o"])


FORMS = {
    "to the middle": Activation(0.0, 0.5),
    "both": Activation(-0.75, 1.0),
    "beyond": Activation(-100.0, 100.0),
    "above only": Activation(None, 0.25),
    **{
        f"slope {slope}": Activation(None, None, slope_of(slope))
        for slope in (0.5, 0.01, 0.1, 0.3, 0.99, 2.0**-31)
    },
}


@pytest.mark.parametrize("stalls", [STALLS[0], STALLS[1]])
@pytest.mark.parametrize("kind", FORMS)
def test_every_value_behind_other_activations(kind, stalls):
    form, width = Q(7, 4), 7
    values = [*range(form.min, form.max + 1)]
    sent = [[v, -1 - v] for v in values]
    want, mask = activate(np.array(sent), FORMS[kind], form)
    bits = [int(row @ [1, 2]) for row in mask]
    part = ReLU(2, width, FORMS[kind], form)
    got, _ = run_streams(part, {"i": sent}, {"o": 128, "mask": 128}, stalls=stalls, settings={"train": 1})
    assert lists(got["o"], 2) == want.tolist()
    assert got["mask"] == bits
    masks = np.random.default_rng(1).integers(0, 2, (128, 2))
    back = activation_adjoint(np.array(sent), masks.astype(bool), FORMS[kind])
    given = {"i": sent, "mask": [int(row @ [1, 2]) for row in masks]}
    got, _ = run_streams(ReLUAdjoint(2, width, FORMS[kind]), given, {"o": 128}, stalls=stalls)
    assert lists(got["o"], 2) == back.tolist()
