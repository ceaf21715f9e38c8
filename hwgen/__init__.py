"""hwgen: a generator of FPGA hardware that trains neural networks.

from hwgen import Model, nn
"""

from __future__ import annotations

import importlib

__all__ = [
    "Cluster",
    "Dataset",
    "Formats",
    "Link",
    "Model",
    "Q",
    "__version__",
    "build",
    "calibrate",
    "from_torch",
    "nn",
]

__version__ = "0.1.0"

_HOMES = {
    "Cluster": "hwgen.target",
    "Dataset": "hwgen.data",
    "Formats": "hwgen.ir.formats",
    "Link": "hwgen.target",
    "Model": "hwgen.frontend.dsl",
    "Q": "hwgen.numeric",
    "build": "hwgen.backend.build",
    "calibrate": "hwgen.frontend.calibrate",
    "from_torch": "hwgen.frontend.torch_import",
}


def __getattr__(name: str) -> object:
    """Load what users name only when they name it, so that ``import hwgen`` costs nothing."""
    if name == "nn":
        return importlib.import_module("hwgen.frontend.nn")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hwgen' has no attribute {name!r}")
