"""An AXI4 memory for Amaranth's simulator: random latency and stalls, and a check of every rule that it relies on."""

from collections import deque

import numpy as np

__all__ = ["AxiMemory"]

CHANNELS = {
    "aw": ("addr", "len", "size", "burst"),
    "w": ("data", "strb", "last"),
    "ar": ("addr", "len", "size", "burst"),
}


class AxiMemory:
    """``words`` 64-bit words behind ``bus``; ``data`` holds their bytes. ``late``: a write address is taken only when
    its first word is there."""

    def __init__(self, bus, words, seed=0, stall=0.0, latency=5, late=False):
        self.bus, self.size = bus, 8 * words
        self.rng, self.stall, self.latency, self.late = np.random.default_rng(seed), stall, latency, late
        self.data = bytearray(self.rng.bytes(self.size))
        self.reads, self.writes, self.words, self.answers = deque(), deque(), deque(), deque()
        self.bursts = []
        self.cycle = 0

    def coin(self):
        return int(self.rng.random() >= self.stall)

    def due(self):
        return self.cycle + self.latency + int(self.rng.integers(0, self.latency + 1) if self.stall else 0)

    def check(self, addr, length, size, burst):
        assert (size, burst) == (3, 1)
        assert addr % 8 == 0
        assert addr // 4096 == (addr + 8 * length) // 4096
        assert addr + 8 * length + 8 <= self.size
        self.bursts.append(length + 1)

    async def run(self, ctx):
        """A testbench that serves the bus for ever."""
        bus, held = self.bus, {}
        while True:
            first = not self.late or ctx.get(bus.wvalid) or self.words
            ctx.set(bus.arready, int(self.coin() and len(self.reads) < 15))
            ctx.set(bus.awready, int(self.coin() and len(self.writes) < 15 and bool(first)))
            ctx.set(bus.wready, int(self.coin() and len(self.words) < 15))
            if not ctx.get(bus.bvalid) and self.answers and self.answers[0] <= self.cycle and self.coin():
                ctx.set(bus.bvalid, 1)
            if not ctx.get(bus.rvalid) and self.reads and self.reads[0][2] <= self.cycle and self.coin():
                addr, left, _ = self.reads[0]
                ctx.set(bus.rdata, int.from_bytes(self.data[addr : addr + 8], "little"))
                ctx.set(bus.rlast, int(left == 0))
                ctx.set(bus.rvalid, 1)
            moved = {}
            for way, names in CHANNELS.items():
                valid, ready = ctx.get(getattr(bus, f"{way}valid")), ctx.get(getattr(bus, f"{way}ready"))
                payload = tuple(ctx.get(getattr(bus, f"{way}{name}")) for name in names)
                if way in held:
                    assert valid, f"{way} taken back"
                    assert payload == held[way], f"{way} changed"
                held.pop(way, None)
                if valid and ready:
                    moved[way] = payload
                elif valid:
                    held[way] = payload
            given = ctx.get(bus.rvalid) and ctx.get(bus.rready)
            answered = ctx.get(bus.bvalid) and ctx.get(bus.bready)
            await ctx.tick()
            self.cycle += 1
            self.step(moved)
            if given:
                ctx.set(bus.rvalid, 0)
                addr, left, due = self.reads.popleft()
                if left:
                    self.reads.appendleft((addr + 8, left - 1, due))
            if answered:
                ctx.set(bus.bvalid, 0)
                self.answers.popleft()

    def step(self, moved):
        """What the handshakes of a cycle do."""
        if "ar" in moved:
            self.check(*moved["ar"])
            self.reads.append((moved["ar"][0], moved["ar"][1], self.due()))
        if "aw" in moved:
            self.check(*moved["aw"])
            self.writes.append(list(moved["aw"][:2]))
        if "w" in moved:
            self.words.append(moved["w"])
        while self.words and self.writes:
            data, strobe, last = self.words.popleft()
            addr, left = self.writes[0]
            assert last == (left == 0), "wlast"
            for k in range(8):
                if strobe >> k & 1:
                    self.data[addr + k] = data >> (8 * k) & 255
            self.writes[0] = [addr + 8, left - 1]
            if last:
                self.writes.popleft()
                self.answers.append(self.due())
