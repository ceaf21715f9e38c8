"""The link's parts in narrow words, with the verdict of the CRC left to the cable, as a solver can look at them."""

import functools
import sys
import types
from pathlib import Path

import hwgen.gateware.link

__all__ = ["narrow_link"]

_FOLDER = Path(hwgen.gateware.link.__file__).parent
_MODULES = ("frames", "phy", "crc", "assembler", "ring", "sender", "receiver", "order", "grants")
# The CRC is always 0: the cable changes the trailer of what it damages, so every damage is seen, and nothing else.
_NARROW = {
    "frames": (
        ("SEQUENCE_BITS = 10", "SEQUENCE_BITS = 4"),
        ('"length": 8', '"length": 2'),
        ('"credit": 16', '"credit": 4'),
        ('"limit": 16', '"limit": 4'),
        ('"tick": 8', '"tick": 3'),
    ),
    "crc": (("self.crc.eq(state ^ start.xor_output)", "self.crc.eq(0)"), ("if width < 32:", "if width < 1:")),
    "assembler": (("Signal(16, name", "Signal(4, name"),),
    "grants": (("Signal(16, name", "Signal(4, name"), ("Signal(16), Signal(16)", "Signal(4), Signal(4)")),
    "order": (("Signal(8", "Signal(3"), ("0xFF", "0x7")),
    "sender": (("tick = Signal(8)", "tick = Signal(3)"),),
}


@functools.cache
def narrow_link(module=None, old="", new=""):
    """The modules of hwgen.gateware.link by name, made narrow. A mistake, for once: in ``module`` ``new`` instead of
    ``old``, which stands there once."""
    package = f"narrow_link_{len(sys.modules)}"
    sys.modules[package] = types.ModuleType(package)
    loaded = {}
    for name in _MODULES:
        text = (_FOLDER / f"{name}.py").read_text()
        if name == module:
            assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times"
            text = text.replace(old, new)
        for before, after in _NARROW.get(name, ()):
            assert before in text, f"{name}: {before!r} is not there"
            text = text.replace(before, after)
        part = types.ModuleType(f"{package}.{name}")
        part.__package__ = package
        sys.modules[part.__name__] = part
        exec(compile(text, f"{name}, narrow", "exec"), vars(part))
        loaded[name] = part
    return types.SimpleNamespace(**loaded)
