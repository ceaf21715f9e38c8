"""Window against a plain loop: every geometry of the grid, least and larger capacities, stalls on both
ends."""

import numpy as np
import pytest
from geometry_cases import FIXED, draw_geometry, flags_of, ops, random_words, rng_of, tap_of, x_word_of
from row_cases import draw_part_geometry
from stream_bench import run_streams

from hwgen.gateware.window import Window
from hwgen.plan.geometry import min_rows

SAMPLES = 2


def expected(geometry, order, words):
    """What the ops of one sample must be: (flags, x lanes, inside)."""
    image = np.array(words, dtype=np.int64).reshape(*_shape(geometry), geometry.words, geometry.pc)
    for start, pixel, g, nf, kf in ops(geometry, order):
        x, inside = [], 0
        for p in range(geometry.u):
            tap = tap_of(geometry, pixel, kf, p)
            inside |= (tap is not None) << p
            x += [0] * geometry.pc if tap is None else image[*tap, x_word_of(geometry, g, kf)].tolist()
        yield flags_of(geometry, order, start, pixel, g, nf, kf), x, inside


def _shape(geometry):
    return geometry.window.height, geometry.window.width


def check(geometry, order, rows, stalls, seed=0, samples=SAMPLES):
    rng = rng_of(seed, 1)
    count = geometry.window.pixels_in * geometry.words
    images = [random_words(rng, count, geometry.pc, 5) for _ in range(samples)]
    wanted = [op for image in images for op in expected(geometry, order, image)]
    window = Window(geometry, 5, rows, order)
    sent = [word for image in images for word in image]
    got, cycles = run_streams(
        window, {"i": sent}, {"o": len(wanted)}, stalls=stalls, seed=seed, settings={"allow": 1}
    )
    for number, (op, (flags, x, inside)) in enumerate(zip(got["o"], wanted, strict=True)):
        where = f"{geometry} {order} rows={rows} op {number}"
        assert {name: op.flags[name] for name in flags} == flags, where
        assert [op.x[k] for k in range(len(x))] == x, where
        assert op.inside == inside, where
    return cycles


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("case", range(len(FIXED)))
def test_fixed(case, order):
    geometry = FIXED[case]
    least = min_rows(geometry, order)
    for rows, stalls in ((least, (0.0, 0.0)), (least + 1, (0.3, 0.3)), (2 * geometry.slots + 1, (0.0, 0.5))):
        check(geometry, order, rows, stalls, case)


@pytest.mark.parametrize("seed", range(20))
def test_random(seed):
    rng = rng_of(seed)
    geometry = draw_geometry(rng, 250)
    order = ("forward", "backward")[seed % 2]
    least = min_rows(geometry, order)
    rows = int(rng.choice([least, least, least + 1, geometry.slots + least, 2 * least]))
    check(geometry, order, rows, [(0.0, 0.0), (0.4, 0.1), (0.1, 0.4)][seed % 3], seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_parts_of_the_rows(seed):
    """Output rows that are not evenly spaced."""
    geometry = draw_part_geometry(rng_of(seed, 5), 150)
    order = ("forward", "backward")[seed % 2]
    least = min_rows(geometry, order)
    check(geometry, order, least + seed % 3 // 2, [(0.0, 0.0), (0.4, 0.1), (0.1, 0.4)][seed % 3], seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_parts_of_the_rows_long(seed):
    test_random_parts_of_the_rows(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_the_rows_hangs_with_one_row_less(seed):
    rng = rng_of(seed, 6)
    geometry = draw_part_geometry(rng, 300)
    while min_rows(geometry) < 2:
        geometry = draw_part_geometry(rng, 300)
    one_row_less_hangs(geometry, rng)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_long(seed):
    test_random(seed)


@pytest.mark.parametrize("seed", range(6))
def test_one_row_less_hangs(seed):
    rng = rng_of(seed, 9)
    geometry = draw_geometry(rng, 300)
    while min_rows(geometry) < 2:
        geometry = draw_geometry(rng, 300)
    one_row_less_hangs(geometry, rng)


def one_row_less_hangs(geometry, rng):
    count = geometry.window.pixels_in * geometry.words
    words = random_words(rng, count, geometry.pc, 5)
    total = geometry.M * geometry.groups * geometry.fk * geometry.fn
    window = Window(geometry, 5, min_rows(geometry) - 1, "forward")
    got, _ = run_streams(
        window, {"i": words}, {"o": total}, settings={"allow": 1}, hang=True, patience=2 * count + 10
    )
    assert len(got["o"]) < total


@pytest.mark.parametrize("case", [2, 3, 4, 7])
def test_full_rate_across_samples(case):
    """With whole samples in the buffer an op comes out every cycle, whatever the folding."""
    geometry = FIXED[case]
    total = geometry.M * geometry.groups * geometry.fk * geometry.fn
    assert total >= geometry.window.pixels_in * geometry.words, "a case whose input is no slower than its ops"
    one = check(geometry, "forward", 4 * geometry.slots, (0.0, 0.0), samples=2)
    two = check(geometry, "forward", 4 * geometry.slots, (0.0, 0.0), samples=4)
    assert two - one == 2 * total


def test_waits_for_allow():
    geometry = FIXED[2]
    window = Window(geometry, 5, 3 * geometry.slots, "forward")
    starts = []

    async def bench(ctx):
        ctx.set(window.o.ready, 1)
        seen = 0
        for cycle in range(1200):
            ctx.set(window.allow, int(cycle == 300 or cycle > 800))
            started, valid, flags = (
                ctx.get(window.started),
                ctx.get(window.o.valid),
                ctx.get(window.o.payload.flags),
            )
            if started:
                starts.append(cycle)
            seen += bool(valid and flags.sample_first)
            assert cycle != 299 or seen == 0
            assert cycle != 799 or seen == 1
            await ctx.tick()

    words = random_words(rng_of(1), 2 * 4 * 5 * geometry.words, geometry.pc, 5)
    run_streams(window, {"i": words}, {}, bench=bench)
    assert starts[0] == 300
    assert len(starts) == 2
    assert starts[1] > 800
