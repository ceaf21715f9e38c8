"""Devices, boards, links and clusters: what they compute, and every wrong field in its words."""

import dataclasses
import re
from fractions import Fraction

import pytest

import hwgen
from hwgen.errors import HwgenError, TargetError
from hwgen.target import RESOURCES, Board, Cluster, Device, Fill, Link
from hwgen.target_files import built_in, known_boards

VC709, ULX3S, U280 = built_in("vc709"), built_in("ulx3s_85f"), built_in("alveo_u280")
PINS = Link(gbps=0.5, encoding="none", adapter="parallel")


def problems(make):
    with pytest.raises(TargetError) as caught:
        make()
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, HwgenError)
    return caught.value.problems


def matches(message, found):
    assert re.fullmatch(re.escape(message), found), found


# kind, count, widths of multipliers; count and bits of block RAMs; UltraRAMs; LUTs; flip-flops;
# LUTs that can be memory, bits of one
FIGURES = {
    "alveo_u250": ("DSP48E2", 12288, (27, 18), 2688, 36864, 1280, 1_728_000, 3_456_000, 791_040, 64),
    "alveo_u280": ("DSP48E2", 9024, (27, 18), 2016, 36864, 960, 1_303_680, 2_607_360, 600_960, 64),
    "alveo_u55c": ("DSP48E2", 9024, (27, 18), 2016, 36864, 960, 1_303_680, 2_607_360, 600_960, 64),
    "arty_a7_100t": ("DSP48E1", 240, (25, 18), 135, 36864, 0, 63_400, 126_800, 19_000, 64),
    "de10_nano": ("MULT18X18", 224, (18, 18), 553, 10240, 0, 83_820, 167_640, 19_880, 32),
    "ecpix5_85f": ("MULT18X18D", 156, (18, 18), 208, 18432, 0, 83_640, 83_640, 41_820, 16),
    "genesys2": ("DSP48E1", 840, (25, 18), 445, 36864, 0, 203_800, 407_600, 64_000, 64),
    "kc705": ("DSP48E1", 840, (25, 18), 445, 36864, 0, 203_800, 407_600, 64_000, 64),
    "pynq_z2": ("DSP48E1", 220, (25, 18), 140, 36864, 0, 53_200, 106_400, 17_400, 64),
    "stratix10_mx": ("MULT18X19", 7920, (18, 19), 6847, 20480, 0, 1_405_440, 2_810_880, 343_740, 32),
    "tang_mega_138k": ("MULTALU27X18", 298, (27, 18), 340, 18432, 0, 138_240, 138_240, 69_120, 16),
    "ulx3s_85f": ("MULT18X18D", 156, (18, 18), 208, 18432, 0, 83_640, 83_640, 41_820, 16),
    "vc709": ("DSP48E1", 3600, (25, 18), 1470, 36864, 0, 433_200, 866_400, 174_200, 64),
    "vcu118": ("DSP48E2", 6840, (27, 18), 2160, 36864, 960, 1_182_240, 2_364_480, 591_840, 64),
    "versa_ecp5_5g": ("MULT18X18D", 72, (18, 18), 108, 18432, 0, 43_848, 43_848, 21_924, 16),
    "zcu102": ("DSP48E2", 2520, (27, 18), 912, 36864, 0, 274_080, 548_160, 144_000, 64),
}  # fmt: skip


def test_the_boards_that_come_with_hwgen():
    assert known_boards() == tuple(sorted(FIGURES))


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_a_board(name):
    board = built_in(name)
    d = board.device
    assert board.name == name
    memories = (d.bram, d.bram_bits, d.uram)
    logic = (d.lut, d.ff, d.lut_ram, d.lut_ram_bits)
    assert (d.dsp_kind, d.dsp, d.dsp_widths, *memories, *logic) == FIGURES[name]
    assert board.link is not None
    assert board.memory_bytes > 0
    assert board.clocks


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_source(name):
    board = built_in(name)
    told = dict(board.sources)
    figures = {f.name for f in dataclasses.fields(Board)} - {"name", "device", "sources"}
    figures -= {name for name in ("pins", "sockets", "pcie", "held") if not getattr(board, name)}
    figures |= {f"device.{f.name}" for f in dataclasses.fields(Device)} - {"device.vendor", "device.family"}
    untold = {figure for figure in figures if figure not in told and figure.partition(".")[0] not in told}
    assert untold == set()


