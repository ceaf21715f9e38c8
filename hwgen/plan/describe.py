"""A plan as text: what was chosen, how deep every buffer is, what it is predicted to do."""

from __future__ import annotations

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
        str(fold.b), f"{groups}{fold.fk}·{fold.fn}", str(fold.cycles), str(fold.multipliers), f"{useful:.1%}",
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def describe(plan: Plan) -> str:
    """The plan for people; the same plan gives the same text."""
    network, prediction = plan.network, plan.prediction
    lines = [
        f"{network.name}: {len(plan.stages)} stages, {plan.multipliers} multipliers, policy {network.policy}",
        "",
    ]
    lines += _table([HEADER, *(_row(planned, plan) for planned in plan.stages)])
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
    per_sample, per_batch = prediction.cycles_per_sample, prediction.cycles_per_batch
    lines += [
        "",
        f"predicted: {per_sample:,.1f} cycles a sample in steady state, set by {prediction.bottleneck}",
        f"           {per_batch:,.0f} cycles a batch of {network.update.batch}, fill, drain and update included",
        f"           {prediction.occupancy:.1%} of the multipliers busy in steady state",
        f"           {prediction.latency:,} cycles from a sample's first beat to its result",
    ]
    return "\n".join(lines) + "\n"
