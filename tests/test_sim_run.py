"""Whole simulations of a device that replays the reference: what is equal passes, everything else fails by
name."""

from dataclasses import replace

import numpy as np
import pytest
from fake_device import BUILD_NUMBER, FakeBuild, Sabotage, fake_build, tiny_plan
from hwgen.sim import run as module
from hwgen.sim.cocotb_driver import run_cocotb
from hwgen.sim.cpp_driver import Conditions, run_cpp
from hwgen.sim.layout import Layout
from hwgen.sim.ports import read_ports
from hwgen.sim.program import Outcome, write_program
from hwgen.sim.run import SimOptions, simulate
from hwgen.sim.session import Session
from hwgen.sim.verilate import BuildOptions, build_driver
from sim_bench import *

from hwgen.errors import BuildError, DataError, MismatchError, WatchdogError
from hwgen.plan.registers import STATUS_BAD_FRAME, STATUS_BAD_LABEL


def test_equal_device_and_its_figures(good):
    told = []
    result = simulate(good, SimOptions(batches=1, seed=0), lambda done, total: told.append((done, total)))
    plan = good.plan
    assert result["mismatched"] == 0
    tensors = sum(
        s.window.pixels_in * s.in_channels + 2 * s.M * s.out_channels if s.pool is None
        else s.window.pixels_in * s.in_channels + s.M * s.out_channels + int(np.prod(s.out_shape))
        for s in (planned.stage for planned in plan.stages)
    )  # fmt: skip
    weights = sum(int(np.prod(s.weight_shape)) + s.out_channels for s in (p.stage for p in plan.stages))
    paddings = 7 + 4 + 4 + 4  # probes; dw and db; weights and biases after the held batch and at the end
    counters = 2 * 2 * 7
    assert result["compared"] == 3 * (tensors + 5) + 3 * weights + 2 * 3 * 3 + paddings + counters
    assert (result["batches"], result["samples"], result["seed"]) == (3, 9, 0)
    assert result["build"] == BUILD_NUMBER
    assert result["accuracy"] is None
    assert result["multipliers"] == plan.multipliers == 24 + 63
    assert result["predicted_cycles_per_sample"] == 30.0
    assert result["predicted_cycles_per_batch"] == 120.0
    # The device gives a result, starts the next sample, and shows the longest stream: 48 words in 48 cycles.
    period = 48 + 2
    assert result["cycles_per_sample"] == period
    assert 3 * period < result["cycles_per_batch"] < 5 * period
    # It counts each of those 48 cycles as busy; folding leaves conv's 4 x 2 PEs idle places in them.
    busy = 48 / period
    conv, linear = result["stages"]
    assert conv["occupancy"]["forward"] == pytest.approx(
        busy * plan.stages[0].stage.macs[0] / (plan.stages[0].fold.cycles * 8), rel=0.03
    )
    for stage, planned in ((conv, plan.stages[0]), (linear, plan.stages[1])):
        assert stage["name"] == planned.stage.name
        assert stage["multipliers"] == planned.fold.multipliers
        assert stage["counters"]["updates"] == 3
        assert stage["depths"]["window"] == planned.depths.window_rows
    shares = result["occupancy"]
    assert shares["total"] == pytest.approx(
        np.mean([shares[name] for name in ("forward", "backward", "gradient")])
    )
    assert set(result) == {
        "compared", "mismatched", "batches", "samples", "cycles", "cycles_per_sample",
        "predicted_cycles_per_sample", "cycles_per_batch", "predicted_cycles_per_batch", "occupancy",
        "multipliers", "macs_per_second", "stages", "seconds", "simulator", "accuracy", "seed", "build", "links",
        "rolled",
    }  # fmt: skip


