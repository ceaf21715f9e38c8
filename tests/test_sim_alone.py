"""One board alone against what crosses its links by the reference: every board of a chain is equal, no mutant is."""

import dataclasses
from contextlib import suppress
from functools import cache
from itertools import pairwise

import hwgen.sim.run
import numpy as np
import pytest
from chain_cases import chain_device, chain_plan, random_chain
from device_cases import device_of
from hwgen.sim.alone_top import ALONE, alone_files
from hwgen.sim.boundary import boundary_streams, record
from hwgen.sim.cables import CableOptions
from hwgen.sim.compare import Comparison
from hwgen.sim.lint import lint
from hwgen.sim.program import Program
from hwgen.sim.run import SimOptions, simulate
from hwgen.sim.session import waiting_for
from hwgen.sim.shares import Batch, backward_sums, forward_sums, inputs, part_counts
from ref_networks import random_batch, random_parameters
from small_device import rewired

from hwgen import Formats, Model, nn
from hwgen.backend.verilog import emit
from hwgen.errors import BuildError, MismatchError, ModelError
from hwgen.plan.cuts import Cut
from hwgen.plan.planner import plan_network
from hwgen.ref.executor import COUNTS, Reference
from hwgen.ref.kernels import conv_backward, conv_forward
from hwgen.target import Link

ROUGH = CableOptions(
    latency=(0, 40), jitter=5, ber=1e-5, loss=0.02, repeat=0.02, reset_skew=500, stutter=True, clocks=True
)
FORMATS = Formats(activation=8, weight=6, master=12, error=8, lr=8, bias=12)
LAYERS = (
    nn.Conv2d(2, 3, 1, name="first"),
    nn.ReLU(),
    nn.Conv2d(3, 6, (1, 2), groups=3, name="groups"),
    nn.ReLU(),
    nn.MaxPool2d((2, 1)),
    nn.Conv2d(6, 3, 1, name="inputs"),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(3, 4, name="outputs"),
    nn.Linear(4, 2, name="last"),
)
CUTS = (
    Cut(0), Cut(0, "groups", (0, 1, 3)), Cut(1, "input_channels", (0, 2, 6)), Cut(2, "output_channels", (0, 2, 4)),
    Cut(4),
)  # fmt: skip
BOARDS = 5


@cache
def chain():
    """A small chain with a link of every kind."""
    optimizer = nn.SGD(lr=0.5, batch=2)
    network = Model(input=(2, 2, 2), layers=list(LAYERS), optimizer=optimizer, formats=FORMATS).network(1)
    return chain_device(chain_plan(network, BOARDS, lambda *_: CUTS), emit, seed=1)


def alone(device, board, cables=CableOptions(), **options):  # noqa: B008  (frozen)
    wanted = {"batches": 1, "simulator": "icarus", "watchdog": 20_000} | options
    return simulate(device, SimOptions(device=board, cables=cables, **wanted))


def only(device, board):
    """The device without the Verilog that ``board`` alone does not need."""
    needed = alone_files(device.plan, board, device.files)
    files = {name: text for name, text in device.files.items() if name in needed}
    assert [name for name in files if "board" in name] == [f"verilog/hwgen_board{board}.v"]
    return dataclasses.replace(device, files=files)


@pytest.mark.parametrize("board", range(BOARDS))
def test_every_board_alone_over_rough_cables(board):
    device = chain()
    result = alone(only(device, board), board, ROUGH, evaluate=True, stall=0.1 * board, seed=board)
    assert result["mismatched"] == 0
    assert [stage["board"] for stage in result["stages"]] == [board] * len(device.plan.on(board))
    ends = [(end["link"], end["board"], end["state"]) for end in result["links"]]
    links = [link for link in (board - 1, board) if 0 <= link < BOARDS - 1]
    assert ends == [(link, board, "up") for link in links]


def test_every_kind_of_channel_crosses_somewhere():
    kinds = {
        (side, channel.kind)
        for link in chain().plan.links
        for side in ("down", "up")
        for channel in getattr(link, side)
    }
    assert kinds == {
        ("down", "management"), ("down", "label"), ("down", "x"), ("down", "y"), ("down", "sums"),
        ("up", "management"), ("up", "result"), ("up", "dy"), ("up", "dx"), ("up", "back"),
    }  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 26))
def test_boards_of_random_chains_alone(seed):
    plan = random_chain(seed)
    if plan is None:
        pytest.skip("too few channels")
    device = chain_device(plan, emit, seed, extreme=seed % 3 == 0)
    for board in range(len(plan.boards)):
        result = alone(only(device, board), board, ROUGH, evaluate=True, stall=0.1 * (seed % 3), seed=seed)
        assert result["mismatched"] == 0


