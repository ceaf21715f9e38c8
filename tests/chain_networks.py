"""Small networks that tests cut over boards, and plans of them under given cuts, foldings and depths."""

import dataclasses
from functools import cache
from itertools import accumulate
from unittest import mock

import hwgen.sim.run
from chain_cases import SMALL_LINK, chain_device, chain_plan
from device_cases import run, with_depths
from direct_chain import direct_files
from hwgen.sim.ports import read_ports

from hwgen import Formats, Model, nn
from hwgen.plan.buffers import least_depths
from hwgen.plan.cuts import Cut, axis_channels
from hwgen.plan.foldings import tile_of

__all__ = [
    "cut_plan",
    "cuts_of",
    "digits",
    "grouped",
    "mlp",
    "more_groups",
    "refolded",
    "run_direct",
    "six_layers",
    "row_groups",
    "row_pools",
    "tall_rows",
    "two_groups",
    "two_layers",
]

FORMATS = Formats(activation=8, weight=6, master=12, error=8, lr=8, bias=12)
SEED = 0xC0FFEE
"""Of stochastic rounding."""


def _network(name, shape, layers, rounding):
    formats, optimizer = dataclasses.replace(FORMATS, rounding=rounding), nn.SGD(lr=0.5, batch=2)
    return Model(input=shape, layers=layers, optimizer=optimizer, formats=formats, name=name).network(SEED)


@cache
def digits(rounding="nearest", frozen=False):
    """Two convolutions with pools and a linear layer, as the digits network has them, but few channels."""
    layers = [
        nn.Conv2d(2, 3, 3, padding=1, u=3, pc=2, pn=2, b=3, frozen=frozen, name="first"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, (3, 2), padding=1, u=2, pc=1, pn=2, b=2, name="second"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 3, u=1, pc=2, pn=2, name="linear"),
    ]
    return _network("digits", (4, 4, 2), layers, rounding)


@cache
def six_layers():
    """Five convolutions, with stride, dilation and a pool among them, and a linear layer."""
    layers = [
        nn.Conv2d(1, 3, (1, 3), padding=(0, 1), u=3, pc=1, pn=2, b=4, name="a"),
        nn.ReLU(),
        nn.Conv2d(3, 3, 2, stride=(1, 2), padding=1, u=2, pc=2, pn=2, b=2, name="b"),
        nn.Conv2d(3, 4, 1, u=1, pc=2, pn=2, b=1, name="c"),
        nn.Hardtanh(-1, 0.5),
        nn.Conv2d(4, 2, (3, 2), padding=1, dilation=(1, 2), u=2, pc=2, pn=1, b=3, name="d"),
        nn.LeakyReLU(0.1),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, 1, u=1, pc=1, pn=2, b=1, name="e"),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3, 3, u=1, pc=2, pn=1, name="f"),
    ]
    return _network("six", (2, 3, 1), layers, "nearest")


@cache
def mlp():
    """Three linear layers."""
    layers = [
        nn.Flatten(),
        nn.Linear(6, 5, u=1, pc=2, pn=2, name="wide"),
        nn.ReLU(),
        nn.Linear(5, 4, u=1, pc=2, pn=2, name="middle"),
        nn.ReLU(),
        nn.Linear(4, 3, u=1, pc=2, pn=2, name="narrow"),
    ]
    return _network("mlp", (1, 3, 2), layers, "nearest")


@cache
def two_layers(rounding="nearest"):
    """Two small linear layers, both with ReLU, whose halves are alike."""
    layers = [
        nn.Flatten(),
        nn.Linear(2, 4, u=1, pc=1, pn=2, name="first"),
        nn.ReLU(),
        nn.Linear(4, 4, u=1, pc=1, pn=1, name="second"),
        nn.ReLU(),
    ]
    return _network("two", (1, 1, 2), layers, rounding)


