"""Reports of plans: parts sum to the network, links carry what the full plan's channels do, text and pictures."""

import itertools
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from plan_cases import CASES, chain, network, planned

from hwgen.plan.budget import dsps
from hwgen.plan.file import plan_from_file
from hwgen.plan.picture import picture
from hwgen.plan.propose import propose
from hwgen.plan.report import RESOURCES
from hwgen.plan.report_text import WIDTH, report_text
from hwgen.plan.search.search import Search

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", CASES)
def test_parts_sum_to_the_network(name):
    made, cluster, file = planned(name)
    report = file.report
    assert report.multiplications == made.macs == sum(layer.multiplications for layer in report.layers)
    assert [layer.name for layer in report.layers] == [stage.name for stage in made.stages]
    for layer in report.layers:
        bounds = [(part.low, part.high) for part in layer.parts]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == layer.extent
        assert all(before[1] == after[0] for before, after in itertools.pairwise(bounds))
        assert sum(part.share for part in layer.parts) == pytest.approx(1, abs=1e-3)  # 4 decimals each
    assert len(report.boards) == len(cluster.boards)
    assert len(report.links) == len(cluster.links)
    for board in report.boards:
        own = [part for layer in report.layers for part in layer.parts if part.board == board.index]
        assert sum(part.dsp for part in own) == board.use("dsp").used
        assert board.busy == max(part.busy for part in own) <= report.cycles_per_sample
        assert len(board.layers) == len(own)
        assert all(use.used <= use.available for use in board.uses)
        assert board.use(board.fullest).share == max(use.share for use in board.uses)
        assert [use.resource for use in board.uses] == list(RESOURCES)


@pytest.mark.parametrize("name", CASES)
def test_the_full_plan_agrees(name):
    made, cluster, file = planned(name)
    report, plan = file.report, plan_from_file(file, made)
    parts = sorted(
        (part.board, layer.name, part) for layer in report.layers for part in layer.parts
    )  # fmt: skip
    full = sorted((planned.board, made.stages[planned.stage.index].name, planned) for planned in plan.stages)
    for (_, _, part), (_, _, own) in zip(parts, full, strict=True):
        assert (part.fk, part.fn, part.cycles) == (own.fold.fk, own.fold.fn, own.fold.cycles)
        assert part.multipliers == own.fold.multipliers
        assert part.dsp == dsps(own, cluster.boards[own.board].device.dsp_widths)
    for link, cable in zip(report.links, plan.links, strict=True):
        down, up = (
            sum(channel.words(cable.width) for channel in channels if not channel.batch)
            for channels in (cable.down, cable.up)
        )
        assert (link.words_down, link.words_up) == (down, up)
    assert report.scheduled_cycles_per_sample == pytest.approx(plan.prediction.cycles_per_sample, abs=1e-4)
    assert report.cycles_per_sample == report.scheduled_cycles_per_sample
    assert report.bottleneck == plan.prediction.bottleneck
    assert report.bound_cycles <= report.cycles_per_sample


@pytest.mark.parametrize("name", CASES)
def test_the_search_counts_the_words_of_links(name):
    made, cluster, file = planned(name)
    search = Search(made, cluster, [placement.storage for placement in file.layout if placement.part.first])
    found = search.run()
    for link, step in zip(file.report.links, found.steps[:-1], strict=True):
        turns = step.shares[-1].turns
        counted, real = search.line.words(link.index, step.end), (link.words_down, link.words_up)
        if step.end.axis == "rows":  # no image has rows beyond its edges
            assert all(0 <= more - exact <= 8 * turns for more, exact in zip(counted, real, strict=True))
        else:
            assert counted == real


@pytest.mark.parametrize("name", CASES)
def test_the_batch_is_estimated_within_a_factor(name):
    report = planned(name)[2].report
    assert 0.8 < report.cycles_per_batch / report.scheduled_cycles_per_batch < 2.5


def test_pins_are_kept():
    file = planned("inputs")[2]
    (conv1, *_) = file.report.layers
    assert conv1.cut == "input_channels"
    assert [(part.board, part.low, part.high) for part in conv1.parts] == [(0, 0, 1), (1, 1, 4)]


def test_wishes_are_kept():
    made = network(conv1={"array": (6, 5), "b": 3}, linear1={"pn": 2, "pc": 7})
    report = propose(made, chain(1, 400)).plan.report
    (conv1,), _, (linear1,) = (layer.parts for layer in report.layers)
    assert (conv1.u, conv1.pc, conv1.pn, conv1.b) == (3, 2, 5, 3)
    assert (linear1.pc, linear1.pn) == (7, 2)


def test_text_has_every_board_and_fits():
    report = planned("free")[2].report
    text = report_text(report)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.startswith("small on 3 boards (few*3): 3 layers in ")
    assert f"{report.cycles_per_sample:,} cycles a sample, set by {report.bottleneck}" in text
    assert text == report_text(report)


def test_equal_neighbours_share_a_row_unless_all_are_wanted():
    report = planned("free")[2].report
    board, link = report.boards[0], report.links[0]
    part = replace(report.layers[0].parts[0], low=0, high=2)
    layer = replace(
        report.layers[0],
        cut="output_channels",
        extent=256,
        parts=tuple(replace(part, board=k) for k in range(128)),
    )
    long = replace(
        report,
        layers=(layer,),
        boards=tuple(replace(board, index=k) for k in range(128)),
        links=tuple(replace(link, index=k) for k in range(127)),
    )
    text = report_text(long)
    assert re.search(r"^0-127 +128 × few +conv1 2/256 ", text, re.M)
    assert re.search(r"^0-126 ", text, re.M)
    assert "128 × 2  0-127" in text
    every = report_text(long, every=True)
    assert len(re.findall(r"^\d+ +few ", every, re.M)) == 128
    assert max(map(len, every.splitlines())) <= WIDTH
    drawn = ET.fromstring(picture(long))
    inside = [
        float(each.get("x")) + float(each.get("width")) <= float(drawn.get("width"))
        and float(each.get("y")) + float(each.get("height")) <= float(drawn.get("height"))
        for each in drawn.iter("{http://www.w3.org/2000/svg}rect")
        if each.get("x")
    ]
    assert len(inside) > 128 * 2
    assert all(inside)


def test_a_picture_is_as_it_was():
    text, golden = picture(planned("free")[2].report), GOLDEN / "plan.svg"
    if os.environ.get("HWGEN_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_picture_escapes_names():
    report = planned("one")[2].report
    odd = replace(report, network='<&"x', layers=tuple(replace(each, name="<a&b>") for each in report.layers))
    texts = [each.text for each in ET.fromstring(picture(odd)).iter() if each.text]
    assert any(text.startswith('<&"x on') for text in texts)
    assert "<a&b>" in texts
    assert "script" not in picture(odd)
