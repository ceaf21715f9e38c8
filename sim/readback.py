"""What a run brought back, as tensors: probe streams, memories and counters of the device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import BuildError
from ..plan.plan import Plan, StagePlan
from ..plan.registers import STAGE_COUNTERS
from ..plan.weights import bias_image, bias_tensor, weight_image, weight_tensor
from .layout import Layout, Words, unpack_lanes
from .ports import Ports
from .session import StageWords

__all__ = ["Probe", "Tensors", "counters", "device_probes", "memories", "signed_words", "sums"]

Ints = NDArray[np.int64]
Tensors = tuple[Ints, Ints]
"""A tensor and the values at places that hold no element of it, all of which must be 0."""


@dataclass(frozen=True)
class Probe:
    """A probe stream: the port's name, the tensor's ("conv1.y"), which one of a stage ("y", "dy", "dx",
    "dz"), the stage's place in plan.stages, and its layout."""

    stream: str
    name: str
    kind: str
    stage: int
    layout: Layout

    def read(self, directory: Path, ports: Ports) -> Words:
        """All words of the probe's file, [beats, words of a beat], not loaded until used."""
        words = ports.words(self.stream)
        path = directory / f"{self.stream}.bin"
        size = path.stat().st_size // 4 // words
        if not size:
            return np.zeros((0, words), np.uint32)
        return np.memmap(path, dtype=np.uint32, mode="r", shape=(size, words))

    def tensors(self, words: Words) -> Tensors:
        """[samples, H, W, C] of whole samples and their padding lanes; words of an unfinished sample are left
        out."""
        whole = len(words) // self.layout.beats * self.layout.beats
        lanes = unpack_lanes(np.asarray(words[:whole]), self.layout.lanes, self.layout.width)
        return self.layout.to_tensors(lanes), self.layout.padding(lanes)


def device_probes(plan: Plan, ports: Ports) -> list[Probe]:
    """The probes of a device in the order of computation: y of all stages, dz, then dy and dx from the last
    stage back; a board without the loss has no dz.

    Raises BuildError if the Verilog has another set of them, or another width.
    """
    forward, backward = [], []
    last = plan.stages[-1]
    if last.board == len(plan.boards) - 1:
        whole = plan.whole(last)
        z = Layout(whole.out_shape, whole.groups, last.fold.pn, plan.network.loss.dz.width)
        backward.append(Probe(f"{_prefix(plan, last)}dz", "loss.dz", "dz", len(plan.stages) - 1, z))
    for i, planned in enumerate(plan.stages):
        if not planned.part.sends_sums:
            forward.append(_probe(plan, i, "y", planned.stage.y.width))
    for i, planned in reversed(list(enumerate(plan.stages))):
        stage = planned.stage
        if stage.dx is not None or not stage.frozen:
            backward.append(_probe(plan, i, "dy", stage.dy.width))
        if stage.dx is not None and planned.part.rounds_dx(plan.whole(planned)):
            backward.append(_probe(plan, i, "dx", stage.dx.width))
    probes = [*forward, *backward]
    wanted = {probe.stream: probe.layout.lanes * probe.layout.width for probe in probes}
    found = {name: ports.widths[f"{name}__payload"] for name in ports.probes}
    if wanted != found:
        wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise BuildError(
            f"verilog: probe {wrong[0]} has {found.get(wrong[0], 0)} bits, "
            f"the plan says {wanted.get(wrong[0], 0)}; build again"
        )
    return probes


def _prefix(plan: Plan, planned: StagePlan) -> str:
    """How the probes of a board begin."""
    return f"probe_b{planned.board}_" if plan.links else "probe_"


def _probe(plan: Plan, i: int, kind: str, width: int) -> Probe:
    planned = plan.stages[i]
    stage, fold = planned.stage, planned.fold
    shape = {"y": stage.out_shape, "dy": stage.conv_shape, "dx": stage.in_shape}[kind]
    if kind == "dx" and planned.part.cut == "rows":
        rounded = planned.part.rows(plan.whole(planned)).rounded(planned.part.index)
        shape = (len(rounded), *shape[1:])
    layout = Layout(shape, stage.groups, fold.folding.pc if kind == "dx" else fold.pn, width)
    stream = f"{_prefix(plan, planned)}{kind}{plan.numbers[i]}"
    return Probe(stream, f"{stage.name}.{kind}", kind, i, layout)


def signed_words(words: Words) -> Ints:
    """32-bit words as signed integers."""
    return words.astype(np.uint32).view(np.int32).astype(np.int64)


def sums(words: tuple[slice | None, slice | None], reads: Words) -> Ints:
    """Signed sums from their low and high words; without high words the low ones are the sums."""
    low, high = words
    assert low is not None
    if high is None:
        return signed_words(reads[low])
    return signed_words(reads[high]) << 32 | reads[low].astype(np.int64)


def _weights(planned: StagePlan, values: Ints) -> Tensors:
    fold = planned.fold
    image = values.reshape(fold.pk, fold.pn, fold.depth)
    tensor = weight_tensor(fold, image)
    return tensor, image - weight_image(fold, tensor)


def _bias(planned: StagePlan, values: Ints) -> Tensors:
    fold = planned.fold
    image = values.reshape(fold.pn, fold.y_words).T
    tensor = bias_tensor(fold, image)
    return tensor, image - bias_image(fold, tensor)


def memories(planned: StagePlan, words: StageWords, reads: Words) -> dict[str, Tensors]:
    """The memories of a stage that were read: "weight" (of masters elsewhere also "multiplied", the weights
    beside the multipliers), "bias", "dw", "db", as tensors [kh, kw, cin, Cout]
    and [Cout]."""
    found: dict[str, Tensors] = {}
    if words.master is not None:
        kind = "weight" if planned.storage.master == "here" else "multiplied"
        found[kind] = _weights(planned, signed_words(reads[words.master]))
    if words.region is not None:
        masters = signed_words(reads[words.region]).reshape(planned.stage.weight_shape)
        found["weight"] = masters, np.zeros(0, dtype=np.int64)
    if words.bias is not None:
        found["bias"] = _bias(planned, signed_words(reads[words.bias]))
    if words.grad[0] is not None:
        found["dw"] = _weights(planned, sums(words.grad, reads))
    if words.bias_grad[0] is not None:
        found["db"] = _bias(planned, sums(words.bias_grad, reads))
    return found


def counters(words: slice, reads: Words) -> dict[str, int]:
    """A stage's counters by name."""
    return {name: int(value) for name, value in zip(STAGE_COUNTERS, reads[words], strict=True)}
