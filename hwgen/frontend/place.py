"""Reading where a layer is to stand: ``device=``, ``split=``, ``shares=``, ``turns=`` over boards, ``master=``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ..ir.ops import Conv2d, Linear
from ..ir.stage import MASTERS, SPLITS, Place
from .arguments import Arguments, is_whole, spell

__all__ = ["PLACE", "read_place", "refuse_place"]

PLACE = ("device", "split", "shares", "turns", "master")
_AXES = {"output_channels": "output channels", "input_channels": "input channels", "groups": "groups"}
Ints = tuple[int, ...]


def read_place(given: Arguments, op: Conv2d | Linear, settings: Mapping[str, object]) -> Place:
    """The place that a layer's keywords ask for; what is wrong with it is noted and left out."""
    device = _boards(given, settings.get("device"))
    split = _split(given, settings.get("split"), op)
    shares = _shares(given, settings.get("shares"), settings.get("split"))
    turns = _turns(given, settings.get("turns"), settings.get("split"), shares)
    if shares is not None and settings.get("split") is None:
        given.say(f"shares = {shares} without split; give {_choice(_legal(op))} beside it")
    if shares is not None and device is not None and len(shares) != len(device):
        given.say(
            f"shares = {shares} makes {len(shares)} parts but device = {device} is {_count(len(device))}; "
            "give one share a board"
        )
    if split is not None and device is not None and len(device) == 1:
        given.say(
            f'split = "{split}" but device = {device[0]} is one board; '
            f"give the boards of all parts, device=({device[0]}, {device[0] + 1}), or drop split"
        )
    # How many rows there are is known behind the shapes, so a cut by rows is checked with the plan.
    axis = None if split is None or split == "rows" else _axis(op, split)
    if split is not None and axis:
        if shares is not None and sum(shares) != axis:
            given.say(
                f"shares = {shares} sum to {sum(shares)} but the layer has {axis} {_AXES[split]}; "
                f"give shares that sum to {axis}"
            )
        elif device is not None and len(device) > axis:
            given.say(
                f"device = {device} cuts {axis} {_AXES[split]} into {len(device)} parts; "
                f"give at most {_count(axis)}"
            )
    return Place(device, split, shares, turns, _master(given, settings))


def refuse_place(kind: str, settings: Mapping[str, object]) -> tuple[tuple[str, ...], dict[str, object]]:
    """What is wrong if a layer without weights is given a place, and its other settings."""
    asked = [key for key in PLACE if key in settings]
    rest = {key: value for key, value in settings.items() if key not in asked}
    if not asked:
        return (), rest
    values = ", ".join(f"{key} = {spell(settings[key])}" for key in asked)
    whole = "a pool is never cut" if kind == "MaxPool2d" else "it has no weights"
    return (
        f"{values} on {kind}, which stays with the layer before it: {whole}; "
        f"cut at a layer with weights, give {', '.join(asked)} to nn.Conv2d or nn.Linear",
    ), rest


def _master(given: Arguments, settings: Mapping[str, object]) -> str | None:
    value = settings.get("master")
    if value is None:
        return None
    if not isinstance(value, str) or value not in MASTERS:
        names = [f'"{name}"' for name in MASTERS]
        given.say(f"master = {spell(value)}; give {', '.join(names[:-1])} or {names[-1]}")
        return None
    if value != "here" and settings.get("frozen") is True:
        given.say(f'master = "{value}" but frozen = True: its weights never change; drop one of them')
        return None
    return value


def _boards(given: Arguments, value: object) -> Ints | None:
    if value is None:
        return None
    boards = value if isinstance(value, (tuple, list)) else (value,)
    whole = _whole_numbers(boards, 0)
    if whole is None:
        given.say(f"device = {spell(value)}; give the number of a board, 0 or more, or a tuple of them")
    elif any(after != before + 1 for before, after in pairwise(whole)):
        given.say(
            f"device = {whole}; the parts of a layer stand on consecutive boards, "
            f"give ({', '.join(str(whole[0] + part) for part in range(len(whole)))})"
        )
        return None
    return whole


def _split(given: Arguments, value: object, op: Conv2d | Linear) -> str | None:
    legal, groups = _legal(op), _groups(op)
    if value is None or (isinstance(value, str) and value in legal):
        return value
    if isinstance(value, str) and value in SPLITS:
        has = f"{groups} groups" if groups > 1 else "one row" if value == "rows" else "one group"
        given.say(f'split = "{value}" but the layer has {has}; give {_choice(legal)}')
    else:
        given.say(f"split = {spell(value)}; give {_choice(legal)}")
    return None


def _shares(given: Arguments, value: object, split: object) -> Ints | None:
    if value is None:
        return None
    whole = _whole_numbers(value, 1)
    if whole is None:
        what = "rows of each part's turn" if split == "rows" else "channels of each part"
        given.say(f"shares = {spell(value)}; give a tuple with the {what}, 1 or more")
    return whole


def _turns(given: Arguments, value: object, split: object, shares: Ints | None) -> int | None:
    if value is None:
        return None
    whole = _whole_numbers((value,), 1)
    if whole is None:
        given.say(f"turns = {spell(value)}; give the number of turns of each part, 1 or more")
    elif split != "rows":
        given.say(f'turns = {whole[0]} without split="rows"; only image rows are dealt in turns')
    elif shares is not None:
        given.say(
            f"turns = {whole[0]} beside shares = {shares}, which repeat to the last row; give one of them"
        )
    else:
        return whole[0]
    return None


def _whole_numbers(value: object, low: int) -> Ints | None:
    """A tuple of integers of at least ``low``, None if it is anything else."""
    if not isinstance(value, (tuple, list)) or not value:
        return None
    return tuple(int(v) for v in value) if all(is_whole(v, low) for v in value) else None


def _groups(op: Conv2d | Linear) -> int:
    return op.groups if isinstance(op, Conv2d) else 1


def _axis(op: Conv2d | Linear, split: str) -> int:
    """Channels along an axis, 0 if the layer's own arguments leave them open."""
    if split == "groups":
        return _groups(op)
    inputs, outputs = (
        (op.in_channels, op.out_channels) if isinstance(op, Conv2d) else (op.in_features, op.out_features)
    )
    return outputs if split == "output_channels" else inputs


def _legal(op: Conv2d | Linear) -> tuple[str, ...]:
    """Where a layer can be cut: a grouped one not by its inputs; a linear one has but one row."""
    channels = ("groups", "output_channels") if _groups(op) > 1 else ("output_channels", "input_channels")
    return (*channels, "rows") if isinstance(op, Conv2d) else channels


def _choice(names: tuple[str, ...]) -> str:
    return " or ".join(f'split="{name}"' for name in names)


def _count(boards: int) -> str:
    return "1 board" if boards == 1 else f"{boards} boards"
