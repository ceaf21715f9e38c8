"""Plans: legal, deep enough, deterministic and buildable for random networks; what sets the pace; the text."""

import dataclasses
import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Fragment
from amaranth.lib import data
from geometry_cases import FIXED, draw_geometry, rng_of, tap_of
from ref_networks import random_network

from hwgen import Model, nn
from hwgen.gateware.array import Array
from hwgen.gateware.bias import Bias
from hwgen.gateware.core import Core
from hwgen.gateware.loops import bits, flags_layout
from hwgen.gateware.passes import BackwardPass, ForwardPass
from hwgen.gateware.stage import array_offsets, array_shape
from hwgen.gateware.update import Updater
from hwgen.ir.stage import Loss, Network, Stage, Update, Wish
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan import latency as L
from hwgen.plan.buffers import least_depths
from hwgen.plan.describe import describe
from hwgen.plan.fold import legal_pc, legal_u
from hwgen.plan.layout import Storage
from hwgen.plan.pixels import needed_pixels, touching_pixels
from hwgen.plan.planner import bottleneck, plan_network
from hwgen.plan.schedule import chain, run_schedule

GOLDEN = Path(__file__).parent / "golden"
Q8 = Q(8, 4)


def wished(seed):
    """A random network, in half of the cases with random wishes for some stages."""
    network, rng = random_network(seed), random.Random(seed)
    if seed % 2:
        return network
    stages = []
    for stage in network.stages:
        wish = Wish(
            rng.choice(legal_u(stage)),
            rng.choice(legal_pc(stage)),
            rng.randint(1, stage.N),
            rng.randint(1, min(9, stage.M)),
        )
        stages.append(dataclasses.replace(stage, wish=wish) if rng.random() < 0.7 else stage)
    return dataclasses.replace(network, stages=tuple(stages))


def lanes_for(seed, network):
    return 1 + seed % network.in_shape[2]


@pytest.mark.parametrize("seed", range(40))
def test_any_plan_is_legal(seed):
    network = wished(seed)
    plan = plan_network(network, lanes_for(seed, network))
    assert plan == plan_network(network, lanes_for(seed, network))
    assert plan.network == network
    for planned, stage in zip(plan.stages, network.stages, strict=True):
        folding, fold = planned.folding, planned.fold
        assert planned.stage == stage
        assert folding.u in legal_u(stage)
        assert folding.pc in legal_pc(stage)
        assert 1 <= folding.pn <= stage.N
        assert folding.b >= 1
        assert (fold.pk % planned.tile[0], fold.pn % planned.tile[1]) == (0, 0)
        least = dataclasses.asdict(least_depths(planned))
        depths = dataclasses.asdict(planned.depths)
        assert all(depths[name] >= number for name, number in least.items()), (depths, least)
        assert {name for name, number in depths.items() if number} == {
            name for name, number in least.items() if number
        }
    prediction = plan.prediction
    pace, name = bottleneck(plan)
    assert prediction.bottleneck == name
    assert prediction.cycles_per_sample >= pace
    assert prediction.cycles_per_batch > pace * (network.update.batch - 1)
    assert 0 < prediction.occupancy <= 1
    assert prediction.occupancy == network.macs / (plan.multipliers * prediction.cycles_per_sample)
    first, last = prediction.steady
    assert 0 <= first <= last < network.update.batch


@pytest.mark.parametrize("seed", range(8))
def test_any_plan_elaborates(seed):
    network = wished(seed)
    Fragment.get(Core(plan_network(network, lanes_for(seed, network))), None)


IN_TURN = Storage(weights="block", update="column")


def check_latencies(network):
    """The schedule's latencies are those of the parts; also where a column's unit updates its rows in turn."""
    stages = plan_network(network).stages
    stored = [dataclasses.replace(planned, storage=IN_TURN) for planned in stages if not planned.stage.frozen]
    for planned in (*stages, *stored):
        fold, stage = planned.fold, planned.stage
        shape = array_shape(network, planned)
        array = Array(shape, fold.pk, fold.pn, planned.tile, array_offsets(planned, planned.stage))
        layout = data.StructLayout({"flags": flags_layout(fold.geometry)})
        assert L.sum_latency(planned) == ForwardPass(layout, array, stage.acc_bits, fold.b).latency
        if shape.backward:
            assert L.back_latency(planned) == BackwardPass(layout, layout, array, fold.b).latency
        assert L.settle(planned) == array.settle + 4
        assert L.update_chunks(stage, network.update.batch) == shape.chunks
        updater = Updater(fold, shape, array.settle + 4, network.update.batch)
        without_bias = dataclasses.replace(planned, stage=dataclasses.replace(stage, bias=None))
        assert L.update_cycles(without_bias, network.update) == updater.cycles + 2
        if stage.bias is not None and shape.gradient:
            bias = Bias(
                count=fold.pn, words=fold.y_words, width=stage.bias.width, align=0, out_width=stage.acc_bits,
                dy=stage.dy.width, grad=40, rate=shape.rate, shift=0, gradient=True, word_shape=bits(fold.y_words),
            )  # fmt: skip
            alone = 2 * L.settle(planned) + L.update_word(planned, network.update.batch) * fold.depth
            behind = max(alone, L.settle(planned) + bias.update_cycles - 1)
            assert L.update_cycles(planned, network.update) == behind + 7


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("seed", range(8))
def test_latencies_are_those_of_the_gateware(seed):
    check_latencies(wished(seed))
    gc.collect()  # unused parts warn when they are collected: here, not in a later test


