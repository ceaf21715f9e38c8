"""Naming clusters: specs, lists of boards, links between unequal ones, files, the model's and the command's."""

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hwgen import Cluster, Link, Model, nn
from hwgen.backend.build import resolve_cluster
from hwgen.commands.cluster import add_cluster_argument
from hwgen.errors import ModelError, TargetError
from hwgen.frontend.loader import load_source
from hwgen.target import Board, Fill
from hwgen.target_files import built_in, known_boards, read_board

VC709, ARTY, U280 = built_in("vc709"), built_in("arty_a7_100t"), built_in("alveo_u280")
THERE = f"there are {', '.join(known_boards())}, or give the path of a board's .toml file"
FORMS = 'give boards such as "vc709*3" or "vc709*2,alveo_u280", or the path of a cluster.toml'
PINS = Link(gbps=0.5, encoding="none", adapter="parallel", latency=20)

DEVICE = """
name = "XC7K70T"
vendor = "xilinx"
family = "kintex7"
part = "xc7k70tfbg484-1"
dsp_kind = "DSP48E1"
dsp_widths = [25, 18]
dsp = 240
bram_kind = "RAMB36E1"
bram_bits = 36864
bram = 135
lut = 41000
ff = 82000
clock_mhz = 150
"""


def problems(make):
    with pytest.raises(TargetError) as caught:
        make()
    return caught.value.problems


def matches(wanted, found):
    assert len(wanted) == len(found), found
    for message, text in zip(wanted, found, strict=True):
        assert re.fullmatch(re.escape(message), text), text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("vc709", ["vc709"]),
        ("vc709*1", ["vc709"]),
        (" vc709 * 3 ", ["vc709"] * 3),
        ("vc709*2, alveo_u280*1", ["vc709", "vc709", "alveo_u280"]),
        ("arty_a7_100t,ulx3s_85f*2,arty_a7_100t", ["arty_a7_100t", "ulx3s_85f", "ulx3s_85f", "arty_a7_100t"]),
        ("vc709*256", ["vc709"] * 256),
    ],
)
def test_specs(spec, names):
    cluster = Cluster.parse(spec)
    assert [board.name for board in cluster.boards] == names
    assert Cluster.parse(str(cluster)) == cluster
    assert cluster == Cluster.chain(names)


SPECS = [
    ("", [f"cluster: ''; {FORMS}"]),
    ("  ", [f"cluster: ' '; {FORMS}"]),
    (3, [f"cluster: 3; {FORMS}"]),
    (None, [f"cluster: None; {FORMS}"]),
    ("vc709,", [f"cluster: '' in 'vc709,' is no board; {FORMS}"]),
    ("*3", [f"cluster: '*3' in '*3' is no board; {FORMS}"]),
    ("vc709*0", ["cluster: 'vc709*0': a count of '0'; give 1 to 256"]),
    ("vc709*-1", ["cluster: 'vc709*-1': a count of '-1'; give 1 to 256"]),
    ("vc709*", ["cluster: 'vc709*': a count of ''; give 1 to 256"]),
    ("vc709*two", ["cluster: 'vc709*two': a count of 'two'; give 1 to 256"]),
    ("vc709*257", ["cluster: 'vc709*257': a count of '257'; give 1 to 256"]),
    ("vc709*99999999999", ["cluster: 'vc709*99999999999': a count of '99999999999'; give 1 to 256"]),
    ("vc709*200,vc709*57", ["cluster: 257 boards; give 1 to 256"]),
    ("vc707*3", [f"cluster: no board 'vc707'; did you mean vc709? {THERE}"]),
    ("VC709", [f"cluster: no board 'VC709'; did you mean vc709? {THERE}"]),
    ("ULX3S_85F", [f"cluster: no board 'ULX3S_85F'; did you mean ulx3s_85f? {THERE}"]),
    ("ulx3s", [f"cluster: no board 'ulx3s'; did you mean ulx3s_85f? {THERE}"]),
    (
        "zzz*9,vc709,u280",
        [f"cluster: no board 'zzz'; {THERE}", f"cluster: no board 'u280'; did you mean alveo_u280? {THERE}"],
    ),
    ("no.toml", ["no.toml: no such file or directory; give the path of a .toml file"]),
    ("no.toml*2,vc709", ["no.toml: no such file or directory; give the path of a .toml file"]),
    ("__init__", [f"cluster: no board '__init__'; {THERE}"]),
    ("../boards/vc709", [f"cluster: no board '../boards/vc709'; did you mean vc709? {THERE}"]),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("spec", "messages"), SPECS)
