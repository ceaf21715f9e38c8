"""Where a network is cut: pins kept or refused, no board empty, the fullest as empty as can be."""

import dataclasses
import itertools
import re

import pytest
from ref_networks import random_network

from hwgen.errors import ModelError
from hwgen.ir.stage import Loss, Network, Place, Stage, Update
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.chain import cut_layout
from hwgen.plan.cuts import Cut, axis_channels, balanced_cuts, legal_axes, natural_axis, parts_of
from hwgen.plan.fold import Fold, Folding
from hwgen.plan.layout import check_layout

Q8 = Q(8, 4)


def network_of(*sizes, places=(), groups=()):
    """Linear-like stages between so many channels; a place and groups for some."""
    stages = []
    for i, (cin, cout) in enumerate(itertools.pairwise(sizes)):
        place = dict(places).get(i, Place())
        stages.append(
            Stage(
                f"s{i}", i, Window2d(1, 1), cin, cout, Q8, Q8, Q(12, 8), None, Q8, Q8, Q8 if i else None,
                groups=dict(groups).get(i, 1), place=place,
            )
        )  # fmt: skip
    return Network("net", Q8, tuple(stages), Loss(sizes[-1], Q8, Q8), Update(Q8, 3, 2, 0.1))


def cuts_for(network, boards, capacities=None):
    foldings = [Folding(1, stage.cin, stage.N, 1) for stage in network.stages]
    return balanced_cuts(network, foldings, capacities or [1000] * boards)


def loads(network, cuts, capacities):
    """Multipliers on every board over what it can hold, channels shared out evenly."""
    found = [0.0] * len(capacities)
    for stage, cut in zip(network.stages, cuts, strict=True):
        whole = Fold(stage, Folding(1, stage.cin, stage.N, 1)).multipliers
        for part in parts_of(cut):
            share = (part.high - part.low) / axis_channels(stage, cut.axis) if cut.count > 1 else 1
            found[cut.board + part.index] += whole * share
    return [load / capacity for load, capacity in zip(found, capacities, strict=True)]


def check_line(network, cuts, boards):
    """All parts stand in one line, no board empty, every cut on a legal axis with its whole channels."""
    line = [cut.board + part.index for cut in cuts for part in parts_of(cut)]
    assert line == sorted(line)
    assert set(line) == set(range(boards))
    for stage, cut in zip(network.stages, cuts, strict=True):
        if cut.count > 1:
            assert cut.axis in legal_axes(stage)
            assert (cut.bounds[0], cut.bounds[-1]) == (0, axis_channels(stage, cut.axis))
            assert list(cut.bounds) == sorted(set(cut.bounds))


def every_way(network, boards):
    """All ways to cut a network on the natural axes."""
    points = []
    for i, stage in enumerate(network.stages):
        axis = natural_axis(stage)
        points += [(i, c) for c in range(axis_channels(stage, axis) if axis else 1)]
    for chosen in itertools.combinations(points[1:], boards - 1):
        cuts = []
        for i, stage in enumerate(network.stages):
            inner = [c for k, c in chosen if k == i and c]
            board = sum(point <= (i, 0) for point in chosen)
            axis = natural_axis(stage)
            cuts.append(Cut(board, axis, (0, *inner, axis_channels(stage, axis))) if inner else Cut(board))
        yield tuple(cuts)


@pytest.mark.parametrize("capacities", [(10, 10), (30, 10), (10, 10, 10), (10, 25, 5), (1, 1, 1, 1)])
@pytest.mark.parametrize("sizes", [(4, 5, 3), (2, 9, 2, 3), (7, 2), (3, 3, 3, 3, 3), (1, 8, 1)])
def test_the_fullest_board_is_as_empty_as_can_be(sizes, capacities):
    network = network_of(*sizes)
    cuts = cuts_for(network, len(capacities), capacities)
    check_line(network, cuts, len(capacities))
    got = max(loads(network, cuts, capacities))
    best = {True: [], False: []}
    for way in every_way(network, len(capacities)):
        best[all(cut.count == 1 for cut in way)].append(max(loads(network, way, capacities)))
    share = sum(loads(network, [Cut(0)] * len(network.stages), [1])) / sum(capacities)
    between = min(best[True], default=1e9)
    wanted = between if between <= 1.25 * share else min(best[True] + best[False])
    assert got == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(25))
def test_random_networks_over_up_to_four_boards(seed):
    network = random_network(seed)
    for boards in range(1, 5):
        most = sum(axis_channels(s, natural_axis(s)) if natural_axis(s) else 1 for s in network.stages)
        if boards <= most:
            cuts = cuts_for(network, boards)
            check_line(network, cuts, boards)
            assert cuts == cuts_for(network, boards)
            continue
        text = f"cluster: {boards} boards, but the network has parts for {most} at most; take fewer boards"
        with pytest.raises(ModelError, match=f"^{re.escape(text)}$"):
            cuts_for(network, boards)


# --- Pins

