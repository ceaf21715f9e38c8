"""Models with one mistake each, and the message that names it."""

from hwgen import Formats, Model, Q, nn

__all__ = ["HEAD", "MISTAKES", "conv", "small"]


def small(layers=None, **settings):
    settings.setdefault("input", (8, 8, 1))
    if layers is None:
        layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)]
    return Model(layers=layers, **settings)


HEAD = [nn.Flatten(), nn.Linear(36, 10)]


def conv(*arguments, **settings):
    """A model whose first layer is Conv2d(1, 4, 3) with something wrong."""
    return small([nn.Conv2d(*(arguments or (1, 4, 3)), **settings), nn.MaxPool2d(2), *HEAD])


MISTAKES = {
    "unknown layer": (
        lambda: small([nn.Conv2D(1, 4, 3), *HEAD]),
        "layers[0]: nn.Conv2D is no layer of hwgen; did you mean nn.Conv2d? there are "
        "Conv2d, Linear, ReLU, LeakyReLU, ReLU6, Hardtanh, MaxPool2d, Flatten, SoftmaxCrossEntropy, SGD",
    ),
    "unknown layer, nothing near": (
        lambda: small([nn.LSTM(7, name="gate"), *HEAD]),
        "gate: nn.LSTM is no layer of hwgen; there are "
        "Conv2d, Linear, ReLU, LeakyReLU, ReLU6, Hardtanh, MaxPool2d, Flatten, SoftmaxCrossEntropy, SGD",
    ),
    "unknown option": (
        lambda: conv(strides=2),
        "conv1: Conv2d has no option 'strides'; did you mean stride? it takes in_channels, out_channels, "
        "kernel_size, stride, padding, dilation, groups, bias, array, b, u, pc, pn, frozen, formats, name, device, "
        "split, shares, turns, master",
    ),
    "unknown option of a plain layer": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), *HEAD]),
        "relu1: ReLU has no option 'inplace'; it takes name",
    ),
    "argument of a plain layer": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.ReLU(6), nn.MaxPool2d(2), *HEAD]),
        "relu1: ReLU takes no arguments but name, (6,) given; remove them",
    ),
    "layer without parentheses": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.ReLU, nn.MaxPool2d(2), *HEAD]),
        "layers[1]: nn.ReLU without its parentheses is no layer; "
        "give nn.Conv2d(...), nn.Linear(...) and so on",
    ),
    "no layer": (
        lambda: small([3, *HEAD]),
        "layers[0]: 3 is no layer; give nn.Conv2d(...), nn.Linear(...) and so on",
    ),
    "a list among the layers": (
        lambda: small([[nn.ReLU()], *HEAD]),
        "layers[0]: a list is no layer; give its layers one by one: layers=[*block, ...]",
    ),
    "a value that is long to print": (
        lambda: conv(stride=[[1, 2], list(range(50))]),
        "conv1: stride = [[1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1...; "
        "give an integer or a pair of integers of at least 1",
    ),
    "zero channels": (lambda: conv(1, 0, 3), "conv1: out_channels = 0; give an integer of at least 1"),
    "bool for a number": (
        lambda: conv(True, 4, 3),
        "conv1: in_channels = True; give an integer of at least 1",
    ),
    "real stride": (
        lambda: conv(stride=1.5),
        "conv1: stride = 1.5; give an integer or a pair of integers of at least 1",
    ),
    "negative padding": (
        lambda: conv(padding=-1),
        "conv1: padding = -1; give an integer, (vertical, horizontal) or (top, left, bottom, right), "
        "0 or more",
    ),
    "three paddings": (
        lambda: conv(padding=(1, 1, 1)),
        "conv1: padding = (1, 1, 1); give an integer, (vertical, horizontal) or (top, left, bottom, right), "
        "0 or more",
    ),
    "flag": (lambda: conv(bias=1), "conv1: bias = 1; give True or False"),
    "frozen flag": (lambda: conv(frozen="yes"), "conv1: frozen = 'yes'; give True or False"),
    "array of one number": (
        lambda: conv(array=9),
        "conv1: array = 9; give a pair of integers of at least 1",
    ),
    "array beside u and pc": (
        lambda: conv(array=(9, 2), u=3, pc=1),
        "conv1: array=(9, 2) has Pk = 9 but u·pc = 3·1; drop one of them",
    ),
    "array beside pn": (
        lambda: conv(array=(9, 2), pn=4),
        "conv1: array=(9, 2) has Pn = 2 but pn = 4; drop one of them",
    ),
    "block": (lambda: conv(b=0), "conv1: b = 0; give an integer of at least 1"),
    "layer formats": (
        lambda: conv(formats=16),
        "conv1: formats = 16; give nn.Formats(w=Q(width, frac), y=, dy=, bias=)",
    ),
    "padding of a pool": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.MaxPool2d(2, padding=2), nn.Flatten(), nn.Linear(100, 10)]),
        "pool1: padding = (2, 2, 2, 2) is not below the kernel (2, 2); give less padding",
    ),
    "channels": (
        lambda: conv(3, 4, 3),
        "conv1: in_channels = 3 but its input has 1 channels; give 1",
    ),
    "features": (
        lambda: small([nn.Flatten(), nn.Linear(63, 10)]),
        "linear1: in_features = 63 but its input has 64; give 64",
    ),
    "kernel too tall": (
        lambda: small([nn.Conv2d(1, 4, (9, 3)), *HEAD]),
        "conv1: the kernel spans 9 rows but the padded input has 8 + 0 + 0; "
        "make the kernel or its dilation smaller, or add padding",
    ),
    "dilated kernel too wide": (
        lambda: small([nn.Conv2d(1, 4, 3, dilation=(1, 5), padding=(0, 1, 0, 1)), *HEAD]),
        "conv1: the kernel spans 11 columns but the padded input has 8 + 1 + 1; "
        "make the kernel or its dilation smaller, or add padding",
    ),
    "pool too large": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.MaxPool2d((7, 2)), *HEAD]),
        "pool1: the kernel spans 7 rows but the padded input has 6 + 0 + 0; "
        "make the kernel or its dilation smaller, or add padding",
    ),
    "no Flatten": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.Linear(36, 10)]),
        "linear1: Linear gets an image of 6×6×4; put nn.Flatten() before it",
    ),
    "convolution behind Flatten": (
        lambda: small([nn.Flatten(), nn.Conv2d(1, 4, 3)]),
        "conv1: Conv2d gets 64 features; it takes an image (H, W, C), so remove the Flatten before it",
    ),
    "pool behind Linear": (
        lambda: small([nn.Flatten(), nn.Linear(64, 10), nn.MaxPool2d(2)]),
        "pool1: MaxPool2d gets 10 features; it takes an image (H, W, C), so move it before the Flatten",
    ),
    "image into the loss": (
        lambda: small([nn.Conv2d(1, 4, 8)]),
        "loss: the loss gets an image of 1×1×4; end the layers with nn.Flatten() or nn.Linear",
    ),
    "map into the loss": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.Flatten()]),
        "loss: its logits come from a map of 6×6 pixels; "
        "end with nn.Linear, or with a convolution or pool that leaves 1×1",
    ),
    "one logit": (
        lambda: small([nn.Flatten(), nn.Linear(64, 1)]),
        "loss: the loss gets 1 logit; give the last layer one output for each class, at least 2",
    ),
    "too many classes": (
        lambda: small([nn.Linear(2, 65537)], input=(2,)),
        "loss: 65537 classes; at most 65536 fit a label's 16 bits",
    ),
    "ReLU first": (
        lambda: small([nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)]),
        "relu1: ReLU stands before any layer with weights; "
        "put nn.Conv2d or nn.Linear before it, or apply it to the data",
    ),
    "two pools": (
        lambda: small(
            [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(4, 10)]
        ),
        "pool2: a second pool behind pool1 in one stage; "
        "use one pool with a larger kernel, or put nn.Conv2d between them",
    ),
    "two activations": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.ReLU(), nn.LeakyReLU(), nn.MaxPool2d(2), *HEAD]),
        "leaky_relu1: a second activation behind relu1 in one stage; "
        "keep one of them, or put a layer with weights between them",
    ),
    "LeakyReLU behind a pool": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.LeakyReLU(), *HEAD]),
        "leaky_relu1: LeakyReLU stands behind pool1; put it before the pool, where it gives the same values, but for "
        "the choice among those that round to the same",
    ),
    "slope of 1": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.LeakyReLU(1), nn.MaxPool2d(2), *HEAD]),
        "leaky_relu1: negative_slope = 1; give a number from 6e-8 to 0.998, or nn.ReLU for 0",
    ),
    "slope of 300": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.LeakyReLU(300), nn.MaxPool2d(2), *HEAD]),
        "leaky_relu1: negative_slope = 300; give a number from 6e-8 to 0.998, or nn.ReLU for 0",
    ),
    "slope too small": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.LeakyReLU(1e-300), nn.MaxPool2d(2), *HEAD]),
        "leaky_relu1: negative_slope = 1e-300; give a number from 6e-8 to 0.998, or nn.ReLU for 0",
    ),
    "bound beyond every format": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.Hardtanh(1e307, 1e308), nn.MaxPool2d(2), *HEAD]),
        "conv1: between 1e+307 and 1e+308 y = Q(16,11) has no two values; give a finer y, or other bounds",
    ),
    "negative slope": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.LeakyReLU(-0.1), nn.MaxPool2d(2), *HEAD]),
        "leaky_relu1: negative_slope = -0.1; give a number above 0",
    ),
    "bounds the wrong way round": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.Hardtanh(1, -1), nn.MaxPool2d(2), *HEAD]),
        "hardtanh1: min_val = 1 is not below max_val = -1; give a smaller one",
    ),
    "a bound that is no number": (
        lambda: small([nn.Conv2d(1, 4, 3), nn.Hardtanh(0, "6"), nn.MaxPool2d(2), *HEAD]),
        "hardtanh1: max_val = '6'; give a number",
    ),
    "bounds closer than the format": (
        lambda: small(
            [nn.Conv2d(1, 4, 3, formats=nn.Formats(y=Q(8, 0))), nn.Hardtanh(0, 0.4), nn.MaxPool2d(2), *HEAD]
        ),
        "conv1: between 0.0 and 0.4 y = Q(8,0) has no two values; give a finer y, or other bounds",
    ),
    "no weights": (
        lambda: small([nn.Flatten()]),
        "layers: none has weights; give at least one nn.Conv2d or nn.Linear",
    ),
    "nothing trains": (
        lambda: small([nn.Flatten(), nn.Linear(64, 10, frozen=True)]),
        "layers: every layer is frozen, so nothing trains; drop frozen=True from one",
    ),
    "layers is no list": (
        lambda: small(nn.Linear(64, 10)),
        "layers: nn.Linear; give a list of layers",
    ),
    "input": (
        lambda: small(input=(8, 8)),
        "input: (8, 8); give (H, W, C) or (features,), positive integers",
    ),
    "input of zero": (
        lambda: small(input=(8, 0, 1)),
        "input: (8, 0, 1); give (H, W, C) or (features,), positive integers",
    ),
    "loss missing": (lambda: small(loss=None), "loss: missing; give loss=nn.SoftmaxCrossEntropy()"),
    "loss of another kind": (
        lambda: small(loss=nn.ReLU()),
        "loss: nn.ReLU; give loss=nn.SoftmaxCrossEntropy()",
    ),
    "unknown loss": (
        lambda: small(loss=nn.MSELoss()),
        "loss: nn.MSELoss; give loss=nn.SoftmaxCrossEntropy()",
    ),
    "loss without parentheses": (
        lambda: small(loss=nn.SoftmaxCrossEntropy),
        "loss: nn.SoftmaxCrossEntropy without its parentheses; give loss=nn.SoftmaxCrossEntropy()",
    ),
    "loss among the layers": (
        lambda: small([nn.Flatten(), nn.Linear(64, 10), nn.SoftmaxCrossEntropy(name="end")]),
        "end: the loss stands among the layers; give it as Model(loss=nn.SoftmaxCrossEntropy())",
    ),
    "unknown optimizer": (
        lambda: small(optimizer=nn.Adam(1e-3)),
        "optimizer: nn.Adam; give optimizer=nn.SGD(lr=0.1, batch=16)",
    ),
    "optimizer without parentheses": (
        lambda: small(optimizer=nn.SGD),
        "optimizer: nn.SGD without its parentheses; give optimizer=nn.SGD(lr=0.1, batch=16)",
    ),
    "unknown option of SGD": (
        lambda: small(optimizer=nn.SGD(momentum=0.9)),
        "optimizer: SGD has no option 'momentum'; it takes lr, batch",
    ),
    "negative lr": (lambda: small(optimizer=nn.SGD(lr=-0.1)), "optimizer: lr = -0.1; give a number above 0"),
    "lr is no number": (
        lambda: small(optimizer=nn.SGD(lr=float("nan"))),
        "optimizer: lr = nan; give a number above 0",
    ),
    "lr underflows": (
        lambda: small(optimizer=nn.SGD(lr=1e-12, batch=32)),
        "optimizer: lr / batch = 1e-12 / 32 underflows its format Q(16,40); "
        "give a larger lr, a smaller batch or more lr bits",
    ),
    "lr vanishes": (
        lambda: small(optimizer=nn.SGD(lr=5e-324)),
        "optimizer: lr / batch = 4.94066e-324 / 16 underflows its format Q(16,0); "
        "give a larger lr, a smaller batch or more lr bits",
    ),
    "lr too large": (
        lambda: small(optimizer=nn.SGD(lr=1e9, batch=1), formats=Formats(lr=8)),
        "optimizer: lr / batch = 1e+09 / 1 exceeds its format Q(8,0), at most 127; give a smaller lr",
    ),
    "batch of zero": (
        lambda: small(optimizer=nn.SGD(batch=0)),
        "optimizer: batch = 0; give an integer of at least 1",
    ),
    "batch beyond everything": (
        lambda: small(optimizer=nn.SGD(batch=10**400)),
        f"optimizer: batch = {10**400}; give at most 65536",
    ),
    "formats of another kind": (
        lambda: small(formats=16),
        "formats: 16; give formats=Formats(activation=16, weight=16, ...)",
    ),
    "activation width": (
        lambda: small(formats=Formats(activation=25)),
        "formats: activation = 25 bits, which no multiplier carries; give 4..24",
    ),
    "weight width": (
        lambda: small(formats=Formats(weight=3)),
        "formats: weight = 3 bits, which no multiplier carries; give 4..24",
    ),
    "error width": (
        lambda: small(formats=Formats(error="16")),
        "formats: error = '16' bits, which no multiplier carries; give 4..24",
    ),
    "lr width": (
        lambda: small(formats=Formats(lr=32)),
        "formats: lr = 32 bits, which no multiplier carries; give 4..24",
    ),
    "master narrower than the weight": (
        lambda: small(formats=Formats(master=12)),
        "formats: master = 12 bits; give 16..32 (the weight is its top bits)",
    ),
    "master wider than a register": (
        lambda: small(formats=Formats(master=33)),
        "formats: master = 33 bits; give 16..32 (the weight is its top bits)",
    ),
    "bias wider than a register": (
        lambda: small(formats=Formats(bias=33)),
        "formats: bias = 33 bits; give 8..32",
    ),
    "rounding": (
        lambda: small(formats=Formats(rounding="up")),
        'formats: rounding = \'up\'; give "nearest" or "stochastic"',
    ),
    "input format": (
        lambda: small(formats=Formats(input=Q(30, 3))),
        "formats: input = Q(30,3): 30 bits, which no multiplier carries; give 4..24",
    ),
    "input format of another kind": (
        lambda: small(formats=Formats(input=8)),
        "formats: input = 8; give a format Q(width, frac)",
    ),
    "weight format of a layer": (
        lambda: conv(formats=nn.Formats(w=Q(25, 10))),
        "conv1: w = Q(25,10): 25 bits, which no multiplier carries; give 4..24",
    ),
    "binary point of a layer": (
        lambda: conv(formats=nn.Formats(dy=Q(16, 49))),
        "conv1: dy = Q(16,49): 49 fractional bits; give an integer in ±48",
    ),
    "bias format of a layer": (
        lambda: conv(formats=nn.Formats(bias=Q(33, 20))),
        "conv1: bias = Q(33,20): 33 bits, which the host cannot write; give 8..32",
    ),
    "weight wider than its master": (
        lambda: conv(formats=nn.Formats(w=Q(20, 18)), b=1).replace(formats=Formats(weight=8, master=16)),
        "conv1: w = Q(20,18) is wider than its master of 16 bits; give Formats(master=20) or more",
    ),
    "bias finer than its sums": (
        lambda: conv(formats=nn.Formats(bias=Q(32, 29))),
        "conv1: bias = Q(32,29) is finer than the sums it is added to, 28 fractional bits; "
        "give frac of at most 28",
    ),
    "sums too wide": (
        lambda: small(formats=Formats(24, 24, error=24, bias=8), optimizer=nn.SGD(batch=512)),
        "conv1: its weight gradients need 63 bits (36 pixels × 512 samples of 24 × 24 bits), "
        "at most 62 fit; give narrower formats",
    ),
    "output too coarse": (
        lambda: conv(formats=nn.Formats(y=Q(16, -14))),
        "conv1: y = Q(16,-14) is too coarse: all its sums, 37 bits with 28 fractional ones, round to 0; "
        "give frac above -9",
    ),
    "output too fine": (
        lambda: small(
            [nn.Flatten(), nn.Linear(64, 10, bias=False, formats=nn.Formats(w=Q(16, -14), y=Q(16, 30)))]
        ),
        "linear1: y = Q(16,30) is too fine for its sums, 38 bits with 0 fractional ones; "
        "give frac of at most 24",
    ),
    "name of hwgen's own": (
        lambda: conv(name="label"),
        "label: layer 1 has a name that hwgen uses itself; rename it",
    ),
    "name twice": (
        lambda: small([nn.Flatten(), nn.Linear(64, 4, name="a"), nn.ReLU(), nn.Linear(4, 9, name="a")]),
        "a: layers 2 and 4 have this name; rename one",
    ),
}  # fmt: skip
