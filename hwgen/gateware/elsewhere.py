"""All of a board that has to do with masters that do not lie beside their weights: its own, and those lent to it."""

from __future__ import annotations

from amaranth import *
from amaranth.lib import wiring

from ..plan.links import masters_kind, updates_kind
from ..plan.memory import Region, board_regions, own_region
from ..plan.plan import Plan
from .memory import BoardMemory
from .neighbour import ChipRegion, MasterWords

__all__ = ["MastersElsewhere"]


class MastersElsewhere:
    """``regions`` on board ``board``, in the order of their numbers: those in external memory behind ``memory`` (None:
    none), those on the chip for parts beside it. ``own``: the ways to masters of its own parts on other boards."""

    def __init__(self, plan: Plan, board: int):
        self.plan, self.board = plan, board
        self.regions = board_regions(plan, board)
        external = [region for region in self.regions if region.external]
        self.memory = BoardMemory(external) if external else None
        self.lent = [ChipRegion(region) for region in self.regions[len(external) :]]
        self.parts = [k for k, planned in enumerate(plan.stages) if planned.board == board]
        found = (own_region(plan, part) for part in self.parts)
        self.own = [MasterWords(region) for region, _ in filter(None, found) if not region.external]

    @property
    def quiet(self) -> Value:
        """No new master of an own part is on its way to another board."""
        return Cat(words.quiet for words in self.own).all() if self.own else Const(1)

    def join(self, m, core, host) -> None:
        """Connects regions to stages, to links and to the host."""
        number = host.stage - len(core.stages)
        chosen = host.stage >= len(core.stages)
        index = Cat(host.host.address, host.host.pe)
        busy, first = [], 0
        if self.memory is not None:
            m.submodules.memory = block = self.memory
            first = len(self.regions) - len(self.lent)
            wiring.connect(m, block.memory, wiring.flipped(core.memory))
            for k, region in enumerate(self.regions[:first]):
                engine = self._engine(core, region)
                wiring.connect(m, getattr(block, f"masters_{k}"), engine.masters)
                wiring.connect(m, engine.updates, getattr(block, f"updates_{k}"))
            own = chosen & (number < first)
            m.d.comb += [
                block.region.eq(number),
                block.index.eq(index),
                block.value.eq(host.host.value),
                block.load.eq(host.host.load & own),
                block.peek.eq(host.host.peek & own),
                host.bad_memory.eq(block.error),
            ]
            busy.append(block.busy)
            with m.If(own):
                m.d.comb += host.peeked.eq(block.peeked)
        for k, lent in enumerate(self.lent):
            m.submodules[f"lent_{k}"] = lent
            far = self.plan.stages[lent.region.part].board
            updates, masters = self._ports(core, lent.region.part, far)
            wiring.connect(m, updates, lent.updates)
            wiring.connect(m, lent.masters, masters)
            own = chosen & (number == first + k)
            m.d.comb += [
                lent.index.eq(index),
                lent.value.eq(host.host.value),
                lent.load.eq(host.host.load & own),
                lent.peek.eq(host.host.peek & own),
            ]
            busy.append(lent.busy)
            with m.If(own):
                m.d.comb += host.peeked.eq(lent.peeked)
        for k, words in enumerate(self.own):
            m.submodules[f"master_words_{k}"] = words
            engine = self._engine(core, words.region)
            updates, masters = self._ports(core, words.region.part, words.region.board)
            wiring.connect(m, engine.updates, words.updates)
            wiring.connect(m, words.masters, engine.masters)
            wiring.connect(m, words.sent, updates)
            wiring.connect(m, masters, words.received)
        if busy:
            m.d.comb += host.busy.eq(Cat(busy).any())

    def _engine(self, core, region: Region):
        return core.stages[self.parts.index(region.part)]

    def _ports(self, core, part: int, far: int):
        """The streams of a part's new masters and of its masters, over the link to board ``far``."""
        side = "down" if far > self.board else "up"
        return tuple(
            wiring.flipped(getattr(core, f"{side}_{kind(part)}")) for kind in (updates_kind, masters_kind)
        )
