"""Replay and Reorder against the plain loop nests."""

import pytest
from geometry_cases import FIXED, draw_geometry, flags_of, ops, random_words, rng_of
from stream_bench import run_streams

from hwgen.gateware.replay import Reorder, Replay


def lanes_of(word, count):
    return [word[k] for k in range(count)]


def check_replay(geometry, blocks, stalls, seed=0, samples=2):
    pn = 2
    words = random_words(rng_of(seed, 4), samples * geometry.M * geometry.out_words, pn, 5)
    wanted = []
    for sample in range(samples):
        for start, pixel, g, nf, kf in ops(geometry, "backward"):
            flags = flags_of(geometry, "backward", start, pixel, g, nf, kf)
            index = (sample * geometry.M + pixel) * geometry.out_words + g * geometry.fn + nf
            wanted.append((flags, words[index]))
    replay = Replay(geometry, 5, pn, blocks)
    got, cycles = run_streams(
        replay, {"i": words}, {"o": len(wanted)}, stalls=stalls, seed=seed, settings={"allow": 1}
    )
    for op, (flags, dy) in zip(got["o"], wanted, strict=True):
        assert {name: op.flags[name] for name in flags} == flags
        assert lanes_of(op.dy, pn) == dy
    return cycles


def check_reorder(geometry, blocks, stalls, seed=0, samples=2):
    pn = 2
    total = samples * geometry.M * geometry.out_words
    words = random_words(rng_of(seed, 5), total, pn, 5)
    sent = [
        words[(sample * geometry.M + pixel) * geometry.out_words + g * geometry.fn + nf]
        for sample in range(samples)
        for _, pixel, g, nf, _ in ops(geometry, "sums")
    ]
    reorder = Reorder(geometry, 5, pn, blocks)
    got, cycles = run_streams(reorder, {"i": sent}, {"o": total}, stalls=stalls, seed=seed)
    assert [lanes_of(word, pn) for word in got["o"]] == words
    return cycles


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("case", range(len(FIXED)))
def test_fixed(case, blocks):
    stalls = [(0.0, 0.0), (0.3, 0.3), (0.0, 0.5)][blocks - 1]
    check_replay(FIXED[case], blocks, stalls, case)
    check_reorder(FIXED[case], blocks, stalls, case)


@pytest.mark.parametrize("seed", range(16))
def test_random(seed):
    rng = rng_of(seed, 6)
    geometry = draw_geometry(rng, 250)
    stalls = [(0.0, 0.0), (0.4, 0.1), (0.1, 0.4)][seed % 3]
    check_replay(geometry, 1 + seed % 3, stalls, seed)
    check_reorder(geometry, 1 + seed % 3, stalls, seed)


@pytest.mark.parametrize("case", [1, 2, 4])
def test_two_blocks_keep_the_rate(case):
    geometry = FIXED[case]
    ops_a_sample = geometry.M * geometry.groups * geometry.fk * geometry.fn
    one, two = (check_replay(geometry, 2, (0.0, 0.0), samples=n) for n in (3, 5))
    assert two - one == 2 * ops_a_sample
    words = geometry.M * geometry.out_words
    one, two = (check_reorder(geometry, 2, (0.0, 0.0), samples=n) for n in (3, 5))
    assert two - one == 2 * words
