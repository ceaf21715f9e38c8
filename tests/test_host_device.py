"""The host's driver against the emitted device, through its real bytes: equal to the reference, with faults too."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_device import built

from hwgen.host.checkpoint import resume, save
from hwgen.host.device import Device, read_description
from hwgen.host.errors import HostError
from hwgen.host.serial_port import SerialPort
from hwgen.host.simulation import Simulation
from hwgen.ref.executor import Reference

CLEAN, FAULTS = (0, 0, 0), (1500, 800, 300)
SAMPLES, BATCH = 8, 2


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield built(tmp_path_factory.mktemp("build") / "small")


def first(build):
    """The build's first parameters, as the driver takes them."""
    with np.load(build.path / "parameters.npz") as file:
        return {name: file[name] for name in file.files}


def data(build, count=SAMPLES):
    return np.asarray(build.dataset.train_images)[:count], np.asarray(build.dataset.train_labels)[:count]


def opened(build, **options):
    return Device(Simulation(build.path, **options), read_description(build.path / "host" / "device.json"))


def assert_equal(device, reference, stages):
    found = device.parameters()
    for stage, weight, bias in zip(
        stages, reference.parameters.weights, reference.parameters.biases, strict=True
    ):
        assert np.array_equal(found[f"{stage.name}.weight"], weight), stage.name
        if bias is not None:
            assert np.array_equal(found[f"{stage.name}.bias"], bias), stage.name


@pytest.mark.parametrize(
    ("pins", "faults"), [(False, CLEAN), (False, FAULTS), (True, CLEAN)], ids=["bytes", "faults", "pins"]
)
def test_batches_are_those_of_the_reference(build, pins, faults):
    network = build.plan.network
    reference = Reference(network, build.parameters)
    images, labels = data(build)
    device = opened(build, pins=pins, faults=faults, seed=3)
    try:
        device.load(first(build))
        assert_equal(device, reference, network.stages)
        results = device.train(images, labels)
        losses = [
            loss
            for k in range(0, SAMPLES, BATCH)
            for loss in reference.train_batch(images[k : k + BATCH], labels[k : k + BATCH]).losses
        ]
        assert results.losses.tolist() == losses
        assert_equal(device, reference, network.stages)
        assert (device.link.damaged > 0) == (faults != CLEAN)
        assert (device.link.repeats > 0) == (faults != CLEAN)
    finally:
        device.close()


def test_a_run_that_was_resumed_has_the_bits_of_one_that_was_not(build, tmp_path):
    images, labels = data(build)
    files = {}
    for name, cuts in (("whole", [SAMPLES]), ("cut", [4, SAMPLES])):
        files[name], done = tmp_path / f"{name}.npz", 0
        for cut in cuts:
            device = opened(build)  # power on
            try:
                if done:
                    assert resume(device, files[name]) == {"done": done}
                else:
                    device.load(first(build))
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


def test_another_build_is_found_out(build):
    description = read_description(build.path / "host" / "device.json")
    simulation = Simulation(build.path)
    try:
        with pytest.raises(HostError, match="load the bitstream of this build"):
            Device(simulation, {**description, "build": description["build"] ^ 1})
    finally:
        simulation.close()


def test_train_py_says_what_it_did(build, tmp_path):
    images, labels = data(build)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    script = [sys.executable, str(build.path / "host" / "train.py"), "--sim"]
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
def test_a_port_without_a_device(build, sent, message):
    master, slave = os.openpty()
    try:
        port = SerialPort(os.ttyname(slave), 115200)
        wire, taken = port.write, []
        port.write = lambda message: (taken.append(message), wire(message), sent and os.write(master, sent))
        with pytest.raises(HostError, match=message):
            Device(port, read_description(build.path / "host" / "device.json"), patience=0.3, resend=0.05)
        assert taken
        port.close()
    finally:
        os.close(master)
        os.close(slave)


def test_the_header_compiles_and_has_every_register(build, tmp_path):
    host = build.path / "host"
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
