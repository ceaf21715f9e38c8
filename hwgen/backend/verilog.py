"""Verilog of a plan: every distinct tile, stage and link end once, and the devices that put them together."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import ToolError
from ..plan.plan import Plan
from .kept import Kept
from .requests import TOP, Request, board_top, build_number, link_module, requests

__all__ = ["TOP", "Emission", "board_top", "build_number", "emit", "emit_modules", "link_module"]

LARGE = 1000
"""Multipliers from which on starting further processes pays."""
MOST_PROCESSES = 8
"""Each takes up to 0.7 GB for a board of 3,600 multipliers."""


@dataclass(frozen=True)
class Emission:
    """Verilog ``files`` by path; how many modules were ``made``, taken from those ``kept``, found ``damaged`` there."""

    files: dict[str, str]
    made: int
    kept: int
    damaged: int


def emit(plan: Plan) -> dict[str, str]:
    """Verilog files by path. The same plan gives the same bytes.

    A stage that differs from another one only in its name shares its module, and so do tiles. Raises
    ToolError if Yosys breaks off, as it does on a full disk.
    """
    return emit_modules(plan).files


def emit_modules(
    plan: Plan, kept: Kept | None = None, progress: Callable[[int, int], None] = lambda boards, of: None
) -> Emission:
    """As :func:`emit`; modules found in ``kept`` are not made again, and others are put there as soon as they are made.

    ``progress`` is told for how many boards, of how many, everything is there.
    """
    wanted = requests(plan)
    texts: dict[str, str] = {}
    if kept is not None:
        texts = {one.name: text for one in wanted if (text := kept.get(one.key)) is not None}
    missing = [one for one in wanted if one.name not in texts]
    found = len(texts)
    for one, text in _made(missing, plan.multipliers):
        texts[one.name] = text
        if kept is not None:
            kept.put(one.key, text)
        open_boards = {one.board for one in missing if one.name not in texts}
        progress(len(plan.boards) - len(open_boards), len(plan.boards))
    if kept is not None and missing:
        kept.prune()
    files = {f"verilog/{one.name}.v": texts[one.name] for one in wanted}
    return Emission(files, len(missing), found, kept.damaged if kept is not None else 0)


def _made(missing: Sequence[Request], multipliers: int) -> Iterator[tuple[Request, str]]:
    """Every request with its text, as they are done; in several processes if that pays."""
    processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(missing))
    if processes < 2 or multipliers < LARGE:
        yield from ((one, one.text()) for one in missing)
        return
    with _processes(processes) as pool:
        waiting: dict[Future[str], Request] = {pool.submit(one.text): one for one in missing}
        try:
            yield from ((waiting[done], done.result()) for done in as_completed(waiting))
        except BrokenProcessPool:
            raise ToolError(
                "emission: a process that makes modules was killed; it may have had too little memory"
            ) from None


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end at once if the block is left early; Ctrl-C reaches only this one."""
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(
        count, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        for worker in list((pool._processes or {}).values()):
            worker.kill()
        pool.shutdown()  # waits; futures that were cancelled would trip over the broken pool (CPython 3.11)
        raise
