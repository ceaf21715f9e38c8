"""docs/pictures/planner.svg from results/planner.json: rate and useful multipliers over the number of boards.

``python -m benchmarks planner`` draws it too, with its own figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["PICTURE", "draw"]

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "planner.svg"
CLOCK = 200e6
LINES = {
    ("copy, masters here", "125 Gb/s"): ("tab:red", "s", "copy, masters here"),
    ("masters here", "125 Gb/s"): ("tab:orange", "^", "masters here"),
    ("masters in memory", "125 Gb/s"): ("tab:blue", "o", "masters in memory"),
    ("masters in memory", "6 x 10 Gb/s"): ("tab:green", "v", "masters in memory, 6 × 10 Gb/s"),
}
"""Colour, mark and name of each way to store weights and kind of link."""


def draw(figures: Mapping[str, Any], picture: Path = PICTURE) -> None:
    """Draws the rows of the planner's benchmark; the same rows give the same bytes."""
    rows = [row for row in figures["rows"] if row["cycles_per_sample"] is not None]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure = Figure(figsize=(4.2 * len(networks), 6.6), layout="constrained")
    panels = figure.subplots(2, len(networks), sharex=True, squeeze=False)
    for (above, below), network in zip(panels.T, networks, strict=True):
        own = [row for row in rows if row["network"] == network]
        _rates(above, own)
        above.set_title(network)
        for key, (colour, mark, name) in LINES.items():
            line = _line(own, key)
            boards = [row["boards"] for row in line]
            below.plot(boards, [row["useful_percent"] for row in line], color=colour, marker=mark, label=name)
        below.set(xlabel="boards", ylim=(0, 100))
        below.grid(alpha=0.3)
    panels[0][0].set_ylabel("images a second")
    panels[1][0].set_ylabel("useful multipliers, %")
    panels[0][-1].legend(loc="upper left", fontsize=8)
    picture.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "hwgen", "svg.fonttype": "none"}):
        figure.savefig(picture, metadata={"Date": None, "Creator": None})


def _line(rows: list[dict[str, Any]], key: tuple[str, str]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["storage"], row["link"]) == key]


def _rates(panel: Axes, rows: list[dict[str, Any]]) -> None:
    """Rates over boards, and the line on which all multipliers of all boards are always busy."""
    for key, (colour, mark, name) in LINES.items():
        line = _line(rows, key)
        rates = [CLOCK / row["cycles_per_sample"] for row in line]
        panel.plot([row["boards"] for row in line], rates, color=colour, marker=mark, label=name)
    most = max(row["boards"] for row in rows)
    busy = [CLOCK / row["cycles_per_sample"] / row["boards"] * 100 / row["useful_percent"] for row in rows]
    panel.plot(
        [0, most],
        [0, most * sum(busy) / len(busy)],
        color="gray",
        linestyle=":",
        label="all multipliers busy",
    )
    panel.grid(alpha=0.3)


if __name__ == "__main__":
    draw(json.loads((Path(__file__).parent / "results" / "planner.json").read_text()))
