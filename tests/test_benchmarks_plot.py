"""The picture of the planner's benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.plot_planner import LINES, PICTURE, draw

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "planner.json"


def test_the_picture_of_docs_is_that_of_the_results(tmp_path: Path) -> None:
    picture = tmp_path / "made" / "planner.svg"
    draw(json.loads(RESULTS.read_text()), picture)
    assert picture.read_bytes() == PICTURE.read_bytes()


def test_every_way_of_storing_has_a_line(tmp_path: Path) -> None:
    rows = json.loads(RESULTS.read_text())["rows"]
    assert {(row["storage"], row["link"]) for row in rows} == set(LINES)


def test_a_pace_moves_its_mark(tmp_path: Path) -> None:
    figures = json.loads(RESULTS.read_text())
    found = next(row for row in figures["rows"] if row["network"] == "vgg16" and row["boards"] == 83)
    found["cycles_per_sample"] //= 2
    draw(figures, tmp_path / "other.svg")
    text = (tmp_path / "other.svg").read_text()
    assert text != PICTURE.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
