"""ONNX models for tests: a builder of chains, random ones of integers, and what ONNX Runtime computes."""

import random

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

__all__ = ["OPSET", "OnnxChain", "digits_onnx", "random_chain", "run_onnx"]

OPSET = 13


class OnnxChain:
    """Nodes one after another, each reading the one before; :meth:`model` is the file's content."""

    def __init__(self, *dims, batch="N", elem_type=TensorProto.FLOAT):
        self.inputs = [helper.make_tensor_value_info("x", elem_type, [batch, *dims])]
        self.nodes, self.initializers = [], []
        self.head = "x"

    def constant(self, values, name=None):
        name = name or f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind, *constants, name="", before=(), **attributes):
        """A node that reads ``before``, the head, and ``constants``: arrays, or names of tensors."""
        more = [c if isinstance(c, str) else self.constant(c) for c in constants]
        first = [c if isinstance(c, str) else self.constant(c) for c in before]
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [*first, self.head, *more], [out], name=name, **attributes))
        self.head = out
        return self

    def model(self, opset=OPSET, outputs=None):
        values = [helper.make_empty_tensor_value_info(name) for name in outputs or [self.head]]
        for value in values:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "net", self.inputs, values, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def save(self, path, **settings):
        onnx.save(self.model(**settings), path)
        return path


def run_onnx(path, images):
    """What ONNX Runtime gives for images as the file takes them, float32."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: images.astype(np.float32)})
    return found


def whole(rng, *shape):
    """Small integers as float32, so that every sum is exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def random_chain(seed):
    """A chain of any layers whose H, W and C differ; (chain, images as the file takes them, channels last)."""
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    channels, height, width = pick.sample((3, 5, 6, 7, 8, 9), 3)
    batch = pick.choice(["N", "batch", 4])
    form = pick.choice(["NCHW", "NCHW", "NHWC", "flat"])
    images = whole(rng, 4, channels, height, width)
    if form == "NHWC":
        chain = OnnxChain(height, width, channels, batch=batch).node("Transpose", perm=[0, 3, 1, 2])
        given = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    elif form == "flat":
        chain = OnnxChain(channels * height * width, batch=batch)
        chain.node("Reshape", np.array([pick.choice([-1, 0]), channels, height, width]))
        given = images.reshape(4, -1)
    else:
        chain, given = OnnxChain(channels, height, width, batch=batch), images
    dims = (channels, height, width)
    for _ in range(pick.randint(1, 3)):
        dims = _random_stage(chain, pick, rng, dims)
    if pick.random() < 0.3:
        _random_end_of_image(chain, pick, rng, dims)
    else:
        _random_linears(chain, pick, rng, dims)
    if pick.random() < 0.3:
        chain.node("Identity")
    return chain, given, images.transpose(0, 2, 3, 1)


def _random_stage(chain, pick, rng, dims):
    channels, height, width = dims
    group = pick.choice([g for g in (1, channels) if channels % g == 0])
    out = group * pick.choice([2, 3] if group == 1 else [1, 2])
    kernel = [pick.choice([1, 2, 3, 4]) for _ in range(2)]
    settings = {"strides": [pick.choice([1, 1, 2, 3]) for _ in range(2)], "group": group}
    if pick.random() < 0.4:
        settings["dilations"] = [pick.choice([1, 2]) for _ in range(2)]
    if pick.random() < 0.5:
        settings["kernel_shape"] = kernel
    _random_pads(pick, settings, kernel, 2)
    weight = whole(rng, out, channels // group, *kernel)
    size = _sizes((height, width), kernel, settings)
    if min(size) < 1:
        settings = {"group": group, "pads": [4, 4, 4, 4], "strides": settings["strides"]}
        size = _sizes((height, width), kernel, settings)
    if pick.random() < 0.4:
        chain.node("Conv", weight, **settings).node("Add", whole(rng, *([1] * pick.randint(0, 1)), out, 1, 1))
    else:
        chain.node("Conv", weight, *([whole(rng, out)] if pick.random() < 0.6 else []), **settings)
    if pick.random() < 0.6:
        _random_activation(chain, sum(size) + out)
    if pick.random() < 0.6:
        pool = [pick.choice([1, 2, 3]) for _ in range(2)]
        if all(p <= s for p, s in zip(pool, size, strict=True)):
            settings = {"strides": [pick.choice([1, 2, 3]) for _ in range(2)], "kernel_shape": pool}
            settings["ceil_mode"] = pick.choice([0, 1])
            settings["storage_order"] = pick.choice([0, 1])
            _random_pads(pick, settings, pool, 1)
            if "auto_pad" in settings or _in_doubt(size, pool, settings):
                settings["ceil_mode"] = 0
            if any(p < s for p, s in zip(pool, settings["strides"], strict=True)):
                settings.pop("auto_pad", None)
            chain.node("MaxPool", **settings)
            size = _sizes(size, pool, settings)
    return (out, *size)


def _in_doubt(size, kernel, settings):
    """Whether rounding up gives a window that begins behind the image."""
    pads, found = settings.get("pads", [0] * 4), False
    for axis, (n, k) in enumerate(zip(size, kernel, strict=True)):
        room, stride = n + pads[axis] + pads[axis + 2] - k, settings["strides"][axis]
        found = found or -(-room // stride) * stride >= n + pads[axis]
    return found


def _random_pads(pick, settings, kernel, most):
    choice = pick.random()
    if choice < 0.4:
        settings["pads"] = [pick.randint(0, min(most, k - 1)) for k in kernel * 2]
    elif choice < 0.7 and settings.get("dilations", [1, 1]) == [1, 1]:
        settings["auto_pad"] = pick.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])


