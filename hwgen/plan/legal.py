"""Whether a layout could be one of a network: foldings and parts, each judged by itself."""

from __future__ import annotations

from ..errors import ModelError
from ..ir.stage import Network, Stage
from .cuts import axis_channels, groups_problem, within_groups
from .fold import Fold, Folding, legal_u
from .foldings import MAX_PES
from .layout import Layout, Placement, check_layout
from .part import CUTS, part_stage

__all__ = ["require_legal"]

CHANNELS = ("output_channels", "input_channels", "groups")
"""Cuts whose parts are runs of channels."""


def require_legal(network: Network, layout: Layout, boards: int) -> None:
    """Raises ModelError naming everything that cannot be: parts that are none of a stage, and foldings."""
    count = len(network.stages)
    for i, placement in enumerate(layout):
        if not 0 <= placement.stage < count:
            raise ModelError(
                f"layout[{i}]: stage {placement.stage}; the network has {count}, give 0..{count - 1}"
            )
    check_layout(network, layout, boards)
    problems: list[str] = []
    for index, stage in enumerate(network.stages):
        parts = [placement for placement in layout if placement.stage == index]
        _check_parts(stage, parts, problems)
    if not problems:
        for placement in layout:
            stage = network.stages[placement.stage]
            _check_folding(part_stage(stage, placement.part, placement.board), placement.folding, problems)
    if problems:
        raise ModelError(problems)


def _check_parts(stage: Stage, parts: list[Placement], problems: list[str]) -> None:
    cuts, counts = ({getattr(each.part, name) for each in parts} for name in ("cut", "count"))
    cut = parts[0].part.cut
    if len(cuts) > 1 or counts != {len(parts)} or (cut == "whole") != (len(parts) == 1):
        problems.append(
            f"{stage.name}: {len(parts)} parts with cut {', '.join(sorted(cuts))} and count "
            f"{', '.join(map(str, sorted(counts)))}; one part is whole, several have one cut and their count"
        )
    elif cut not in ("whole", *CUTS):
        problems.append(f"{stage.name}: cut {cut!r}; give whole, {', '.join(CUTS)}")
    elif cut in CHANNELS:
        _check_channels(stage, cut, parts, problems)


def _check_channels(stage: Stage, cut: str, parts: list[Placement], problems: list[str]) -> None:
    if cut not in (("groups", "output_channels") if stage.groups > 1 else CHANNELS[:2]):
        problems.append(
            f"{stage.name}: cut by {cut} with {stage.groups} groups; a layer with groups is cut by them, "
            "or by output channels within them"
        )
        return
    extent, at = axis_channels(stage, cut), 0
    for placement in parts:
        part = placement.part
        if part.low != at or part.high <= at:
            problems.append(
                f"{stage.name}: part {part.index} has {cut} {part.low}..{part.high}, the one before ends at {at}; "
                f"parts follow one another from 0 to {extent}, none empty"
            )
            return
        at = part.high
        if cut == "output_channels" and not within_groups(stage, part.low, part.high):
            problems.append(f"{stage.name}: part {part.index}: {groups_problem(stage, part.low, part.high)}")
            return
    if at != extent:
        problems.append(f"{stage.name}: parts have {at} {cut} of {extent}; give all of them")


def _check_folding(stage: Stage, folding: Folding, problems: list[str]) -> None:
    name, found = stage.name, len(problems)
    for what, value, most in (
        ("pc", folding.pc, stage.cin),
        ("pn", folding.pn, stage.N),
        ("b", folding.b, stage.M),
    ):
        if not 1 <= value <= most:
            problems.append(f"{name}: {what} = {value} is outside 1..{most}")
    if folding.u not in legal_u(stage):
        problems.append(f"{name}: u = {folding.u} is not 1, kw or kh·kw; legal u: {legal_u(stage)}")
    if len(problems) > found:
        return
    fold = Fold(stage, folding)
    for what, value in (("PEs", fold.pk * fold.pn), ("weights a PE", fold.depth)):
        if value > MAX_PES:
            problems.append(f"{name}: {value} {what}; the host can number {MAX_PES}; give another folding")
