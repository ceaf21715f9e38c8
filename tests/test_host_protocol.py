"""The byte protocol's host end: nothing lost, doubled or swapped whatever the cable does; and never a hang."""

import itertools
import re
import time

import pytest
from fake_port import FakePort

from hwgen.host import protocol
from hwgen.host.errors import HostError
from hwgen.host.layout import read_message, write_message
from hwgen.host.protocol import Link, Splitter, escape
from hwgen.host.transport import Transport


class Clock:
    """Time that passes as it is asked."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.001
        return self.now


def linked(port, **limits):
    link = Link(port, clock=Clock(), resend=0.02, **limits)
    link.open()
    return link


def test_a_frame_survives_every_byte():
    frame = bytes(range(256))
    assert list(Splitter().feed(escape(frame))) == [frame]


def test_every_changed_bit_and_every_cut_is_found():
    wire = escape(b"\x00\x05\xc0\xdb frame")
    for at, bit in itertools.product(range(len(wire)), range(8)):
        changed = bytearray(wire)
        changed[at] ^= 1 << bit
        splitter = Splitter()
        assert list(splitter.feed(bytes(changed) + escape(b"next")))[-1:] == [b"next"]
        assert b"\x00\x05\xc0\xdb frame" not in list(Splitter().feed(bytes(changed[1:-1])))
    for cut in range(1, len(wire) - 1):
        splitter = Splitter()
        assert list(splitter.feed(wire[:cut] + escape(b"next"))) == [b"next"]
        assert splitter.damaged == (cut > 1)


@pytest.mark.parametrize(
    "faults", [(0, 0, 0), (0.002, 0, 0), (0, 0.002, 0), (0, 0, 0.001), (0.002, 0.002, 0.001)]
)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_doubled_or_swapped(faults, seed):
    port = FakePort(faults=faults, seed=seed)
    link = linked(port, patience=100, stall=100)
    got, wanted = [], []
    for k in range(600):
        link.send(write_message(40, [k * 7919 + i for i in range(k % 5)], k % 3))
        wanted += [(k % 3, 40, k * 7919 + i) for i in range(k % 5)]
        if k % 4 == 3:
            link.send(read_message(40, k % 90, k % 3))
            last = [v for board, _, v in wanted if board == k % 3][-1:] or [0]
            got += [link.receive(5) == bytes([1]) + last[0].to_bytes(4, "little") for _ in range(k % 90)]
    link.flush()
    assert port.writes == wanted
    assert len(got) == sum(k % 90 for k in range(3, 600, 4))
    assert all(got)
    assert (link.repeats > 0) == (sum(faults) > 0)
    assert (link.damaged > 0) == (faults[0] > 0 or faults[2] > 0 or faults[1] > 0)


def test_offsets_wrap():
    port = FakePort(registers={(0, 1): 5})
    link = linked(port)
    for _ in range(80):
        link.send(read_message(1, 256, 0))
        assert link.receive(5 * 256) == b"\x01\x05\x00\x00\x00" * 256


class Dumb(Transport):
    """Answers whatever it is told with ``reply()``, in time that passes."""

    name = "/dev/ttyTEST"

    def __init__(self, reply):
        self.reply = reply

    def write(self, data):
        pass

    def read(self, most, timeout):
        time.sleep(min(timeout, 0.01))
        return self.reply()

    def close(self):
        pass


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (lambda: b"", "no answer within 0.2 s; check power, cable, port and that the bitstream is loaded"),
        (lambda: b"Linux login: \xc0\x00", r"\d+ bytes came, but no answer within 0.2 s; check that baud .*"),
    ],
)
def test_a_port_without_a_device_is_told_in_time(reply, text):
    start = time.monotonic()
    with pytest.raises(HostError) as error:
        Link(Dumb(reply), patience=0.2, resend=0.05).open()
    assert re.fullmatch(f"/dev/ttyTEST: {text}", str(error.value))
    assert time.monotonic() - start < 2


def test_an_own_echo_is_no_answer():
    echo = bytearray()
    port = Dumb(lambda: bytes(echo))
    port.write = echo.extend
    with pytest.raises(HostError, match="bytes came, but no answer"):
        Link(port, patience=0.2, resend=0.05).open()


def test_a_device_that_loses_power_is_told_in_time():
    port = FakePort()
    link = linked(port, patience=1.0)
    port.power = False
    with pytest.raises(
        HostError, match=r"fake: no answer for 1 s; the device stopped, lost power or was unplugged"
    ):
        link.receive(1)
    with pytest.raises(HostError, match="no session"):
        link.receive(1)


def test_a_device_that_takes_nothing_any_more_is_told_in_time():
    port = FakePort()
    link = linked(port, patience=1.0, stall=3.0)
    port.taking = False
    with pytest.raises(HostError, match="fake: the device answers, but took and gave nothing for 3 s"):
        link.send(bytes(2 * protocol.RING + 1))


def test_a_new_session_forgets_what_was_under_way():
    port = FakePort(registers={(0, 1): 5})
    link = linked(port)
    link.send(read_message(1, 20, 0) + bytes([protocol.MESSAGE_WRITE]))
    link.flush()
    link.open(restart=True)
    assert port.restarts == 1
    link.send(read_message(1, 1, 0))
    assert link.receive(5) == b"\x01\x05\x00\x00\x00"
