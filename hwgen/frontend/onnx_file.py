"""Reading an ONNX file, and what can be wrong with it before its nodes are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, ToolError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

__all__ = ["LEAST_OPSET", "onnx_module", "opset", "read_onnx"]

LEAST_OPSET = 13
"""Since 13 axes of Squeeze and Unsqueeze are inputs; older files can be converted."""
ADVICE = "export it again"


def onnx_module() -> Any:
    """The package onnx, which only imports need. Raises ToolError if it is not installed."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
        import onnx.reference
    except ImportError:
        raise ToolError(
            "onnx: not installed; pip install 'hwgen[onnx]' to read and write .onnx files"
        ) from None
    return onnx


def read_onnx(path: Path) -> ModelProto:
    """The model of a file, with its external data.

    Raises ModelError, ``file: what; what to do``, if it cannot be read, is no ONNX model, is older than LEAST_OPSET, or
    tensors outside the file are missing or too short.
    """
    onnx = onnx_module()
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelError(f"{path}: {reason}; give an ONNX file") from None
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's DecodeError, which is of no public class
        raise ModelError(f"{path}: no ONNX file, or damaged ({_first_line(error)}); {ADVICE}") from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(f"{path}: no ONNX model, or cut short (it has no graph or no opset); {ADVICE}")
    if any(
        isinstance(name, bytes) for name in _names(model.graph)
    ):  # what protobuf gives where it is no UTF-8
        raise ModelError(f"{path}: damaged (a name is no text); {ADVICE}")
    problems = [f"{path}: {text}" for text in (*_version(model), *_outside(model, path.parent))]
    if problems:
        raise ModelError(problems)
    return model


def opset(model: ModelProto) -> int:
    """The version of ONNX's own operators; 0 if the file uses none."""
    return max((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), default=0)


def _version(model: ModelProto) -> Iterator[str]:
    version = opset(model)
    if version < LEAST_OPSET:
        yield (
            f"opset {version}; hwgen reads {LEAST_OPSET} and later: export with opset_version={LEAST_OPSET}, "
            "or convert it with onnx.version_converter"
        )
    if model.graph.sparse_initializer:
        yield "has sparse initializers; store them as dense ones"


def _outside(model: ModelProto, folder: Path) -> Iterator[str]:
    """Load the tensors that lie in other files; what is wrong with them."""
    onnx = onnx_module()
    for tensor in _tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        place = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        try:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # the checker's ValidationError, OSError, ValueError by what is wrong
            missing = not (folder / place).is_file()
            reason = "is missing" if missing else f"cannot be used ({_first_line(error)})"
            yield (
                f"tensor {tensor.name!r}: its data lies in {place!r}, which {reason}; "
                "put the whole file beside the model"
            )


def _names(graph: GraphProto) -> Iterator[str | bytes]:
    """All that is called something."""
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:120] if lines else type(error).__name__
