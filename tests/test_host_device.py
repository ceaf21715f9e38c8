"""The host's driver against the emitted device, through its real bytes: equal to the reference, with faults too."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from host_bench import BATCH, SAMPLES, assert_equal, data, first, losses_of
from hwgen.sim.verify import counter_name

from hwgen.host import train
from hwgen.host.checkpoint import resume, save
from hwgen.host.device import Device, read_description
from hwgen.host.errors import HostError
from hwgen.host.protocol import RESEND_SECONDS
from hwgen.host.serial_port import SerialPort
from hwgen.host.simulation import Simulation
from hwgen.ref.executor import Reference

CLEAN, FAULTS = (0, 0, 0), (1500, 800, 300)


def opened(small, resend=RESEND_SECONDS, **options):
    description = read_description(small.path / "host" / "device.json")
    return Device(Simulation(small.path, **options), description, resend=resend, patience=60.0)


@pytest.mark.parametrize(
    ("side", "faults"),
    [("bytes", CLEAN), ("bytes", FAULTS), ("pins", CLEAN), ("beats", CLEAN), ("beats", FAULTS)],
)
def test_batches_are_those_of_the_reference(small, side, faults):
    network = small.plan.network
    reference = Reference(network, small.parameters)
    images, labels = data(small)
    # A busy machine simulates slowly: no repeat but for a fault.
    device = opened(small, side=side, faults=faults, seed=3, resend=RESEND_SECONDS if any(faults) else 30.0)
    try:
        device.load(first(small))
        assert_equal(device.parameters(), reference, network.stages)
        results = device.train(images, labels)
        assert results.losses.tolist() == losses_of(reference, images, labels)
        assert_equal(device.parameters(), reference, network.stages)
        assert (device.link.damaged > 0) == (faults != CLEAN)
        assert (device.link.repeats > 0) == (faults != CLEAN)
    finally:
        device.close()


def test_a_run_that_was_resumed_has_the_bits_of_one_that_was_not(small, tmp_path):
    images, labels = data(small)
    files = {}
    for name, cuts in (("whole", [SAMPLES]), ("cut", [4, SAMPLES])):
        files[name], done = tmp_path / f"{name}.npz", 0
        for cut in cuts:
            device = opened(small)  # power on
            try:
                if done:
                    assert resume(device, files[name]) == {"done": done}
                else:
                    device.load(first(small))
                    device.set_rate(0.25)
                device.train(images[done:cut], labels[done:cut])
                save(device, files[name], done=cut)
                done = cut
            finally:
                device.close()
    with np.load(files["whole"]) as whole, np.load(files["cut"]) as cut:
        assert whole.files == cut.files
        assert int(whole["@updates"]) == SAMPLES // BATCH
        for name in whole.files:
            assert np.array_equal(whole[name], cut[name]), name


def test_a_run_with_other_rates_and_batches_that_was_resumed(small, tmp_path):
    """Every cut falls between changes of settings, which the checkpoint must bring back."""
    steps = [(0.25, 2, 4), (0.125, 2, 2), (0.125, 1, 1), (0.375, 1, 1)]
    images, labels = data(small)
    files = {}
    for name, cuts in (("whole", []), ("cut", [1, 2, 3])):
        files[name], done = tmp_path / f"{name}.npz", 0
        device = opened(small)
        device.load(first(small))
        for number, (rate, batch, samples) in enumerate(steps):
            if number in cuts:
                device.close()  # power off
                device = opened(small)
                assert resume(device, files[name]) == {"done": done}
                assert device.rate == pytest.approx(steps[number - 1][0], rel=0.01)
            device.set_batch(batch)
            device.set_rate(rate)
            device.train(images[done : done + samples], labels[done : done + samples])
            done += samples
            save(device, files[name], done=done)
        device.close()
    with np.load(files["whole"]) as whole, np.load(files["cut"]) as cut:
        assert int(whole["@updates"]) == 5
        for name in whole.files:
            assert np.array_equal(whole[name], cut[name]), name


@pytest.mark.parametrize(
    ("blow", "said"),
    [
        (
            signal.SIGSTOP,
            "no answer for 1 s; the device stopped, lost power or was unplugged. Check it, and resume .*",
        ),
        (signal.SIGKILL, r"(closed at the other end|cannot be written \(Broken pipe\); it ended)"),
    ],
    ids=["stops", "ends"],
)
def test_a_device_that_dies_in_training_is_told_in_time_and_its_run_goes_on(small, tmp_path, blow, said):
    images, labels = data(small)
    reference = Reference(small.plan.network, small.parameters)
    for k in range(0, SAMPLES, BATCH):
        reference.train_batch(images[k : k + BATCH], labels[k : k + BATCH])
    device = opened(small)
    device.load(first(small))
    device.train(images[:BATCH], labels[:BATCH])
    save(device, tmp_path / "kept.npz")
    device.link.patience = 1.0
    device.train(images[BATCH : 2 * BATCH], labels[BATCH : 2 * BATCH])  # lost
    device.transport.process.send_signal(blow)
    start = time.monotonic()
    with pytest.raises(HostError) as error:
        device.train(images[2 * BATCH :], labels[2 * BATCH :])
    assert time.monotonic() - start < 10
    assert re.fullmatch(f"simulation: {said}", str(error.value))
    device.transport.process.kill()
    device.close()
    device = opened(small)
    resume(device, tmp_path / "kept.npz")
    device.train(images[BATCH:], labels[BATCH:])
    assert_equal(device.parameters(), reference, small.plan.network.stages)
    device.close()


def test_train_py_goes_on_where_it_was_stopped(small, tmp_path, capsys):
    """In the middle of the second epoch, in the same order."""
    images, labels = data(small, 7)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)

    def run(kept, *arguments):
        files = ["--checkpoint", str(tmp_path / kept), str(tmp_path / "data.npz")]
        assert train.main(["--sim", "--build", str(small.path), *arguments, *files]) == 0
        return capsys.readouterr().out

    start = ["--epochs", "2", "--batch", "1", "--seed", "5", "--rate", "0.25"]
    run("whole.npz", *start)
    run("cut.npz", *start, "--batches", "9", "--every", "4")
    resumed = ["--resume", str(tmp_path / "cut.npz"), "--counters", str(tmp_path / "counters.json")]
    said = run("cut.npz", "--epochs", "2", *resumed)
    assert re.search(r"^epoch 2: 5 batches", said, re.MULTILINE)
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "cut.npz") as cut:
        assert int(whole["@updates"]) == 14
        assert int(whole["@progress.sample"]) == 7
        assert whole.files == cut.files
        for name in whole.files:
            assert np.array_equal(whole[name], cut[name]), name
    assert json.loads((tmp_path / "counters.json").read_text())["samples"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--resume", "kept.npz", "--seed", "4"],
            r"--seed 4: .* orders the samples by seed 3; leave --seed out",
        ),
        (
            ["--resume", "kept.npz", "other.npz"],
            r".*: of a run with 4 samples, .*other\.npz has 6; give the same",
        ),
        (
            ["--resume", "kept.npz", "--parameters", "x"],
            r"--parameters and --resume: a checkpoint has the .*",
        ),
        (
            ["--resume", "strange.npz"],
            r".*strange\.npz: not written by train\.py; resume it where it was written",
        ),
        (["--every", "2"], r"--every: there is no checkpoint to write; give --checkpoint FILE"),
        (["--batches", "0"], r"--batches 0; at least 1"),
    ],
)
def test_train_py_refuses_what_means_nothing(small, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    for name, count in (("data", 4), ("other", 6)):
        images, labels = data(small, count)
        np.savez(f"{name}.npz", train_images=images, train_labels=labels)
    device = opened(small)
    device.load(first(small))
    save(device, Path("kept.npz"), epoch=0, sample=2, seed=3, samples=4)
    save(device, Path("strange.npz"), done=4)
    device.close()
    files = [] if "other.npz" in arguments else ["data.npz"]
    assert train.main(["--sim", "--build", str(small.path), *arguments, *files]) == 2
    assert re.fullmatch(rf"train\.py: {said}\n", capsys.readouterr().err)


def test_another_batch_alone_keeps_the_rate(small, tmp_path):
    images, labels = data(small)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    kept = str(tmp_path / "kept.npz")
    arguments = ["--sim", "--build", str(small.path), "--batches", "1", "--checkpoint", kept]
    arguments.append(str(tmp_path / "data.npz"))
    registers = []
    for more in (["--rate", "0.25"], ["--batch", "1", "--resume", kept]):
        assert train.main([*more, *arguments]) == 0
        with np.load(kept) as found:
            registers.append((int(found["@batch"]), int(found["@rate"]), int(found["@progress.sample"])))
    assert registers == [(2, 32, 2), (1, 64, 3)]


def test_counters_are_those_of_the_reference(small):
    images, labels = data(small)
    device = opened(small)
    device.load(first(small))
    device.train(images, labels)
    counters = device.counters()
    device.close()
    reference = Reference(small.plan.network, small.parameters)
    saturated = [{} for _ in small.plan.stages]
    for k in range(0, SAMPLES, BATCH):
        trace = reference.train_batch(images[k : k + BATCH], labels[k : k + BATCH])
        for total, counts in zip(saturated, trace.saturated, strict=True):
            for name, count in counts.items():
                total[counter_name(name)] = total.get(counter_name(name), 0) + count
    assert counters["samples"] == SAMPLES
    assert counters["links"] == []
    assert [one["name"] for one in counters["stages"]] == ["first", "conv", "linear"]
    for found, total in zip(counters["stages"], saturated, strict=True):
        assert found["updates"] == SAMPLES // BATCH
        assert {name: found[name] for name in total} == total
    assert counters["boards"][0]["cycles"] > 1000


def test_another_build_is_found_out(small):
    description = read_description(small.path / "host" / "device.json")
    simulation = Simulation(small.path)
    try:
        with pytest.raises(HostError, match="load the bitstream of this build"):
            Device(simulation, {**description, "build": description["build"] ^ 1})
    finally:
        simulation.close()


def test_train_py_says_what_it_did(small, tmp_path):
    images, labels = data(small)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    script = [sys.executable, str(small.path / "host" / "train.py"), "--sim"]
    ended = subprocess.run([*script, str(tmp_path / "data.npz")], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"epoch 1: 4 batches, loss \d\.\d{4}", ended.stdout)
    ended = subprocess.run([*script, str(tmp_path / "none.npz")], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert re.fullmatch(r"train\.py: .*none\.npz: no \.npz file.*\n", ended.stderr)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "no answer within 0.3 s; check power"),
        (bytes(range(1, 180)), "check that baud rate and bitstream are those"),
    ],
    ids=["silent", "nonsense"],
)
def test_a_port_without_a_device(small, sent, message):
    master, slave = os.openpty()
    try:
        port = SerialPort(os.ttyname(slave), 115200)
        wire, taken = port.write, []
        port.write = lambda message: (taken.append(message), wire(message), sent and os.write(master, sent))
        with pytest.raises(HostError, match=message):
            Device(port, read_description(small.path / "host" / "device.json"), patience=0.3, resend=0.05)
        assert taken
        port.close()
    finally:
        os.close(master)
        os.close(slave)


def test_the_header_compiles_and_has_every_register(small, tmp_path):
    host = small.path / "host"
    registers = json.loads((host / "device.json").read_text())["registers"]["global"]
    checks = "\n".join(
        f'_Static_assert(HWGEN_{name.upper()} == {one["address"]}, "{name}");'
        for name, one in registers.items()
    )
    assert len(registers) > 10
    source = tmp_path / "check.c"
    source.write_text(f'#include "registers.h"\n{checks}\nint main(void) {{ return 0; }}\n')
    command = ["gcc", "-Wall", "-Werror", f"-I{host}", str(source), "-o", str(tmp_path / "check")]
    subprocess.run(command, check=True, timeout=60)
    table = Path(host / "registers.md").read_text()
    assert all(f"| 0x{one['address']:04X} | `{name}` |" in table for name, one in registers.items())
