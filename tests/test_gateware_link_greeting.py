"""The greeting alone, hello by hello."""

import pytest
from amaranth.sim import Simulator

from hwgen.gateware.link.frames import Kind
from hwgen.gateware.link.greeting import Greeting

PEER = 0x0123_4567_89AB_CDEF


class Visitor:
    """A peer that says what a test wants."""

    def __init__(self):
        self.part = Greeting(16, 100)

    def run(self, bench):
        simulator = Simulator(self.part)
        simulator.add_clock(1e-6)

        async def start(ctx):
            self.ctx = ctx
            ctx.set(self.part.expected, PEER)
            ctx.set(self.part.awake, 1)
            await ctx.tick().repeat(3)
            await bench()

        simulator.add_testbench(start)
        simulator.run()

    async def frame(self, kind, *, epoch=0, good=1):
        """Returns whether it was admitted, and whether it renews the session."""
        ctx, part = self.ctx, self.part
        await ctx.tick().repeat(2)  # a hello's words come before its end
        ctx.set(part.header, {"kind": kind, "epoch": epoch})
        ctx.set(part.good, good)
        ctx.set(part.done, 1)
        answer = ctx.get(part.admitted), ctx.get(part.renewed)
        await ctx.tick()
        ctx.set(part.done, 0)
        return answer

    async def hello(self, session, seen=None, identity=PEER, **options):
        self.ctx.set(self.part.identity, identity)
        hello = {"session": session, "seen": seen is not None, "seen_session": seen or 0}
        self.ctx.set(self.part.hello, hello)
        return await self.frame(Kind.HELLO, **options)

    def flags(self):
        return {
            name for name in ("greeted", "refused", "restarted") if self.ctx.get(getattr(self.part, name))
        }

    def own(self):
        own = self.part.own
        return tuple(self.ctx.get(value) for value in (own.session, own.seen, own.seen_session))


def test_greeted_by_a_hello_that_answers():
    visitor = Visitor()

    async def bench():
        assert visitor.own()[:2] == (1, 0)
        assert await visitor.hello(7, good=0) == (0, 0)
        assert visitor.own()[:2] == (1, 0)
        assert (await visitor.hello(7))[1] == 1
        assert (visitor.own(), visitor.flags()) == ((1, 1, 7), set())
        await visitor.hello(7, seen=2)  # another session of this end
        assert visitor.flags() == set()
        assert (await visitor.hello(7, seen=1))[1] == 0
        assert visitor.flags() == {"greeted"}
        await visitor.hello(7, seen=1)
        assert visitor.flags() == {"greeted"}

    visitor.run(bench)


def test_greeted_by_frames_to_this_session():
    visitor = Visitor()

    async def bench():
        assert await visitor.frame(Kind.DATA, epoch=1) == (0, 0)  # from whom?
        await visitor.hello(7)
        assert await visitor.frame(Kind.DATA, epoch=0) == (0, 0)  # it meant this end before its reset
        await visitor.frame(Kind.CONTROL, epoch=1, good=0)
        assert visitor.flags() == set()
        assert await visitor.frame(Kind.CONTROL, epoch=1) == (1, 0)
        assert visitor.flags() == {"greeted"}
        assert (await visitor.frame(Kind.DATA, epoch=1))[0] == 1
        assert (await visitor.frame(Kind.DATA, epoch=0))[0] == 0

    visitor.run(bench)


def test_a_peer_may_be_reset_before_it_is_greeted():
    visitor = Visitor()

    async def bench():
        await visitor.hello(7)
        assert (await visitor.hello(8))[1] == 1
        assert visitor.own() == (1, 1, 8)
        await visitor.hello(8, seen=1)
        assert visitor.flags() == {"greeted"}

    visitor.run(bench)


@pytest.mark.parametrize(("session", "seen"), [(8, 1), (7, None), (7, 2), (8, None)])
def test_restarted(session, seen):
    """A hello of another session, or, the count having begun anew, one that has not seen this end's."""
    visitor = Visitor()

    async def bench():
        await visitor.hello(7, seen=1)
        await visitor.hello(session, seen=seen)
        assert visitor.flags() == {"restarted"}
        assert visitor.own()[1] == 0
        await visitor.hello(session, seen=1)
        assert (await visitor.frame(Kind.DATA, epoch=1))[0] == 0
        assert visitor.flags() == {"restarted"}

    visitor.run(bench)


@pytest.mark.parametrize("bit", [0, 40, 63])
@pytest.mark.parametrize("known", [False, True])
def test_refused(bit, known):
    visitor = Visitor()

    async def bench():
        if known:
            await visitor.hello(7, seen=1)
        await visitor.hello(7, seen=1, identity=PEER ^ 1 << bit)
        assert visitor.flags() == {"refused"}
        assert visitor.ctx.get(visitor.part.peer) == PEER ^ 1 << bit
        await visitor.hello(7, seen=1)
        assert (await visitor.frame(Kind.DATA, epoch=1))[0] == 0
        assert visitor.flags() == {"refused"}
        assert visitor.own()[1] == 0

    visitor.run(bench)


def test_hellos_go_at_once_and_then_now_and_then():
    visitor = Visitor()

    async def bench():
        ctx, part = visitor.ctx, visitor.part
        for gap in (0, 15, 15):
            await ctx.tick().repeat(gap) if gap else None
            assert ctx.get(part.hello_due) == 1
            ctx.set(part.hello_sent, 1)
            await ctx.tick()
            ctx.set(part.hello_sent, 0)
            assert ctx.get(part.hello_due) == 0
        await visitor.hello(7)  # an answer does not wait
        assert ctx.get(part.hello_due) == 1
        ctx.set(part.awake, 0)
        assert ctx.get(part.hello_due) == 0

    visitor.run(bench)


def test_silence():
    visitor = Visitor()

    async def bench():
        ctx, part = visitor.ctx, visitor.part
        await visitor.hello(7, seen=1)
        await ctx.tick().repeat(99)
        assert ctx.get(part.silent) == 0
        await ctx.tick().repeat(2)
        assert ctx.get(part.silent) == 1
        await visitor.frame(Kind.CONTROL, epoch=0, good=0)
        assert ctx.get(part.silent) == 1
        await visitor.frame(Kind.CONTROL, epoch=0)
        assert (ctx.get(part.silent), visitor.flags()) == (0, {"greeted"})

    visitor.run(bench)