@pytest.mark.soak
def test_verilator_takes_the_same_cycles():
    results = [alone(chain(), 1, simulator=name) for name in ("icarus", "verilator")]
    assert results[0]["cycles"] == results[1]["cycles"]
    assert results[0]["compared"] == results[1]["compared"]


# --- mistakes


def test_a_flipped_integer_in_a_recorded_stream(monkeypatch):
    def flipped(*arguments):
        recording = record(*arguments)
        recording.fed["source_up_x"][0][0, 0] ^= np.uint32(1 << 7)
        return recording

    monkeypatch.setattr(hwgen.sim.run, "record", flipped)
    expected = r"^last\.dw: batch 0, index \[0, 0, 0, 0\]: hardware -?\d+, reference -?\d+ \("
    with pytest.raises(MismatchError, match=expected):
        alone(chain(), 4)


def test_a_flipped_bit_on_the_way_to_the_link():
    """Behind everything else that is compared: only the link's own words tell."""
    broken = rewired(chain(), "hwgen_board4", "up_pack_dy", "i__payload", "{} ^ 32'h10000")
    expected = (
        r"^link 3 up\.dy: batch 0, sample 0, index \[0, 2\]: hardware -?\d+, reference -?\d+ "
        r"\(2 of 8 differ\); 6 of \d+ compared integers differ$"
    )
    with pytest.raises(MismatchError, match=expected):
        alone(broken, 4)


def test_a_board_of_another_build(monkeypatch):
    monkeypatch.setattr("hwgen.sim.alone_top.build_number", lambda plan: 0x12345678)
    expected = (
        r"^link 3: board [34] refuses what is at the other end of its cable: not board [34] of this build"
    )
    with pytest.raises(BuildError, match=expected):
        alone(chain(), 4, watchdog=1000)


def test_devices_that_are_not_there():
    device = chain()
    with pytest.raises(
        BuildError,
        match=r"^device 5: no such board; this chain has 0 \(vc709\), 1 \(vc709\), .*, 4 \(vc709\)$",
    ):
        alone(device, 5)
    single = device_of(plan_network(device.plan.network), files=lambda plan: {})
    expected = r"^device 0: this build is one board without links; leave --device out$"
    with pytest.raises(BuildError, match=expected):
        alone(single, 0)


def test_conditions_of_cables_need_a_chain():
    single = device_of(plan_network(chain().plan.network), files=lambda plan: {})
    expected = (
        r"^cables: this build is one board without links; leave the options of cables out, or build with"
    )
    with pytest.raises(BuildError, match=expected):
        simulate(single, SimOptions(batches=1, cables=CableOptions(ber=1e-6)))


def test_verilog_that_is_not_there():
    device = chain()
    files = {name: text for name, text in device.files.items() if "link" not in name}
    with pytest.raises(BuildError, match=r"^verilog: no module hwgen_link_\w+ in \d+ files; build again$"):
        alone(dataclasses.replace(device, files=files), 1)


def test_lint():
    device = chain()
    warnings = lint(alone_files(device.plan, 1, device.files), ALONE)
    assert [warning for warning in warnings if "alone.sv" in warning] == []


# --- what the reference says of parts and links


@cache
def plans():
    """Random cuts with every kind of boundary that links of 256 bits can carry."""
    wide, found = Link(lanes=4, gbps=10.3125, latency=20), []
    for seed in range(60):
        with suppress(ModelError):
            found.append(random_chain(seed, link=wide))
    pools = [nn.Conv2d(2, 4, 2, name="conv"), nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(16, 3)]
    network = Model(input=(4, 4, 2), layers=pools, formats=FORMATS).network(1)
    overlapping = Cut(0, "output_channels", (0, 1, 4)), Cut(1)
    found.append(chain_plan(network, 2, lambda *_: overlapping, wide))
    return [plan for plan in found if plan is not None]


def trained(plan, seed, extreme=False):
    """A batch of a network with random parameters and samples."""
    rng = np.random.default_rng(seed)
    network = plan.network
    images, labels = random_batch(network, rng, network.update.batch, extreme)
    reference = Reference(network, random_parameters(network, rng, extreme))
    before = reference.parameters
    trace = reference.train_batch(images, labels)
    return Batch(np.asarray(images, dtype=np.int64), trace.y, before, 0, trace)


