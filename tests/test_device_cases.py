"""What a device must keep up, whatever it is fed and however: batch after batch, from poisoned memories, with
operands at their extremes, with stalls, and in any folding."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from device_cases import device_of, run
from ref_networks import random_parameters
from small_device import with_data

from hwgen import Formats, Model, nn
from hwgen.ir.stage import Wish
from hwgen.plan.planner import plan_network

POISONED = {"simulator": "verilator", "poison": True, "batches": 3}
"""Everything without a reset starts at random; one build of the C++ serves all of these tests."""


def dumped(directory, batches):
    """The hardware's tensors of each held batch, by name."""
    found = []
    for batch in range(batches):
        with np.load(directory / f"batch_{batch:04}.npz") as dump:
            found.append({name[:-9]: dump[name] for name in dump.files if name.endswith(".hardware")})
    return found


def same(one, other):
    """Names of the tensors that are not equal in both."""
    assert one.keys() == other.keys()
    return [name for name in one if not np.array_equal(one[name], other[name])]


def test_batches_back_to_back_from_poisoned_memories(small):
    for seed in range(3):
        device = with_data(small, seed, batches=12)
        result = run(device, **POISONED | {"batches": None}, epochs=1, evaluate=True, seed=seed)
        assert (result["batches"], result["mismatched"]) == (12, 0)


def test_the_same_batch_without_learning_gives_the_same_thrice(small, tmp_path):
    device = with_data(small, 1, batches=1, rate=0)
    images, labels = device.dataset.train_images, device.dataset.train_labels
    result = run(device, **POISONED, dump=tmp_path)
    assert result["stages"][1]["counters"]["zero_updates"] > 0
    assert len(images) == len(labels) == 2
    first, *others = (ordered(batch) for batch in dumped(tmp_path, 3))
    assert {"conv.y", "conv.dx", "conv.dw", "conv.db", "linear.weight"} <= first.keys()
    for other in others:
        assert same(first, other) == []


def ordered(batch):
    """The tensors of a batch with its samples in an order of their own: each epoch shuffles them."""
    order = np.lexsort(batch["first.y"].reshape(len(batch["first.y"]), -1).T)
    kinds = ("y", "dy", "dx", "dz")
    return {name: t[order] if name.rsplit(".", 1)[1] in kinds else t for name, t in batch.items()}


def test_every_parameter_changes_and_is_used(small, tmp_path):
    """One batch over and over: each update changes every parameter tensor, and with it what comes next."""
    device = with_data(small, 2, batches=1)
    run(device, **POISONED, dump=tmp_path)
    batches = [ordered(batch) for batch in dumped(tmp_path, 3)]
    changing = [
        f"{stage}.{kind}" for stage in ("first", "conv", "linear") for kind in ("weight", "bias", "y")
    ]
    for before, after in pairwise(batches):
        assert set(changing) <= set(same(before, after))


def test_operands_at_their_extremes(small):
    for seed in range(4):
        result = run(with_data(small, seed, extreme=True), **POISONED, seed=seed)
        assert result["mismatched"] == 0
        assert sum(stage["counters"]["y_saturated"] for stage in result["stages"]) > 0


@pytest.mark.parametrize("sign", [-1, 1])
def test_sums_of_the_greatest_products(small, sign):
    """Every image, weight and bias at one end: no sum of full fan-in wraps."""
    device = with_data(small, 5, extreme=True)
    q = device.plan.network.input
    ends = lambda q: q.min if sign < 0 else q.max  # noqa: E731
    stages = device.plan.network.stages
    like = random_parameters(device.plan.network, np.random.default_rng(0))
    weights = tuple(np.full_like(w, s.master.min) for w, s in zip(like.weights, stages, strict=True))
    biases = tuple(np.full_like(b, ends(s.bias)) for b, s in zip(like.biases, stages, strict=True))
    images = np.full_like(device.dataset.train_images, ends(q))
    device = replace(
        device,
        parameters=replace(like, weights=weights, biases=biases),
        dataset=replace(device.dataset, train_images=images),
    )
    result = run(device, **POISONED)
    assert result["mismatched"] == 0
    assert result["stages"][1]["counters"]["y_saturated"] > 0


def test_stalls_change_no_bit(small, tmp_path):
    device = with_data(small, 3)
    calm = run(device, **POISONED, dump=tmp_path / "calm")
    expected = dumped(tmp_path / "calm", 3)
    for stall in (0.3, 0.7):
        for watched in (True, False):
            place = tmp_path / f"{stall}-{watched}"
            stalled = run(device, **POISONED, stall=stall, gradients=watched, dump=place)
            assert stalled["cycles"] > calm["cycles"] or not watched
            for one, other in zip(expected, dumped(place, 3), strict=True):
                shared = {name: one[name] for name in other}
                assert same(shared, other) == []


# --- Foldings


def folded(pk, pn, b):
    """A network whose fan-ins (3·8, 9) and outputs (9, 8) few sizes divide, both stages on Pk × Pn."""
    model = Model(
        input=(2, 4, 8),
        layers=[nn.Conv2d(8, 9, (1, 3)), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9, 8)],
        optimizer=nn.SGD(lr=0.5, batch=2),
        formats=Formats(activation=8, weight=6, master=12, error=8, lr=8, bias=12),
    )
    network = model.network()
    stages = tuple(replace(stage, array=(pk, pn), wish=Wish(b=min(b, stage.M))) for stage in network.stages)
    return plan_network(replace(network, stages=stages))


@pytest.fixture(scope="module")
def unfolded():
    """Tensors of the first folding that was simulated; all others must give the same."""
    return {}


SIZES = (1, 2, 3, 4, 7)
FEW = {(1, 1): 1, (1, 4): 2, (2, 7): 4, (3, 2): 3, (4, 3): 2, (7, 1): 1}
"""Every size on each side."""
GRID = [
    pytest.param(pk, pn, FEW.get((pk, pn), 1 + pk % 3), marks=[] if (pk, pn) in FEW else pytest.mark.soak)
    for pk in SIZES
    for pn in SIZES
]


@pytest.mark.parametrize(("pk", "pn", "b"), GRID)
def test_odd_arrays_give_the_same_tensors(pk, pn, b, unfolded, tmp_path):
    plan = folded(pk, pn, b)
    assert {(planned.fold.pk, planned.fold.pn) for planned in plan.stages} == {(pk, pn)}
    # Final weights are compared with the reference, which is the same for all.
    run(device_of(plan, seed=4), batches=1, gradients=False, watchdog=3000, dump=tmp_path)
    (tensors,) = dumped(tmp_path, 1)
    assert {"conv1.y", "conv1.dy", "linear1.dx", "linear1.y", "loss.dz"} <= tensors.keys()
    assert same(unfolded.setdefault("tensors", tensors), tensors) == []
