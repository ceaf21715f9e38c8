"""``hwgen export``: trained weights back as ONNX, safetensors or a PyTorch state_dict."""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import BuildError, ToolError
from . import report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..backend.build import Build

__all__ = ["NAME", "add_arguments", "run"]

NAME = "export"
KINDS = ("onnx", "safetensors", "state_dict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="a directory that hwgen build made")
    parser.add_argument(
        "--weights",
        metavar="FILE.npz",
        type=Path,
        required=True,
        help="what hwgen sim --weights, hwgen train --weights or the host's --checkpoint wrote",
    )
    parser.add_argument("--onnx", metavar="FILE", type=Path, help="the network with its weights")
    parser.add_argument("--safetensors", metavar="FILE", type=Path, help="the weights alone")
    parser.add_argument(
        "--state-dict", metavar="FILE", type=Path, help="the weights for torch.load and load_state_dict"
    )
    parser.add_argument(
        "--masters",
        action="store_true",
        help="the wider masters that the update works on, to go on training (default: weights as multiplied)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the files that were asked for, and shows the tensors."""
    from ..backend.build import load_build
    from ..backend.trained import framework_tensors, read_parameters, real_tensors
    from ..backend.writer import require_writable, write_tree

    places = {kind: path for kind in KINDS if (path := getattr(arguments, kind)) is not None}
    if not places:
        raise BuildError("export: nothing asked for; give --onnx, --safetensors or --state-dict FILE")
    for path in places.values():
        require_writable(path.absolute().parent)
    build = load_build(arguments.directory)
    network = build.plan.network
    real = real_tensors(network, read_parameters(arguments.weights, network), masters=arguments.masters)
    tensors = framework_tensors(network, build.origins, real)
    for kind, path in places.items():
        write_tree(path.parent, {path.name: _content(kind, build, real, tensors)})
    result = {
        "command": NAME,
        "hwgen": __version__,
        "build": build.manifest["build"],
        "masters": arguments.masters,
        "files": {kind: str(path) for kind, path in places.items()},
        "tensors": [{"name": name, "shape": list(array.shape)} for name, array in tensors.items()],
    }
    report.show(result, _text(result), arguments.json)
    return 0


def _content(
    kind: str, build: Build, real: Mapping[str, NDArray[np.float32]], tensors: Mapping[str, NDArray[np.float32]]
) -> bytes:  # fmt: skip
    if kind == "onnx":
        from ..backend.onnx_export import onnx_bytes

        return onnx_bytes(build.plan.network, build.origins, real)
    if kind == "safetensors":
        from ..backend.safetensors import safetensors_bytes

        return safetensors_bytes(tensors)
    try:
        import torch
    except ImportError:
        raise ToolError(
            "torch: not installed; install PyTorch for --state-dict, or give --safetensors"
        ) from None
    buffer = io.BytesIO()
    torch.save({name: torch.from_numpy(array.copy()) for name, array in tensors.items()}, buffer)
    return buffer.getvalue()


def _text(result: Mapping[str, Any]) -> str:
    rows = [["tensor", "shape"], *([t["name"], str(t["shape"])] for t in result["tensors"])]
    return "\n".join((report.table(rows), *(f"written: {path}" for path in result["files"].values())))