def one_stage(window=Window2d(8, 8), cin=4, cout=4, pool=None, classes=None, **settings):  # noqa: B008
    """A network of one stage and its loss."""
    stage = Stage(
        "only",
        0,
        window,
        cin,
        cout,
        x=Q8,
        w=Q8,
        master=Q(12, 8),
        bias=None,
        y=Q8,
        dy=Q8,
        dx=None,
        pool=pool,
        **settings,
    )
    classes = int(np.prod(stage.out_shape))
    return Network("net", Q8, (stage,), Loss(classes, Q8, Q8), Update(Q8, 3, 2, 0.1))


BIG_POOL = Window2d(8, 8, (5, 5), (1, 1), (2, 2, 2, 2))
SHRINK = Window2d(32, 32, (2, 2), (16, 16))
BOTTLENECKS = [
    (one_stage(SHRINK, 4, 1, wish=Wish(4, 4, 1)), 1, (32 * 32 * 4, "image")),
    (one_stage(SHRINK, 4, 1, wish=Wish(4, 1, 1)), 4, (32 * 32 * 4, "only.x")),
    (
        one_stage(Window2d(8, 8, (8, 8)), 4, 3, wish=Wish(1, 1, 1)),
        1,
        (64 * 4 * 3, "only.forward and backward"),
    ),
    (
        one_stage(Window2d(8, 8, (8, 8)), 4, 3, wish=Wish(1, 1, 1), frozen=True),
        1,
        (64 * 4 * 3, "only.forward"),
    ),
    (one_stage(Window2d(8, 8), 1, 1, BIG_POOL, wish=Wish(1, 1, 1)), 1, (64 * 25, "only.pool")),
    (one_stage(Window2d(1, 1), 8, 60, wish=Wish(1, 8, 60)), 8, (60 * (4 + 3) + 11, "loss")),
]


@pytest.mark.parametrize(("network", "lanes", "wanted"), BOTTLENECKS)
def test_the_bottleneck_is_named(network, lanes, wanted):
    plan = plan_network(network, lanes)
    assert bottleneck(plan) == wanted
    assert plan.prediction.bottleneck == wanted[1]


def digits():
    """The digits network of the examples, with the arrays that this text was made for."""
    layers = [
        nn.Conv2d(1, 8, 3, padding=1, array=(9, 1)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, array=(9, 4)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10, array=(8, 2)),
    ]
    return Model(input=(8, 8, 1), layers=layers, optimizer=nn.SGD(lr=0.15, batch=16), name="digits").network()


def test_the_text_of_a_plan():
    text = describe(plan_network(digits()))
    golden = GOLDEN / "plan.txt"
    if os.environ.get("HWGEN_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_plan_with_more_lanes_is_not_slower():
    network = one_stage(SHRINK, 4, 1, wish=Wish(4, 4, 1))
    paces = [plan_network(network, lanes).prediction.cycles_per_sample for lanes in (1, 2, 4)]
    assert paces == sorted(paces, reverse=True)
    assert paces[0] >= 2 * paces[1]


@pytest.mark.parametrize("seed", range(20))
def test_chain_is_a_queue(seed):
    rng = np.random.default_rng(seed)
    ready = rng.integers(0, 50, 12)
    cost = rng.integers(0, 9, 12) if seed % 2 else int(rng.integers(1, 9))
    end, ends, start = int(rng.integers(-5, 40)), [], 0
    start = end
    for k in range(12):
        end = max(end, ready[k]) + (cost[k] if seed % 2 else cost)
        ends.append(end)
    assert chain(ready, cost, start).tolist() == ends


def taps(geometry, pixel):
    kfs = range(0, geometry.fk, geometry.cgs)
    found = [tap_of(geometry, pixel, kf, p) for kf in kfs for p in range(geometry.u)]
    width = geometry.window.width
    return [y * width + x for y, x in filter(None, found)]


@pytest.mark.parametrize("seed", range(40))
def test_pixels_needed_and_touched(seed):
    """Against every tap: enough pixels, and no pixel given back too early."""
    geometry = FIXED[seed] if seed < len(FIXED) else draw_geometry(rng_of(seed, 41), 2000)
    needed, touching = needed_pixels(geometry), touching_pixels(geometry)
    for pixel in range(geometry.M):
        inside = taps(geometry, pixel)
        assert 1 <= needed[pixel] <= geometry.window.pixels_in
        assert all(needed[pixel] > index for index in inside)
        for index in inside:
            assert touching[index] >= pixel


def test_a_paced_schedule_repeats_itself():
    plan = plan_network(digits())
    pace, _ = bottleneck(plan)
    endless = dataclasses.replace(
        plan,
        network=dataclasses.replace(
            plan.network, update=dataclasses.replace(plan.network.update, batch=1 << 20)
        ),
    )
    times = run_schedule(endless, 20, pace)
    steps = np.diff(times.results)
    assert set(steps[8:].tolist()) == {pace}


def test_an_update_waits_for_its_batch():
    """No sample of the next version starts before the last gradient of the batch."""
    plan = plan_network(digits())
    batch = plan.network.update.batch
    times = run_schedule(plan, 3 * batch)
    for stage in times.stages:
        for version in (1, 2):
            assert stage.first_forward[version * batch] >= stage.update[version - 1]
            assert stage.update[version - 1] > stage.backward[version * batch - 1][-1]
            assert stage.first_forward[version * batch - 1] < stage.update[version - 1]
    assert times.idle >= max(times.results)
