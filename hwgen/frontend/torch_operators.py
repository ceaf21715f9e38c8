"""What each operator of PyTorch's export is in hwgen; every argument is read or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.ops import ReLU
from .chain import Chain, Pads, Pair, Tensor
from .reshaping import target

__all__ = ["TORCH_ALTERNATIVES", "TORCH_OPERATORS", "Call"]


class Call:
    """A call of an operator: ``arguments`` by their names, defaults filled in; those that are parameters or buffers are
    :class:`Tensor`, the data is None. ``batch`` is the example's, ``last`` whether the result is the model's."""

    def __init__(self, kind: str, arguments: Mapping[str, Any], batch: int, last: bool):
        self.kind = kind
        self.arguments = arguments
        self.batch = batch
        self.last = last

    def tensor(self, name: str, chain: Chain) -> Tensor | None:
        """An argument that has to be a parameter or buffer; None, and a mistake, if it is not."""
        found = self.arguments[name]
        if isinstance(found, Tensor):
            return found
        chain.say(f"{name} is no parameter or buffer of the model; hwgen needs one there")
        return None

    def pair(self, name: str) -> Pair:
        """(vertical, horizontal) of a list of one or two integers."""
        value = self.arguments[name]
        both = [value] if isinstance(value, int) else list(value)
        return (int(both[0]), int(both[-1]))

    def matrix(self, name: str, chain: Chain) -> Tensor | None:
        """A parameter of two dimensions."""
        found = self.tensor(name, chain)
        if found is not None and found.values.ndim != 2:
            chain.say(f"{found} has shape {list(found.values.shape)}; give a matrix")
            return None
        return found


def _conv2d(call: Call, chain: Chain) -> None:
    weight = call.tensor("weight", chain)
    bias = None if call.arguments["bias"] is None else call.tensor("bias", chain)
    stride, dilation = call.pair("stride"), call.pair("dilation")
    if weight is None:
        return chain.lose()
    pads = _pads(call, weight.values.shape[2:], dilation)
    return chain.conv2d(weight, bias, stride, pads, dilation, int(call.arguments["groups"]))


def _pads(call: Call, kernel: Sequence[int], dilation: Pair) -> Pads:
    """(top, left, bottom, right) of numbers, "same" or "valid"."""
    if not isinstance(call.arguments["padding"], str):
        return call.pair("padding") * 2
    if call.arguments["padding"] == "valid":
        return (0, 0, 0, 0)
    missing = [hole * (size - 1) for size, hole in zip(kernel, dilation, strict=True)]
    top, left = (count // 2 for count in missing)
    return (top, left, missing[0] - top, missing[1] - left)


def _linear(call: Call, chain: Chain) -> None:
    weight = call.matrix("weight", chain)
    bias = None if call.arguments["bias"] is None else call.tensor("bias", chain)
    return chain.lose() if weight is None else chain.linear(weight, bias, transposed=True)


def _matmul(call: Call, chain: Chain) -> None:
    name = "mat2" if call.kind == "mm" else "other"
    if isinstance(call.arguments["self"], Tensor):
        chain.say("multiplies parameters by the data; hwgen has data [N, in] · weights [in, out]: swap them")
        return chain.lose()
    weight = call.matrix(name, chain)
    return chain.lose() if weight is None else chain.linear(weight, None, transposed=False)


def _add(call: Call, chain: Chain) -> None:
    bias = call.tensor("self" if isinstance(call.arguments["self"], Tensor) else "other", chain)
    if call.arguments["alpha"] != 1:
        chain.say(f"alpha = {call.arguments['alpha']}; hwgen has 1 only: multiply the bias by it")
    if bias is not None and not chain.wrong and not chain.add_bias(bias):
        chain.say(
            f"adds {bias} of shape {list(bias.values.shape)}; hwgen adds a bias [out] right behind a matrix product, "
            "or [C, 1, 1] behind conv2d, where they have none yet: put other constants into the data or the weights"
        )


def _relu(call: Call, chain: Chain) -> None:
    chain.activation(ReLU())


def _leaky_relu(call: Call, chain: Chain) -> None:
    chain.leaky_relu(float(call.arguments["negative_slope"]), "negative_slope")


def _hardtanh(call: Call, chain: Chain) -> None:
    chain.hardtanh(float(call.arguments["min_val"]), float(call.arguments["max_val"]))


def _relu6(call: Call, chain: Chain) -> None:
    chain.hardtanh(0.0, 6.0)


def _max_pool2d(call: Call, chain: Chain) -> None:
    if call.pair("dilation") != (1, 1):
        chain.say(f"dilation = {call.arguments['dilation']}; hwgen has 1 only: use a pool without holes")
    kernel = call.pair("kernel_size")
    stride = call.pair("stride") if call.arguments["stride"] else kernel
    chain.max_pool(kernel, stride, call.pair("padding") * 2, ceil=bool(call.arguments["ceil_mode"]))


def _dropout(call: Call, chain: Chain) -> None:
    if call.arguments["p"]:
        chain.say(
            f"drops with p = {call.arguments['p']:g}; hwgen has no dropout, and without it another network would "
            "train: remove it from the model, or give p = 0"
        )


def _softmax(call: Call, chain: Chain) -> None:
    if not call.last or (
        chain.dims is not None and (len(chain.dims) != 1 or call.arguments["dim"] not in (1, -1))
    ):
        chain.say(
            f"{call.kind} inside the network, or not over the classes; hwgen has it in the loss: remove it"
        )
    if call.arguments["dtype"] is not None:
        chain.say(f"dtype = {call.arguments['dtype']}; hwgen has its own formats: leave it out")


def _shaped(call: Call, chain: Chain) -> None:
    """view, reshape, flatten, squeeze, unsqueeze: the example's result has the dimensions."""
    if chain.dims is None:
        return
    dims = target(list(call.arguments["result"]), chain.dims, call.batch, copies=False)
    if isinstance(dims, str):
        chain.say(dims)
    else:
        chain.reshape(dims)