def test_shares_of_all_parts_add_up():
    """Counts of the parts sum to those of the whole stage, and so do their exact sums."""
    seen = set()
    for seed, plan in enumerate(plans()):
        batch = trained(plan, seed, extreme=seed % 4 > 0)
        for stage in plan.network.stages:
            parts = [p for p in plan.stages if p.stage.index == stage.index]
            shares = [part_counts(plan.network, planned, batch) for planned in parts]
            sums = {name: sum(share[name] for share in shares) for name in COUNTS}
            assert sums == batch.trace.saturated[stage.index]
            seen |= {(parts[0].part.cut, name) for name, count in sums.items() if count and len(parts) > 1}
            x, dy = inputs(stage, batch), batch.trace.dy[stage.index]
            w = batch.parameters.weights[stage.index] >> (stage.master.width - stage.w.width)
            middle = parts[0].part.high
            if parts[0].part.cut == "input_channels":
                rest = conv_forward(x[..., middle:], w[:, :, middle:], stage.window)
                whole = conv_forward(x, w, stage.window)
                assert np.array_equal(forward_sums(stage, batch, middle) + rest, whole)
            if parts[0].part.cut == "output_channels" and stage.dx is not None:
                group = middle // stage.N * stage.N  # sums go over the outputs of one group
                if group < middle:
                    rest = conv_backward(dy[..., group:middle], w[..., group:middle], stage.window)
                else:
                    rest = np.zeros_like(x[..., : stage.cin])
                own = slice(group, group + stage.N)
                whole = conv_backward(dy[..., own], w[..., own], stage.window)
                assert np.array_equal(backward_sums(stage, batch, middle) + rest, whole)
    counted = {(cut, name) for cut in ("input_channels", "output_channels") for name in COUNTS}
    assert counted <= seen, counted - seen


def recordings(device):
    """What every board of a chain records of one batch and an evaluation, by board."""
    plan, data = device.plan, device.dataset
    images, labels = (np.asarray(a, np.int64) for a in (data.train_images, data.train_labels))
    half = plan.network.update.batch
    samples = [np.arange(half), np.arange(half, 2 * half)]
    return [
        record(plan, board, device.parameters, images, labels, samples, np.arange(3))
        for board in range(len(plan.boards))
    ]


def test_both_ends_of_a_link_record_the_same():
    plan = next(plan for plan in plans() if len(plan.boards) == 4)
    device = device_of(plan, files=lambda plan: {})
    boards = recordings(device)
    for near, far in pairwise(boards):
        for giver, taker, ways in ((near, far, ("down", "up")), (far, near, ("up", "down"))):
            for port, words in taker.fed.items():
                if port.startswith(f"source_{ways[1]}_"):
                    sink = f"sink_{ways[0]}_{port.rpartition('_')[2]}"
                    if sink in giver.wanted:
                        given = [part for _, _, part in giver.wanted[sink]]
                        assert np.array_equal(np.concatenate(given), np.concatenate(words))
                        assert len(words) in (2, 3)


def test_every_word_that_differs_is_named():
    """One bit of any stream: the channel, the batch and the place, or a lane that should be empty."""
    for recording in recordings(chain()):
        got = {
            port: np.concatenate([words for _, _, words in parts])
            for port, parts in recording.wanted.items()
            if parts
        }
        got |= {
            stream.port: np.zeros((0, 2), np.uint32) for stream in recording.sinks if stream.port not in got
        }
        equal = Comparison()
        recording.compare(got, equal)
        assert (equal.mismatched, equal.first) == (0, None)
        for stream in recording.sinks:
            for word, bit in ((0, 0), (-1, 63)):
                if not len(got[stream.port]):
                    continue
                changed = got[stream.port].copy()
                changed[word, bit // 32] ^= np.uint32(1 << bit % 32)
                found = Comparison()
                recording.compare({**got, stream.port: changed}, found)
                assert found.mismatched == 1
                assert found.tensors == [stream.name]
                used = bit < stream.channel.lanes * stream.channel.bits
                assert ("in a lane that holds no element" in found.first) == (not used)
            lost, found = {**got, stream.port: got[stream.port][:-1]}, Comparison()
            recording.compare(lost, found)
            assert bool(found.mismatched) == bool(len(got[stream.port]))


def test_what_a_stuck_board_waits_for():
    program, sinks = Program(), boundary_streams(chain().plan, 2)[1]
    program.received(5, 12)
    assert waiting_for(program, 0, sinks) == "word 12 of link 2 down.y"


def test_ports_of_a_board():
    sources, sinks = boundary_streams(chain().plan, 2)
    assert [stream.port for stream in sources] == [
        "source_up_x", "source_up_sums", "source_down_result", "source_down_dy", "source_down_back",
    ]  # fmt: skip
    assert [stream.port for stream in sinks] == [
        "sink_up_dy", "sink_up_dx", "sink_down_management", "sink_down_label", "sink_down_x", "sink_down_y",
    ]  # fmt: skip