def test_icarus_gives_the_same_figures(good):
    timing = {"seconds", "macs_per_second", "simulator"}
    by_name = {name: simulate(good, replace(QUICK, simulator=name)) for name in ("icarus", "verilator")}
    plain = [
        {key: value for key, value in result.items() if key not in timing} for result in by_name.values()
    ]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_both_drivers_leave_the_same_files(good, tmp_path, stall):
    session = Session.prepare(
        good.plan,
        good.parameters,
        good.dataset,
        batches=1,
        epochs=None,
        evaluate=False,
        gradients=True,
        seed=0,
    )
    ports = read_ports(good.files)
    layout = Layout(good.plan.network.in_shape, 1, good.plan.image_lanes, 8)
    conditions = Conditions(stall=stall, seed=3, watchdog=500)
    outcomes = []
    for name in ("cpp", "icarus", "verilator"):
        directory = tmp_path / name
        write_program(directory, session.program, ports, layout, session.images, session.labels)
        if name == "cpp":
            outcomes.append(
                run_cpp(build_driver(good.files, ports, BuildOptions(fast=False)), directory, conditions)
            )
        elif name == "icarus" or stall:
            outcomes.append(run_cocotb(good.files, ports, directory, conditions, name))
    assert len({replace(outcome, seconds=0.0) for outcome in outcomes}) == 1
    names = [path.name for path in (tmp_path / "cpp").glob("*.bin") if path.name != "marks.bin"]
    assert len(names) == 7 + 3 + 5
    for other in ("icarus", "verilator")[: len(outcomes) - 1]:
        for name in names:
            assert (tmp_path / other / name).read_bytes() == (tmp_path / "cpp" / name).read_bytes(), name


@pytest.mark.parametrize("stall", [0.2, 0.9])
def test_stalls_change_no_bit(good, stall):
    calm = simulate(good, QUICK)
    stalled = simulate(good, replace(QUICK, stall=stall, seed=0))
    assert stalled["compared"] == calm["compared"]
    assert stalled["cycles"] > calm["cycles"]


def test_epochs_and_evaluation():
    build = fake_build(count=8, evaluate=True)
    result = simulate(build, replace(QUICK, batches=None, epochs=2, evaluate=True))
    assert (result["batches"], result["samples"]) == (8, 24)
    labels = build.dataset.test_labels
    assert result["accuracy"] in [i / len(labels) for i in range(len(labels) + 1)]
    assert result["occupancy"]["total"] is not None


def test_a_batch_too_short_to_measure():
    result = simulate(fake_build(tiny_plan(steady=(2, 2)), count=3), QUICK)
    assert result["cycles_per_sample"] is None
    assert result["occupancy"] == {"forward": None, "backward": None, "gradient": None, "total": None}
    assert result["cycles_per_batch"] > 100


def test_evaluation_alone():
    result = simulate(fake_build(count=0, evaluate=True), replace(QUICK, batches=None, evaluate=True))
    assert result["batches"] == 0
    assert result["cycles_per_batch"] is None
    assert result["macs_per_second"] is None
    assert result["accuracy"] is not None


def test_a_frozen_stage_and_one_without_bias():
    build = fake_build(tiny_plan(frozen=True), count=3)
    result = simulate(build, QUICK)
    conv, linear = result["stages"]
    assert (conv["occupancy"]["backward"], conv["occupancy"]["gradient"]) == (None, None)
    assert conv["occupancy"]["forward"] > 0
    assert (conv["counters"]["updates"], linear["counters"]["updates"]) == (0, 3)
    sabotage = Sabotage(memory=(0, "master", 1, 0, 1))
    fails(
        fake_build(tiny_plan(frozen=True), count=3, sabotage=sabotage), MismatchError,
        r"conv\.weight: after batch 0, index \[0, 0, 0, 0\]: .*",
    )  # fmt: skip


def test_without_gradients_nothing_is_read_in_between(good):
    result, full = simulate(good, replace(QUICK, gradients=False)), simulate(good, QUICK)
    assert result["cycles"] < full["cycles"]
    # dw, db, and what was read after the held batch, with the paddings of each
    weights = sum(int(np.prod(p.stage.weight_shape)) + p.stage.out_channels for p in good.plan.stages)
    assert result["compared"] == full["compared"] - 2 * weights - 8


