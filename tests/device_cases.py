"""Whole devices for tests: random networks under random foldings, tiles and buffer depths, and runs of their
Verilog."""

import dataclasses
import random
from dataclasses import dataclass

import numpy as np
from hwgen.sim.run import SimOptions, simulate
from kept_modules import kept_files
from ref_networks import random_batch, random_network, random_parameters

from hwgen.backend.verilog import emit
from hwgen.data import Dataset
from hwgen.ir.initial import Parameters
from hwgen.ir.stage import Wish
from hwgen.plan.buffers import least_depths
from hwgen.plan.fold import legal_pc, legal_u
from hwgen.plan.plan import Depths, Plan
from hwgen.plan.planner import plan_network

__all__ = ["Device", "device_of", "doubled", "random_device", "run", "with_depths"]


@dataclass(frozen=True)
class Device:
    """What a simulation needs: a plan, first parameters, samples, Verilog."""

    plan: Plan
    parameters: Parameters
    dataset: Dataset
    files: dict[str, str]


def device_of(plan, seed=0, batches=5, extreme=False, files=emit):
    """A device with random parameters and samples for ``batches`` batches; ``files`` makes its Verilog from the plan.

    What ``emit`` would make is taken from kept modules where they are there.
    """
    files = kept_files if files is emit else files
    rng = np.random.default_rng(seed)
    network = plan.network
    samples = batches * network.update.batch
    train = random_batch(network, rng, samples, extreme)
    held = random_batch(network, rng, 2)
    return Device(plan, random_parameters(network, rng, extreme), Dataset(*train, *held), files(plan))


def with_depths(plan, change):
    """The plan with every stage's depths replaced by ``change(planned)``."""
    stages = tuple(dataclasses.replace(planned, depths=change(planned)) for planned in plan.stages)
    return dataclasses.replace(plan, stages=stages)


def doubled(planned):
    """Twice the planned depths."""
    values = {f.name: 2 * getattr(planned.depths, f.name) for f in dataclasses.fields(Depths)}
    return Depths(**values)


def random_device(seed, extreme=False):
    """Random network, foldings, tiles, depths and image lanes."""
    rng = random.Random(seed)
    network = random_network(seed)
    stages = []
    for stage in network.stages:
        b = min(rng.choice([1, 1, 2, 3, 4, 7, stage.M]), stage.M)
        wish = Wish(rng.choice(legal_u(stage)), rng.choice(legal_pc(stage)), rng.randint(1, stage.N), b)
        stages.append(dataclasses.replace(stage, wish=wish))
    network = dataclasses.replace(network, stages=tuple(stages))
    plan = plan_network(network, image_lanes=rng.randint(1, network.in_shape[2]))
    divisors = lambda n: [d for d in range(1, n + 1) if n % d == 0]  # noqa: E731
    tiles = tuple(
        dataclasses.replace(p, tile=(rng.choice(divisors(p.fold.pk)), rng.choice(divisors(p.fold.pn))))
        for p in plan.stages
    )
    plan = dataclasses.replace(plan, stages=tiles)
    change = rng.choice([lambda p: p.depths, least_depths, doubled, lambda p: least_depths(p, 2, 1)])
    return device_of(with_depths(plan, change), seed, extreme=extreme)


def run(device, /, **options):
    """Simulate and compare everything; the result."""
    return simulate(device, SimOptions(**{"batches": 3, "simulator": "icarus", "watchdog": 20_000} | options))