@cache
def tall_rows(rounding="nearest", frozen=False):
    """Convolutions over images of more rows than columns: pads, a pool, a stride, dilation, a short last row block."""
    layers = [
        nn.Conv2d(1, 2, 3, padding=1, u=3, pc=1, pn=2, b=2, frozen=frozen, name="first"),
        nn.LeakyReLU(0.3),
        nn.MaxPool2d((2, 1)),
        nn.Conv2d(2, 2, (3, 1), stride=(2, 1), padding=(1, 0), u=3, pc=2, pn=1, b=1, name="second"),
        nn.Hardtanh(-0.5, 1),
        nn.Conv2d(2, 3, (2, 2), dilation=(2, 1), padding=(1, 0), u=2, pc=1, pn=2, b=1, name="third"),
        nn.Flatten(),
        nn.Linear(9, 2, u=1, pc=3, pn=1, name="linear"),
    ]
    return _network("tall_rows", (10, 2, 1), layers, rounding)


@cache
def row_groups():
    """A grouped convolution over rows, then a depthwise one with a pool that leaves a row over."""
    layers = [
        nn.Conv2d(2, 4, (2, 1), groups=2, u=2, pc=1, pn=1, b=1, name="two"),
        nn.ReLU(),
        nn.Conv2d(4, 4, (3, 1), padding=(1, 0), groups=4, u=1, pc=1, pn=1, b=2, name="depthwise"),
        nn.ReLU(),
        nn.MaxPool2d((2, 1)),
        nn.Flatten(),
        nn.Linear(16, 2, u=1, pc=4, pn=2, name="linear"),
    ]
    return _network("row_groups", (6, 2, 2), layers, "nearest")


@cache
def row_pools(frozen=False):
    """Pools whose windows overlap over rows: by one row, and padded by two; one that leaves rows out."""
    layers = [
        nn.Conv2d(1, 2, (3, 1), padding=(1, 0), u=3, pc=1, pn=1, b=2, frozen=frozen, name="first"),
        nn.ReLU(),
        nn.MaxPool2d((3, 2), stride=(2, 1), padding=(0, 1)),
        nn.Conv2d(2, 2, (2, 1), padding=(1, 0), u=1, pc=2, pn=2, b=1, name="second"),
        nn.MaxPool2d((3, 1), stride=(1, 1), padding=(1, 0)),
        nn.Conv2d(2, 3, 1, u=1, pc=1, pn=2, b=1, name="third"),
        nn.ReLU(),
        nn.MaxPool2d((1, 1), stride=(2, 1)),
        nn.Flatten(),
        nn.Linear(27, 2, u=1, pc=3, pn=1, name="linear"),
    ]
    return _network("row_pools", (10, 2, 1), layers, "nearest")


@cache
def grouped():
    """A convolution in four groups, a depthwise one with a pool, a linear layer."""
    layers = [
        nn.Conv2d(4, 8, (2, 1), groups=4, u=2, pc=1, pn=2, b=2, name="four"),
        nn.ReLU(),
        nn.Conv2d(8, 8, (1, 3), stride=2, padding=(0, 1), groups=8, u=3, pc=1, pn=1, b=2, name="depthwise"),
        nn.ReLU(),
        nn.MaxPool2d((1, 2)),
        nn.Flatten(),
        nn.Linear(8, 3, u=1, pc=4, pn=3, name="linear"),
    ]
    return _network("grouped", (2, 3, 4), layers, "nearest")


@cache
def two_groups(rounding="nearest"):
    """A convolution in two groups of three outputs with a pool, between layers of one group."""
    layers = [
        nn.Conv2d(1, 4, 1, u=1, pc=1, pn=2, b=2, name="first"),
        nn.ReLU(),
        nn.Conv2d(4, 6, (1, 2), padding=(0, 1), groups=2, u=2, pc=1, pn=2, b=3, name="two"),
        nn.ReLU(),
        nn.MaxPool2d((1, 2)),
        nn.Flatten(),
        nn.Linear(12, 2, u=1, pc=3, pn=1, name="linear"),
    ]
    return _network("two_groups", (2, 2, 1), layers, rounding)


