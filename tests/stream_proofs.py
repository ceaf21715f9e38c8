"""Benches for proofs of the stream components: what is put in, what must come out."""

from amaranth import *
from formal_bench import Bench
from formal_streams import Side, follow, progress, transfer
from geometry_cases import ops

from hwgen.ir.window import Window2d
from hwgen.numeric import Q, requantise
from hwgen.plan.geometry import Geometry

__all__ = [
    "add", "adjoint", "buffer", "fifo", "fork", "merge", "pack", "relane", "relu", "reorder", "replayed", "requantised",
    "split", "unpack",
]  # fmt: skip

GEOMETRY = Geometry(Window2d(1, 3), 1, 1, cgs=2, fn=2, b=2)


def _single(part, *arguments, reset=True):
    bench = Bench(reset=reset)
    bench.m.submodules.part = dut = part(*arguments)
    return bench, dut


def _ends(bench, dut):
    return bench.drive(dut.i, "i"), bench.drain(dut.o, "o")


def fifo(part, depth, reset=True):
    """A FIFO of words of 2 bits; also its ``level``, ``high`` and exact capacity."""
    bench, dut = _single(part, 2, depth, reset=reset)
    i, o = _ends(bench, dut)
    inside = follow(bench, i, o, depth)
    progress(bench, [i], [o], inside != 0, 3)
    bench.check("level", (dut.level == inside) & (dut.high >= inside) & (dut.high <= depth))
    bench.check("room", dut.i.ready == (inside != depth))
    return bench


def fork(part, n):
    """Every consumer gets every word, once."""
    bench, dut = _single(part, 2, n)
    i = bench.drive(dut.i, "i")
    ends = [bench.drain(port, f"o{k}") for k, port in enumerate(dut.o)]
    come, gone = transfer(bench, [Side(i, [(0,)])], [Side(end, [(0,)]) for end in ends], 2)
    for count, end in zip(gone, ends, strict=True):
        ahead = (count - come[0])[: len(count)]
        bench.check("once", (ahead <= 1) & (~i.fire | ((ahead + end.fire) == 1)))
    progress(bench, [i], ends, C(0), 2)
    return bench


def buffer(part):
    """A register slice."""
    bench, dut = _single(part, 2)
    i, o = _ends(bench, dut)
    progress(bench, [i], [o], follow(bench, i, o, 2) != 0, 2)
    return bench


