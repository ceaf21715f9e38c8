"""From a network to a plan: foldings, tiles, buffer depths, prediction."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..ir.stage import Network, Wish
from ..target import Cluster
from . import latency as L
from .budget import check_budgets, multiplier_room
from .buffers import shared_depths, stall_free_depths
from .chain import chain_links, cut_layout, layout_stages, with_channel_depths
from .cuts import Chooser, Cut, balanced_cuts
from .errors import BudgetError, CapacityError
from .foldings import DEFAULT_MULTIPLIERS, choose_foldings
from .layout import Layout, check_layout
from .memory import check_memories, memory_cycles
from .neighbours import check_channels, link_cycles
from .plan import Plan, Prediction, StagePlan
from .schedule import Times, run_schedule
from .turns import with_turn_depths

__all__ = ["bottleneck", "paced", "plan_layout", "plan_network", "predict"]

PACED_SAMPLES = 8
"""Samples from which on the paced schedule repeats itself, for any chain whose pipeline holds fewer."""


def plan_network(
    network: Network, image_lanes: int = 1, cluster: Cluster | None = None, choose: Chooser = balanced_cuts
) -> Plan:
    """The plan of one device, or of the boards of ``cluster``, that train ``network``.

    Arrays as the user asked for, the others so that no stage is slower (see foldings); without any such wish as large
    as boards and links hold. Cuts as ``choose`` says; buffers so deep that the schedule never waits for room; both are
    then predictions that simulation confirms. Raises ModelError for an illegal folding or cut, and for a board or link
    that cannot hold what it gets.
    """
    if cluster is None:
        return _plan(network, image_lanes, None, choose, DEFAULT_MULTIPLIERS)
    room = sum(min(DEFAULT_MULTIPLIERS, multiplier_room(network, board)) for board in cluster.boards)
    free = all(stage.array is None and stage.wish == Wish() for stage in network.stages)
    while True:
        try:
            return _plan(network, image_lanes, cluster, choose, room)
        except BudgetError as error:
            if isinstance(error, CapacityError) or not free or room < len(network.stages):
                raise
            room = room * 7 // 8


def _plan(
    network: Network, image_lanes: int, cluster: Cluster | None, choose: Chooser, multipliers: int
) -> Plan:
    foldings = choose_foldings(network, image_lanes, multipliers)
    cuts = tuple(Cut(0) for _ in network.stages)
    if cluster is not None:
        cuts = choose(network, foldings, [multiplier_room(network, board) for board in cluster.boards])
    return plan_layout(network, cut_layout(network, foldings, cuts), image_lanes, cluster)


def plan_layout(
    network: Network, layout: Layout, image_lanes: int = 1, cluster: Cluster | None = None, pace: int = 0
) -> Plan:
    """The plan of a layout: buffers so deep that the schedule never waits for room, and what it is predicted to do.

    ``pace``: cycles a sample that it is meant for, where links or the host make it slower than its engines are.

    Raises ModelError for a layout that is none, BudgetError for a board or link that cannot hold what it gets.
    """
    check_layout(network, layout, len(cluster.boards) if cluster is not None else 1)
    stages = layout_stages(network, layout)
    links = chain_links(network, stages, cluster) if cluster is not None else ()
    names = tuple(board.name for board in cluster.boards) if cluster is not None else ("",)
    plan = Plan(network, stages, image_lanes, Prediction(0, 0, 0, "", 0), names, links)
    pace = max(pace, bottleneck(plan)[0])
    if cluster is not None:
        check_memories(plan, cluster, pace)
        check_channels(plan)
    plan = replace(plan, links=with_channel_depths(links, pace))
    times = paced(plan, pace)
    deep = tuple(
        replace(planned, depths=stall_free_depths(planned, events)) if events.backward else planned
        for planned, events in zip(plan.stages, times.stages, strict=True)
    )
    plan = replace(plan, stages=shared_depths(network.stages, _dealt(replace(plan, stages=deep), pace)))
    if cluster is not None:
        check_budgets(plan, cluster, pace)
    prediction = predict(plan)
    if cluster is not None:
        slower = max(memory_cycles(plan, cluster), link_cycles(plan, cluster))
        prediction = replace(prediction, cycles_per_batch=prediction.cycles_per_batch + slower)
    return replace(plan, prediction=prediction)


def paced(plan: Plan, pace: int) -> Times:
    """The schedule in steady state, a sample in ``pace`` cycles, every crossing of a link as late as may be: what
    buffers are made for."""
    # No version to wait for: the batch is as long as the run.
    endless = replace(plan.network, update=replace(plan.network.update, batch=1 << 20))
    late = tuple(replace(link, latency=link.latency + L.LINK_SPREAD) for link in plan.links)
    trip = 2 * sum(link.latency + L.LINK for link in late)
    samples = PACED_SAMPLES + 2 * len(plan.stages) + trip // pace
    return run_schedule(replace(plan, network=endless, links=late), samples, pace)


def _dealt(plan: Plan, pace: int) -> tuple[StagePlan, ...]:
    """The stages, those that are cut by rows with depths for what waits for its turn."""
    found: list[StagePlan] = []
    for i, whole in enumerate(plan.network.stages):
        parts = [planned for planned in plan.stages if planned.stage.index == i]
        if parts[0].part.cut == "rows":
            trips = [2 * (L.LINK_LONG + max(link.latency for link in plan.links)) / pace for _ in parts]
            parts = with_turn_depths(whole, parts, trips)
        found += parts
    return tuple(found)


def bottleneck(plan: Plan) -> tuple[int, str]:
    """Cycles a sample of the slowest engine or stream, and its name."""
    network = plan.network
    candidates = [(plan.image_words, "image")]
    for planned in plan.stages:
        stage, fold = planned.stage, planned.fold
        backs = not (stage.frozen and stage.dx is None)
        candidates.append(
            (planned.cycles, f"{stage.name}.forward and backward" if backs else f"{stage.name}.forward")
        )
        candidates.append((stage.window.pixels_in * fold.x_words, f"{stage.name}.x"))
        if planned.part.cut == "rows":
            candidates += _passing(plan, planned)
        if stage.pool is not None:
            words = stage.pool.pixels_out * fold.y_words * stage.pool.positions
            candidates.append((words, f"{stage.name}.pool"))
            candidates.append((stage.M * fold.y_words, f"{stage.name}.pool"))
    candidates.append((L.loss_cycles(network.loss), "loss"))
    for link in plan.links:
        for channel in (*link.down, *link.up):
            if not channel.batch:
                candidates.append((channel.words(link.width), f"link {link.index}.{channel.kind}"))
    return max(candidates, key=lambda pair: pair[0])


def _passing(plan: Plan, planned: StagePlan) -> list[tuple[int, str]]:
    """Words of whole tensors that pass a part of the rows, in the layout of the link beside it."""
    whole, name, board = plan.whole(planned), planned.stage.name, planned.board
    x, y = whole.window.pixels_in, math.prod(whole.out_shape[:2])
    found = []
    for kind, link, pixels, here in (
        ("x", board, x, planned.part.first), ("dx", board, x, planned.part.first),
        ("y", board - 1, y, planned.part.last), ("dy", board - 1, y, planned.part.last),
    ):  # fmt: skip
        if here:
            channels = (*plan.links[link].down, *plan.links[link].up)
            words = [
                channel.runs_words(pixels * (channel.high - channel.low))
                for channel in channels
                if channel.kind == kind
            ]
            found += [(each, f"{name}.{kind} of all parts") for each in words]
    return found


def _steady(times: Times, batch: int) -> tuple[int, int]:
    """Results of a batch, at the pace of the slowest, between which every pass of every stage is busy."""
    begin = max((s.first_backward[0] for s in times.stages if s.backward), default=0)
    end = min(int(s.forward[batch - 1][-1]) for s in times.stages)
    inside = [k for k in range(batch) if begin <= times.results[k] <= end]
    return (inside[0], inside[-1]) if len(inside) > 1 else (0, 0)


def predict(plan: Plan) -> Prediction:
    """Runs the schedule for three batches, unpaced; the second and third repeat what every later one does."""
    network = plan.network
    batch = network.update.batch
    pace, name = bottleneck(plan)
    times = run_schedule(plan, 3 * batch)
    results = np.asarray(times.results)
    # Fast stages do not run ahead of slow ones: buffers are short. So their samples keep the slowest one's pace.
    first, last = steady = _steady(run_schedule(plan, batch, pace), batch)
    per_sample = (
        float(results[batch + last] - results[batch + first]) / (last - first)
        if last > first
        else float(pace)
    )
    period = float(results[3 * batch - 1] - results[2 * batch - 1])
    occupancy = network.macs / (plan.multipliers * per_sample)
    return Prediction(per_sample, period, occupancy, name, int(results[0]), steady)
