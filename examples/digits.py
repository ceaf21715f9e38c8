"""Handwritten digits: two convolutions and a classifier, trained in hardware.

hwgen build examples/digits.py -o build/digits
hwgen sim build/digits --epochs 8 --eval
"""

from hwgen import Model, nn
from hwgen.data import digits

# array=(Pk, Pn) is the size of a layer's systolic array; every cell holds some of the weights and multiplies
# in the forward, backward and gradient pass at the same time. The convolutions take 512 cycles an image each.
model = Model(
    input=(8, 8, 1),
    layers=[
        nn.Conv2d(1, 8, 3, padding=1, array=(9, 1)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, array=(9, 4)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10, array=(4, 1)),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.15, batch=16),
)

data = digits()
