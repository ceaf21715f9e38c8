"""Plan files: the same bytes, exact both ways, strict, and checked against the network, the boards and the links."""

import json
import re

import pytest
from plan_cases import CASES, chain, network, planned

import hwgen.plan.propose as proposing
from hwgen import Model, nn
from hwgen.errors import BuildError, HwgenError, ModelError, TargetError
from hwgen.plan.budget import BudgetError
from hwgen.plan.file import network_digest, plan_from_file, plan_text, read_plan
from hwgen.plan.propose import propose


def edited(tmp_path, change, name="free"):
    """The file of a case after ``change`` of its JSON, read again."""
    data = json.loads(plan_text(planned(name)[2]))
    change(data)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    return read_plan(path)


@pytest.mark.parametrize("name", CASES)
def test_files_are_exact_and_stable(tmp_path, name):
    made, cluster, file = planned(name)
    text = plan_text(file)
    path = tmp_path / "plan.json"
    path.write_text(text)
    again = read_plan(path)
    assert again == file
    assert again.cluster == cluster
    assert plan_text(again) == text
    assert plan_text(propose(made, cluster).plan) == text
    assert len(plan_from_file(again, made).stages) == len(file.layout)


def test_a_chain_of_two_kinds_is_written_in_full(tmp_path):
    few, more = chain(2, 40).boards[0], chain(1, 60, clock_mhz=100.0).boards[0]
    cluster = type(chain(1))((few, more, few), chain(3).links)
    path = tmp_path / "plan.json"
    path.write_text(plan_text(propose(network(), cluster).plan))
    assert read_plan(path).cluster == cluster


def test_other_networks_are_refused():
    made, _, file = planned("free")
    other = Model(input=(8, 8, 4), layers=[nn.Flatten(), nn.Linear(256, 5)], name="other").network(0)
    with pytest.raises(
        BuildError, match=r"plan: made of small \([0-9a-f]{8}\), this is other \([0-9a-f]{8}\); "
    ):
        plan_from_file(file, other)
    assert network_digest(made) == network_digest(network())


def test_seed_and_learning_rate_may_change():
    def slower(rate, seed, batch=4):
        layers = [nn.Flatten(), nn.Linear(256, 5)]
        return Model(input=(8, 8, 4), layers=layers, optimizer=nn.SGD(lr=rate, batch=batch)).network(seed)

    assert (
        network_digest(slower(0.1, 0)) == network_digest(slower(0.05, 9)) != network_digest(slower(0.1, 0, 8))
    )


def test_what_is_no_plan(tmp_path):
    path = tmp_path / "plan.json"
    with pytest.raises(
        BuildError, match=r".*plan.json: no such file or directory; give the file that hwgen plan -o"
    ):
        read_plan(path)
    for text, error in (
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no plan"),
        ('{"format": 1}', "format 1, this hwgen reads 3; plan again"),
        (
            '{"format": 3}',
            "plan: keys missing: hwgen, network, cluster, image_lanes, pace, layout, report; correct",
        ),
    ):
        path.write_text(text)
        with pytest.raises(BuildError, match=re.escape(f"{path}: {error}")):
            read_plan(path)
    path.write_bytes(b"\xff")
    with pytest.raises(BuildError, match="no JSON"):
        read_plan(path)


def unset(*keys):
    def change(data):
        for key in keys[:-1]:
            data = data[key]
        del data[keys[-1]]

    return change


def put(value, *keys):
    def change(data):
        for key in keys[:-1]:
            data = data[key]
        data[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            unset("layout", 0, "board"),
            BuildError,
            r"plan\.layout\[0\]: keys missing: board; correct the file, or plan again",
        ),
        (put(1, "layout", 0, "colour"), BuildError, r"plan\.layout\[0\]: keys unknown: colour; "),
        (
            put("2", "layout", 0, "folding", "u"),
            BuildError,
            r'plan\.layout\[0\]\.folding\.u: "2", which is no int',
        ),
        (put(True, "image_lanes"), BuildError, r"plan\.image_lanes: true, which is no int"),
        (put(0, "image_lanes"), BuildError, r"plan\.image_lanes: 0; give 1 to 32, the elements of a row"),
        (
            put(9, "cluster", "chain", 0, "item"),
            BuildError,
            r"plan\.cluster\.chain\[0\]\.item: 9 of 1 listed; ",
        ),
        (
            put(10**9, "cluster", "chain", 0, "count"),
            BuildError,
            r"plan\.cluster\.chain\[0\]\.count: 1000000000; give",
        ),
        (put(300, "cluster", "chain", 0, "count"), TargetError, r"cluster: 300 boards; give 1 to 256"),
        (put(-1, "cluster", "boards", 0, "device", "dsp"), TargetError, r"device: dsp = -1"),
        (put(0.0, "cluster", "links", 0, "gbps"), TargetError, r"link: gbps = 0"),
        (
            put(1, "layout", 0, "board"),
            ModelError,
            r"layout: part 0 of stage 0 on board 1 behind -1; parts stand",
        ),
        (put(9, "layout", 0, "stage"), ModelError, r"layout\[0\]: stage 9; the network has 3, give 0\.\.2"),
        (
            put(5, "layout", 0, "folding", "u"),
            ModelError,
            r"conv1.*: u = 5 is not 1, kw or kh·kw; legal u: \[1, 3, 9\]",
        ),
        (put(99, "layout", 0, "folding", "pc"), ModelError, r"conv1.*: pc = 99 is outside 1\.\.\d+"),
        (put(99, "layout", 0, "folding", "pn"), ModelError, r"conv1.*: pn = 99 is outside 1\.\.\d+"),
        (put(0, "layout", 0, "folding", "b"), ModelError, r"conv1.*: b = 0 is outside 1\.\.64"),
        (
            put("moon", "layout", 0, "storage", "master"),
            ModelError,
            r"layout: conv1: master = 'moon'; give one of ",
        ),
        (
            put("moon", "layout", 0, "storage", "weights"),
            ModelError,
            r"layout: conv1: weights = 'moon'; give one of ",
        ),
        (put("moon", "layout", 0, "part", "cut"), ModelError, r"conv1: .*moon"),
        (put(1, "pace"), BuildError, r"plan.pace: 1 cycles a sample, .+ takes [\d,]+; give as many or more"),
    ],
)
def test_mistakes_are_named(tmp_path, change, kind, message):
    with pytest.raises(HwgenError, match=message) as caught:
        plan_from_file(edited(tmp_path, change), network())
    assert issubclass(kind, BuildError | TargetError) <= isinstance(caught.value, BuildError | TargetError)


