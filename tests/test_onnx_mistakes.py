"""Everything that can be wrong with an ONNX file: all of it in one error, each a line, never a traceback."""

import random
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import OnnxChain

from hwgen import cli
from hwgen.errors import HwgenError, ModelError
from hwgen.frontend.loader import load_source

CHAIN = "networks are chains without branches so far: let one layer follow another"


def ones(*shape):
    return np.ones(shape, np.float32)


def conv(**attributes):
    return OnnxChain(3, 5, 7).node("Conv", ones(4, 3, 2, 3), **attributes)


def end(chain=None, features=80):
    return (chain or conv()).node("Flatten").node("Gemm", ones(features, 2))


def pool(**attributes):
    return end(conv().node("MaxPool", **attributes))


def gemm(**attributes):
    return OnnxChain(4).node("Gemm", ones(4, 2), ones(2), **attributes)


def added(change, chain=None):
    chain = chain or end()
    change(chain)
    return chain


def residual(chain):
    head = chain.head
    chain.node("Relu").node("Add", head)


def back(chain):
    chain.nodes[0].input[0] = "t1"


def renamed(chain):
    chain.nodes[2].output[0] = chain.head = "t1"


def shortened(chain):
    chain.initializers[1].raw_data = chain.initializers[1].raw_data[:-3]


def second_input(chain):
    chain.inputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2]))


