"""The step of a weight in a tile, round(rate·dW / 2**shift), from products of dW's pieces: a unit of logic beside a
multiplier."""

from __future__ import annotations

from amaranth import *

from .arithmetic import mix32, round_shift, saturate
from .pipeline import delayed
from .shape import CHUNK

__all__ = ["operands", "piece_of", "random_bits", "select_row", "step_of", "stepped"]


def select_row(m, name, row, words):
    """The word of a row, of those of a column."""
    selected = Signal.like(words[0], name=name)
    with m.Switch(row):
        for i, word in enumerate(words):
            with m.Case(i):
                m.d.comb += selected.eq(word)
    return selected


def piece_of(m, shape, name, chunk, dw):
    """Piece ``chunk`` of dW; the top one is signed."""
    piece = Signal(signed(CHUNK + 1), name=name)
    with m.Switch(chunk):
        for c in range(shape.chunks):
            with m.Case(c):
                top = c == shape.chunks - 1
                m.d.comb += piece.eq((dw >> (CHUNK * c)) if top else dw[CHUNK * c : CHUNK * (c + 1)])
    return piece


def operands(m, shape, name, update, x, dy, rate, piece):
    """What a gradient's multiplier takes: x and dy, in an update the rate and a piece of dW."""
    a = Signal(signed(max(shape.x, shape.rate)), name=f"grad_a_{name}", reset_less=True)
    b = Signal(signed(max(shape.dy, CHUNK + 1)), name=f"grad_b_{name}", reset_less=True)
    m.d.sync += [a.eq(Mux(update, rate, x)), b.eq(Mux(update, piece, dy))]
    return a, b


def step_of(m, shape, name, phase, piece, product, random):
    """The step, and whether dW is not 0, of the weight whose last piece is in phase[5].

    Horner's rule, top piece first. ``piece`` is that of phase[1], ``product`` of phase[3], ``random`` of phase[4].
    """
    scaled = Signal(signed(shape.grad + shape.rate), name=f"scaled_{name}", reset_less=True)
    some = Signal(name=f"some_{name}", reset_less=True)
    width = max(shape.grad + shape.rate - shape.shift, 1) + 1
    step = Signal(signed(width), name=f"step_{name}", reset_less=True)
    with m.If(phase[1].update):
        m.d.sync += some.eq(Mux(phase[1].first, 0, some) | piece.any())
    with m.If(phase[3].update):
        m.d.sync += scaled.eq(Mux(phase[3].first, 0, (scaled << CHUNK)[: len(scaled)]) + product)
    with m.If(phase[4].update):
        m.d.sync += step.eq(round_shift(scaled, shape.shift, random))
    return step, delayed(m, some, 3, f"some_{name}")[-1]


def stepped(m, shape, name, phase, difference, zero, target):
    """Drives the master that is written, from master - step a cycle before; ``phase`` as step_of has it.

    Returns whether it was clipped, and whether the step was 0 of a dW that was not (``zero``, of the cycle before).
    """
    late = Signal.like(difference, name=f"difference_{name}", reset_less=True)
    late_zero = Signal(name=f"zero_step_{name}", reset_less=True)
    m.d.sync += [late.eq(difference), late_zero.eq(zero)]
    value, clipped = saturate(m, late, shape.master, f"stepped_{name}")
    m.d.comb += target.eq(value)
    done = phase[6].update & phase[6].last
    return done & clipped, done & late_zero


def random_bits(m, shape, name, index):
    """``shift`` random bits, two cycles later: a hash of ``index``, to which the key is added.

    Model: hwgen.numeric.hash_words. A register before and between its two rounds.
    """
    shift = shape.shift
    place, mixed = Signal(32, name=f"index_{name}"), Signal(32, name=f"mixed_{name}")
    m.d.sync += [place.eq(index), mixed.eq(mix32(m, place, f"hash_{name}"))]
    bits = mix32(m, mixed, f"random_{name}")
    if shift <= 0:
        return Const(0, 1)
    return (bits >> (32 - shift)) if shift <= 32 else (bits << (shift - 32))