def test_wrong_specs(spec, messages):
    matches(messages, problems(lambda: Cluster.parse(spec)))


def test_chains():
    link = Link(lanes=4, gbps=10.3125)
    assert Cluster.chain("vc709", 3, link=link) == Cluster((VC709,) * 3, (link,) * 2)
    assert Cluster.chain(VC709) == Cluster((VC709,))
    assert Cluster.chain([VC709, "alveo_u280"]).boards == (VC709, U280)
    links = [Link(lanes=2), Link(lanes=3)]
    assert Cluster.chain(("vc709", "vc709", "alveo_u280"), link=links).links == tuple(links)
    assert Cluster.chain("arty_a7_100t", 2, [PINS]).links == (PINS,)


CHAINS = [
    (("vc709", 0), "cluster: count = 0; give an integer in 1..256"),
    (("vc709", True), "cluster: count = True; give an integer in 1..256"),
    (("vc709", "3"), "cluster: count = '3'; give an integer in 1..256"),
    ((["vc709"], 2), "cluster: count = 2; give a list of boards without it"),
    (([],), "cluster: boards = []; give names of boards, at least one"),
    ((None,), "cluster: boards = None; give names of boards, at least one"),
    (([["vc709"]],), "cluster: ['vc709'] is no board; give names of boards, or Board(...)"),
    (("vc709", 3, "fast"), "cluster: link = 'fast'; give a Link, or a list with one a cable"),
    (("vc709", 3, [Link(), 4]), "cluster: link = [Link(lanes=1, gbps=10.3125, encoding='64b66b', "
     "adapter='...; give a Link, or a list with one a cable"),
    (("vc709", 3, [Link()]), "cluster: 3 boards have 2 cables between them, 1 links given"),
    (("vc709", 1, [Link()]), "cluster: 1 boards have 0 cables between them, 1 links given"),
    (("arty_a7_100t", 2, Link()), "cluster: board 0 (arty_a7_100t): 1 lane but 0 transceivers; "
     'give Link(adapter="parallel", encoding="none")'),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), CHAINS)
def test_wrong_chains(arguments, message):
    matches([message], problems(lambda: Cluster.chain(*arguments)))


def usual(**settings):
    """A VC709 with another usual link."""
    return replace(VC709, name="other", link=Link(**settings))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("other", "joined"),
    [
        (usual(), Link()),
        (usual(lanes=4, gbps=5.0), Link(gbps=5.0)),
        (usual(lanes=4, gbps=11.3), Link()),
        (usual(latency=301), Link(latency=301)),
        (usual(latency=2), Link()),
        (U280, Link()),
    ],
)
def test_a_cable_has_what_both_ends_can(other, joined, turned):
    pair = [other, VC709] if turned else [VC709, other]
    assert Cluster.chain(pair).links == (joined,)


def test_ends_that_do_not_fit():
    give = "give the link, link=Link(...) or [link] in a cluster.toml"
    alone = replace(VC709, name="alone", link=None)
    chain = [VC709, ARTY, alone, VC709, usual(encoding="8b10b", gbps=6.25)]
    assert problems(lambda: Cluster.chain(chain)) == [
        f"cluster: link 0 (vc709 to arty_a7_100t): adapter aurora at one end, parallel at the other; {give}",
        f"cluster: link 1 (arty_a7_100t to alone): alone has no usual link; {give}",
        f"cluster: link 2 (alone to vc709): alone has no usual link; {give}",
        f"cluster: link 3 (vc709 to other): encoding 64b66b at one end, 8b10b at the other; {give}",
    ]
    assert len(Cluster.chain(chain, link=PINS).links) == 4


