"""A plan as text: what was chosen, how deep every buffer is, what it is predicted to do."""

from __future__ import annotations

from .memory import regions
from .plan import Plan, StagePlan

__all__ = ["describe"]

HEADER = ("stage", "x", "y", "u·pc × Pn", "b", "folds", "cycles", "multipliers", "useful")


def _shape(shape: tuple[int, int, int]) -> str:
    return "×".join(map(str, shape))


def _row(planned: StagePlan, plan: Plan) -> tuple[str, ...]:
    stage, fold, folding = planned.stage, planned.fold, planned.folding
    useful = sum(stage.macs) / (fold.multipliers * plan.prediction.cycles_per_sample)
    groups = f"{stage.groups}·" if stage.groups > 1 else ""
    return (
        stage.name, _shape(stage.in_shape), _shape(stage.out_shape), f"{folding.u}·{folding.pc} × {folding.pn}",
        str(fold.b), f"{groups}{fold.fk}·{fold.fn}", str(planned.cycles), str(fold.multipliers), f"{useful:.1%}",
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _boards(plan: Plan) -> list[str]:
    """Which board holds what, and what every link carries."""
    rows: list[tuple[str, ...]] = [("board", "", "multipliers", "stages")]
    for number, name in enumerate(plan.boards):
        own = plan.on(number)
        stages = ", ".join(f"{planned.stage.name}{_share(planned, plan)}" for planned in own)
        rows.append((str(number), name, str(sum(planned.fold.multipliers for planned in own)), stages))
    lines = ["", "boards, the host at board 0", *_table(rows)]
    rows = [("link", "way", "channel", "elements a sample", "bits", "link words a sample", "credits")]
    for link in plan.links:
        for way, channels in (("down", link.down), ("up", link.up)):
            for channel in channels:
                if channel.stage >= 0:
                    name = f"{channel.kind} of {plan.network.stages[channel.stage].name}"
                    name += " (a batch)" if channel.batch else ""
                    elements, words = channel.pixels * channel.run, channel.words(link.width)
                    numbers = (elements, channel.bits, words, channel.depth)
                    rows.append((str(link.index), way, name, *map(str, numbers)))
    return [
        *lines,
        "",
        f"links (words of {plan.links[0].width} bits, down is away from the host)",
        *_table(rows),
    ]


def _share(planned: StagePlan, plan: Plan) -> str:
    part = planned.part
    if part.cut == "rows":
        own = [turn for turn in part.deal[part.index :: part.count] if turn]
        return f" ({part.high} of {sum(part.deal)} rows in {len(own)} turn{'s' if len(own) > 1 else ''})"
    return "" if part.cut == "whole" else f" ({part.cut.replace('_', ' ')} {part.low}..{part.high - 1})"


def _memory(plan: Plan) -> list[str]:
    """Where masters lie that are in external memory."""
    rows: list[tuple[str, ...]] = [("board", "masters of", "weights", "bytes each", "from byte", "bytes")]
    for region in (each for each in regions(plan) if each.external):
        numbers = (f"{region.count:,}", str(region.stride), f"0x{region.base:x}", f"{region.bytes:,}")
        rows.append((str(region.board), plan.stages[region.part].stage.name, *numbers))
    return ["", "external memory", *_table(rows)] if len(rows) > 1 else []


def _lent(plan: Plan) -> list[str]:
    """Where masters lie that are on the chip of another board."""
    rows: list[tuple[str, ...]] = [("board", "masters of", "weights", "memories", "words", "bits")]
    for region in (each for each in regions(plan) if not each.external):
        own = plan.stages[region.part]
        numbers = (f"{region.count:,}", str(region.lanes), f"{region.words:,}", str(region.bits))
        rows.append((str(region.board), f"{own.stage.name} on {own.board}", *numbers))
    return ["", "masters of other boards on the chip", *_table(rows)] if len(rows) > 1 else []


def describe(plan: Plan) -> str:
    """The plan for people; the same plan gives the same text."""
    network, prediction = plan.network, plan.prediction
    over = f" on {len(plan.boards)} boards" if plan.links else ""
    lines = [
        f"{network.name}: {len(network.stages)} stages{over}, {plan.multipliers} multipliers, "
        f"policy {network.policy}",
        "",
    ]
    lines += _table([HEADER, *(_row(planned, plan) for planned in plan.stages)])
    lines += _boards(plan) if plan.links else []
    depths: list[tuple[str, ...]] = [
        ("stage", "window", "store", "col2im", "pool", "pool adjoint", "mask", "argmax")
    ]
    for planned in plan.stages:
        d = planned.depths
        numbers = (
            d.window_rows, d.store_rows, d.col_rows, d.pool_rows, d.pool_col_rows, d.mask_words, d.argmax_words,
        )  # fmt: skip
        depths.append((planned.stage.name, *(str(n) if n else "-" for n in numbers)))
    lines += ["", "buffers (row slots; mask and argmax in words)", *_table(depths)]
    lines += _memory(plan) + _lent(plan)
    per_sample, per_batch = prediction.cycles_per_sample, prediction.cycles_per_batch
    lines += [
        "",
        f"predicted: {per_sample:,.1f} cycles a sample in steady state, set by {prediction.bottleneck}",
        f"           {per_batch:,.0f} cycles a batch of {network.update.batch}, fill, drain and update included",
        f"           {prediction.occupancy:.1%} of the multipliers busy in steady state",
        f"           {prediction.latency:,} cycles from a sample's first beat to its result",
    ]
    return "\n".join(lines) + "\n"
