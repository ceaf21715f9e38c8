"""One direction of a link under an arbitrary channel, for proofs."""

from amaranth import *
from formal_bench import Bench
from formal_streams import follow

from hwgen.gateware.stream import Fifo

__all__ = ["crossing", "direction"]

WIDTH = 30
BITS = 1
FRAME = 2


class Cable:
    """Carries frames from a sender to a receiver: each may be lost, damaged, or come twice, as the solver likes.

    Without buffers: how long a word is on its way is in the stalls of the sender and the delay of the answers.
    """

    def __init__(self, bench, source, target, faults):
        m = bench.m
        lose, damage, again, pace = (bench.any(1, name) for name in ("lose", "damage", "again", "pace"))
        noise = bench.any(12, "noise")
        inside, losing, damaging = Signal(name="in_frame"), Signal(name="losing"), Signal(name="damaging")
        repeating, at, size = Signal(name="repeating"), Signal(2, name="repeat_at"), Signal(2, name="size")
        lost, damaged = Mux(inside, losing, lose), Mux(inside, damaging, damage)
        word = Signal(WIDTH + 1, name="cable_word")
        kept = [Signal(WIDTH + 1, name=f"kept_{k}", reset_less=True) for k in range(FRAME + 2)]
        step = source.valid & source.ready
        last = source.payload.last
        m.d.comb += [
            source.ready.eq(pace & ~repeating),
            word.eq(source.payload.as_value()),
            target.i.as_value().eq(word),
            target.i_valid.eq(step & ~lost | repeating),
            target.up.eq(1),
        ]
        with m.If(repeating):
            m.d.comb += word.eq(Array(kept)[at])
            m.d.sync += [at.eq(at + 1), repeating.eq(at != size)]
        with m.Elif(damaged):
            m.d.comb += word.eq(Mux(last, 1, noise) | Value.cast(last) << WIDTH)
        with m.If(step):
            m.d.sync += [inside.eq(~last), losing.eq(lost), damaging.eq(damaged), at.eq(at + 1)]
            with m.Switch(at):
                for k, keep in enumerate(kept):
                    with m.Case(k):
                        m.d.sync += keep.eq(word)
            with m.If(last):
                m.d.sync += [size.eq(at), at.eq(0), repeating.eq(again & ~lost)]
        self.faulty = lose | damage | again | ~pace
        if not faults:
            bench.assume(~(lose | damage | again))


