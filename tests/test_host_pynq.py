"""train.py over the PYNQ transport: the package stood in for, in front of the emitted device's streams."""

import re
import socket
import subprocess
import sys

import numpy as np
import pytest
from host_bench import SAMPLES, assert_equal, data, losses_of
from hwgen.sim.serial import device_program
from pynq_stand_in import PynqStandIn

from hwgen.host import train
from hwgen.host.errors import HostError
from hwgen.host.pynq import BUFFER, Pynq
from hwgen.ref.executor import Reference


@pytest.fixture
def wires():
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        yield near, far


def opened(monkeypatch, tmp_path, stand_in, **options):
    monkeypatch.setitem(sys.modules, "pynq", stand_in.module)
    (tmp_path / "design.bit").touch()
    return Pynq(str(tmp_path / "design.bit"), **options)


def test_trains_with_the_bits_of_the_reference(small, monkeypatch, tmp_path, wires):
    images, labels = data(small)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    near, far = wires
    device = subprocess.Popen([device_program(small.path), "0", "0", "0", "0"], stdin=far, stdout=far)
    stand_in = PynqStandIn(near)
    monkeypatch.setitem(sys.modules, "pynq", stand_in.module)
    (tmp_path / "design.bit").touch()
    arguments = ["--pynq", str(tmp_path / "design.bit"), "--build", str(small.path)]
    arguments += ["--checkpoint", str(tmp_path / "kept.npz"), str(tmp_path / "data.npz")]
    try:
        assert train.main(arguments) == 0
    finally:
        device.kill()
        device.wait()
    reference = Reference(small.plan.network, small.parameters)
    chosen = train.order(SAMPLES, 0, 0)
    losses_of(reference, images[chosen], labels[chosen])
    with np.load(tmp_path / "kept.npz") as kept:
        assert_equal(kept, reference, small.plan.network.stages)
    assert stand_in.faults == []
    assert stand_in.calls[0] == ("receive", BUFFER)  # before anything is sent, which may be answered at once
    assert stand_in.calls[-1] == ("register", (0, 4))
    assert [one.shape for one in stand_in.buffers] == [(BUFFER,)] * 2
    assert all(one.freed for one in stand_in.buffers)
    kinds = [kind for kind, _ in stand_in.calls]
    assert kinds.count("receive") == 1 + stand_in.packets  # one more is under way
    assert stand_in.packets > 10


def test_what_was_sent_and_what_came(monkeypatch, tmp_path, wires):
    near, far = wires
    port = opened(monkeypatch, tmp_path, PynqStandIn(near))
    long = bytes(range(256)) * 20
    port.write(long)
    port.write(b"short")
    assert [far.recv(8192) for _ in range(3)] == [long[:BUFFER], long[BUFFER:], b"short"]
    assert port.read(10, 0.0) == b""
    far.send(b"first answer")
    far.send(b"second")
    assert port.read(5, 1.0) == b"first"
    assert port.read(100, 1.0) == b" answer"
    assert port.read(100, 1.0) == b"second"
    port.close()


@pytest.mark.parametrize(
    ("options", "do", "said"),
    [
        ({"stuck": True}, lambda port, far: port.write(b"x"), r"took no bytes for 0\.2 s"),
        (
            {"longest": 100},
            lambda port, far: None,
            r"the DMA refuses a transfer \(Transfer size is 4096 bytes\)",
        ),
        (
            {"scatter": True},
            lambda port, far: None,
            r"axi_dma_0 has scatter-gather; switch it off in the block design",
        ),
        (
            {},
            lambda port, far: (far.send(bytes(BUFFER + 1)), port.read(1, 1.0)),
            r"DMA Internal Error \(transfer length 0\?\); load the overlay again",
        ),
    ],
    ids=["stuck", "short", "scatter", "too long an answer"],
)
def test_what_goes_wrong_is_told_in_time(monkeypatch, tmp_path, wires, options, do, said):
    near, far = wires
    with pytest.raises(HostError) as error:
        do(opened(monkeypatch, tmp_path, PynqStandIn(near, **options), seconds=0.2), far)
    assert re.fullmatch(rf".*design\.bit: {said}", str(error.value))


def test_memory_of_a_dma_that_does_not_stop_is_left_alone(monkeypatch, tmp_path, wires):
    stand_in = PynqStandIn(wires[0], resets=False)
    opened(monkeypatch, tmp_path, stand_in, seconds=0.05).close()
    assert not any(one.freed for one in stand_in.buffers)


@pytest.mark.parametrize(
    ("name", "dma", "said"),
    [
        (
            "none.bit",
            "axi_dma_0",
            r"no overlay with a DMA axi_dma_0 of both channels \(.*none\.bit does not exist\.\)",
        ),
        ("design.bit", "dma7", r"no overlay with a DMA dma7 of both channels \(.*dma7.*\)"),
    ],
)
def test_no_such_overlay(monkeypatch, tmp_path, wires, name, dma, said):
    monkeypatch.setitem(sys.modules, "pynq", PynqStandIn(wires[0]).module)
    (tmp_path / "design.bit").touch()
    with pytest.raises(HostError) as error:
        Pynq(str(tmp_path / name), dma)
    assert re.fullmatch(rf".*{re.escape(name)}: {said}", str(error.value))


def test_no_package():
    with pytest.raises(HostError, match=r"^design\.bit: needs the package pynq, which PYNQ boards have$"):
        Pynq("design.bit")
