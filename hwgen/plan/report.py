"""What a search found, in numbers for people and programs: layers, boards, links, memories, rates."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "RESOURCES", "BoardReport", "LayerReport", "LinkReport", "MemoryReport", "PartReport", "PlanReport", "Use",
]  # fmt: skip

RESOURCES = {
    "dsp": "DSP",
    "bram": "block RAM",
    "uram": "ultra RAM",
    "lut_ram": "LUT RAM",
    "lut": "LUT",
    "ff": "FF",
}
"""Resources of a board, and what people call them."""


@dataclass(frozen=True)
class MemoryReport:
    """``count`` memories of ``depth`` words of ``width`` bits."""

    name: str
    count: int
    depth: int
    width: int


@dataclass(frozen=True)
class PartReport:
    """Units ``low``..``high`` of the layer's cut on a board, and how they are folded.

    ``cycles`` of a pass over a sample; ``busy`` those of the slowest of array, row buffers and pool; ``useful`` share
    of the multipliers' cycles.
    """

    board: int
    low: int
    high: int
    share: float
    u: int
    pc: int
    pn: int
    b: int
    groups: int
    fk: int
    fn: int
    cycles: int
    busy: int
    multipliers: int
    dsp: int
    useful: float
    memories: tuple[MemoryReport, ...]


@dataclass(frozen=True)
class LayerReport:
    """A layer with weights: its cut ("whole" or an axis of ``extent`` units), samples in flight, and parts.

    ``turns`` of a cut by rows, else 1; ``copy`` and ``master`` as layout.Storage.
    """

    name: str
    cut: str
    extent: int
    turns: int
    multiplications: int
    weights: int
    samples_x: float
    samples_masks: float
    samples_argmax: float
    copy: bool
    master: str
    parts: tuple[PartReport, ...]

    @property
    def first(self) -> int:
        """The board of its first part."""
        return self.parts[0].board


@dataclass(frozen=True)
class Use:
    """How much of a resource a board uses, of what a plan may use."""

    resource: str
    used: float
    available: int

    @property
    def share(self) -> float:
        """Of what is available; 0 where there is nothing and nothing is used."""
        return self.used / self.available if self.available else 0.0


@dataclass(frozen=True)
class BoardReport:
    """A board: its layers, what it uses, its fullest resource, cycles of its busiest engine.

    ``memory_bytes_per_batch`` go to and from its external memory.
    """

    index: int
    name: str
    layers: tuple[str, ...]
    uses: tuple[Use, ...]
    fullest: str
    busy: int
    memory_bytes_per_batch: int

    def use(self, resource: str) -> Use:
        """Of one of RESOURCES."""
        return next(use for use in self.uses if use.resource == resource)


@dataclass(frozen=True)
class LinkReport:
    """The cable between board ``index`` and the next: words of ``width`` bits a sample, and Gb/s of ``room_gbps``."""

    index: int
    width: int
    words_down: int
    words_up: int
    gbps_down: float
    gbps_up: float
    room_gbps: float


@dataclass(frozen=True)
class PlanReport:
    """A plan in numbers; docs/plan.md explains each. ``scheduled``: by the full plan's schedule, None without it."""

    network: str
    cluster: str
    batch: int
    image_lanes: int
    clock_mhz: float
    cycles_per_sample: int
    samples_per_second: float
    drain_cycles: int
    update_cycles: int
    cycles_per_batch: int
    samples_per_second_with_updates: float
    scheduled_cycles_per_sample: float | None
    scheduled_cycles_per_batch: float | None
    bottleneck: str
    bound_cycles: int
    bound_by: str
    gap: float
    multiplications: int
    dsp_available: int
    useful: float
    layers: tuple[LayerReport, ...]
    boards: tuple[BoardReport, ...]
    links: tuple[LinkReport, ...]

    @property
    def parts(self) -> int:
        """Of all layers."""
        return sum(len(layer.parts) for layer in self.layers)
