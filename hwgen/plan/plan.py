"""The plan: every choice that turns a network into one device's gateware, and what it is predicted to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..ir.stage import Network, Stage
from .fold import Fold, Folding
from .layout import USUAL, Storage
from .links import LinkPlan
from .part import WHOLE, Part

__all__ = ["Depths", "Plan", "Prediction", "StagePlan", "image_run", "image_words"]


@dataclass(frozen=True)
class Depths:
    """Capacities of one stage's buffers; 0 where the buffer does not exist.

    ``window_rows``, ``store_rows``, ``col_rows``, ``pool_rows``, ``pool_col_rows`` count row slots (in every
    bank); ``mask_words`` and ``argmax_words`` count words of Pn lanes; ``dy_blocks`` and ``y_blocks`` count
    blocks of b pixels. ``turn_*`` of a part of the rows count pixels that wait for their turn (see turns).
    """

    window_rows: int
    store_rows: int
    col_rows: int
    pool_rows: int
    pool_col_rows: int
    mask_words: int
    argmax_words: int
    dy_blocks: int = 2
    y_blocks: int = 2
    turn_x: int = 0
    turn_y: int = 0
    turn_y_before: int = 0
    turn_dy: int = 0
    turn_sums: int = 0
    turn_back: int = 0
    turn_dx: int = 0
    turn_dx_behind: int = 0
    turn_conv: int = 0
    turn_conv_in: int = 0
    turn_unpooled: int = 0


@dataclass(frozen=True)
class StagePlan:
    """One stage, or a board's part of one, with its folding, tile size and buffer depths.

    ``stage`` is what this board computes (see part.part_stage); ``stage.index`` is the place of the whole one in the
    network.
    """

    stage: Stage
    folding: Folding
    tile: tuple[int, int]
    depths: Depths
    part: Part = WHOLE
    board: int = 0
    storage: Storage = USUAL

    @property
    def fold(self) -> Fold:
        """Derived sizes (Pk, Fk, Fn, words a pixel, ...)."""
        return Fold(self.stage, self.folding)

    @property
    def period(self) -> int:
        """Cycles that a visit to a weight takes at least: those of a block where forward and backward, or rows of
        a column, take turns at one memory, else 1."""
        turns = not self.storage.copy and (self.stage.dx is not None or self.storage.stack > 1)
        return min(self.fold.b, self.stage.M) if turns else 1

    @property
    def cycles(self) -> int:
        """Cycles of one pass over one sample; a short last block may take as many as a whole one."""
        fold = self.fold
        return fold.geometry.blocks * self.period * fold.depth if self.period > 1 else fold.cycles


@dataclass(frozen=True)
class Prediction:
    """What the schedule model says: cycles between samples within a batch, and of a whole batch, drain
    included.

    ``occupancy`` is useful multiply-accumulates / (multipliers × cycles_per_sample) in steady state;
    ``bottleneck`` names the stage (and pass or stream) that sets the pace; ``latency`` is the cycles from a
    sample's first beat to its result. ``steady`` = (first, last): between the results number first and last
    of a batch (from 0) every pass of every stage is busy; there counters give the steady state. first >= last
    where the batch is too short for one.
    """

    cycles_per_sample: float
    cycles_per_batch: float
    occupancy: float
    bottleneck: str
    latency: int
    steady: tuple[int, int] = (0, 0)


def image_run(shape: tuple[int, int, int], lanes: int) -> int:
    """Elements of an image (H, W, C) that begin with a word of ``lanes``: a pixel's, or if they are fewer, a row's."""
    _, width, channels = shape
    return channels if lanes <= channels else width * channels


def image_words(shape: tuple[int, int, int], lanes: int) -> int:
    """Words of an image on the host's stream."""
    run = image_run(shape, lanes)
    return math.prod(shape) // run * math.ceil(run / lanes)


@dataclass(frozen=True)
class Plan:
    """A network with all its choices. ``image_lanes`` is the width of the host's image stream in elements; with more
    than the channels a word holds several pixels of a row.

    ``stages`` are all parts in the order of the chain; ``boards`` names the boards ("": a device by itself), ``links``
    are the cables between them.
    """

    network: Network
    stages: tuple[StagePlan, ...]
    image_lanes: int
    prediction: Prediction
    boards: tuple[str, ...] = ("",)
    links: tuple[LinkPlan, ...] = ()

    @property
    def image_side(self) -> tuple[int, int]:
        """Elements of a run of the host's image stream, and lanes of its words."""
        return image_run(self.network.in_shape, self.image_lanes), self.image_lanes

    @property
    def image_words(self) -> int:
        """Words of an image."""
        return image_words(self.network.in_shape, self.image_lanes)

    def on(self, board: int) -> tuple[StagePlan, ...]:
        """What stands on a board, in order."""
        return tuple(planned for planned in self.stages if planned.board == board)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number that every one of ``stages`` has in the registers of its board."""
        seen = [0] * len(self.boards)
        found = []
        for planned in self.stages:
            found.append(seen[planned.board])
            seen[planned.board] += 1
        return tuple(found)

    def whole(self, planned: StagePlan) -> Stage:
        """The stage of the network that ``planned`` is (a part of)."""
        return self.network.stages[planned.stage.index]

    def alone(self, board: int) -> Plan:
        """The plan of one board: its own stages only, numbered from 0 in its registers."""
        return replace(self, stages=self.on(board))

    @property
    def present(self) -> tuple[int, ...]:
        """Boards that ``stages`` stand on: all, or the one of :meth:`alone`."""
        return tuple(sorted({planned.board for planned in self.stages}))

    @property
    def cables(self) -> tuple[LinkPlan, ...]:
        """Links with an end at a board of ``present``."""
        return tuple(link for link in self.links if {link.index, link.index + 1} & {*self.present})

    @property
    def multipliers(self) -> int:
        """Multipliers of all arrays."""
        return sum(stage.fold.multipliers for stage in self.stages)