def test_a_board_of_ones_own(folder):
    write("own/mine.toml", 'name = "mine"\n[device]' + DEVICE)
    board = read_board(Path("own/mine.toml"))
    assert board == Board("mine", board.device)
    assert (board.fill, board.link, board.device.dsp, board.device.clock_mhz) == (Fill(), None, 240, 150.0)
    assert Cluster.parse("own/mine.toml") == Cluster.parse(folder / "own" / "mine.toml") == Cluster((board,))
    assert Cluster.chain("own/mine.toml", 2, link=PINS).boards == (board, board)
    write("cluster.toml", 'chain = "vc709"\n')
    matches(
        ["cluster.toml: a cluster, not a board; give it alone, or the path of a board's file"],
        problems(lambda: Cluster.parse("cluster.toml*2")),
    )


def test_a_cluster_file(folder):
    write("own/mine.toml", 'name = "file"\n[device]' + DEVICE)
    write(
        "own/c.toml",
        'chain = ["mine.toml", "vc709*2,here", "here*2"]\n[link]\nencoding = "none"\nadapter = "parallel"\n'
        "[boards.here]\nmemory_bytes = 5\n[boards.here.device]" + DEVICE,
    )
    for spec in ("own/c.toml", folder / "own" / "c.toml"):
        cluster = Cluster.parse(spec)
        assert str(cluster) == "file,vc709*2,here*3"
        assert cluster.links == (Link(encoding="none", adapter="parallel"),) * 5
        assert cluster.boards[3].memory_bytes == 5
    write("d.toml", 'chain = "vc709*3"\n[[links]]\nlanes = 2\n[[links]]\nlatency = 7\n')
    assert Cluster.parse("d.toml").links == (Link(lanes=2), Link(latency=7))
    write("e.toml", 'chain = "vc709*3"\n')
    assert Cluster.parse("e.toml") == Cluster.parse("vc709*3")