def test_dumped_tensors(good, tmp_path):
    simulate(good, replace(QUICK, dump=tmp_path / "tensors"))
    assert [path.name for path in (tmp_path / "tensors").iterdir()] == ["batch_0000.npz"]
    with np.load(tmp_path / "tensors" / "batch_0000.npz") as found:
        names = {
            f"{stage}.{kind}"
            for stage in ("conv", "linear")
            for kind in ("y", "dy", "dx", "dw", "db", "weight", "bias")
        }
        assert set(found) == {
            f"{name}.{side}" for name in names | {"loss.dz"} for side in ("hardware", "reference")
        }
        for name in names:
            assert np.array_equal(found[f"{name}.hardware"], found[f"{name}.reference"])
        assert found["conv.dw.hardware"].shape == (2, 2, 2, 6)


@pytest.mark.parametrize(
    ("sabotage", "pattern"),
    [
        (Sabotage(change=("probe_y0", 0, 0)), r"conv\.y: batch 0, sample 0, index \[0, 0, 0\]: .*"),
        # Sample 2 of linear.dx: 4 words of 7 lanes; lane 3 of word 2 is channel 17.
        (
            Sabotage(change=("probe_dx1", 2 * 4 + 2, 3 * 8 + 7)),
            r"linear\.dx: batch 0, sample 2, index \[0, 0, 17\]: .*\(1 of 72 differ\); 1 of .*",
        ),
        (
            Sabotage(change=("probe_dx1", 3, 6 * 8)),
            r"linear\.dx: batch 0: hardware 1 in a lane that holds no element, reference 0; .*",
        ),
        (Sabotage(change=("probe_dz", 1, 0)), r"loss\.dz: batch 0, sample 0, index \[0, 0, 3\]: .*"),
        (Sabotage(change=("prediction", 1, 0)), r"result\.prediction: batch 0, sample 1: .*"),
        (Sabotage(change=("loss", 4, 3)), r"result\.loss: batch 1, sample 1: .*"),
        (Sabotage(memory=(0, "grad_low", 0, 5, 1)), r"conv\.dw: batch 0, index \[.*\]: .*"),
        (Sabotage(memory=(1, "bias_grad_low", 0, 0, 1)), r"linear\.db: batch 0, index \[0\]: .*"),
        (Sabotage(memory=(0, "master", 1, 0, 1)), r"conv\.weight: after batch 0, index \[0, 0, 0, 0\]: .*"),
        (Sabotage(memory=(1, "bias", 3, 2, -1)), r"linear\.bias: at the end, index \[1\]: .*"),
        (Sabotage(memory=(1, "master", 3, 6 * 4 * 2 + 2, 1)), r"linear\.weight: at the end.*"),
        (
            Sabotage(counter=(0, "dx_saturated", 1, 1)),
            r"conv\.dx_saturated: after batch 0: hardware \d+, reference \d+ \(1 of 1 differ\); .*",
        ),
        (Sabotage(counter=(1, "updates", 3, -1)), r"linear\.updates: at the end: hardware 2, reference 3 .*"),
        (Sabotage(counter=(1, "zero_updates", 3, 1)), r"linear\.zero_updates: at the end: .*"),
        (Sabotage(surplus=True), r"result: number of results: hardware 10, reference 9 .*"),
    ],
)  # fmt: skip
def test_a_difference_is_named(sabotage, pattern):
    fails(fake_build(count=3, sabotage=sabotage), MismatchError, pattern)


def test_a_result_after_the_last_one():
    build = fake_build(count=0, evaluate=True, sabotage=Sabotage(surplus=True))
    pattern = r"result: number of results: hardware 5, reference 4 \(1 of 1 differ\); 1 of .*"
    fails(build, MismatchError, pattern, replace(QUICK, batches=None, evaluate=True))


def test_a_surplus_result_that_leaves_the_device_waiting(good):
    session = Session.prepare(
        good.plan,
        good.parameters,
        good.dataset,
        batches=1,
        epochs=None,
        evaluate=False,
        gradients=True,
        seed=0,
    )
    outcome = Outcome("watchdog", 900, 1.0, 5, 9, 0, 10, False, 0, 0, status=0)
    with pytest.raises(MismatchError, match=r"^result: 10 results of 9 images$"):
        module._check_outcome(outcome, session, QUICK, {})


