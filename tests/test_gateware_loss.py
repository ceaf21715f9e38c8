"""Softmax cross-entropy in gateware against hwgen.ref.softmax, bit for bit, and its timing to the cycle."""

import gc
import itertools
from fractions import Fraction

import numpy as np
import pytest
from amaranth import signed
from handshake import Trace, check_valid_ignores_ready, cut
from stream_bench import run_streams

from hwgen.gateware.loss import SoftmaxCrossEntropy
from hwgen.gateware.softmax import Divider, Exponential, Logarithm
from hwgen.ir.stage import Loss
from hwgen.numeric import Q
from hwgen.numeric_tables import LN2, LOG1P_TABLE
from hwgen.ref.softmax import exponentials, predict, softmax_cross_entropy

STALLS = [(0.0, 0.0), (0.5, 0.3), (0.1, 0.8)]


def samples(loss, count, seed=0):
    """Logits and labels: random ones, all equal at both ends, only extremes, ties, and close ones."""
    rng = np.random.default_rng(seed)
    z = rng.integers(loss.z.min, loss.z.max + 1, (count, loss.classes))
    z[0], z[1] = loss.z.max, loss.z.min
    z[2] = rng.choice([loss.z.min, loss.z.max], loss.classes)
    z[3] = rng.integers(max(loss.z.min, -2), 3, loss.classes)
    z[4] = loss.z.min
    z[4, -1] = loss.z.max
    labels = rng.integers(0, loss.classes, count)
    labels[:2] = 0, loss.classes - 1
    return z, labels


def train(loss, lanes_in, lanes_out, z, labels, **options):
    """Runs samples through the gateware in training and compares all that comes out; the cycles."""
    dz, losses, predictions = softmax_cross_entropy(z, labels, loss)
    words = [word for row in dz for word in cut(row, (loss.classes, lanes_out))]
    got, cycles = run_streams(
        SoftmaxCrossEntropy(loss, lanes_in, lanes_out),
        {
            "z": [w for row in z for w in cut(row, (loss.classes, lanes_in))],
            "label": [int(v) for v in labels],
        },
        {"dz": len(words), "result": len(z)},
        settings={"train": 1},
        patience=20000,
        **options,
    )
    assert [[word[k] for k in range(lanes_out)] for word in got["dz"]] == words
    assert [(r.prediction, r.loss) for r in got["result"]] == list(zip(predictions, losses, strict=True))
    return cycles


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(
    ("classes", "lanes_in", "lanes_out"), [(10, 4, 3), (3, 1, 1), (5, 8, 8), (16, 4, 16), (1, 1, 2)]
)
def test_lanes_and_stalls(classes, lanes_in, lanes_out, stalls):
    loss = Loss(classes, Q(12, 7), Q(10, 8))
    train(loss, lanes_in, lanes_out, *samples(loss, 9, classes), stalls=stalls, seed=classes)