@pytest.mark.parametrize("name", FIGURES)
def test_a_usual_link_reaches_both_neighbours(name):
    cluster = Cluster.chain(name, 3)
    assert cluster.links == (built_in(name).link,) * 2


def test_defaults_of_a_link():
    assert Link() == Link(1, 10.3125, "64b66b", "aurora", 300)
    assert (hwgen.Link, hwgen.Cluster) == (Link, Cluster)


@pytest.mark.parametrize(
    ("link", "width", "payload", "clock"),
    [
        (Link(), 64, 10.0, 161.1328125),
        (Link(lanes=4), 256, 40.0, 161.1328125),
        (Link(lanes=3, gbps=6.25, encoding="8b10b"), 192, 15.0, 78.125),
        (Link(gbps=0.1, encoding="none", adapter="parallel"), 64, 0.1, 1.5625),
        (Link(lanes=2, gbps=33, encoding="64b66b", adapter="parallel"), 128, 64.0, 515.625),
    ],
)
def test_rates_of_a_link(link, width, payload, clock):
    assert (link.width, link.payload_gbps, link.clock_mhz) == (width, payload, clock)


def test_equal_targets_have_an_equal_text():
    """The text goes into a build's number."""
    pairs = [
        (Link(gbps=10), Link(gbps=10.0)),
        (Fill(uram=1), Fill(uram=1.0)),
        (dataclasses.replace(VC709, clocks=[["a", 1]]), dataclasses.replace(VC709, clocks=(("a", 1.0),))),
        (Cluster([ULX3S], []), Cluster((ULX3S,))),
        (
            dataclasses.replace(VC709.device, dsp_widths=[25, 18], clock_mhz=200),
            VC709.device,
        ),
    ]
    for one, other in pairs:
        assert repr(one) == repr(other)
        assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("count", "fill", "available"),
    [(3600, 0.9, 3240), (3, 0.9, 2), (10, 0.7, 7), (100, 0.29, 29), (7, 1, 7), (7, 0, 0), (1, 0.999, 0)],
)
def test_what_a_plan_may_use(count, fill, available):
    for resource in RESOURCES:
        device = dataclasses.replace(U280.device, lut_ram=0, **{resource: count})
        board = dataclasses.replace(U280, device=device, fill=Fill(**{resource: fill}))
        assert board.available(resource) == available == int(count * Fraction(str(fill)))


@pytest.mark.parametrize(("fill", "available"), [(0.7, 121_940), (1, 174_200), (0, 0)])
def test_luts_that_may_be_memory(fill, available):
    board = dataclasses.replace(VC709, fill=Fill(lut=fill))
    assert board.available("lut_ram") == available
    assert (board.device.lut_ram, board.device.lut_ram_bits) == (174_200, 64)


LINKS = [
    ({"lanes": 0}, "lanes = 0; give an integer in 1..16"),
    ({"lanes": 17}, "lanes = 17; give an integer in 1..16"),
    ({"lanes": True}, "lanes = True; give an integer in 1..16"),
    ({"lanes": 1.0}, "lanes = 1.0; give an integer in 1..16"),
    ({"gbps": 0}, "gbps = 0; give a number above 0 and up to 128 Gb/s"),
    ({"gbps": "10"}, "gbps = '10'; give a number above 0 and up to 128 Gb/s"),
    ({"gbps": float("nan")}, "gbps = nan; give a number above 0 and up to 128 Gb/s"),
    ({"gbps": float("inf")}, "gbps = inf; give a number above 0 and up to 128 Gb/s"),
    ({"gbps": True}, "gbps = True; give a number above 0 and up to 128 Gb/s"),
    ({"encoding": "64b/66b"}, "encoding = '64b/66b'; give 64b66b, 8b10b or none"),
    ({"encoding": None}, "encoding = None; give 64b66b, 8b10b or none"),
    ({"encoding": []}, "encoding = []; give 64b66b, 8b10b or none"),
    ({"adapter": "pins"}, "adapter = 'pins'; give aurora or parallel"),
    ({"latency": -1}, "latency = -1; give an integer in 0..65,535"),
    ({"latency": 65536}, "latency = 65536; give an integer in 0..65,535"),
    (
        {"encoding": "none"},
        "encoding = 'none' with adapter = 'aurora'; give 64b66b or 8b10b, or adapter parallel",
    ),
]


