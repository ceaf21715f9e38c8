"""Col2im against a plain loop: every geometry of the grid, least and larger capacities, stalls on both
ends."""

from dataclasses import replace

import numpy as np
import pytest
from geometry_cases import FIXED, draw_geometry, ops, random_words, rng_of, tap_of, x_word_of
from row_cases import draw_part_geometry
from stream_bench import run_streams

from hwgen.gateware.col2im import Col2im
from hwgen.plan.geometry import col_ports, min_col_rows, touched_once

IN, OUT = 5, 13


def expected(geometry, chunks):
    """The sums of one sample: words of pc lanes in raster order."""
    window, pc = geometry.window, geometry.pc
    image = np.zeros((window.height, window.width, geometry.words, pc), dtype=np.int64)
    for (_, pixel, g, _, kf), chunk in zip(ops(geometry, "chunks"), chunks, strict=True):
        for p in range(geometry.u):
            tap = tap_of(geometry, pixel, kf, p)
            if tap is not None:
                image[*tap, x_word_of(geometry, g, kf)] += chunk[p * pc : (p + 1) * pc]
    return image.reshape(-1, pc).tolist()


def inputs(geometry, seed, samples):
    rng = rng_of(seed, 2)
    count = geometry.M * geometry.groups * geometry.fk
    return [random_words(rng, count, geometry.u * geometry.pc, IN) for _ in range(samples)]


def check(geometry, rows, stalls, seed=0, samples=2):
    sent = inputs(geometry, seed, samples)
    wanted = [word for chunks in sent for word in expected(geometry, chunks)]
    col = Col2im(geometry, IN, OUT, rows)
    got, cycles = run_streams(
        col, {"i": [c for chunks in sent for c in chunks]}, {"o": len(wanted)}, stalls=stalls, seed=seed
    )
    found = [[word[k] for k in range(geometry.pc)] for word in got["o"]]
    assert found == wanted, f"{geometry} rows={rows}"
    return cycles


@pytest.mark.parametrize("case", range(len(FIXED)))
def test_fixed(case):
    geometry = FIXED[case]
    least = min_col_rows(geometry)
    for rows, stalls in ((least, (0.0, 0.0)), (least + 1, (0.3, 0.3)), (2 * geometry.slots + 1, (0.0, 0.5))):
        check(geometry, rows, stalls, case)


@pytest.mark.parametrize("seed", range(24))
def test_random(seed):
    rng = rng_of(seed, 3)
    geometry = draw_geometry(rng, 250)
    least = min_col_rows(geometry)
    rows = int(rng.choice([least, least, least + 1, geometry.slots + least]))
    check(geometry, rows, [(0.0, 0.0), (0.4, 0.1), (0.1, 0.4)][seed % 3], seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_parts_of_the_rows(seed):
    """Output rows that are not evenly spaced."""
    geometry = draw_part_geometry(rng_of(seed, 4), 150)
    rows = min_col_rows(geometry) + seed % 3 // 2
    check(geometry, rows, [(0.0, 0.0), (0.4, 0.1), (0.1, 0.4)][seed % 3], seed)


@pytest.mark.parametrize("seed", range(8))
def test_one_read_port_a_bank(seed):
    """Words wait while chunks are added, which come every cycle here: more often than they do in an array."""
    rng = rng_of(seed, 5)
    geometry = draw_geometry(rng, 250)
    while touched_once(geometry.window):
        geometry = draw_geometry(rng, 250)
    geometry = replace(geometry, fn=40)
    assert col_ports(geometry) == "shared"
    rows = min_col_rows(geometry) + seed % 2
    check(geometry, rows, [(0.0, 0.0), (0.4, 0.1), (0.0, 0.6), (0.3, 0.5)][seed % 4], seed, samples=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_parts_of_the_rows_long(seed):
    test_random_parts_of_the_rows(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_long(seed):
    test_random(seed)


@pytest.mark.parametrize("seed", range(4))
def test_one_row_less_hangs(seed):
    rng = rng_of(seed, 8)
    geometry = draw_geometry(rng, 250)
    while min_col_rows(geometry) < 2:
        geometry = draw_geometry(rng, 250)
    one_row_less_hangs(geometry, seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_the_rows_hangs_with_one_row_less(seed):
    rng = rng_of(seed, 6)
    geometry = draw_part_geometry(rng, 250)
    while min_col_rows(geometry) < 2:
        geometry = draw_part_geometry(rng, 250)
    one_row_less_hangs(geometry, seed)


def one_row_less_hangs(geometry, seed):
    (chunks,) = inputs(geometry, seed, 1)
    count = geometry.window.pixels_in * geometry.words
    col = Col2im(geometry, IN, OUT, min_col_rows(geometry) - 1)
    got, _ = run_streams(col, {"i": chunks}, {"o": count}, hang=True, patience=2 * len(chunks) + 500)
    assert len(got["o"]) < count


def test_latency():
    geometry = FIXED[0]
    col = Col2im(geometry, IN, OUT, 2)

    async def bench(ctx):
        for _ in range(4):
            await ctx.tick()
        ctx.set(col.i.payload, [3])
        ctx.set(col.i.valid, 1)
        for cycle in range(col.latency):
            assert not ctx.get(col.o.valid), cycle
            await ctx.tick()
            ctx.set(col.i.valid, 0)
        assert ctx.get(col.o.valid)
        assert ctx.get(col.o.payload[0]) == 3

    run_streams(col, {}, {}, bench=bench)


def test_keeps_up_without_bubbles():
    """Chunks and words together: a word and a chunk a cycle, so the slower side sets the pace."""
    geometry = FIXED[2]
    one, two = (check(geometry, 3 * geometry.slots, (0.0, 0.0), samples=n) for n in (2, 4))
    chunks = geometry.M * geometry.groups * geometry.fk
    assert two - one == 2 * max(chunks, geometry.window.pixels_in * geometry.words)
