"""`hwgen plan`: what it shows and writes, fewest boards for a rate, and why there is no plan."""

import json
import re

import pytest
from plan_cases import SOURCE, write_source

from hwgen import cli
from hwgen.plan.file import read_plan

BOARD = """
chain = ["few*{count}"]
[link]
gbps = {gbps}
latency = {latency}
[boards.few]
transceivers = 4
transceiver_gbps = 20.0
memory_bytes = {memory}
memory_gbytes_per_s = 1.0
[boards.few.link]
gbps = {gbps}
latency = {latency}
[boards.few.device]
name = "D"
vendor = "v"
family = "f"
part = "p"
dsp_kind = "DSP"
dsp_widths = [18, 18]
dsp = {dsp}
bram_kind = "B"
bram_bits = 18432
bram = {bram}
lut = 90000
ff = 200000
clock_mhz = 100.0
lut_ram_bits = 16
lut_ram = {lut_ram}
"""


@pytest.fixture
def run(capsys, tmp_path):
    """Plans the small model on equal boards of the figures given: exit code, standard output, errors."""

    def command(*arguments, text=SOURCE, **figures):
        defaults = {
            "count": 3,
            "gbps": 8.0,
            "memory": 0,
            "latency": 20,
            "dsp": 40,
            "bram": 100,
            "lut_ram": 20000,
        }
        cluster = tmp_path / "cluster.toml"
        cluster.write_text(BOARD.format(**{**defaults, **figures}))
        source = write_source(tmp_path, text)
        code = cli.main(["plan", str(source), "--cluster", str(cluster), *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, [line for line in err.splitlines() if line.startswith("hwgen: ")]

    return command


def test_everything_at_once(run, tmp_path):
    out, svg = tmp_path / "made" / "plan.json", tmp_path / "plan.svg"
    code, text, err = run("-o", out, "--svg", svg)
    assert (code, err) == (0, [])
    assert text.startswith("small on 3 boards (few*3): 3 layers in ")
    assert f"plan written to {out}; build it: hwgen build {tmp_path}/small.py --plan {out}" in text
    plan = read_plan(out)
    assert str(plan.cluster) == "few*3"
    assert f"{plan.report.cycles_per_sample:,} cycles a sample" in text
    assert svg.read_text().startswith("<svg xmlns")
    first = out.read_bytes(), svg.read_bytes()
    assert run("-o", out, "--svg", svg)[1] == text
    assert (out.read_bytes(), svg.read_bytes()) == first


def test_json(run, tmp_path):
    code, text, err = run("--json", "-o", tmp_path / "plan.json")
    result = json.loads(text)
    assert (code, err) == (0, [])
    assert list(result) == ["command", "hwgen", "target_ips", "one_board_fewer_ips", "report"]
    assert result["report"] == json.loads((tmp_path / "plan.json").read_text())["report"]
    assert result["report"]["network"] == "small"
    assert result["target_ips"] is None
    report = result["report"]
    assert report["samples_per_second"] == round(100e6 / report["cycles_per_sample"], 4)


def test_all_shows_every_board(run):
    assert len(re.findall(r"^\d few ", re.sub(" +", " ", run("--all")[1]), re.M)) == 3


def test_the_fewest_boards_for_a_rate(run, tmp_path):
    whole = json.loads(run("--json", count=1)[1])["report"]["samples_per_second"]
    code, text, err = run("--target-ips", whole * 1.5, "-o", tmp_path / "plan.json", count=1)
    assert (code, err) == (0, [])
    report = read_plan(tmp_path / "plan.json").report
    assert report.samples_per_second >= whole * 1.5
    assert len(report.boards) > 1
    (fewer,) = re.findall(r"boards for [\d,.]+ images a second; (.*)$", text, re.M)
    count, rate = re.fullmatch(r"(\d+) make ([\d,.]+)", fewer).groups()
    assert int(count) == len(report.boards) - 1
    assert float(rate.replace(",", "")) < whole * 1.5
    assert run("--target-ips", whole, count=1)[1].endswith(f"1 board for {whole:,.10g} images a second\n")


def test_a_rate_that_no_chain_reaches(run):
    code, text, err = run("--target-ips", "1e9", count=1)
    assert (code, text) == (2, "")
    assert re.fullmatch(
        r"hwgen: --target-ips 1,000,000,000: no chain of few makes so many images a second; the most is [\d,.]+, "
        r"with \d+ boards?, held by \S.*; ask for less, or give faster boards",
        err[0],
    )


def test_masters(run):
    assert run("--masters", "memory")[2] == [
        "hwgen: --masters memory: board 0 (few) has no external memory; give --masters here or auto"
    ]
    for masters in ("memory", "auto"):
        code, text, _ = run("--masters", masters, "--json", memory=1 << 30)
        layers = json.loads(text)["report"]["layers"]
        assert code == 0
        assert {layer["master"] for layer in layers} <= {"here", "memory"}
        assert masters == "auto" or {layer["master"] for layer in layers} == {"memory"}
    boards = json.loads(run("--masters", "memory", "--json", memory=1 << 30)[1])["report"]["boards"]
    weights = 3 * 3 * 4 * 12 + 3 * 3 * 6 * 8 + 128 * 5
    assert sum(board["memory_bytes_per_batch"] for board in boards) == weights * 2 * 4


def test_no_multipliers(run):
    code, _, err = run(dsp=0)
    assert code == 2
    assert len(err) == 3
    assert err[0] == (
        "hwgen: conv1: even 1 of its 4 rows needs 2 DSPs of the 0 of board 1 (few), with the links' own "
        "memories; give a larger board"
    )


def test_too_little_memory(run):
    code, _, err = run(bram=4, lut_ram=500, count=1)
    assert code == 2
    assert all(
        re.match(
            r"hwgen: \w+: (it cannot be cut, and|even 1 of its .*) needs \d+ block RAMs, less what 350 LUTs",
            e,
        )
        for e in err
    )


def test_too_few_boards(run):
    big = SOURCE.replace(
        "nn.Flatten(), nn.Linear(128, 5)", "nn.Flatten(), nn.Linear(128, 200), nn.Linear(200, 5)"
    )
    code, _, err = run(count=1, bram=50, text=big)
    assert code == 2
    match = re.fullmatch(
        r"hwgen: cluster: small does not fit few at any pace: weights, gradients and one sample take [\d,.]+ Mb at "
        r"least, its boards have [\d,.]+ Mb of .*; (\d+) such boards are the fewest that hold it",
        err[0],
    )
    assert match, err
    fewest = int(match[1])
    assert run(count=fewest, bram=50, text=big)[0] == 0
    assert run(count=fewest - 1, bram=50, text=big)[0] == 2


def test_more_boards_than_are_of_use(run):
    code, _, err = run(count=200, dsp=4000)
    assert code == 2
    count, spec = re.fullmatch(
        r"hwgen: cluster: 200 boards, but the fastest plan found fills (\d+) \([\d,]+ cycles a sample\), and no board "
        r"may be empty; take few\*?(\d*)",
        err[0],
    ).groups()
    assert count == (spec or "1")


def test_pins(run):
    on_seven = SOURCE.replace("padding=1)", "padding=1, device=7)", 1)
    assert run(text=on_seven)[2] == ["hwgen: conv1: device=7: no such board, the cluster has 3; give 0..2"]
    late = SOURCE.replace("padding=1)", "padding=1, device=1)", 1)
    code, _, err = run(text=late)
    assert code == 2
    assert err == [
        "hwgen: cluster: there are plans, but none with the pins of conv1 (device=(1,)); change or drop some"
    ]
    array = SOURCE.replace("padding=1)", "padding=1, array=(7, 2))", 1)
    code, _, err = run(text=array)
    assert code == 2
    assert "conv1: array=(7, 2): Pk = 7 is not u·pc; legal Pk: " in err[0]


def test_slow_links(run):
    assert "but the fastest plan found fills 1 " in run(gbps=0.001, count=2)[2][0]
    pinned = SOURCE.replace("nn.Linear(128, 5)", "nn.Linear(128, 5, device=1)")
    code, text, _ = run(gbps=0.001, count=2, text=pinned)
    assert code == 0
    assert re.search(r"set by link 0\.(up|down);", text)


def test_long_links(run):
    code, _, err = run(latency=60000, dsp=3)
    assert code == 2
    assert re.fullmatch(
        r"hwgen: board 1 \(few\): replay and receive buffers of its links take [\d.]+ Mb of the [\d.]+ Mb of memory; "
        r"give links of less latency",
        err[0],
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target-ips", "0"), "give images a second, a number above 0"),
        (("--target-ips", "nan"), "give images a second, a number above 0"),
        (("--masters", "moon"), "invalid choice: 'moon'"),
        (("--seed", "1"), "unrecognized arguments"),
        (("-o", "/"), "/: is a directory; give the name of a file"),
        (("-o", "/proc/no/plan.json"), "cannot be written"),
        (("-o", "same", "--svg", "same"), "-o and --svg name the same file"),
        (("--cluster", "nonsense"), "no board"),
    ],
)
def test_bad_arguments(run, arguments, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err[0]


def test_a_model_without_a_cluster(capsys, tmp_path):
    source = write_source(tmp_path)
    assert cli.main(["plan", str(source)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"hwgen: {source}: the model names no cluster; give --cluster, such as --cluster vc709*3"
    )
    assert cli.main(["plan", str(tmp_path / "none.py"), "--cluster", "vc709"]) == 2


def test_two_kinds_of_boards_have_no_fewest(capsys, tmp_path):
    source = write_source(tmp_path)
    assert cli.main(["plan", str(source), "--cluster", "vc709,alveo_u280", "--target-ips", "5"]) == 2
    assert "has boards or links of several kinds; give one board, such as vc709" in capsys.readouterr().err


def test_no_weights_are_drawn(run, monkeypatch):
    def drawn(*_):
        raise AssertionError("weights drawn")

    monkeypatch.setattr("hwgen.frontend.dsl.initial_parameters", drawn)
    assert run(count=1)[0] == 0
