"""Tensors as words of streams: against the rule of docs/gateware.md, element by element."""

import numpy as np
import pytest
from hwgen.sim.layout import Layout, pack_lanes, unpack_lanes


@pytest.mark.parametrize("width", [1, 4, 7, 8, 12, 16, 18, 24, 31, 32, 33, 40, 47, 57, 61, 62])
@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 9])
def test_lanes_lie_in_a_word_lowest_first(width, lanes):
    rng = np.random.default_rng(width * 100 + lanes)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    values = rng.integers(low, high + 1, (20, lanes))
    values[0], values[1] = low, high
    words = -(-lanes * width // 32)
    packed = pack_lanes(values, width, words)
    assert packed.dtype == np.uint32
    for row, beat in zip(values, packed, strict=True):
        number = sum((int(value) % (1 << width)) << (width * lane) for lane, value in enumerate(row))
        assert int.from_bytes(beat.tobytes(), "little") == number
    assert np.array_equal(unpack_lanes(packed, lanes, width), values)


@pytest.mark.parametrize("spare", [0, 1])
def test_spare_words_are_zero(spare):
    packed = pack_lanes(np.full((3, 2), -1), 16, 1 + spare)
    assert np.array_equal(packed[:, 0], np.full(3, 0xFFFFFFFF))
    assert not packed[:, 1:].any()


@pytest.mark.parametrize(
    ("shape", "groups", "lanes"),
    [
        ((2, 3, 4), 1, 4),
        ((2, 3, 5), 1, 2),
        ((3, 1, 6), 2, 2),
        ((1, 1, 7), 1, 3),
        ((2, 2, 6), 6, 1),
        ((2, 2, 6), 3, 4),
    ],
)
def test_words_of_a_tensor_follow_the_rule(shape, groups, lanes):
    layout = Layout(shape, groups, lanes, 8)
    height, width, channels = shape
    cpg = channels // groups
    words = -(-cpg // lanes)
    tensors = np.random.default_rng(1).integers(1, 100, (3, *shape))
    got = layout.to_lanes(tensors)
    assert got.shape == (3, layout.beats, lanes)
    assert layout.beats == height * width * groups * words
    for sample in range(3):
        for beat in range(layout.beats):
            pixel, word = divmod(beat, groups * words)
            group, i = divmod(word, words)
            for lane in range(lanes):
                channel = i * lanes + lane
                y, x = divmod(pixel, width)
                wanted = tensors[sample, y, x, group * cpg + channel] if channel < cpg else 0
                assert got[sample, beat, lane] == wanted
    flat = got.reshape(-1, lanes)
    assert np.array_equal(layout.to_tensors(flat), tensors)
    assert not layout.padding(flat).any()
    assert layout.padding(flat).size == 3 * layout.beats * lanes - tensors.size


def test_padding_shows_what_lies_in_lanes_past_the_end():
    layout = Layout((1, 2, 5), 1, 3, 8)
    lanes = layout.to_lanes(np.ones((1, 1, 2, 5), np.int64))[0]
    lanes[3, 2] = 9
    assert layout.padding(lanes).tolist() == [[[0]], [[9]]]
    assert np.array_equal(layout.to_tensors(lanes), np.ones((1, 1, 2, 5)))