KEPT = [
    ({0: Place((0,)), 1: Place((1,))}, 2, (Cut(0), Cut(1), Cut(1))),
    ({2: Place((1,))}, 2, (Cut(0), Cut(0, "output_channels", (0, 5, 8)), Cut(1))),
    ({1: Place((0, 1), "input_channels", (1, 5))}, 2, (Cut(0), Cut(0, "input_channels", (0, 1, 6)), Cut(1))),
    ({1: Place((0, 1, 2), "output_channels")}, 3, (Cut(0), Cut(0, "output_channels", (0, 2, 5, 8)), Cut(2))),
    ({0: Place(None, "output_channels", (5, 1))}, 2, (Cut(0, "output_channels", (0, 5, 6)), Cut(1), Cut(1))),
    ({1: Place((1, 2), None)}, 4, None),
]  # fmt: skip


@pytest.mark.parametrize(("places", "boards", "wanted"), KEPT)
def test_pins_are_kept(places, boards, wanted):
    network = network_of(4, 6, 8, 3, places=places.items())
    cuts = cuts_for(network, boards)
    check_line(network, cuts, boards)
    assert wanted is None or cuts == wanted
    for i, place in places.items():
        if place.device:
            assert tuple(range(cuts[i].board, cuts[i].board + cuts[i].count)) == place.device


def test_shares_in_a_grouped_layer_count_groups():
    network = network_of(
        4, 8, 8, 3, places={1: Place((0, 1), "groups", (1, 3))}.items(), groups={1: 4}.items()
    )
    assert cuts_for(network, 2)[1] == Cut(0, "groups", (0, 1, 4))


