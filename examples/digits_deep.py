"""Handwritten digits through six layers with weights: enough of them to spread over a chain of boards.

hwgen build examples/digits_deep.py --cluster vc709*3 -o build/deep
hwgen sim build/deep --batches 3
"""

from hwgen import Model, nn
from hwgen.data import digits

model = Model(
    input=(8, 8, 1),
    layers=[
        nn.Conv2d(1, 4, 3, padding=1, array=(9, 1)),
        nn.ReLU(),
        nn.Conv2d(4, 8, 3, padding=1, array=(9, 2)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, array=(9, 1)),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, array=(9, 2)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 1, array=(2, 2)),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10, array=(2, 1)),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.1, batch=8),
)

data = digits()
