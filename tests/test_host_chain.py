"""The driver in front of a chain of boards in simulation, with masters in external memory."""

import textwrap

import pytest
from host_bench import assert_equal, data, first, losses_of

from hwgen import cli
from hwgen.backend.build import load_build
from hwgen.host.device import Device, read_description
from hwgen.host.errors import HostError
from hwgen.host.layout import image_messages
from hwgen.host.simulation import Simulation
from hwgen.ref.executor import Reference

SOURCE = textwrap.dedent("""
    from hwgen import Cluster, Formats, Link, Model, nn

    model = Model(
        input=(4, 4, 1),
        layers=[
            nn.Conv2d(1, 2, 3, padding=1, u=3, pc=1, pn=1, b=2, device=0, name="first"),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(8, 3, pc=2, pn=1, device=1, master="memory", name="linear"),
        ],
        optimizer=nn.SGD(lr=0.5, batch=2),
        formats=Formats(activation=8, weight=8, master=14, error=8, lr=8, bias=12),
        cluster=Cluster.chain("vc709", 2, link=Link(lanes=1, gbps=10.3125, latency=20)),
    )
""")
SAMPLES, BATCH = 6, 2


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain")
    (path / "chain.py").write_text(SOURCE)
    assert cli.main(["build", str(path / "chain.py"), "-o", str(path / "build")]) == 0
    return load_build(path / "build")


def test_two_boards_train_with_the_bits_of_the_reference(chain):
    images, labels = data(chain, SAMPLES)
    parameters = first(chain)
    simulation = Simulation(chain.path)
    description = read_description(chain.path / "host" / "device.json")
    try:
        for number in range(2):  # the second one finds what the first one has left
            reference = Reference(chain.plan.network, chain.parameters)
            device = Device(simulation, description, resend=5.0, patience=60.0)
            assert device.updates == number * SAMPLES // BATCH
            device.load(parameters)
            results = device.train(images, labels)
            assert results.losses.tolist() == losses_of(reference, images, labels, BATCH)
            assert_equal(device.parameters(), reference, chain.plan.network.stages)
            counters = device.counters()
            assert [(one["name"], one["board"], one["updates"]) for one in counters["stages"]] == [
                ("first", 0, (number + 1) * SAMPLES // BATCH),
                ("linear", 1, (number + 1) * SAMPLES // BATCH),
            ]
            assert [(one["board"], one["side"], one["state"]) for one in counters["links"]] == [
                (0, "down", "up"),
                (1, "up", "up"),
            ]
            assert all(one["frames_sent"] > 0 and one["crc_errors"] == 0 for one in counters["links"])
        (picture,) = image_messages(description["image"], images[:1])
        device.link.send(picture)
        device.link.flush()
        refused = {
            "board [01] is not idle after 1 s, as after a program that was stopped; reset all boards of the chain "
            "together, and resume": lambda: None,
            r"the link from board 0 to 1 is \w+; check the cable and board 1; if one board alone was reset, reset all "
            "together": lambda: device.link.open(restart=True),  # board 0 alone is reset
        }
        for said, happened in refused.items():
            happened()
            with pytest.raises(HostError, match=rf"^simulation: {said}$"):
                Device(simulation, description, resend=5.0, patience=1.0)
    finally:
        simulation.close()