def cut_at(low, high):
    def change(data):
        parts = [each["part"] for each in data["layout"] if each["stage"] == 0]
        parts[0]["high"], parts[1]["low"] = low, high

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut_at(3, 4), r"conv1: part 1 has input_channels 4\.\.4, the one before ends at 3; parts follow"),
        (cut_at(0, 0), r"conv1: part 0 has input_channels 0\.\.0, the one before ends at 0; "),
        (put(3, "layout", 1, "part", "high"), r"conv1: parts have 3 input_channels of 4; give all of them"),
        (
            put("output_channels", "layout", 1, "part", "cut"),
            r"conv1: 2 parts with cut input_channels, output_channels",
        ),
    ],
)
def test_shares_follow_one_another(tmp_path, change, message):
    with pytest.raises(ModelError, match=message):
        plan_from_file(edited(tmp_path, change, "inputs"), planned("inputs")[0])


def test_groups_are_the_cut_of_layers_with_groups(tmp_path):
    def change(data):
        for each in data["layout"]:
            if each["stage"] == 1:
                each["part"]["cut"] = "input_channels"

    with pytest.raises(
        ModelError, match=r"conv2: cut by input_channels with 2 groups; a layer with groups is cut by"
    ):
        plan_from_file(edited(tmp_path, change, "groups"), planned("groups")[0])


def test_a_part_has_no_pieces_of_two_groups(tmp_path):
    def change(data):
        ends = iter((0, 5, 8))
        low = next(ends)
        for each in data["layout"]:
            if each["stage"] == 1:
                each["part"] |= {"cut": "output_channels", "low": low, "high": (low := next(ends))}

    with pytest.raises(
        ModelError, match=r"conv2: part 0: outputs 0\.\.5 of groups of 4; a part has some of one group"
    ):
        plan_from_file(edited(tmp_path, change, "groups"), planned("groups")[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            put(9, "cluster", "boards", 0, "device", "dsp"),
            r"board 0 \(few\): .* need \d+ DSP48E1, it has 9 × 0\.9 = 8; ",
        ),
        (
            put(0, "cluster", "boards", 0, "device", "bram"),
            r"board \d \(few\): memories of .* need block RAMs beside the 0",
        ),
        (
            put(0.01, "cluster", "links", 0, "gbps"),
            r"link 0 \(board 0 to 1\): [\d.]+ Gb/s needed .* it carries 0\.01",
        ),
    ],
)
def test_budgets_are_computed_again(tmp_path, change, message):
    def all_of_it(data):
        change(data)
        if data["cluster"]["boards"][0]["device"]["bram"] == 0:
            data["cluster"]["boards"][0]["device"]["lut_ram"] = 0
            data["cluster"]["boards"][0]["device"]["lut"] = 10

    with pytest.raises(BudgetError, match=message):
        plan_from_file(edited(tmp_path, all_of_it), network())


@pytest.mark.parametrize("rate", [None, 60_000])
def test_more_memory_is_left_free_until_the_full_plan_fits(rate, monkeypatch):
    """As if the smallest buffers, which the search does not count, had found no room twice."""
    tried, full = [], proposing._full

    def breaks_twice(search, found, progress):
        tried.append(search.line.rooms[0].bram)
        if len(tried) < len(proposing.RESERVES):
            raise BudgetError("no room")
        return full(search, found, progress)

    monkeypatch.setattr(proposing, "_full", breaks_twice)
    cluster = chain(1, 24) if rate else chain(3, 24)
    proposal = proposing.propose_for_rate(network(), cluster, rate) if rate else propose(network(), cluster)
    assert proposal.plan.layout
    assert tried == sorted(set(tried), reverse=True)
    assert len(tried) == len(proposing.RESERVES)
