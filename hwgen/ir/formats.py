"""Number formats by role, with the default binary points, and the overrides of one layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral

from ..numeric import Q

__all__ = [
    "MAX_FRAC",
    "MAX_MASTER",
    "MAX_WIDTH",
    "MIN_BIAS",
    "MIN_WIDTH",
    "Formats",
    "LayerFormats",
    "format_problems",
    "layer_format_problems",
    "lr_format",
]

MIN_WIDTH, MAX_WIDTH = 4, 24
"""Widths that the multipliers carry."""
MIN_BIAS, MAX_MASTER = 8, 32
"""Widths of biases, and the limit of masters: the host writes one of either through a 32-bit register."""
MAX_FRAC = 48
"""Binary points lie within ±48 bits."""
MAX_LR_FRAC = 40


@dataclass(frozen=True)
class LayerFormats:
    """Formats of one layer where they differ from the roles' defaults.

    ``w`` weights as multiplied, ``y`` the layer's output, ``dy`` the error of that output, ``bias`` the bias.
    """

    w: Q | None = None
    y: Q | None = None
    dy: Q | None = None
    bias: Q | None = None


@dataclass(frozen=True)
class Formats:
    """Widths in bits by role.

    ``activation``, ``weight``, ``error``, ``lr``: 4..24. ``master`` (weight..32) is the width that the update
    works on; its top bits are the weight. ``bias`` 8..32. ``input`` is the images' format (default:
    activation bits, ±2). ``rounding`` of the update is "nearest" (half to even) or "stochastic" (then master
    may equal weight).
    """

    activation: int = 16
    weight: int = 16
    master: int = 32
    error: int = 16
    lr: int = 16
    bias: int = 32
    rounding: str = "nearest"
    input: Q | None = None

    def __post_init__(self) -> None:
        for item in fields(self):  # numpy's integers overflow where Python's do not
            value = getattr(self, item.name)
            if not isinstance(value, bool) and isinstance(value, Integral):
                object.__setattr__(self, item.name, int(value))

    def problems(self) -> list[str]:
        """What is wrong with the widths, each "where: what; what to do"."""
        found = [
            f"formats: {role} = {value!r} bits, which no multiplier carries; give {MIN_WIDTH}..{MAX_WIDTH}"
            for role in ("activation", "weight", "error", "lr")
            if not _whole(value := getattr(self, role), MIN_WIDTH, MAX_WIDTH)
        ]
        least = self.weight if _whole(self.weight, MIN_WIDTH, MAX_WIDTH) else MIN_WIDTH
        if not _whole(self.master, least, MAX_MASTER):
            found.append(
                f"formats: master = {self.master!r} bits; give {least}..{MAX_MASTER} "
                "(the weight is its top bits)"
            )
        if not _whole(self.bias, MIN_BIAS, MAX_MASTER):
            found.append(f"formats: bias = {self.bias!r} bits; give {MIN_BIAS}..{MAX_MASTER}")
        if self.rounding not in ("nearest", "stochastic"):
            found.append(f'formats: rounding = {self.rounding!r}; give "nearest" or "stochastic"')
        return found + format_problems("formats", "input", self.input)

    def input_format(self) -> Q:
        """Format of the images: ±2 unless given."""
        return self.input or Q(self.activation, self.activation - 2)

    def activation_format(self) -> Q:
        """Format of a layer's output unless given: 16 bits reach ±16, narrow ones keep half as fraction."""
        return Q(self.activation, max(self.activation - 5, self.activation // 2))

    def weight_format(self) -> Q:
        """Format of weights unless given: ±2."""
        return Q(self.weight, self.weight - 2)

    def error_format(self) -> Q:
        """Format of errors unless given: ±2, which holds p - onehot."""
        return Q(self.error, self.error - 2)

    def master_format(self, weight: Q) -> Q:
        """The master of a weight: the weight is its top bits."""
        return Q(self.master, weight.frac + self.master - weight.width)

    def bias_format(self, acc_frac: int) -> Q:
        """Format of a bias added to sums of ``acc_frac`` fractional bits."""
        return Q(self.bias, min(acc_frac, 26))


def format_problems(
    where: str, role: str, value: object, low: int = MIN_WIDTH, high: int = MAX_WIDTH
) -> list[str]:
    """What is wrong with an explicitly given format of ``low``..``high`` bits; None is a format not given."""
    if value is None:
        return []
    if not isinstance(value, Q):
        return [f"{where}: {role} = {value!r}; give a format Q(width, frac)"]
    found = []
    if not _whole(value.width, low, high):
        why = "which no multiplier carries" if high == MAX_WIDTH else "which the host cannot write"
        found.append(f"{where}: {role} = {value}: {value.width!r} bits, {why}; give {low}..{high}")
    if not _whole(value.frac, -MAX_FRAC, MAX_FRAC):
        found.append(
            f"{where}: {role} = {value}: {value.frac!r} fractional bits; give an integer in ±{MAX_FRAC}"
        )
    return found


def layer_format_problems(where: str, formats: LayerFormats, master: object) -> list[str]:
    """What is wrong with a layer's formats beside a master of ``master`` bits, "where: what; what to do"."""
    found = [
        problem
        for role in ("w", "y", "dy")
        for problem in format_problems(where, role, getattr(formats, role))
    ]
    found += format_problems(where, "bias", formats.bias, MIN_BIAS, MAX_MASTER)
    if not found and formats.w is not None and _whole(master, 1, MAX_MASTER) and formats.w.width > master:  # type: ignore[operator]
        found.append(
            f"{where}: w = {formats.w} is wider than its master of {master} bits; "
            f"give Formats(master={formats.w.width}) or more"
        )
    return found


def lr_format(width: int, step: float) -> tuple[Q, int]:
    """Format of ``width`` bits for learning rate / batch = ``step``, and the integer that stands for it.

    The binary point is placed so that the integer has width - 1 significant bits, as far as 0..40 fractional
    bits allow. The integer is 0 if the step underflows and may exceed the format if it is too large.
    """
    frac = width - 1 - (math.floor(math.log2(step)) + 1)
    if round(math.ldexp(step, frac)) > (1 << (width - 1)) - 1:
        frac -= 1
    frac = min(max(frac, 0), MAX_LR_FRAC)
    return Q(width, frac), round(math.ldexp(step, frac))


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