@cache
def more_groups(rounding="nearest"):
    """Convolutions in two groups of four outputs, and in three of three."""
    layers = [
        nn.Conv2d(1, 4, 1, u=1, pc=1, pn=2, b=2, name="first"),
        nn.ReLU(),
        nn.Conv2d(4, 8, (2, 3), padding=(1, 1), groups=2, u=3, pc=2, pn=2, b=2, name="two"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 9, 1, u=1, pc=3, pn=3, b=1, name="between"),
        nn.Conv2d(9, 9, 1, groups=3, u=1, pc=2, pn=2, b=1, name="three"),
        nn.Flatten(),
        nn.Linear(9, 2, u=1, pc=3, pn=1, name="linear"),
    ]
    return _network("more_groups", (2, 3, 1), layers, rounding)


@cache
def tall():
    """A column of pixels, whose rows are as short as can be."""
    layers = [
        nn.Conv2d(1, 4, 1, u=1, pc=1, pn=1, b=1, name="column"),
        nn.Flatten(),
        nn.Linear(160, 2, u=1, pc=2, pn=1, name="linear"),
    ]
    return _network("tall", (40, 1, 1), layers, "nearest")


def cuts_of(text):
    """Cuts from a line as "0 0o2,5 1i3,6 2r2:1,2,2,1 …": the first board, then the axis and the bounds behind 0; of
    rows the number of parts and all turns."""
    axes = {"o": "output_channels", "i": "input_channels", "g": "groups"}
    cuts = []
    for word in text.split():
        board, axis, bounds = word[0], word[1:2], word[2:]
        if axis == "r":
            count, _, turns = bounds.partition(":")
            deal = tuple(int(n) for n in turns.split(","))
            totals = (sum(deal[p :: int(count)]) for p in range(int(count)))
            cuts.append(Cut(int(board), "rows", (0, *accumulate(totals)), deal))
            continue
        numbers = tuple(int(n) for n in bounds.split(",")) if axis else ()
        cuts.append(Cut(int(board), axes[axis], (0, *numbers)) if axis else Cut(int(board)))
    return tuple(cuts)


def cut_plan(network, text, link=SMALL_LINK, image_lanes=1):
    """The plan of ``network`` under the cuts of a line; as many boards as they reach."""
    cuts = cuts_of(text)
    for stage, cut in zip(network.stages, cuts, strict=True):
        assert cut.count == 1 or cut.bounds[-1] == axis_channels(stage, cut.axis), (stage.name, cut)
    boards = max(cut.board + cut.count for cut in cuts)
    return chain_plan(network, boards, lambda *_: cuts, link, image_lanes)


def refolded(plan, foldings, dy_blocks=1, y_blocks=1):
    """The plan whose part number k has some of (u, pc, pn, b) changed to ``foldings[k]``, with the least depths."""
    stages = list(plan.stages)
    for k, changes in foldings.items():
        planned = dataclasses.replace(stages[k], folding=dataclasses.replace(stages[k].folding, **changes))
        stages[k] = dataclasses.replace(planned, tile=tile_of(planned.fold))
    plan = dataclasses.replace(plan, stages=tuple(stages))
    return with_depths(plan, lambda planned: least_depths(planned, dy_blocks, y_blocks))


def run_direct(plan, seed=0, depth=4, extreme=False, change=None, **options):
    """Trains a plan on boards joined without links and compares everything; the result.

    ``depth`` of the FIFOs between the boards; ``change``(files) makes other Verilog.
    """

    def joined(plan, files, options, seed, stall):
        assert not any(planned.storage.master == "memory" for planned in plan.stages), (
            "no memory in a direct chain"
        )
        return dict(files), read_ports(files), None

    device = chain_device(plan, lambda plan: direct_files(plan, depth), seed, extreme=extreme)
    if change is not None:
        device = dataclasses.replace(device, files=change(device.files))
    with mock.patch.object(hwgen.sim.run, "chain_simulation", joined):
        return run(device, **{"seed": seed, "watchdog": 3000} | options)