def _permute(call: Call, chain: Chain) -> None:
    if chain.dims is None:
        return
    rank = len(chain.dims) + 1
    if call.kind == "transpose":
        axes = list(range(rank))
        one, two = (call.arguments[name] % rank for name in ("dim0", "dim1"))
        axes[one], axes[two] = axes[two], axes[one]
    else:
        axes = [axis % rank for axis in call.arguments["dims"]]
    if axes[0] != 0:
        chain.say(f"axes {axes}; hwgen keeps the batch first: give 0 and then 1 to {rank - 1} in any order")
    else:
        chain.transpose([axis - 1 for axis in axes[1:]])


def _identity(call: Call, chain: Chain) -> None:
    """The same tensor."""


TORCH_OPERATORS: Mapping[str, Callable[[Call, Chain], None]] = {
    "add": _add,
    "alias": _identity,
    "clone": _identity,
    "contiguous": _identity,
    "conv2d": _conv2d,
    "dropout": _dropout,
    "dropout_": _dropout,
    "flatten": _shaped,
    "hardtanh": _hardtanh,
    "hardtanh_": _hardtanh,
    "leaky_relu": _leaky_relu,
    "leaky_relu_": _leaky_relu,
    "linear": _linear,
    "log_softmax": _softmax,
    "matmul": _matmul,
    "max_pool2d": _max_pool2d,
    "mm": _matmul,
    "permute": _permute,
    "relu": _relu,
    "relu6": _relu6,
    "relu6_": _relu6,
    "relu_": _relu,
    "reshape": _shaped,
    "softmax": _softmax,
    "squeeze": _shaped,
    "transpose": _permute,
    "unflatten": _shaped,
    "unsqueeze": _shaped,
    "view": _shaped,
}

_RELU = "the nearest is torch.nn.ReLU"

TORCH_ALTERNATIVES: Mapping[str, str] = {
    "adaptive_avg_pool2d": "the nearest is torch.nn.MaxPool2d over the whole image",
    "adaptive_max_pool2d": "give torch.nn.MaxPool2d with the kernel that it amounts to",
    "avg_pool2d": "the nearest is torch.nn.MaxPool2d, or a Conv2d with stride",
    "batch_norm": "fold it into the layer before with torch.nn.utils.fuse_conv_bn_eval, or leave it out",
    "cat": "networks are chains so far: join channels in one Conv2d",
    "conv1d": "unsqueeze the data to [N, C, 1, L] and use torch.nn.Conv2d with kernel (1, k)",
    "conv_transpose2d": "the nearest is torch.nn.Conv2d",
    "detach": "freeze the layers before it with requires_grad_(False)",
    "group_norm": "leave it out",
    "layer_norm": "leave it out",
    "mean": "the nearest is torch.nn.MaxPool2d over the whole image",
    "pad": "give its padding to the Conv2d or MaxPool2d behind it",
    "sigmoid": f"{_RELU}; at the end of a network leave it out, as the loss takes logits",
    "tanh": _RELU,
}
"""The nearest that hwgen has, by operator."""
