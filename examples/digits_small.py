"""Handwritten digits with one convolution: what `make demo-bitstream` puts on a ULX3S-85F.

Train it: hwgen train examples/digits_small.py --epochs 8
"""

from hwgen import Model, nn
from hwgen.data import digits

model = Model(
    input=(8, 8, 1),
    layers=[
        nn.Conv2d(1, 8, 3, padding=1, array=(9, 1)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10, array=(8, 1)),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.15, batch=16),
)

data = digits()
