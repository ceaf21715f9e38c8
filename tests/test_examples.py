"""AlexNet and VGG of the examples: products, weights and shapes as published, loaded fast and lean."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from hwgen import Model, nn
from hwgen.errors import ModelError
from hwgen.frontend.loader import load_source
from hwgen.passes.convolutions import convolutions
from hwgen.plan.planner import plan_network
from hwgen.target import Cluster

EXAMPLES = Path(__file__).parent.parent / "examples"

# of the convolutions alone: products forward and in training (none for dX of the first layer), weights, layers;
# then the last map, and the weights of the whole network
FIGURES = {
    "alexnet": (665_784_864, 1_891_939_392, 2_332_704, 5, (6, 6, 256), 60_954_656),
    "vgg11": (7_485_456_384, 22_369_665_024, 9_217_728, 8, (7, 7, 512), 132_851_392),
    "vgg16": (15_346_630_656, 45_953_187_840, 14_710_464, 13, (7, 7, 512), 138_344_128),
    "vgg19": (19_508_428_800, 58_438_582_272, 20_018_880, 16, (7, 7, 512), 143_652_544),
}


def network_of(name):
    return load_source(EXAMPLES / f"{name}.py").network


def weights(network):
    return sum(math.prod(stage.weight_shape) for stage in network.stages)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_the_convolutions(name):
    forward, training, count, layers, shape, _ = FIGURES[name]
    for variant in (name, f"{name}_fc"):
        network = convolutions(network_of(variant))
        assert sum(stage.macs[0] for stage in network.stages) == forward
        assert network.macs == training == 3 * forward - network.stages[0].macs[0]
        assert weights(network) == count
        assert (len(network.stages), network.stages[-1].out_shape) == (layers, shape)
        assert (network.loss.z, network.loss.dz) == (network.stages[-1].y, network.stages[-1].dy)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_the_whole_networks(name):
    *_, layers, shape, total = FIGURES[name]
    small, large = network_of(name), network_of(f"{name}_fc")
    assert (small.name, large.name) == (name, f"{name}_fc")
    assert (len(small.stages), small.loss.classes) == (layers + 1, 10)
    assert (len(large.stages), large.loss.classes) == (layers + 3, 1000)
    assert weights(small) == FIGURES[name][2] + math.prod(shape) * 10
    assert weights(large) == total
    assert small.stages[:layers] == large.stages[:layers]


def test_published_shapes():
    """Sizes of maps behind each stage, and groups, as in the papers."""
    alexnet, vgg = network_of("alexnet_fc"), network_of("vgg16")
    maps = [stage.conv_shape[0] for stage in alexnet.stages]
    assert (alexnet.in_shape, maps) == ((227, 227, 3), [55, 27, 13, 13, 13, 1, 1, 1])
    assert [stage.groups for stage in alexnet.stages] == [1, 2, 1, 2, 2, 1, 1, 1]
    assert vgg.in_shape == (224, 224, 3)
    assert [stage.conv_shape[::2] for stage in vgg.stages[:-1]] == [
        *((224, 64),) * 2, *((112, 128),) * 2, *((56, 256),) * 3, *((28, 512),) * 3, *((14, 512),) * 3
    ]  # fmt: skip


def test_a_network_without_convolutions():
    model = Model(input=(4,), layers=[nn.Linear(4, 2)], name="mlp")
    with pytest.raises(ModelError, match=r"^mlp: no convolution; give a network with nn\.Conv2d$"):
        convolutions(model.network())


def test_layers_behind_one_pixel_are_no_convolutions():
    layers = [nn.Conv2d(1, 2, 2), nn.Conv2d(2, 3, 2), nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2)]
    network = Model(input=(3, 3, 1), layers=layers).network()
    assert [stage.name for stage in convolutions(network).stages] == ["conv1", "conv2"]


LEAN = """
import re, sys, time
start = time.perf_counter()
from hwgen.frontend.loader import load_source
source = load_source(sys.argv[1])
# The most memory of this program; that of getrusage may be what its parent had when it was started.
most = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
print(time.perf_counter() - start, most, source.given)
"""


def test_a_large_network_loads_fast_and_lean():
    """No weight and no image is drawn for a plan: those of this network are gigabytes."""
    command = [sys.executable, "-c", LEAN, str(EXAMPLES / "vgg16_fc.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes, given = done.stdout.split()
    assert given == "None"
    assert float(seconds) < 20, "about 0.5 s on an idle machine"
    assert int(megabytes) < 300


def test_the_network_of_the_demonstration_fits_its_board():
    plan = plan_network(network_of("digits_small"), cluster=Cluster.parse("ulx3s_85f"))
    assert (plan.multipliers, plan.prediction.cycles_per_sample) == (42, 512)
    assert (
        "hwgen build examples/digits_small.py --cluster ulx3s_85f"
        in (EXAMPLES.parent / "Makefile").read_text()
    )