def test_padding_of_a_memory():
    plan = tiny_plan()
    # linear: 24 inputs in chunks of 7: the last of 4 has 3 rows; row 6, column 0, address 3 holds no weight.
    sabotage = Sabotage(memory=(1, "master", 1, 6 * 3 * plan.stages[1].fold.depth + 3, 1))
    fails(
        fake_build(plan, count=3, sabotage=sabotage), MismatchError,
        r"linear\.weight: after batch 0: hardware 1 in a lane that holds no element, reference 0; .*",
    )  # fmt: skip


def test_other_parameters_than_the_device_has_learnt():
    build = fake_build(count=3)
    other = fake_build(count=3, samples=15)
    fails(
        FakeBuild(build.plan, build.parameters, other.dataset, build.files),
        MismatchError,
        r"conv\.y: batch 0, .*",
    )


def test_a_probe_that_loses_words(good):
    text = good.files["verilog/hwgen_core.v"]
    changed = text.replace(
        "assign probe_dy0__valid = emitting & (tick <",
        "assign probe_dy0__valid = emitting & tick != 0 & (tick <",
    )
    assert changed != text
    fails(
        replace(good, files={"a.v": changed}),
        MismatchError,
        r"conv\.dy: number of words: hardware \d+, reference \d+ .*",
    )


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_hang_names_the_channel(simulator):
    build = fake_build(count=3, sabotage=Sabotage(hang=(1, "linear.sums")))
    fails(
        build, WatchdogError,
        r"watchdog: nothing moved for 300 cycles \(cycle \d+\) while waiting for result 3; "
        r"1 results of 3 images; "
        r"stuck channel: linear\.sums \(valid, not ready(, blocked too: .*)?\)",
        replace(QUICK, simulator=simulator),
    )  # fmt: skip


def test_a_device_without_answers():
    build = fake_build(count=0, evaluate=True, sabotage=Sabotage(mute=True))
    fails(
        build,
        WatchdogError,
        r"watchdog: .* while waiting for register 0; .*; stuck channel: command \(a register access has no answer\)",
    )


@pytest.mark.parametrize(
    ("bit", "what"),
    [(STATUS_BAD_FRAME, "an image has too few or too many beats"), (STATUS_BAD_LABEL, "a label is no class")],
)
def test_a_device_that_refuses_data(bit, what):
    build = fake_build(count=3, sabotage=Sabotage(status=(2, bit)))
    fails(
        build,
        DataError,
        rf"simulation: the device stopped after \d images: {what} \(status \d+\); give data of .*",
    )


def test_a_bad_label_in_the_data(good):
    good.dataset.train_labels.flags.writeable = True
    labels = np.full_like(good.dataset.train_labels, 5)
    broken = replace(good, dataset=replace(good.dataset, train_labels=labels))
    fails(broken, DataError, r"simulation: the device stopped after \d images: a label is no class .*")


def test_another_device(good):
    fails(
        fake_build(count=0, evaluate=True, sabotage=Sabotage(device_id=7)), BuildError,
        r"device: register id reads 0x00000007, not 0x4857474E; build again",
        replace(QUICK, batches=None, evaluate=True),
    )  # fmt: skip
    missing = fake_build(count=3, sabotage=Sabotage(drop_word=True))
    fails(missing, BuildError, r"verilog: probe probe_y0 has 0 bits, the plan says 16; build again")


def test_nothing_to_do(good):
    for options in (
        replace(QUICK, batches=0),
        replace(QUICK, batches=None),
        replace(QUICK, batches=None, epochs=0),
    ):
        fails(good, MismatchError, r"simulation: nothing was compared; .*", options)


def test_too_little_data(good):
    small = replace(
        good,
        dataset=replace(
            good.dataset,
            train_images=good.dataset.train_images[:2],
            train_labels=good.dataset.train_labels[:2],
        ),
    )
    fails(small, DataError, r"train_images: 2 samples are fewer than a batch of 3; .*")
    empty = replace(
        good.dataset, test_images=good.dataset.test_images[:0], test_labels=good.dataset.test_labels[:0]
    )
    fails(
        replace(good, dataset=empty),
        DataError,
        r"test_images: none to evaluate; .*",
        replace(QUICK, evaluate=True),
    )