OWN = "[boards.mine]\n[boards.mine.device]" + DEVICE
CLUSTER_FILES = [
    ("", ['chain missing; give the boards in order, chain = ["vc709*2", "alveo_u280"]']),
    ("chain = 3", ['chain = 3; give the boards in order, chain = ["vc709*2", "alveo_u280"]']),
    ('chain = ["vc709", 3]',
     ['chain = [\'vc709\', 3]; give the boards in order, chain = ["vc709*2", "alveo_u280"]']),
    ('chain = "vc709"\nlinkz = 1',
     ["the file has no field 'linkz'; did you mean link? it takes chain, link, links, boards"]),
    ('chain = "vc709"\nboards = 1', ["boards = 1; give a table [boards]"]),
    ('chain = "vc709*2"\nlink = 4', ["link = 4; give a table [link]"]),
    ('chain = "vc709*2"\nlinks = 4', ["links = 4; give a table [[links]] for every cable"]),
    ('chain = "vc709*2"\nlinks = [4]', ["links.0 = 4; give a table [links.0]"]),
    ('chain = "vc709*2"\nlinks = []\n[link]',
     ["[link] and [[links]] both given; give one link for all, or one a cable"]),
    ('chain = "vc709*2"\nlinks = []', ["cluster: 2 boards have 1 cables between them, 0 links given"]),
    ('chain = "vc709*2"\n[link]\nlane = 4\ngbps = 0',
     ["[link] has no field 'lane'; did you mean lanes? it takes lanes, gbps, encoding, adapter, latency",
      "link: gbps = 0; give a number above 0 and up to 128 Gb/s"]),
    ('chain = "vc709*3"\n[[links]]\n[[links]]\nlanes = 0',
     ["[links.1]: link: lanes = 0; give an integer in 1..16"]),
    ('chain = "vc709*2"\n[link]\nlanes = 15',
     ["cluster: board 0 (vc709): 15 lanes but 14 transceivers; give links of fewer lanes"]),
    ('chain = "mime"\n' + OWN,
     [f"cluster: no board 'mime'; did you mean mine? {THERE.replace('are', 'are mine,')}"]),
    ('chain = "vc709*"', ["chain: 'vc709*': a count of ''; give 1 to 256"]),
    ('chain = "vc709"\n[boards.Mine]', ["[boards.Mine]: no name for a board; give up to 40 small letters, "
     "digits and underscores, starting with a letter"]),
    ('chain = "vc709"\n[boards.vc709]', ["[boards.vc709]: hwgen has a board of this name; rename it"]),
    ('chain = "vc709"\n[boards]\nmine = 1',
     ["boards.mine = 1; give a table [boards.mine]"]),
    ('chain = "vc709"\n[device]', ["the file has no field 'device'; it takes chain, link, links, boards"]),
    ('chain = "mine"\n[boards.mine]\nname = "you"\n[boards.mine.device]' + DEVICE,
     ["[boards.mine]: name = 'you'; the heading says it, drop it"]),
    ('chain = "mine"\n' + OWN + "dps = 3\nlutt = 4",
     ["[boards.mine.device] has no field 'dps'; did you mean dsp? it takes name, vendor, family, part, dsp_kind, "
      "dsp_widths, dsp, bram_kind, bram_bits, bram, lut, ff, clock_mhz, uram_bits, uram, lut_ram_bits, lut_ram",
      "[boards.mine.device] has no field 'lutt'; did you mean lut? it takes name, vendor, family, part, dsp_kind, "
      "dsp_widths, dsp, bram_kind, bram_bits, bram, lut, ff, clock_mhz, uram_bits, uram, lut_ram_bits, lut_ram"]),
    ('chain = "mine"\n' + OWN.replace("lut = 41000", "lut = -1").replace("dsp = 240\n", ""),
     ["[boards.mine.device] lacks dsp; give it"]),
    ('chain = "mine"\n' + OWN.replace("lut = 41000", "lut = -1") + "[boards.mine.fill]\ndsp = 2",
     ["[boards.mine.device]: device: lut = -1; give an integer in 0..100,000,000",
      "[boards.mine.fill]: fill: dsp = 2; give a number in 0 to 1"]),
    ('chain = "mine"\n' + OWN.replace("[boards.mine]\n", "[boards.mine]\ntransceivers = -1\nmemory = 2\n"),
     ["[boards.mine] has no field 'memory'; did you mean memory_bytes? it takes name, device, memory_bytes, "
      "memory_gbytes_per_s, "
      "transceivers, transceiver_gbps, clocks, fill, link, pins, sockets, pcie, held, sources",
      "[boards.mine]: board mine: transceivers = -1; give an integer in 0..256"]),
]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("text", "messages"), CLUSTER_FILES)
def test_wrong_cluster_files(text, messages):
    write("a.toml", text)
    matches([f"a.toml: {message}" for message in messages], problems(lambda: Cluster.parse("a.toml")))


BOARD_FILES = [
    ("[device]" + DEVICE, ["the file lacks name; give it"]),
    ("name = 'a'", ["the file lacks device; give it"]),
    ("name = 'a'\ndevice = 'XC7'", ["device = 'XC7'; give a table [device]"]),
    ("name = 'a'\n[device]", ["[device] lacks name, vendor, family, part, dsp_kind, dsp_widths, dsp, bram_kind, "
     "bram_bits, bram, lut, ff, clock_mhz; give them"]),
    ("name = 'A'\n[device]" + DEVICE, ["board A: name = 'A'; give up to 40 small letters, digits and underscores, "
     "starting with a letter"]),
    ("name = 'a'\n[device]" + DEVICE + "[clocks]\nosc = 'fast'",
     ["board a: clocks.osc = 'fast'; give a number above 0 and up to 2000 MHz"]),
    ("name = 'a'\nclocks = 100\n[device]" + DEVICE, ["clocks = 100; give a table [clocks]"]),
    ("name = 'a'\n[device]" + DEVICE + "[link]\nlanes = 1",
     ["board a: link: 1 lane but 0 transceivers; give Link(adapter=\"parallel\", encoding=\"none\")"]),
    ("name = 'a'\n[device]" + DEVICE + "[sources]\nlut = 'DS180'\ndevice = 3",
     ["[sources] has no field 'lut'; it takes name, device, memory_bytes, memory_gbytes_per_s, transceivers, "
      "transceiver_gbps, clocks, fill, link, pins, sockets, pcie, held, sources, device.name, device.vendor, "
      "device.family, device.part, device.dsp_kind, device.dsp_widths, device.dsp, device.bram_kind, "
      "device.bram_bits, device.bram, device.lut, device.ff, device.clock_mhz, device.uram_bits, device.uram, "
      "device.lut_ram_bits, device.lut_ram, fill.dsp, fill.bram, fill.uram, fill.lut, fill.ff, link.lanes, "
      "link.gbps, link.encoding, link.adapter, link.latency, pins.clock, pins.standard, pins.reset, "
      "pins.uart_tx, pins.uart_rx, pins.leds, pcie.clock, pcie.reset, pcie.lanes, pcie.gtps, pcie.block, "
      "sockets.channels, sockets.clock, sockets.source, sockets.quad, sockets.place, held.name, held.pin, held.level"]),
    ("name = 'a'\n[device]" + DEVICE + "[sources]\ndevice = 3", ["board a: sources.device = 3; give a text"]),
]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("text", "messages"), BOARD_FILES)
def test_wrong_board_files(text, messages):
    write("a.toml", text)
    matches([f"a.toml: {message}" for message in messages], problems(lambda: read_board(Path("a.toml"))))