def _sizes(size, kernel, settings):
    """Output sizes by the ONNX specification."""
    pads, found = settings.get("pads", [0] * 4), []
    for axis, (n, k) in enumerate(zip(size, kernel, strict=True)):
        stride, dilation = settings["strides"][axis], settings.get("dilations", [1, 1])[axis]
        if settings.get("auto_pad", "").startswith("SAME"):
            found.append(-(-n // stride))
            continue
        room = n + pads[axis] + pads[axis + 2] - dilation * (k - 1) - 1
        steps = room // stride
        if settings.get("ceil_mode") and room % stride:
            steps += 1
        found.append(steps + 1)
    return found


def _random_end_of_image(chain, pick, rng, dims):
    """A convolution that leaves one pixel."""
    channels, height, width = dims
    chain.node("Conv", whole(rng, 4, channels, height, width), whole(rng, 4))
    chain.node(*pick.choice([("Flatten",), ("Squeeze", np.array([2, 3])), ("Reshape", np.array([0, -1]))]))


def _random_linears(chain, pick, rng, dims):
    count = int(np.prod(dims))
    ways = [
        lambda: chain.node("Flatten", axis=pick.choice([1, -3])),
        lambda: chain.node("Reshape", np.array([pick.choice([-1, 0]), count])),
        lambda: chain.node("Reshape", np.array([0, -1])),
        lambda: chain.node("Transpose", perm=[0, 2, 3, 1]).node("Flatten"),
        lambda: chain.node("Unsqueeze", np.array([1])).node("Squeeze", np.array([1])).node("Flatten"),
    ]
    pick.choice(ways)()
    for _ in range(pick.randint(1, 2)):
        out = pick.randint(2, 5)
        kind = pick.choice(["Gemm", "GemmT", "MatMul", "MatMulAdd"])
        bias = [whole(rng, *([1] * pick.randint(0, 1)), out)] if pick.random() < 0.7 else []
        if kind == "Gemm":
            chain.node("Gemm", whole(rng, count, out), *bias)
        elif kind == "GemmT":
            chain.node("Gemm", whole(rng, out, count), *bias, transB=1, alpha=1.0, beta=1.0)
        else:
            chain.node("MatMul", whole(rng, count, out))
            if kind == "MatMulAdd":
                chain.node("Add", whole(rng, out))
        if pick.random() < 0.5:
            _random_activation(chain, count + out)
        count = out


def _random_activation(chain, number):
    """Relu in half of the cases; bounds are whole numbers and slopes powers of two, so that nothing is rounded."""
    if number % 4 == 1:
        chain.node("LeakyRelu", **({"alpha": 0.25} if number % 8 == 1 else {"alpha": 0.5}))
    elif number % 4 == 2:
        low, high = np.float32(-(number % 3) * 10), np.float32(50)
        chain.node("Clip", low, *([high] if low or number % 8 == 2 else []))
    else:
        chain.node("Relu")


def digits_onnx(network, parameters):
    """The digits network with first weights equal to the integers' real values."""
    chain = OnnxChain(1, 8, 8)
    before = (8, 8, 1)
    for stage, weight, bias in zip(network.stages, parameters.weights, parameters.biases, strict=True):
        real, shift = stage.master.to_float(weight), stage.bias.to_float(bias).astype(np.float32)
        if stage.window.positions > 1:
            values = np.ascontiguousarray(real.transpose(3, 2, 0, 1), dtype=np.float32)
            chain.node("Conv", values, shift, pads=[1, 1, 1, 1], name=stage.name)
            chain.node("Relu").node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        else:
            values = real.reshape(*before, -1).transpose(2, 0, 1, 3).reshape(stage.in_channels, -1)
            chain.node("Flatten").node(
                "Gemm", np.ascontiguousarray(values, dtype=np.float32), shift, name=stage.name
            )
        before = stage.out_shape
    return chain