CASES = {
    "attribute": (
        end(conv(foo=3)),
        r"node 1 \(Conv\): attribute foo = 3 is not known; hwgen takes auto_pad, dilations, group, kernel_shape, "
        r"pads, strides of Conv",
    ),
    "stride 0": (end(conv(strides=[0, 1])), r"node 1 \(Conv\): strides = \[0, 1\]; give 2 integers of at least 1"),
    "stride as text": (end(conv(strides="x")), r'node 1 \(Conv\): strides = "x"; give 2 integers of at least 1'),
    "kernel": (
        end(conv(kernel_shape=[3, 3])),
        r"node 1 \(Conv\): kernel_shape = \[3, 3\], but its weights have shape \[4, 3, 2, 3\]; give \[2, 3\]",
    ),
    "group": (end(conv(group=3)), r"node 1 \(Conv\): group = 3 does not divide its 4 output channels; give a divisor"),
    "group of the input": (
        end(conv(group=2)),
        r"node 1 \(Conv\): weights for 6 input channels, but its input has 3; give weights \[Cout, Cin / group, .*",
    ),
    "auto_pad": (
        end(conv(auto_pad="FOO")),
        r'node 1 \(Conv\): auto_pad = "FOO"; give NOTSET, SAME_UPPER, SAME_LOWER, VALID',
    ),
    "auto_pad and pads": (
        end(conv(auto_pad="VALID", pads=[1, 1, 1, 1])),
        r'node 1 \(Conv\): auto_pad = "VALID" beside pads = \[1, 1, 1, 1\]; give one of them',
    ),
    "negative pads": (
        end(conv(pads=[-1, 0, 0, 0])),
        r"node 1 \(Conv\): pads = \[-1, 0, 0, 0\]; give 4 integers of at least 0",
    ),
    "1-d": (
        end(OnnxChain(3, 9).node("Conv", ones(4, 3, 2)), 32),
        r"node 1 \(Conv\): its weights have shape \[4, 3, 2\], a convolution of 1-d data; hwgen has 2-d ones: for 1-d, "
        r"unsqueeze the data to \[N, C, 1, L\] and the weights to \[Cout, Cin, 1, k\]",
    ),
    "kernel beyond the image": (
        end(OnnxChain(3, 2, 9).node("Conv", ones(4, 3, 3, 3))),
        r"node 1 \(Conv\): the kernel spans 3 rows but the padded input has 2 \+ 0 \+ 0; .*",
    ),
    "pool with holes": (
        pool(kernel_shape=[2, 2], dilations=[1, 2]),
        r"node 2 \(MaxPool\): dilations = \[1, 2\]; hwgen has \[1, 1\] only: use a pool without holes",
    ),
    "pool without kernel": (
        pool(),
        r"node 2 \(MaxPool\): kernel_shape = \[\]; hwgen has pools over images: give 2 integers of at least 1",
    ),
    "pads of a pool": (
        pool(kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
        r"node 2 \(MaxPool\): pads = \[2, 0, 0, 0\] are not below the kernel \[2, 2\]; give smaller ones",
    ),
    "pool that rounds up": (
        pool(kernel_shape=[1, 1], strides=[2, 1], ceil_mode=1),
        r"node 2 \(MaxPool\): ceil_mode = 1 with a last window that begins behind the image, .*; give ceil_mode = 0",
    ),
    "pool of the same size": (
        pool(kernel_shape=[1, 1], strides=[2, 1], auto_pad="SAME_UPPER"),
        r'node 2 \(MaxPool\): auto_pad = "SAME_UPPER" with a kernel of 1 and a stride of 2 asks for less than no '
        r"padding of 4, of which runtimes make different things; give pads",
    ),
    "Dropout": (
        end(conv().node("Dropout")),
        r"node 2 \(Dropout\): drops with ratio 0\.5; hwgen has no Dropout, and without it another network would train: "
        r"remove it from the model, or give ratio 0",
    ),
    "transA": (gemm(transA=1), r"node 1 \(Gemm\): transA = 1; hwgen has 0 only: transpose the data .*"),
    "alpha": (gemm(alpha=2.0), r"node 1 \(Gemm\): alpha = 2\.0; hwgen has 1\.0 only: multiply the weights by it; .*"),
    "beta": (gemm(beta=0.5), r"node 1 \(Gemm\): beta = 0\.5; hwgen has 1\.0 only: multiply the bias by it; .*"),
    "features": (
        end(features=81),
        r"node 3 \(Gemm\): weights for 81 features, but its input is \[N, 80\]; .*",
    ),
    "no Flatten": (
        conv().node("MatMul", ones(5, 2)),
        r"node 2 \(MatMul\): weights for 5 features, but its input is \[N, 4, 4, 5\]; .*",
    ),
    "weights first": (
        OnnxChain(4).node("MatMul", before=[ones(2, 4)]),
        r"node 1 \(MatMul\): multiplies constants by the data; .*: swap them",
    ),
    "fixed batch in a shape": (
        conv().node("Reshape", np.array([1, 80])).node("Gemm", ones(80, 2)),
        r"node 2 \(Reshape\): shape = \[1, 80\] of \[N, 4, 4, 5\]; hwgen keeps the batch apart: give 0 or -1 and then "
        r"dimensions of 80 elements in all",
    ),
    "batch mixed in": (
        conv().node("Reshape", np.array([-1, 40])).node("Gemm", ones(40, 2)),
        r"node 2 \(Reshape\): shape = \[-1, 40\] of .*",
    ),
    "batch moved": (
        end(conv().node("Transpose", perm=[1, 0, 2, 3])),
        r"node 2 \(Transpose\): perm = \[1, 0, 2, 3\]; hwgen keeps the batch first: give 0 and .*",
    ),
    "axis of Flatten": (end(conv().node("Flatten", axis=2)), r"node 2 \(Flatten\): axis = 2; .*: give axis = 1"),
    "axes of Squeeze": (
        end(conv().node("Squeeze", np.array([2]))),
        r"node 2 \(Squeeze\): axes = \[2\]: dimension 2 of \[N, 4, 4, 5\] is not 1; correct the axes",
    ),
    "image transposed between layers": (
        end(conv().node("Transpose", perm=[0, 1, 3, 2]).node("Conv", ones(4, 4, 1, 1))),
        r"node 3 \(Conv\): its input \[N, 4, 5, 4\] is 4×5×4 \(channels last\) reshaped or transposed; .*",
    ),
    "vector to image": (
        end(conv().node("Reshape", np.array([0, 5, 4, 4])).node("Conv", ones(1, 5, 4, 4)), 1),
        r"node 3 \(Conv\): its input \[N, 5, 4, 4\] is 4×5×4 \(channels last\) reshaped or transposed; .*",
    ),
    "added along the width": (end(conv().node("Add", ones(5))), r"node 2 \(Add\): adds tensor 'c1' of shape \[5\]; .*"),
    "added to a bias": (gemm().node("Add", ones(2)), r"node 2 \(Add\): adds tensor 'c2' of shape \[2\]; .*"),
    "slope of 1.5": (
        end(conv().node("LeakyRelu", alpha=1.5)),
        r"node 2 \(LeakyRelu\): alpha = 1.5; give a number from 6e-8 to 0.998",
    ),
    "bound below only": (
        end(conv().node("Clip", np.float32(-1))),
        r"node 2 \(Clip\): bounds -1 and inf; hwgen needs two finite ones, the lower first",
    ),
    "bound of many": (end(conv().node("Clip", ones(2))), r"node 2 \(Clip\): min is no single number; give one"),
    "dynamic size": (
        end(OnnxChain(3, "h", 7).node("Conv", ones(4, 3, 2, 3))),
        r"input 'x': \[N, 3, h, 7\]: 'h' not fixed; hardware is made for one size of image: .*",
    ),
    "input of integers": (
        end(OnnxChain(3, 5, 7, elem_type=TensorProto.INT64).node("Conv", ones(4, 3, 2, 3))),
        r"input 'x': INT64; hwgen takes images as real numbers: give a FLOAT input",
    ),
    "two inputs": (
        added(second_input),
        r"inputs: 'x', 'y'; hwgen takes one, the images: make the others constants",
    ),
    "weights missing": (
        added(lambda chain: chain.initializers.pop()),
        r"node 3 \(Gemm\): reads 'c1', which nothing makes; export the model again\n.*: "
        rf"node 3 \(Gemm\): joins 't1' and 'c1'; {CHAIN}, with constant weights",
    ),
    "cycle": (
        added(back),
        r"node 3 \(Gemm\) → node 2 \(Flatten\) → node 1 \(Conv\): a cycle through 't1'; .*\n.*",
    ),
    "residual": (
        end(added(residual, conv())),
        rf"tensor 't0': read by node 2 \(Relu\) and node 3 \(Add\); {CHAIN}\n.*: "
        rf"node 3 \(Add\): joins 't1' and 't0'; {CHAIN}, with constant weights",
    ),
    "shared weights": (
        OnnxChain(4).node("Gemm", ones(4, 4)).node("Relu").node("Gemm", "c0"),
        r"node 3 \(Gemm\): tensor 'c0' is also that of node 1 \(Gemm\); layers that train do not share weights: .*",
    ),
    "made twice": (added(renamed), r"node 3 \(Gemm\): 't1' is made twice; give every tensor its own name"),
    "tensor cut short": (added(shortened), r"tensor 'c1': damaged \(.*\); export the model again"),
    "weights of integers": (
        OnnxChain(4).node("Gemm", np.ones((4, 2), np.int64)),
        r"node 1 \(Gemm\): tensor 'c0' holds numbers of type int64; give floating-point ones",
    ),
    "NaN": (
        OnnxChain(4).node("Gemm", ones(4, 2), np.array([0, np.nan], np.float32)),
        r"node 1 \(Gemm\): tensor 'c1' is nan at \[1\]; give finite numbers",
    ),
    "infinity": (
        OnnxChain(4).node("Gemm", ones(4, 2) * np.inf),
        r"node 1 \(Gemm\): tensor 'c0' is inf at \[0, 0\]; give finite numbers",
    ),
    "shape of a bias": (
        OnnxChain(4).node("Gemm", ones(4, 2), ones(3)),
        r"node 1 \(Gemm\): tensor 'c1', the bias, has shape \[3\]; give \[2\]",
    ),
    "no outputs": (
        end(OnnxChain(3, 5, 7).node("Conv", ones(0, 3, 2, 3)), 0),
        r"node 1 \(Conv\): tensor 'c0' has shape \[0, 3, 2, 3\]; .*\n"
        r".*: node 3 \(Gemm\): tensor 'c1' has shape \[0, 2\]; .*",
    ),
    "no weights": (OnnxChain(4).node("Gemm"), r"node 1 \(Gemm\): input 1, its weights B, is missing; .*"),
    "no data": (
        added(lambda chain: chain.nodes.append(helper.make_node("Identity", [], ["W"])), OnnxChain(4)).node(
            "MatMul", "W"
        ),
        r"node 1 \(Identity\): its first input is missing; export the model again\n.*",
    ),
    "a vector as weights": (OnnxChain(4).node("MatMul", ones(4)), r"node 1 \(MatMul\): .*\[4\]; give a matrix"),
    "shape of reals": (
        OnnxChain(4).node("Reshape", np.array([0, np.nan])).node("Gemm", ones(4, 2)),
        r"node 1 \(Reshape\): its shape holds numbers of type float64; give integers",
    ),
    "huge image": (
        OnnxChain(3, 1 << 40, 1 << 40).node("Conv", ones(4, 3, 2, 3)),
        r"input: \[N, 3, 1099511627776, 1099511627776\]: more than 268435456 values an image; make it smaller",
    ),
    "huge pads": (
        end(conv(pads=[1 << 62] * 4)),
        r"node 1 \(Conv\): \[N, 4, \d+, \d+\]: more than 268435456 values an image; make it smaller",
    ),
    "one logit": (OnnxChain(4).node("Gemm", ones(4, 1)), r"loss: the loss gets 1 logit; .*"),
    "image at the end": (conv(), r"output: \[N, 4, 4, 5\]; the loss takes one logit a class, \[N, classes\]: .*"),
    "logits in another order": (
        OnnxChain(4).node("Gemm", ones(4, 6)).node("Reshape", np.array([0, 2, 3])).node("Transpose", perm=[0, 2, 1])
        .node("Flatten"),
        r"output: its logits have been reordered; .*",
    ),
    "no layers": (OnnxChain(4).node("Identity"), r"layers: empty; .*"),
    "pool first": (
        end(OnnxChain(3, 4, 5).node("MaxPool", kernel_shape=[1, 1]), 60),
        r"pool1: MaxPool2d stands before any layer with weights; .*",
    ),
    "foreign operator": (
        end(conv().node("Foo", domain="com.microsoft")),
        r"node 2 \(Foo\): Foo of com\.microsoft is not supported; leave it out \(hwgen ops lists what is\)",
    ),
    "misspelt operator": (
        OnnxChain(4).node("Gemmm", ones(4, 2)),
        r"node 1 \(Gemmm\): Gemmm is not supported; did you mean Gemm\? \(hwgen ops lists what is\)",
    ),
    "constants only": (
        added(
            lambda chain: chain.nodes.append(
                helper.make_node("MatMul", [chain.constant(ones(4, 3)), chain.constant(ones(3, 2))], ["W"])
            ),
            OnnxChain(4),
        ).node("MatMul", "W"),
        r"node 1 \(MatMul\): works on constants only; compute it before the export \(constant folding\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_mistake(case, tmp_path, capsys):
    chain, wanted = CASES[case]
    path = chain.save(tmp_path / "net.onnx")
    with pytest.raises(ModelError) as caught:
        load_source(path)
    assert re.fullmatch(f"{re.escape(str(path))}: {wanted}", str(caught.value)), str(caught.value)
    assert cli.main(["train", str(path), "--epochs", "1"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_all_mistakes_at_once(tmp_path):
    chain = OnnxChain(3, 5, 7).node("BatchNormalization", *[ones(3)] * 4, name="bn")
    chain.node("Conv", ones(4, 3, 2, 3), strides=[0, 0], foo=1, name="a.b").node("Sigmoid").node(
        "Flatten", axis=3
    )
    chain.node("Gemm", ones(5, 3) * np.nan, alpha=2.0, transA=1)
    path = chain.save(tmp_path / "net.onnx")
    with pytest.raises(ModelError) as caught:
        load_source(path)
    places = [
        re.match(rf"{re.escape(str(path))}: (node \d+)", problem)[1] for problem in caught.value.problems
    ]
    assert places == ["node 1", "node 2", "node 2", "node 3", "node 5", "node 5", "node 5"]
    assert "node 1 'bn' (BatchNormalization): BatchNormalization is not supported; fold its" in str(
        caught.value
    )
    assert "node 2 'a.b' (Conv): strides" in str(caught.value)


def test_a_second_output_of_a_node(tmp_path):
    chain = conv()
    chain.nodes.append(helper.make_node("MaxPool", [chain.head], ["p", "where"], kernel_shape=[1, 1]))
    chain.head = "p"
    with pytest.raises(
        ModelError, match=r"node 2 \(MaxPool\): its output 'where' is used; hwgen gives the first one"
    ):
        load_source(end(chain.node("Add", "where")).save(tmp_path / "net.onnx"))


def test_two_outputs_of_the_model(tmp_path):
    path = end().save(tmp_path / "net.onnx", outputs=["t0", "t2"])
    with pytest.raises(ModelError) as caught:
        load_source(path)
    assert str(caught.value) == (
        f"{path}: outputs: 't0', 't2'; hwgen trains one: export the model with its logits as only output"
    )


def test_external_data(tmp_path):
    model = end().model()
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    whole = load_source(tmp_path / "net.onnx").parameters
    onnx.save(end().model(), tmp_path / "inside.onnx")
    assert whole == load_source(tmp_path / "inside.onnx").parameters
    (tmp_path / "net.data").write_bytes((tmp_path / "net.data").read_bytes()[:100])
    with pytest.raises(
        ModelError, match=r"onnx: tensor 'c0': its data lies in 'net\.data', which cannot be used \("
    ):
        load_source(tmp_path / "net.onnx")
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelError) as caught:
        load_source(tmp_path / "net.onnx")
    assert [problem.partition(": its")[0] for problem in caught.value.problems] == [
        f"{tmp_path / 'net.onnx'}: tensor 'c0'",
        f"{tmp_path / 'net.onnx'}: tensor 'c1'",
    ]
    assert "which is missing; put the whole file beside the model" in str(caught.value)


def test_damaged_files(tmp_path):
    """Whatever is flipped or cut, there is a network or an error of one kind."""
    good = end().model().SerializeToString()
    rng, refused = random.Random(0), []
    for _ in range(400):
        damaged = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "net.onnx").write_bytes(
            damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])]
        )
        try:
            assert load_source(tmp_path / "net.onnx").parameters
        except HwgenError as error:
            refused += error.problems
    assert len(refused) > 200
    assert all(problem.startswith(f"{tmp_path / 'net.onnx'}: ") for problem in refused)


@pytest.mark.parametrize("content", [b"", b"\x08", b"no model at all"])
def test_no_onnx_file(content, tmp_path):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(
        ModelError, match=r"net\.onnx: no ONNX (file, or damaged|model, or cut short) \(.*\); export"
    ):
        load_source(tmp_path / "net.onnx")


def test_a_name_that_is_no_text(tmp_path):
    content = end(conv(dilations=[1, 1])).model().SerializeToString()
    (tmp_path / "net.onnx").write_bytes(content.replace(b"dilations", b"dilat\xff\xffns"))
    with pytest.raises(ModelError, match=r"net\.onnx: damaged \(a name is no text\); export it again"):
        load_source(tmp_path / "net.onnx")


def test_without_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    assert cli.main(["train", str(path), "--epochs", "1"]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "hwgen: onnx: not installed; pip install 'hwgen[onnx]' to read and write .onnx files"
    )
