"""train.py over the XDMA transport: a library that refuses what the driver's character devices refuse stands in for
them, in front of the emitted device behind a DMA engine's beats."""

import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from host_bench import SAMPLES, assert_equal, data, losses_of
from hwgen.sim.serial import device_program

from hwgen.host.train import order
from hwgen.ref.executor import Reference

STAND_IN = Path(__file__).parent / "vendor" / "xdma.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("stand_in") / "xdma.so"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(path),
        str(STAND_IN),
        "-ldl",
    ]
    subprocess.run(command, check=True, timeout=60)
    return path


@contextmanager
def connected(program=None):
    """The host's end of a board's PCIe; ``program``: what is at the other end, None: nothing that answers."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = None
    if program is not None:
        process = subprocess.Popen([program, "0", "0", "0", "0"], stdin=far, stdout=far)
        far.close()
    try:
        yield near
    finally:
        near.close()
        far.close()
        if process is not None:
            process.kill()
            process.wait()


def run(library, near, *arguments, code=None, timeout=500):
    """Runs train.py, or Python ``code``, behind the stand-in."""
    command = [sys.executable, *(["-c", code] if code is not None else []), *map(str, arguments)]
    environment = {
        **os.environ, "LD_PRELOAD": str(library), "HWGEN_XDMA": "/dev/xdma0", "HWGEN_XDMA_SOCKET": str(near.fileno()),
        "HWGEN_XDMA_MS": os.environ.get("HWGEN_XDMA_MS", "1000"),
    }  # fmt: skip
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, pass_fds=[near.fileno()], timeout=timeout
    )


def test_trains_with_the_bits_of_the_reference(small, library, tmp_path):
    images, labels = data(small)
    np.savez(tmp_path / "data.npz", train_images=images, train_labels=labels)
    with connected(device_program(small.path, "beats")) as near:
        ended = run(
            library, near, small.path / "host" / "train.py", "--xdma", "/dev/xdma0", "--checkpoint",
            tmp_path / "kept.npz", tmp_path / "data.npz",
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "frames damaged 0" in ended.stdout
    reference = Reference(small.plan.network, small.parameters)
    chosen = order(SAMPLES, 0, 0)
    losses = losses_of(reference, images[chosen], labels[chosen])
    assert f"loss {np.mean(losses) / 2**16:.4f}" in ended.stdout
    with np.load(tmp_path / "kept.npz") as kept:
        assert_equal(kept, reference, small.plan.network.stages)


READS = """
import io, mmap, os, sys
page = mmap.mmap(-1, 4096)
flags, offset, count = (int(one) for one in sys.argv[1:])
device = io.FileIO(os.open("/dev/xdma0_c2h_0", flags))
try:
    print(device.readinto(memoryview(page)[offset : offset + count]))
except OSError as error:
    print("errno", error.errno)
"""


@pytest.mark.parametrize(
    ("flags", "offset", "count", "packets", "said"),
    [
        (os.O_RDONLY | os.O_TRUNC, 0, 4096, [b"answer"], "6"),
        (os.O_RDONLY, 0, 4096, [b"answer"], "errno 512"),
        (os.O_RDONLY, 0, 6, [b"ans", b"wer"], "6"),
        (os.O_RDONLY | os.O_TRUNC, 0, 4096, [], "errno 512"),
        (os.O_RDONLY | os.O_TRUNC, 32, 64, [b"answer"], "errno 22"),
        (os.O_WRONLY, 0, 0, [b"answer"], "errno 22"),
    ],
)
def test_the_stand_in_refuses_what_the_driver_refuses(
    library, monkeypatch, flags, offset, count, packets, said
):
    monkeypatch.setenv("HWGEN_XDMA_MS", "100")
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        for packet in packets:
            far.send(packet)
        ended = run(library, near, flags, offset, count, code=READS)
    assert ended.stdout.strip() == said, ended.stderr


OPENS = """
import sys
from pathlib import Path
from hwgen.host import xdma
from hwgen.host.device import Device, read_description
from hwgen.host.errors import HostError
xdma.BUSY_SECONDS = 0.3
try:
    transport = xdma.Xdma("/dev/xdma0")
    if "twice" in sys.argv:
        xdma.Xdma("/dev/xdma0")
    if "full" in sys.argv:
        while True:
            transport.write(bytes(4096))
    Device(transport, read_description(Path(sys.argv[1])), patience=0.5)
except HostError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "silent",
            r"/dev/xdma0: no answer within 0\.5 s; check power, cable, port and that the bitstream is loaded",
        ),
        ("twice", r"/dev/xdma0_c2h_0: another program has it open; end that one"),
        (
            "full",
            r"/dev/xdma0: cannot be written: no byte moved within the driver's time; is the bitstream loaded, and its "
            r"clock there\?",
        ),
        (
            "gone",
            r"/dev/xdma0: cannot be (read|written): Input/output error; was the board reset\? Load its bitstream, and "
            r"the driver again",
        ),
    ],
)
def test_what_goes_wrong_is_told_in_time(small, library, monkeypatch, what, said):
    monkeypatch.setenv("HWGEN_XDMA_MS", "200")
    with connected("/bin/true" if what == "gone" else None) as near:
        ended = run(library, near, small.path / "host" / "device.json", what, code=OPENS, timeout=30)
    assert re.fullmatch(said, ended.stdout.strip()), ended.stdout + ended.stderr


def test_no_driver(small, tmp_path):
    script = [
        sys.executable,
        str(small.path / "host" / "train.py"),
        "--xdma",
        "/dev/none7",
        str(tmp_path / "data.npz"),
    ]
    np.savez(tmp_path / "data.npz", train_images=np.zeros((4, 4, 6, 1)), train_labels=np.zeros(4, int))
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert re.fullmatch(
        r"train\.py: /dev/none7_c2h_0: cannot be opened \(No such file or directory\); load the xdma driver, check "
        r"your rights, and that the board is there\n",
        ended.stderr,
    )