@pytest.mark.parametrize(("settings", "message"), LINKS)
def test_wrong_links(settings, message):
    (found,) = problems(lambda: Link(**settings))
    matches(f"link: {message}", found)


BOARDS = [
    ({"name": "VC709"}, "board VC709: name = 'VC709'; give up to 40 small letters, digits and underscores, "
     "starting with a letter"),
    ({"name": 7}, "board: name = 7; give up to 40 small letters, digits and underscores, starting with a letter"),
    ({"memory_bytes": -1}, "board vc709: memory_bytes = -1; give an integer in 0..1,125,899,906,842,624"),
    ({"memory_gbytes_per_s": None}, "board vc709: memory_gbytes_per_s = None; give a number in 0 to 100000 GB/s"),
    ({"transceivers": "14"}, "board vc709: transceivers = '14'; give an integer in 0..256"),
    ({"transceivers": 0.5}, "board vc709: transceivers = 0.5; give an integer in 0..256"),
    ({"transceiver_gbps": -1}, "board vc709: transceiver_gbps = -1; give a number in 0 to 256 Gb/s"),
    ({"clocks": 200}, "board vc709: clocks = 200; give pairs of a name and MHz, no name twice"),
    ({"clocks": (("a", 1), ("a", 2))},
     "board vc709: clocks = (('a', 1), ('a', 2)); give pairs of a name and MHz, no name twice"),
    ({"clocks": (("a-b", 1),)},
     "board vc709: clocks = (('a-b', 1),); give pairs of a name and MHz, no name twice"),
    ({"clocks": (("a", 0),)}, "board vc709: clocks.a = 0; give a number above 0 and up to 2000 MHz"),
    ({"sources": (("memory_bytes", ""),)}, "board vc709: sources.memory_bytes = ''; give a text"),
    ({"link": 4}, "board vc709: link = 4; give a Link"),
    ({"pins": 4}, "board vc709: pins = 4; give a Pins"),
    ({"fill": 0.5}, "board vc709: fill = 0.5; give a Fill"),
    ({"device": None}, "board vc709: device = None; give a Device"),
    ({"link": Link(lanes=15)}, "board vc709: link: 15 lanes but 14 transceivers; give links of fewer lanes"),
    ({"transceivers": 0}, "board vc709: link: 1 lane but 0 transceivers; "
     'give Link(adapter="parallel", encoding="none")'),
    ({"transceiver_gbps": 10}, "board vc709: link: gbps = 10.3125 a lane but its transceivers reach 10; "
     "give a slower link"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), BOARDS)
def test_wrong_boards(settings, message):
    (found,) = problems(lambda: dataclasses.replace(VC709, **settings))
    matches(message, found)