@pytest.mark.usefixtures("folder")
def test_files_that_cannot_be_read():
    write("bad.toml", "chain = [\n")
    (found,) = problems(lambda: Cluster.parse("bad.toml"))
    assert re.fullmatch(r"bad\.toml: .* \(at .*\); correct the file", found)
    Path("latin.toml").write_bytes(b"# \xff\n")
    matches(["latin.toml: no UTF-8 text; give a .toml file"], problems(lambda: Cluster.parse("latin.toml")))
    Path("dir.toml").mkdir()
    matches(
        ["dir.toml: is a directory; give the path of a .toml file"],
        problems(lambda: Cluster.parse("dir.toml")),
    )
    write("big.toml", f"chain = {'9' * 5000}\n")
    (found,) = problems(lambda: Cluster.parse("big.toml"))
    assert re.fullmatch(r"big\.toml: Exceeds the limit .*; correct the file", found)


def model(cluster):
    return Model(input=(4,), layers=[nn.Linear(4, 2)], cluster=cluster)


def resolved(model, *argv):
    parser = argparse.ArgumentParser()
    add_cluster_argument(parser)
    return resolve_cluster(parser.parse_args(argv).cluster, model)


def test_the_cluster_of_a_model(folder):
    write("c.toml", 'chain = "vc709*2"\n')
    for given in (Cluster.chain("vc709", 2), "vc709*2", "c.toml", folder / "c.toml"):
        model(given).network()
        assert resolved(model(given)) == Cluster.chain("vc709", 2)
        assert resolved(model(given), "--cluster", "vc709") == Cluster.chain("vc709")
    assert resolved(model(None)) is None
    with pytest.raises(TargetError, match=r"^cluster: ''; "):
        resolved(model("vc709"), "--cluster", "")


WRONG = [
    (
        "vc707,zzz",
        [f"cluster: no board 'vc707'; did you mean vc709? {THERE}", f"cluster: no board 'zzz'; {THERE}"],
    ),
    (3, ['cluster: 3; give cluster="vc709*3" or cluster=Cluster.chain("vc709", 3)']),
    (["vc709"], ['cluster: [\'vc709\']; give cluster="vc709*3" or cluster=Cluster.chain("vc709", 3)']),
]


@pytest.mark.parametrize(("cluster", "messages"), WRONG)
def test_a_wrong_cluster_is_a_mistake_of_the_model(cluster, messages):
    with pytest.raises(ModelError) as caught:
        model(cluster).replace(loss=None).network()
    matches(["loss: missing; give loss=nn.SoftmaxCrossEntropy()", *messages], caught.value.problems)


@pytest.mark.usefixtures("folder")
def test_a_chain_that_a_model_file_makes():
    path = write("net.py", "from hwgen import Cluster\n\nCluster.chain(['vc707', 'zzz'])\n")
    matches([f"net.py:3: {message}" for message in WRONG[0][1]], problems(lambda: load_source(path)))