def _layout(side, period):
    words, at = [], 0
    for size in side.words * (period // side.size):
        words.append((*range(at, at + size), *[None] * (side.lanes - size)))
        at += size
    return words


def relane(part, source, target):
    """Elements of 1 bit."""
    bench, dut = _single(part, 1, source, target)
    i, o = _ends(bench, dut)
    sides = [Side(i, _layout(dut.source, dut.period))], [Side(o, _layout(dut.target, dut.period))]
    come, gone = transfer(bench, *sides, 1)
    progress(bench, [i], [o], come[0] != gone[0], 3)
    return bench


def _words(first, count, P):
    """Words of ``P`` lanes with the elements ``first`` .. of a run."""
    run = [*range(first, first + count), *[None] * (-count % P)]
    return [tuple(run[k : k + P]) for k in range(0, len(run), P)]


def split(part, low, high, P):
    """Channels of 1 bit dealt to two outputs."""
    bench, dut = _single(part, 1, low, high, P)
    i = bench.drive(dut.i, "i")
    ends = [bench.drain(port, f"o{k}") for k, port in enumerate(dut.o)]
    shares = [Side(ends[0], _words(0, low, P)), Side(ends[1], _words(low, high, P))]
    come, gone = transfer(bench, [Side(i, _words(0, low + high, P))], shares, 1)
    # The outputs have their turns, the second one the last: what is asked is that all of a pixel comes.
    moves = Cat(end.ready for end in ends).all() & ~Cat(end.fire for end in ends).any()
    bench.check("progress", bench.since(moves & (come[0] != gone[1]), "late", 3) != 3)
    progress(bench, [i], ends, C(0), 3)
    return bench


def merge(part, low, high, P):
    """Channels of 1 bit from two inputs."""
    bench, dut = _single(part, 1, low, high, P)
    ends = [bench.drive(port, f"i{k}") for k, port in enumerate(dut.i)]
    o = bench.drain(dut.o, "o")
    shares = [Side(ends[0], _words(0, low, P)), Side(ends[1], _words(low, high, P))]
    come, gone = transfer(bench, shares, [Side(o, _words(0, low + high, P))], 1)
    progress(bench, [], [o], (come[0] != gone[0]) & (come[1] != gone[0]), 3)
    progress(bench, ends, [o], C(0), 2 + -(-max(low, high) // P))
    return bench


def pack(part, bits, width):
    """Words of ``bits`` cut into words of ``width``."""
    bench, dut = _single(part, bits, width)
    i, o = _ends(bench, dut)
    come, gone = transfer(bench, [Side(i, [tuple(range(bits))])], [Side(o, _words(0, bits, width))], 1)
    progress(bench, [i], [o], come[0] != gone[0], 2 + dut.beats)
    return bench


def unpack(part, bits, width):
    """Words of ``bits`` put together from words of ``width``."""
    bench, dut = _single(part, bits, width)
    i, o = _ends(bench, dut)
    come, gone = transfer(bench, [Side(i, _words(0, bits, width))], [Side(o, [tuple(range(bits))])], 1)
    progress(bench, [i], [o], come[0] != gone[0], 3)
    return bench


def add(part):
    """Sums of 2 + 3 bits in 4."""
    bench, dut = _single(part, 1, 2, 3, 4)
    a, b, o = bench.drive(dut.a, "a"), bench.drive(dut.b, "b"), bench.drain(dut.o, "o")
    bench.check("together", a.fire == b.fire)
    both = a.joined(b)
    inside = follow(bench, both, o, 1, lambda word: (word[:2].as_signed() + word[2:].as_signed())[:4])
    progress(bench, [a, b], [o], inside != 0, 2)
    return bench


def _signed_lanes(word):
    return [word[:2].as_signed(), word[2:].as_signed()]


def relu(part, train):
    """Two lanes of 2 bits; the mask is checked in training, and absent otherwise."""
    bench, dut = _single(part, 2, 2)
    i, o = _ends(bench, dut)
    mask = bench.drain(dut.mask, "mask")
    bench.m.d.comb += dut.train.eq(train)
    follow(bench, i, o, 1, lambda word: Cat(Mux(lane > 0, lane, 0)[:2] for lane in _signed_lanes(word)))
    progress(bench, [i], [o, mask], C(0), 2)
    if not train:
        bench.check("mask", ~mask.valid)
        return bench
    word = Signal(4, name="masked_word", reset_less=True)
    waits = Signal(name="mask_waits")
    with bench.m.If(i.fire):
        bench.m.d.sync += [word.eq(i.payload), waits.eq(1)]
    with bench.m.Elif(mask.fire):
        bench.m.d.sync += waits.eq(0)
    bench.check("mask", (mask.valid == waits) & ~(i.fire & waits & ~mask.fire))
    bench.check("mask", ~waits | (mask.payload == Cat(lane > 0 for lane in _signed_lanes(word))))
    return bench


def adjoint(part):
    """Two lanes of 2 bits and their mask."""
    bench, dut = _single(part, 2, 2)
    i, mask, o = bench.drive(dut.i, "i"), bench.drive(dut.mask, "mask"), bench.drain(dut.o, "o")
    bench.check("together", i.fire == mask.fire)

    def masked(word):
        return Cat(Mux(word[4 + k], word[2 * k : 2 * k + 2], 0) for k in range(2))

    inside = follow(bench, i.joined(mask), o, 1, masked)
    progress(bench, [i, mask], [o], inside != 0, 2)
    return bench


def requantised(part, frac, to):
    """Sums of 5 bits against a table of hwgen.numeric, and the count of those that saturate."""
    bench, dut = _single(part, 5, frac, Q(*to), 1)
    i, o = _ends(bench, dut)
    table = [requantise([value - 32 * (value > 15)], frac, Q(*to)) for value in range(32)]
    values = Array(C(int(value[0]) % 2 ** to[0], to[0]) for value, _ in table)
    clipped = Array(C(count, 1) for _, count in table)
    inside = follow(bench, i, o, 2, lambda word: values[word])
    progress(bench, [i], [o], inside != 0, 3)
    total, stalled = Signal(32, name="total"), Signal(name="shown_before")
    flags, flag = [Signal(name=f"flag_{k}", reset_less=True) for k in range(2)], clipped[i.payload]
    with bench.m.If(o.fire):
        bench.m.d.sync += [flags[0].eq(Mux(inside == 2, flags[1], flag)), flags[1].eq(flag)]
    with bench.m.Elif(i.fire):
        bench.m.d.sync += [flags[0].eq(Mux(inside == 0, flag, flags[0])), flags[1].eq(flag)]
    shown = o.valid & ~stalled
    bench.m.d.sync += [stalled.eq(o.valid & ~o.fire), total.eq(total + (shown & flags[0]))]
    bench.check("saturated", dut.saturated == total)
    return bench


def reorder(part, blocks):
    """Words of three pixels, two a pixel, in blocks of two pixels."""
    bench, dut = _single(part, GEOMETRY, 2, 1, blocks)
    i, o = _ends(bench, dut)
    order = [(pixel * GEOMETRY.out_words + nf,) for _, pixel, _, nf, _ in ops(GEOMETRY, "sums")]
    straight = [(k,) for k in range(GEOMETRY.M * GEOMETRY.out_words)]
    come, gone = transfer(bench, [Side(i, order)], [Side(o, straight)], 2)
    progress(bench, [i], [o], come[0] != gone[0], 5)
    return bench


def replayed(part, blocks):
    """Words of three pixels, replayed for every chunk; ``allow`` stops new samples at arbitrary times."""
    bench, dut = _single(part, GEOMETRY, 2, 1, blocks)
    allow = bench.any(1, "allow")
    bench.m.d.comb += dut.allow.eq(allow)
    i = bench.drive(dut.i, "i")
    o = bench.drain(dut.o, "o")
    order = [(pixel * GEOMETRY.out_words + nf,) for _, pixel, _, nf, _ in ops(GEOMETRY, "backward")]
    straight = [(k,) for k in range(GEOMETRY.M * GEOMETRY.out_words)]
    dy = o.of(dut.o.payload.dy)
    come, gone = transfer(bench, [Side(i, straight)], [Side(dy, order)], 2)
    progress(bench, [], [o], allow & (come[0] != gone[0]), 6)
    return bench