@pytest.mark.parametrize("dz", [Q(4, 3), Q(12, 12), Q(16, 14), Q(24, 40), Q(9, -2)], ids=str)
@pytest.mark.parametrize("width", [4, 8, 16, 24])
def test_formats(width, dz):
    for number, frac in enumerate((-30, -3, 0, width // 2, width - 1, width + 3, 60)):
        loss = Loss((3, 7)[number % 2], Q(width, frac), dz)
        train(loss, 2, 3, *samples(loss, 6, width + number), stalls=(0.2, 0.2), seed=frac + 30)


@pytest.mark.parametrize("dz", [Q(4, 0), Q(8, 7), Q(8, 6), Q(18, 22), Q(24, 23), Q(16, 0)], ids=str)
def test_errors_of_many_classes(dz):
    loss = Loss(57, Q(8, 4), dz)
    train(loss, 5, 8, *samples(loss, 5, 57))


@pytest.mark.parametrize(("z", "dz"), [(Q(4, 2), Q(5, 4)), (Q(3, 0), Q(6, 6)), (Q(4, -1), Q(4, 1))], ids=str)
def test_every_pair_of_small_logits(z, dz):
    numbers = range(z.min, z.max + 1)
    cases = [(a, b, label) for a, b in itertools.product(numbers, numbers) for label in (0, 1)]
    table = np.array(cases)
    train(Loss(2, z, dz), 2, 2, table[:, :2], table[:, 2])


@pytest.mark.parametrize("z", [Q(18, 2), Q(18, 3), Q(18, 1), Q(24, -10), Q(24, 20)], ids=str)
def test_the_loss_saturates(z):
    """Just below 32 bits, the logarithm carries the loss over; further up the distance alone does."""
    loss = Loss(8, z, Q(8, 7))
    logits = np.full((3, 8), z.max)
    logits[0, 5] = z.min
    logits[1, 5] = z.max - (7 << 15)
    train(loss, 4, 4, logits, np.array([5, 5, 5]))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_random_formats_and_classes(seed):
    rng = np.random.default_rng(seed)
    z, dz = (Q(int(rng.integers(2, 25)), int(rng.integers(-10, 40))) for _ in range(2))
    loss = Loss(int(rng.integers(1, 120)), z, dz)
    stalls = tuple(rng.choice([0.0, 0.3, 0.7], 2))
    lanes = (int(v) for v in rng.integers(1, 20, 2))
    train(loss, *lanes, *samples(loss, 12, seed), stalls=stalls, seed=seed)


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(("classes", "lanes"), [(10, 4), (2, 2), (7, 1), (1, 1)])
def test_inference_takes_no_label_and_gives_no_error(classes, lanes, stalls):
    loss = Loss(classes, Q(6, 3), Q(8, 7))
    z, _ = samples(loss, 20, classes)
    part = SoftmaxCrossEntropy(loss, lanes, lanes)
    trace = Trace(part, ["label", "dz"], 400)

    async def look(ctx):
        ctx.set(part.label.valid, 1)
        ctx.set(part.dz.ready, 1)
        await trace.bench(ctx)

    words = [word for row in z for word in cut(row, (classes, lanes))]
    got, _ = run_streams(part, {"z": words}, {"result": 20}, stalls=stalls, seed=classes, bench=look)
    assert [(r.prediction, r.loss) for r in got["result"]] == [(p, 0) for p in predict(z)]
    assert (trace.moved["label"], trace.valid["dz"]) == ([], [])


@pytest.mark.parametrize("dz", [Q(8, 7), Q(16, 14), Q(6, 0), Q(5, -1), Q(5, -3)], ids=str)
@pytest.mark.parametrize(("classes", "lanes_in", "lanes_out"), [(10, 4, 3), (2, 1, 1), (5, 8, 8), (1, 1, 1)])
def test_timing_in_training_is_exact(classes, lanes_in, lanes_out, dz):
    loss = Loss(classes, Q(8, 4), dz)
    part = SoftmaxCrossEntropy(loss, lanes_in, lanes_out)
    z, labels = samples(loss, 5)
    words_in, words_out = -(-classes // lanes_in), -(-classes // lanes_out)
    trace = Trace(part, ["z", "dz", "result"], 6 * part.cycles)
    run_streams(
        part,
        {"z": [w for row in z for w in cut(row, (classes, lanes_in))], "label": [int(v) for v in labels]},
        {"dz": 5 * words_out, "result": 5},
        settings={"train": 1},
        bench=trace.bench,
    )
    taken = trace.moved["z"][words_in - 1]
    assert trace.moved["dz"][0] - taken == part.latency
    assert trace.moved["result"][0] - taken == part.result_latency
    for port, words in (("dz", words_out), ("result", 1)):
        ends = trace.moved[port][words - 1 :: words]
        assert [b - a for a, b in itertools.pairwise(ends)] == [part.cycles] * 4
    assert part.cycles == classes + 11 + max(classes * (max(dz.frac, -1) + 2), 3)


@pytest.mark.parametrize(("classes", "lanes"), [(10, 4), (2, 1), (5, 8)])
def test_timing_in_inference_is_exact(classes, lanes):
    loss = Loss(classes, Q(8, 4), Q(8, 7))
    part = SoftmaxCrossEntropy(loss, lanes, lanes)
    z, _ = samples(loss, 5)
    words = -(-classes // lanes)
    trace = Trace(part, ["z", "result"], 8 * part.inference_cycles)
    sent = [w for row in z for w in cut(row, (classes, lanes))]
    run_streams(part, {"z": sent}, {"result": 5}, bench=trace.bench)
    assert trace.moved["result"][0] - trace.moved["z"][words - 1] == part.inference_latency
    assert [b - a for a, b in itertools.pairwise(trace.moved["result"])] == [part.inference_cycles] * 4


def test_a_sample_is_taken_while_the_one_before_is_divided():
    loss = Loss(6, Q(8, 4), Q(8, 7))
    part = SoftmaxCrossEntropy(loss, 2, 2)
    trace = Trace(part, ["z"], 100)

    async def look(ctx):
        ctx.set(part.train, 1)
        ctx.set(part.z.valid, 1)
        ctx.set(part.label.valid, 1)
        await trace.bench(ctx)

    run_streams(part, {}, {}, bench=look)
    assert len(trace.moved["z"]) == 2 * 3  # with dz blocked, two samples are inside


@pytest.mark.parametrize("bad", [5, 8, 0x8001, 0xFFFF])
def test_a_bad_label_stops_everything_for_good(bad):
    loss = Loss(5, Q(8, 4), Q(8, 7))
    z, labels = samples(loss, 6)
    dz, losses, _ = softmax_cross_entropy(z[:2], labels[:2], loss)
    part = SoftmaxCrossEntropy(loss, 2, 2)
    words = [w for row in z for w in cut(row, (5, 2))]
    got = {"dz": [], "result": []}

    async def look(ctx):
        ctx.set(part.train, 1)
        for port in (part.z, part.label):
            ctx.set(port.valid, 1)
        for port in (part.dz, part.result):
            ctx.set(port.ready, 1)
        sent = {"z": iter(words), "label": iter([int(v) for v in labels[:2]] + [bad, 0, 0, 0])}
        for name, values in sent.items():
            ctx.set(getattr(part, name).payload, next(values))
        for _ in range(600):
            _, _, take, label, error, result, error_word, loss_word = await ctx.tick().sample(
                part.z.ready,
                part.label.ready,
                part.dz.valid,
                part.result.valid,
                part.dz.payload,
                part.result.payload,
            )
            if take:
                ctx.set(part.z.payload, next(sent["z"]))
            if label:
                ctx.set(part.label.payload, next(sent["label"]))
            if error:
                got["dz"].append([error_word[k] for k in range(2)])
            if result:
                got["result"].append(loss_word.loss)
        assert (ctx.get(part.bad_label), ctx.get(part.z.ready), ctx.get(part.label.ready)) == (1, 0, 0)

    run_streams(part, {}, {}, bench=look)
    assert got["dz"] == [w for row in dz for w in cut(row, (5, 2))]
    assert got["result"] == list(losses)


def test_errors_do_not_wait_for_a_result_that_is_not_taken():
    """Two samples' errors come out; the third begins only when a result is taken."""
    loss = Loss(4, Q(8, 4), Q(8, 7))
    z, labels = samples(loss, 5)
    part = SoftmaxCrossEntropy(loss, 2, 2)
    trace = Trace(part, ["dz", "label"], 8 * part.cycles)

    async def look(ctx):
        await trace.bench(ctx)
        assert (len(trace.moved["dz"]), len(trace.moved["label"])) == (2 * 2, 2)
        for _ in range(5):
            ctx.set(part.result.ready, 1)
            await ctx.tick().until(part.result.valid)
        ctx.set(part.result.ready, 0)

    words = [w for row in z for w in cut(row, (4, 2))]
    inputs = {"z": words, "label": [int(v) for v in labels]}
    got, _ = run_streams(part, inputs, {"dz": 10}, settings={"train": 1}, bench=look)
    want = [w for row in softmax_cross_entropy(z, labels, loss)[0] for w in cut(row, (4, 2))]
    assert [[word[k] for k in range(2)] for word in got["dz"]] == want


def test_a_result_does_not_wait_for_the_errors():
    loss = Loss(4, Q(8, 4), Q(8, 7))
    z, labels = samples(loss, 5)
    part = SoftmaxCrossEntropy(loss, 2, 2)
    sent = {"z": cut(z[2], (4, 2)), "label": [int(labels[2])]}
    got, _ = run_streams(part, sent, {"result": 1}, settings={"train": 1})
    assert got["result"][0].loss == softmax_cross_entropy(z[2:3], labels[2:3], loss)[1][0]


@pytest.mark.parametrize("setting", [0, 1])
def test_valid_ignores_ready(setting):
    part = SoftmaxCrossEntropy(Loss(2, Q(5, 3), Q(4, 1)), 1, 1)
    check_valid_ignores_ready(
        part, ["z"], ["dz", "result"], held=[(part.train, setting), (part.label.valid, 1)], cycles=600
    )


def piped(part, name_in, name_out, values):
    """What a part that never stalls gives for ``values``, one a cycle."""
    seen = []

    async def look(ctx):
        for cycle in range(len(values) + part.latency):
            ctx.set(getattr(part, name_in), int(values[min(cycle, len(values) - 1)]))
            if cycle >= part.latency:
                seen.append(ctx.get(getattr(part, name_out)))
            await ctx.tick()

    run_streams(part, {}, {}, bench=look)
    return seen


@pytest.mark.parametrize("z", [Q(10, 6), Q(10, 0), Q(6, 20), Q(8, -4), Q(4, -40), Q(12, 7)], ids=str)
def test_exponential_of_every_distance(z):
    d = np.arange(1 << z.width)
    want = exponentials(np.stack([np.zeros_like(d), -d], axis=1), z.frac)[:, 1]
    assert piped(Exponential(z), "d", "e", d) == list(want)


@pytest.mark.parametrize("classes", [1, 2, 10, 57, 1000])
def test_logarithm(classes):
    rng = np.random.default_rng(classes)
    top = classes << 24
    totals = [1 << 24, top, max(top - 1, 1 << 24), *(1 << k for k in range(24, top.bit_length()))]
    totals += [int(v) for v in rng.integers(1 << 24, top + 1, 1000)]
    totals += [min(top, (1 << 24) + int(v)) for v in rng.integers(0, 1 << 14, 50)]
    want = []
    for total in totals:
        k = total.bit_length() - 1
        fraction = (total - (1 << k)) * 2**22 >> k
        value, slope = LOG1P_TABLE[fraction >> 14]
        want.append((k - 24) * LN2 + value + (slope * (fraction % 2**14) >> 14))
    assert piped(Logarithm(classes), "total", "log", totals) == want


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.4)])
@pytest.mark.parametrize("dz", [Q(4, 3), Q(5, 8), Q(8, 0), Q(12, 20), Q(8, -1), Q(8, -5)], ids=str)
@pytest.mark.parametrize("total", [16, 21, 63])
def test_divider_rounds_the_exact_quotient_once(total, dz, stalls):
    """Every numerator with either sign; Python's round of fractions is half to even."""
    part = Divider(6, dz)
    pairs = [(n, negative) for n in range(total + 1) for negative in (0, 1)]
    words = [{"numerator": n, "negative": negative} for n, negative in pairs]
    got, cycles = run_streams(
        part, {"i": words}, {"o": len(words)}, settings={"total": total}, stalls=stalls, seed=total
    )
    want = [round(Fraction(-n if negative else n, total) * Fraction(2) ** dz.frac) for n, negative in pairs]
    assert part.o.payload.shape() == signed(dz.width)
    assert got["o"] == [min(max(value, dz.min), dz.max) for value in want]
    assert stalls != (0.0, 0.0) or cycles == len(words) * part.cycles + 1


@pytest.mark.parametrize("classes", [0, 65537])
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_bad_sizes_are_refused(classes):
    with pytest.raises(ValueError, match=rf"^SoftmaxCrossEntropy: {classes} classes; 1 to 65536$"):
        SoftmaxCrossEntropy(Loss(classes, Q(8, 4), Q(8, 7)), 1, 1)
    gc.collect()  # the refused part, while its warning is ignored
