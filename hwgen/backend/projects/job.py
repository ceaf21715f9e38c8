"""What a project is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import TargetError
from ...plan.budget import board_load
from ...plan.kinds import memory_kinds
from ...plan.plan import Plan
from ...target import Board, Link
from ...target_pins import Pins

__all__ = ["OUT", "Expected", "Job", "Maker", "expected", "require_masters_here", "single_device"]

OUT = "out"
"""Folder of what the tools make, below a project's."""


@dataclass(frozen=True)
class Job:
    """A project to make: of board ``index`` of a plan, which is ``board``, in the build of this ``number``.

    ``sources`` are all Verilog files of the build, by path relative to it; ``links`` the cables to the boards before
    and behind it, None where there is none.
    """

    plan: Plan
    index: int
    board: Board
    number: int
    sources: tuple[str, ...]
    links: tuple[Link | None, Link | None] = (None, None)


Maker = Callable[[Job], dict[str, str]]
"""Files of a project by path below its folder. Raises TargetError where none can be made, ``why; what to do``."""


@dataclass(frozen=True)
class Expected:
    """What the plan says that a board takes: multipliers, block RAMs, look-up tables (those that are memory with
    them), flip-flops."""

    dsp: int
    bram: int
    lut: int
    ff: int


def expected(job: Job) -> Expected:
    """The plan's numbers for the board of a job, its memories in the kinds that a project asks for."""
    load = board_load(job.plan, job.index, job.board.device)
    taken = memory_kinds(job.plan, job.index, job.board).taken
    return Expected(
        load.dsp, math.ceil(taken.bram), load.luts + taken.lut + taken.tables, load.ffs + taken.ff
    )


def require_masters_here(job: Job) -> None:
    """Raises TargetError if the board keeps masters in external memory."""
    if any(planned.storage.master != "here" for planned in job.plan.on(job.index)):
        raise TargetError(
            f"{job.board.name} keeps masters in external memory, for which the project has no controller; plan them "
            'with master="here"'
        )


def single_device(job: Job, links: str) -> Pins:
    """The pins of a board that is alone and whose host is at a serial port.

    Raises TargetError if it has no such pins, is one of a chain (``links``: what cables would need), or keeps masters
    in external memory.
    """
    name, pins = job.board.name, job.board.pins
    if len(job.plan.boards) > 1:
        raise TargetError(f"{name} is one of {len(job.plan.boards)} boards; {links}; build for one board")
    require_masters_here(job)
    if pins is None:
        raise TargetError(f"{name} tells no pins; give its file a table [pins] (docs/boards.md)")
    if pins.uart_tx is None:
        raise TargetError(
            f"{name} tells no serial port; give [pins] of its file uart_tx and uart_rx (docs/boards.md)"
        )
    return pins