REFUSED = [
    ({1: Place((2,))}, 2, (), "s1: device=2: no such board, the cluster has 2; give 0..1"),
    (
        {0: Place((1,)), 1: Place((0,))},
        2,
        (),
        "cluster: no way to lay the layers in their order over 2 boards, none empty, with s0 from board 1 on, "
        "s1 from board 0 on; change device or shares",
    ),
    (
        {0: Place((1,))},
        2,
        (),
        "cluster: no way to lay the layers in their order over 2 boards, none empty, with s0 from board 1 on; "
        "change device or shares",
    ),
    (
        {1: Place((0, 1), "output_channels", (3, 4))},
        2,
        (),
        "s1: shares=(3, 4) of 8 output channels; give 2 that sum to 8",
    ),
    (
        {1: Place((0, 1), "groups", (1, 1))},
        2,
        {1: 4}.items(),
        "s1: shares=(1, 1) of 4 groups; give 2 that sum to 4",
    ),
    (
        {1: Place((0, 1), "input_channels")},
        2,
        {1: 2}.items(),
        "s1: split='input_channels': it has groups; legal: groups, output_channels",
    ),
    (
        {1: Place((0, 1), "groups")},
        2,
        (),
        "s1: split='groups': it has one group; legal: output_channels, input_channels",
    ),
    (
        {0: Place((0, 1), "input_channels")},
        2,
        (),
        "s0: split='input_channels': there is but one channel; legal: output_channels",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("places", "boards", "groups", "text"), REFUSED)
def test_what_cannot_be_is_refused(places, boards, groups, text):
    network = network_of(
        1 if 0 in places and places[0].split else 4, 6, 8, 3, places=places.items(), groups=groups
    )
    with pytest.raises(ModelError) as error:
        cuts_for(network, boards)
    assert str(error.value) == text


def test_a_layer_of_one_channel_each_way_is_never_cut():
    network = network_of(1, 1, places={0: Place((0, 1))}.items())
    with pytest.raises(ModelError, match=r"^s0: 2 boards, but it cannot be cut; give one board$"):
        cuts_for(network, 2)
    network = network_of(1, 1, places={0: Place(None, "output_channels")}.items())
    with pytest.raises(ModelError, match=r"^s0: split='output_channels': .*; it cannot be cut$"):
        cuts_for(network, 1)


def test_more_boards_than_parts():
    text = "cluster: 5 boards, but the network has parts for 4 at most; take fewer boards"
    with pytest.raises(ModelError, match=f"^{re.escape(text)}$"):
        cuts_for(network_of(1, 2, 2), 5)


def test_all_illegal_pins_are_named_at_once():
    places = {0: Place((7,)), 1: Place((0, 9)), 2: Place((0, 1), "output_channels", (1, 1))}
    with pytest.raises(ModelError) as error:
        cuts_for(network_of(4, 6, 8, 3, places=places.items()), 2)
    assert [problem.split(":")[0] for problem in error.value.problems] == ["s0", "s1", "s2"]


# --- The natural axis


def test_the_natural_axis_sends_least():
    """A layer that widens is cut by outputs (few x cross), one that narrows by inputs."""
    wide = network_of(2, 64).stages[0]
    narrow = network_of(64, 2).stages[0]
    assert natural_axis(dataclasses.replace(wide, dx=None)) == "output_channels"
    assert natural_axis(narrow) == "input_channels"
    assert natural_axis(dataclasses.replace(wide, groups=2)) == "groups"
    assert natural_axis(network_of(1, 1).stages[0]) is None


# --- Rows


def rows_network(place, b=4, pool=None, height=8):
    """A convolution over rows of four pixels, then a linear layer."""
    window = Window2d(height, 4, (3, 3), pads=(1, 1, 1, 1))
    conv = Stage("conv", 0, window, 2, 3, Q8, Q8, Q(12, 8), None, Q8, Q8, None, pool=pool, place=place)
    rows, columns, _ = conv.out_shape
    linear = Stage("linear", 1, Window2d(1, 1), rows * columns * 3, 2, Q8, Q8, Q(12, 8), None, Q8, Q8, Q8)
    network = Network("net", Q8, (conv, linear), Loss(2, Q8, Q8), Update(Q8, 3, 2, 0.1))
    return network, [Folding(1, 2, 3, b), Folding(1, 4, 2, 1)]


ROWS = [
    (Place((0, 1), "rows", (3, 1)), (3, 1, 3, 1), (0, 6, 8)),
    (Place((0, 1), "rows", (3, 2)), (3, 2, 3), (0, 6, 8)),
    (Place((0, 1), "rows", None, 2), (2, 2, 2, 2), (0, 4, 8)),
    (Place((0, 1), "rows"), (4, 4), (0, 4, 8)),
    (Place((0, 1, 2), "rows", None, 9), (1, 1, 1, 1, 2, 2), (0, 2, 5, 8)),
]


@pytest.mark.parametrize(("place", "deal", "bounds"), ROWS)
def test_pinned_rows_are_dealt(place, deal, bounds):
    network, foldings = rows_network(place)
    cut, last = balanced_cuts(network, foldings, [1000] * len(place.device))
    assert cut == Cut(0, "rows", bounds, deal)
    assert last == Cut(len(place.device) - 1)
    parts = parts_of(cut)
    assert [part.high for part in parts] == [sum(deal[p :: len(parts)]) for p in range(len(parts))]
    assert {(part.low, part.deal, part.cut) for part in parts} == {(0, deal, "rows")}


def test_rows_may_be_balanced():
    """As many boards as there are, where the axis alone is asked for."""
    network, foldings = rows_network(Place(None, "rows", None, 2))
    conv, linear = network.stages
    stages = (conv, dataclasses.replace(linear, place=Place((3,))))
    cut, _ = balanced_cuts(dataclasses.replace(network, stages=stages), foldings, [18] * 4)
    assert cut == Cut(0, "rows", cut.bounds, cut.deal)
    assert cut.count == 3
    assert sum(cut.deal) == 8
    assert len(cut.deal) == 2 * 3


@pytest.mark.parametrize(
    ("place", "b", "message"),
    [
        (Place((0, 1), "rows"), 3, r"conv: rows: blocks of b = 3 pixels cross .* of 4; legal b: \[1, 2, 4\]"),
        (Place(None, "rows"), 3, r"conv: rows: blocks of b = 3 pixels cross .*"),
        (Place((0, 1, 2), "rows", (4, 4, 4)), 4, r"conv: rows: parts \[2\] of 3 get none of 8 rows; .*"),
        (Place((0, 2), "rows"), 4, r"conv: device=2: no such board, the cluster has 2; give 0\.\.1"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_cut_are_refused(place, b, message):
    network, foldings = rows_network(place, b)
    with pytest.raises(ModelError) as caught:
        balanced_cuts(network, foldings, [1000] * (2 if len(place.device or ()) < 3 else 3))
    assert re.fullmatch(message, caught.value.problems[0])


def test_rows_are_never_cut_unasked():
    network, _ = rows_network(Place())
    assert legal_axes(network.stages[0]) == ["output_channels", "input_channels"]


BROKEN = [
    ({"deal": (5, 3)}, r"conv: rows: part 0 has 0\.\.4 of the 5 rows that its turns \(5, 3\) give it; .*"),
    (
        {"cut": "groups"},
        r"conv: rows: part 0 has 0\.\.4 of the 4 rows .*; all parts of a stage have cut=\"rows\", .*",
    ),
    ({"low": 1}, r"conv: rows: part 0 has 1\.\.4 of the 4 rows .*"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN)
def test_a_layout_of_rows_is_checked(changes, message):
    network, foldings = rows_network(Place((0, 1), "rows"))
    layout = cut_layout(network, foldings, balanced_cuts(network, foldings, [1000] * 2))
    check_layout(network, layout, 2)
    part = dataclasses.replace(layout[0].part, **changes)
    broken = (dataclasses.replace(layout[0], part=part), *layout[1:])
    with pytest.raises(ModelError) as caught:
        check_layout(network, broken, 2)
    assert re.fullmatch(message, caught.value.problems[0])
    crossing = tuple(dataclasses.replace(p, folding=dataclasses.replace(p.folding, b=8)) for p in layout[:2])
    with pytest.raises(ModelError, match=r"blocks of b = 8 pixels cross the ends of rows of 4"):
        check_layout(network, (*crossing, *layout[2:]), 2)