def direction(parts, depths, channel, *, faults=True, limit=None):
    """Assembler, replay ring and sender; a cable; receiver, order, grants and a buffer for every channel. What the
    receiver tells the sender goes by a message that is written at an arbitrary time and read, or lost, later.

    Properties "count" (never more words under way on a channel than its buffer holds) and "data" (order and value of
    ``channel``), "room" (no buffer overflows); with ``limit`` also "progress": when the cable has behaved, the messages
    have come and the users have taken for that many cycles, a word that waits comes out.
    """
    bench = Bench(reset=False)
    m = bench.m
    m.submodules.assembler = assembler = parts.assembler.Assembler(WIDTH, depths, FRAME)
    m.submodules.ring = ring = parts.ring.ReplayRing(WIDTH, 16, FRAME, 8)
    m.submodules.sender = sender = parts.sender.Sender(WIDTH, 8)
    m.submodules.receiver = receiver = parts.receiver.Receiver(WIDTH, FRAME)
    m.submodules.order = order = parts.order.Order()
    m.submodules.grants = grants = parts.grants.Grants(depths, depths)
    come = [bench.drive(port, f"tx{k}") for k, port in enumerate(assembler.i)]
    for end in come:
        bench.assume(end.payload[BITS:] == 0)
    m.d.comb += [
        assembler.open.eq(ring.open),
        assembler.room.eq(ring.room),
        ring.word.eq(assembler.word),
        ring.word_valid.eq(assembler.word_valid),
        ring.frame.eq(assembler.frame),
        ring.frame_valid.eq(assembler.frame_valid),
        ring.enabled.eq(1),
        ring.start.eq(sender.start),
        ring.read.eq(sender.read),
        ring.between.eq(sender.between),
        sender.next.eq(ring.next),
        sender.next_valid.eq(ring.next_valid),
        sender.payload.eq(ring.payload),
        sender.position.eq(ring.position),
        sender.running.eq(1),
        sender.greeted.eq(1),
        order.done.eq(receiver.done),
        order.good.eq(receiver.good),
        order.header.eq(receiver.header),
        order.admitted.eq(1),
        receiver.accept.eq(order.accept),
        grants.channel.eq(receiver.o.channel),
        grants.word_valid.eq(receiver.o_valid),
    ]
    cable = Cable(bench, sender.o, receiver, faults)
    calm = _answers(bench, order, grants, ring, assembler) & ~cable.faulty

    ends = []
    for k, depth in enumerate(depths):
        m.submodules[f"rx{k}"] = fifo = Fifo(WIDTH, depth)
        m.d.comb += [
            fifo.i.payload.eq(receiver.o.data),
            fifo.i.valid.eq(receiver.o_valid & (receiver.o.channel == k)),
        ]
        m.d.sync += grants.level[k].eq(fifo.level)  # as late as that of a Crossing
        bench.check("room", ~fifo.i.valid | fifo.i.ready)
        ends.append(bench.drain(fifo.o, f"rx{k}"))
        calm &= ends[k].ready
    inside = follow(bench, come[channel], ends[channel], depths[channel])
    if limit is not None:
        waits = bench.since(calm & (inside != 0) & ~ends[channel].fire, "waited", limit)
        bench.check("progress", waits != limit)
        refused = bench.since(calm & come[channel].valid & ~come[channel].fire, "refused", limit)
        bench.check("progress", refused != limit)
    return bench


def _answers(bench, order, grants, ring, assembler):
    """The way back. Returns: it behaves in this cycle."""
    m = bench.m
    tell, hear, drop = (bench.any(1, name) for name in ("tell", "hear", "drop"))
    full, acknowledge, credit = (
        Signal(name="told"),
        Signal.like(order.acknowledge),
        Signal.like(grants.credit),
    )
    # A sender tells at most once in three cycles: that is its shortest data frame.
    recent = Signal(2, name="told_recently")
    writes = tell & ~full & (recent == 0)
    m.d.comb += [
        order.told.eq(writes),
        grants.told.eq(writes),
        ring.acknowledge.eq(acknowledge),
        ring.acknowledge_valid.eq(full & hear & ~drop),
        assembler.credit.eq(credit),
        assembler.credit_valid.eq(full & hear & ~drop),
    ]
    m.d.sync += recent.eq(Cat(writes, recent[0]))
    with m.If(writes):
        m.d.sync += [full.eq(1), acknowledge.eq(order.acknowledge), credit.eq(grants.credit)]
    with m.Elif(hear | drop):
        m.d.sync += full.eq(0)
    return tell & hear & ~drop


def crossing(part, depth):
    """A FIFO between two clocks of arbitrary rates: each domain moves in the cycles that the solver likes."""
    bench = Bench(reset=False, domains=("write", "read"))
    writes, reads = bench.any(1, "write_edge"), bench.any(1, "read_edge")
    dut = part(BITS, depth, writer="write", reader="read")
    bench.m.submodules.part = EnableInserter({"write": writes, "read": reads})(dut)
    # A word moves where the domain does.
    i, o = bench.drive(dut.i, "i", moves=writes), bench.drain(dut.o, "o")
    bench.assume(reads | ~o.ready)
    inside = follow(bench, i, o, dut.slots)
    edges = bench.since((inside != 0) & writes & reads & o.ready & ~o.fire, "waited", 6)
    bench.check("progress", edges != 6)
    bench.check("level", dut.level <= dut.slots)
    return bench
