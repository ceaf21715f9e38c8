"""Arrays as loops over their weights: C++ models that stand for the emitted arrays in long simulations of large boards.

They give the same outputs in every cycle (tests/test_sim_rolled.py), and let the driver reach the memories."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Shape

from ..backend.render import render
from ..backend.requests import stage_requests
from ..errors import BuildError
from ..gateware.array import Array
from ..gateware.shape import ArrayShape
from ..plan.plan import Plan

__all__ = ["RolledArray", "glue", "roll", "rolled_module"]

WIDEST = 64
"""Bits of a sum that the models calculate with."""
_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\\\S+ |\w+);", re.MULTILINE)
VECTORS = {"f_x": "input", "b_dy": "input", "b_x": "input", "f_sum": "output", "b_sum": "output"}
"""Ports that cross as vectors."""
NEXT = {name: f"next_{name}" for name in ("f_sum", "b_sum", "peek_master", "peek_grad")}
"""What outputs become; the others, of an update that is not made in the array, are 0."""


@dataclass(frozen=True)
class RolledArray:
    """The array in Verilog module ``module``; ``entry`` begins the names of its C functions."""

    module: str
    entry: str
    shape: ArrayShape
    pk: int
    pn: int
    tk: int
    tn: int

    def problem(self) -> str | None:
        """Why there is no model of it; None if there is."""
        shape = self.shape
        if shape.updates:
            return "it makes its updates itself; plan with masters in memory"
        if not shape.columns:
            return "its PEs have memories of their own, which only columns share in the model"
        if max(shape.psum, shape.back, shape.grad) > WIDEST or shape.master > 32:
            return f"it has sums of more than {WIDEST} or weights of more than 32 bits"
        return None

    @property
    def widths(self) -> dict[str, int]:
        """Bits of the ports of an array."""
        array = Array(self.shape, self.pk, self.pn, (self.tk, self.tn), ((0,) * self.pn,) * self.pk)
        array._MustUse__silence = True  # it lends its signature only
        return {name: Shape.cast(member.shape).width for name, member in array.signature.members.items()}

    def constants(self) -> dict[str, int]:
        """Of the model's template parameter in rolled.h."""
        shape = self.shape
        sizes = {"PK": self.pk, "PN": self.pn, "TK": self.tk, "TN": self.tn, "DEPTH": shape.depth}
        widths = {"ADDRESS": shape.address, "X": shape.x, "W": shape.w, "DY": shape.dy, "GRAD": shape.grad}
        sums = {"PSUM": shape.psum, "BACK": shape.back, "PERIOD": shape.period, "STACK": shape.stack}
        flags = {"BACKWARD": shape.backward, "GRADIENT": shape.gradient, "SHARED": shape.shared}
        flags |= {"COPY": shape.copy}
        return sizes | widths | sums | {name: int(flag) for name, flag in flags.items()}


def roll(plan: Plan, files: Mapping[str, str]) -> tuple[dict[str, str], list[RolledArray]]:
    """The Verilog files of a plan with models for the arrays of its stages, and those.

    Raises BuildError naming every stage whose array has no model.
    """
    changed, arrays, problems = dict(files), {}, []
    for planned in plan.stages:
        tile, stage = stage_requests(plan, planned)
        shape, tk, tn, _ = tile.parts
        fold = planned.fold
        array = RolledArray(f"\\{stage.name}.array ", stage.name, shape, fold.pk, fold.pn, tk, tn)
        if (what := array.problem()) is not None:
            problems.append(f"{planned.stage.name}: no rolled model of its array: {what}; leave --rolled out")
        elif stage.name not in arrays:
            arrays[stage.name] = array
            name = next((name for name in files if name.endswith(f"/{stage.name}.v")), None)
            if name is None:
                raise BuildError(f"verilog: no file of module {stage.name}; build again")
            changed[name] = _without_array(files[name], array)
    if problems:
        raise BuildError(problems)
    return changed, list(arrays.values())


def _without_array(text: str, array: RolledArray) -> str:
    """A stage's Verilog with the model for its array; the modules of its tiles are gone."""
    modules = re.split(r"(?m)^(?=module )", text)
    kept = [one for one in modules if not one.startswith(f"module {array.module[:-1]}.")]
    own = [one for one in kept if one.startswith(f"module {array.module}")]
    if len(own) != 1:
        raise BuildError(f"verilog: {len(own)} modules {array.module.strip()}; build again")
    return "".join(rolled_module(array, one) if one is own[0] else one for one in kept)


def rolled_module(array: RolledArray, text: str) -> str:
    """The module that stands for the emitted one with ``text``: it has the same ports.

    Raises BuildError if those are not an array's.
    """
    ports, pins = [], {}
    for way, high, name in _PORT.findall(text):
        plain, width = _plain(name), int(high or 0) + 1
        if width != (wanted := array.widths.get(plain, width)) or plain not in (*array.widths, "clk", "rst"):
            raise BuildError(
                f"verilog: {array.module.strip()}: port {plain} of {width} bits, not {wanted}; build again"
            )
        spaced = f"{name} " if name.startswith("\\") else name
        pins[plain] = spaced
        out = way == "output"
        ports.append(
            {"name": spaced, "width": width, "out": out, "next": f"{width}'({NEXT.get(plain, '0')})"}
        )
    needed = {
        "f_load",
        "f_x",
        "f_sum",
        "b_control",
        "load",
        "peek_master",
        *(["b_sum"] if array.shape.backward else []),
    }
    if missing := sorted(needed - pins.keys()):
        raise BuildError(f"verilog: {array.module.strip()}: no port {', '.join(missing)}; build again")
    vectors = [
        {
            "name": name,
            "way": way,
            "width": array.widths[name],
            "value": f"next_{name}" if way == "output" else pins.get(name, "0"),
        }
        for name, way in VECTORS.items()
    ]
    return render(
        "rolled.sv.j2", module=array.module, entry=array.entry, pk=array.pk, pn=array.pn, ports=ports, vectors=vectors,
        pins={name: pins.get(name, f"{array.widths[name]}'d0") for name in array.widths},
    )  # fmt: skip


def _plain(name: str) -> str:
    """The array's name of a port; one of a single sum is named after the adder that it comes from."""
    plain = re.sub(r"\$\d+$", "", name.strip().lstrip("\\"))
    return re.sub(r"^([fb])_0_0_tree_\d+_0$", r"\1_sum", plain)


def glue(arrays: Sequence[RolledArray], memory: bool = False) -> str:
    """C++ text of arrays.h: the functions that the models' modules call; ``memory``: there is a model of external
    memory."""
    return render("arrays.h.j2", arrays=arrays, memory=memory)
