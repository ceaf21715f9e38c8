"""What each ONNX operator is in hwgen; every attribute is read or refused, and every other operator has an advice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ..ir.ops import ReLU
from .chain import Chain, Pads, Tensor
from .onnx_node import Node
from .reshaping import target
from .view import spell_dims

__all__ = ["ALTERNATIVES", "OPERATORS"]

AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def _conv(node: Node, chain: Chain) -> None:
    weight = node.constant(1, "its weights W")
    bias = node.constant(2, "its bias B") if node.has(2) else None
    rank = weight.values.ndim - 2 if weight is not None else 2
    if rank != 2:
        chain.say(
            f"its weights have shape {list(weight.values.shape) if weight else []}, a convolution of {rank}-d data; "
            "hwgen has 2-d ones: for 1-d, unsqueeze the data to [N, C, 1, L] and the weights to [Cout, Cin, 1, k]"
        )
    kernel = node.integers("kernel_shape")
    if weight is not None and kernel is not None and kernel != weight.values.shape[2:]:
        chain.say(
            f"kernel_shape = {list(kernel)}, but its weights have shape {list(weight.values.shape)}; "
            f"give {list(weight.values.shape[2:])}"
        )
    stride, dilation = node.ints("strides", rank, 1, 1), node.ints("dilations", rank, 1, 1)
    groups = node.whole("group", 1)
    size = weight.values.shape[2:] if weight is not None else (1,) * rank
    pads = _pads(node, chain, size, stride, dilation)
    if weight is None or rank != 2:
        return chain.lose()
    return chain.conv2d(weight, bias, stride, pads, dilation, groups)  # type: ignore[arg-type]


def _max_pool(node: Node, chain: Chain) -> None:
    kernel = node.integers("kernel_shape") or ()
    if len(kernel) != 2 or min(kernel) < 1:
        chain.say(
            f"kernel_shape = {list(kernel)}; hwgen has pools over images: give 2 integers of at least 1"
        )
        kernel = (1, 1)
    stride = node.ints("strides", 2, 1, 1)
    dilation = node.ints("dilations", 2, 1, 1)
    if dilation != (1, 1):
        chain.say(f"dilations = {list(dilation)}; hwgen has [1, 1] only: use a pool without holes")
    ceil = node.whole("ceil_mode", 0)
    node.whole("storage_order", 0)  # the order of Indices, which are refused where they are used
    pads = _pads(node, chain, kernel, stride, (1, 1))
    if ceil:
        _refuse_doubt(chain, kernel, stride, pads)
    chain.max_pool(kernel, stride, pads, ceil=bool(ceil))  # type: ignore[arg-type]


def _refuse_doubt(chain: Chain, kernel: tuple[int, ...], stride: tuple[int, ...], pads: Pads) -> None:
    """Note a pool that rounds up to a window behind the image: ONNX did not say until opset 22 whether it counts."""
    sides = zip((chain.dims or ())[1:], kernel, stride, pads[:2], pads[2:], strict=False)
    for size, span, step, before, after in sides:
        room = size + before + after - span
        if room > 0 and -(-room // step) * step >= size + before:
            chain.say(
                "ceil_mode = 1 with a last window that begins behind the image, which runtimes count or not; "
                "give ceil_mode = 0"
            )


def _pads(
    node: Node, chain: Chain, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Pads:  # fmt: skip
    """(top, left, bottom, right) of ``pads`` or ``auto_pad``."""
    mode = node.text("auto_pad", "NOTSET", AUTO_PAD)
    pads = node.ints("pads", 2 * len(kernel), 0, 0)
    if any(pads) and mode != "NOTSET":
        chain.say(f'auto_pad = "{mode}" beside pads = {list(pads)}; give one of them')
    if not mode.startswith("SAME") or chain.dims is None or len(chain.dims) != 3:
        return pads  # type: ignore[return-value]
    before, after = [], []
    for size, span, step, hole in zip(chain.dims[1:], kernel, stride, dilation, strict=False):
        missing = (-(-size // step) - 1) * step + hole * (span - 1) + 1 - size
        if missing < 0 and node.kind == "MaxPool":
            chain.say(
                f'auto_pad = "{mode}" with a kernel of {span} and a stride of {step} asks for less than no padding '
                f"of {size}, of which runtimes make different things; give pads"
            )
        small, large = max(missing, 0) // 2, max(missing, 0) - max(missing, 0) // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return (*before, *after)  # type: ignore[return-value]


def _gemm(node: Node, chain: Chain) -> None:
    node.only("transA", 0, "transpose the data before, or remove it")
    node.only("alpha", 1.0, "multiply the weights by it; a factor that stays would change how they train")
    transposed = node.whole("transB", 0)
    weight = node.constant(1, "its weights B")
    bias = node.constant(2, "its bias C") if node.has(2) else None
    node.only("beta", 1.0, "multiply the bias by it; a factor that stays would change how it trains")
    if weight is None or not _is_matrix(weight, chain):
        return chain.lose()
    return chain.linear(weight, bias, transposed=bool(transposed))


def _mat_mul(node: Node, chain: Chain) -> None:
    if node.is_constant(0):
        chain.say(
            "multiplies constants by the data; hwgen has data [N, features] · weights [features, out]: swap them"
        )
        return chain.lose()
    weight = node.constant(1, "its weights B")
    if weight is None or not _is_matrix(weight, chain):
        return chain.lose()
    return chain.linear(weight, None, transposed=False)


def _is_matrix(weight: Tensor, chain: Chain) -> bool:
    if weight.values.ndim != 2:
        chain.say(f"{weight}, its weights, has shape {list(weight.values.shape)}; give a matrix")
    return weight.values.ndim == 2


def _add(node: Node, chain: Chain) -> None:
    bias = node.constant(0 if node.is_constant(0) else 1, "what is added")
    if bias is not None and not chain.add_bias(bias):
        chain.say(
            f"adds {bias} of shape {list(bias.values.shape)}; hwgen adds a bias [out] right behind Gemm or MatMul, or "
            "[C, 1, 1] behind Conv, where they have none yet: put other constants into the data or the weights"
        )


def _relu(node: Node, chain: Chain) -> None:
    chain.activation(ReLU())


def _leaky_relu(node: Node, chain: Chain) -> None:
    chain.leaky_relu(node.real("alpha", 0.01), "alpha")


def _clip(node: Node, chain: Chain) -> None:
    bounds = [-math.inf, math.inf]
    for index, role in ((1, "min"), (2, "max")):
        if node.has(index):
            found = node.constant(index, f"its {role}")
            if found is None or found.values.size != 1:
                chain.say(f"{role} is no single number; give one")
                return
            bounds[index - 1] = float(found.values.reshape(-1)[0])
    chain.hardtanh(bounds[0], bounds[1])


def _identity(node: Node, chain: Chain) -> None:
    """The same tensor."""


def _dropout(node: Node, chain: Chain) -> None:
    node.whole("seed", 0)
    ratio = node.constant(1, "its ratio") if node.has(1) else Tensor("", np.array(0.5))
    if ratio is not None and np.any(ratio.values != 0):
        chain.say(
            f"drops with ratio {float(ratio.values.max()):g}; hwgen has no Dropout, and without it another "
            "network would train: remove it from the model, or give ratio 0"
        )


def _softmax(node: Node, chain: Chain) -> None:
    axis = node.whole("axis", -1)
    if not node.last or (chain.dims is not None and (len(chain.dims) != 1 or axis not in (1, -1))):
        chain.say(
            f"{node.kind} inside the network, or not over the classes; hwgen has it in the loss: remove it"
        )


def _flatten(node: Node, chain: Chain) -> None:
    axis = node.whole("axis", 1)
    if chain.dims is None:
        return
    if (axis + len(chain.dims) + 1 if axis < 0 else axis) != 1:
        chain.say(f"axis = {axis}; hwgen keeps the batch apart: give axis = 1")
        return
    chain.reshape((math.prod(chain.dims),))


def _reshape(node: Node, chain: Chain) -> None:
    zero = node.whole("allowzero", 0)
    wanted = node.whole_numbers(1, "its shape")
    if wanted is None or chain.dims is None:
        return
    dims = target(wanted, chain.dims, node.batch, copies=not zero)
    if isinstance(dims, str):
        chain.say(dims)
    else:
        chain.reshape(dims)


def _unsqueeze(node: Node, chain: Chain) -> None:
    axes = _axes(node, chain, grows=True)
    if axes is not None and chain.dims is not None:
        dims = list(chain.dims)
        for axis in sorted(axes):
            dims.insert(axis - 1, 1)
        chain.reshape(tuple(dims))


def _squeeze(node: Node, chain: Chain) -> None:
    axes = _axes(node, chain, grows=False)
    if axes is None or chain.dims is None:
        return
    wrong = [axis for axis in axes if chain.dims[axis - 1] != 1]
    if wrong:
        chain.say(
            f"axes = {sorted(axes)}: dimension {wrong[0]} of {spell_dims(chain.dims)} is not 1; correct the axes"
        )
        return
    chain.reshape(tuple(size for axis, size in enumerate(chain.dims, 1) if axis not in axes))


def _axes(node: Node, chain: Chain, *, grows: bool) -> list[int] | None:
    """The axes of Squeeze and Unsqueeze as whole numbers from 1, the batch being 0."""
    if not node.has(1):
        chain.say("no axes; name them, so that the batch is not among them")
        return None
    given = node.whole_numbers(1, "its axes")
    if given is None or chain.dims is None:
        return None
    rank = len(chain.dims) + 1 + (len(given) if grows else 0)
    axes = [axis + rank if axis < 0 else axis for axis in given]
    if any(not 1 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        chain.say(f"axes = {given}; hwgen keeps the batch first: give different axes from 1 to {rank - 1}")
        return None
    return axes


def _transpose(node: Node, chain: Chain) -> None:
    perm = node.integers("perm")
    if chain.dims is None:
        return
    rank = len(chain.dims) + 1
    axes = tuple(reversed(range(rank))) if perm is None else perm
    if sorted(axes) != list(range(rank)) or axes[0] != 0:
        chain.say(
            f"perm = {list(axes)}; hwgen keeps the batch first: give 0 and then 1 to {rank - 1} in any order"
        )
        return
    chain.transpose([axis - 1 for axis in axes[1:]])


OPERATORS: Mapping[str, Callable[[Node, Chain], None]] = {
    "Add": _add,
    "Clip": _clip,
    "Conv": _conv,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _softmax,
    "MatMul": _mat_mul,
    "MaxPool": _max_pool,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

_RELU = "the nearest is Relu"
_POOL = "the nearest is MaxPool, or a Conv with strides"
_NORM = (
    "fold its scale and shift into the Conv or Gemm before it, such as with "
    "torch.nn.utils.fuse_conv_bn_eval, or leave it out"
)
_QUANTISED = "give the float model: hwgen quantises by its own formats"
_INPUT = "apply it to the data, or fold it into the weights"

ALTERNATIVES: Mapping[str, str] = {
    "AveragePool": _POOL,
    "BatchNormalization": _NORM,
    "Concat": "networks are chains so far: join channels in one Conv",
    "ConvTranspose": "the nearest is Conv",
    "DequantizeLinear": _QUANTISED,
    "Div": _INPUT,
    "Elu": _RELU,
    "Gelu": _RELU,
    "GlobalAveragePool": "the nearest is MaxPool over the whole image",
    "GlobalMaxPool": "give MaxPool with kernel_shape [H, W]",
    "GroupNormalization": _NORM,
    "HardSigmoid": _RELU,
    "HardSwish": _RELU,
    "InstanceNormalization": _NORM,
    "LRN": "leave it out",
    "LayerNormalization": _NORM,
    "LpPool": _POOL,
    "Mish": _RELU,
    "Mul": _INPUT,
    "PRelu": _RELU,
    "Pad": "give its pads to the Conv or MaxPool behind it",
    "QuantizeLinear": _QUANTISED,
    "ReduceMean": "the nearest is MaxPool over the whole image",
    "Selu": _RELU,
    "Sigmoid": f"{_RELU}; at the end of a network leave it out, as the loss takes logits",
    "Softplus": _RELU,
    "Sub": _INPUT,
    "Tanh": _RELU,
}
"""The nearest that hwgen has, by operator."""