DEVICES = [
    ({"part": "a; exec"}, "part = 'a; exec'; give up to 60 letters, digits, spaces and . _ + - /"),
    ({"part": ""}, "part = ''; give up to 60 letters, digits, spaces and . _ + - /"),
    ({"vendor": "x\n"}, "vendor = 'x\\n'; give up to 60 letters, digits, spaces and . _ + -"),
    ({"dsp": -1}, "dsp = -1; give an integer in 0..100,000,000"),
    ({"lut": "433200"}, "lut = '433200'; give an integer in 0..100,000,000"),
    ({"ff": 10**9}, "ff = 1000000000; give an integer in 0..100,000,000"),
    ({"dsp_widths": 18}, "dsp_widths = 18; give 2 integers in 2..64"),
    ({"dsp_widths": (25, 18, 48)}, "dsp_widths = (25, 18, 48); give 2 integers in 2..64"),
    ({"dsp_widths": (25, 1)}, "dsp_widths = (25, 1); give 2 integers in 2..64"),
    ({"bram_bits": 0}, "bram_bits = 0; give an integer in 256..16,777,216"),
    ({"clock_mhz": 0}, "clock_mhz = 0; give a number above 0 and up to 2000 MHz"),
    ({"clock_mhz": 10**400}, f"clock_mhz = 1{'0' * 56}...; give a number above 0 and up to 2000 MHz"),
    ({"uram": 5}, "uram = 5 without uram_bits; give the bits of one"),
    ({"lut_ram_bits": 0}, "lut_ram = 174200 without lut_ram_bits; give the bits of one"),
    ({"lut_ram_bits": 1025}, "lut_ram_bits = 1025; give an integer in 0..1,024"),
    ({"lut_ram": -1}, "lut_ram = -1; give an integer in 0..100,000,000"),
    ({"lut_ram": 433_201}, "lut_ram = 433201 of lut = 433200; give those of the LUTs that can be memory"),
]


@pytest.mark.parametrize(("settings", "message"), DEVICES)
def test_wrong_devices(settings, message):
    (found,) = problems(lambda: dataclasses.replace(VC709.device, **settings))
    matches(f"device: {message}", found)


@pytest.mark.parametrize("value", [1.01, -0.1, "1", None, True])
def test_wrong_fill_limits(value):
    for resource in RESOURCES:
        (found,) = problems(lambda r=resource: Fill(**{r: value}))
        matches(f"fill: {resource} = {value!r}; give a number in 0 to 1", found)


def test_all_wrong_fields_are_told_at_once():
    assert len(problems(lambda: Link(0, 0, "", "", -1))) == 5
    assert len(problems(lambda: Fill(2, 2, 2, 2, 2))) == 5
    assert len(problems(lambda: Device(*[None] * 17))) == 17
    assert len(problems(lambda: Board("", *[-1] * 13))) == 14


CLUSTERS = [
    (lambda: Cluster(()), "0 boards; give 1 to 256"),
    (lambda: Cluster((ULX3S,) * 257, (PINS,) * 256), "257 boards; give 1 to 256"),
    (lambda: Cluster((VC709,) * 3, (Link(),)), "3 boards have 2 cables between them, 1 links given"),
    (lambda: Cluster("vc709"), "boards = 'vc709'; give a tuple of Board"),
    (lambda: Cluster((VC709, VC709), Link()), "links = Link(lanes=1, gbps=10.3125, encoding='64b66b', "
     "adapter='a...; give a tuple of Link"),
    (lambda: Cluster((VC709,) * 9, (Link(lanes=8),) * 8), "board 1 (vc709): 16 lanes but 14 transceivers; "
     "give links of fewer lanes"),
    (lambda: Cluster((VC709, VC709), (Link(gbps=11.5),)), "board 0 (vc709): gbps = 11.5 a lane but its "
     "transceivers reach 11.3; give a slower link"),
    (lambda: Cluster((VC709, ULX3S), (Link(),)), "board 1 (ulx3s_85f): 1 lane but 0 transceivers; "
     'give Link(adapter="parallel", encoding="none")'),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), CLUSTERS)
def test_wrong_clusters(make, message):
    (found,) = problems(make)
    matches(f"cluster: {message}", found)


def test_the_faster_of_two_links_counts():
    messages = [
        f"cluster: board {index} (vc709): gbps = 11.5 a lane but its transceivers reach 11.3; give a slower link"
        for index in (1, 2)
    ]
    assert problems(lambda: Cluster((VC709,) * 3, (Link(), Link(gbps=11.5)))) == messages


def test_links_that_boards_can_take():
    assert len(Cluster((VC709,) * 256, (Link(lanes=7),) * 255).boards) == 256
    mixed = Cluster((VC709, ULX3S, VC709), (PINS, PINS))
    assert str(mixed) == "vc709,ulx3s_85f,vc709"
    assert Cluster((VC709, U280), (Link(lanes=8),)).links[0].width == 512
