"""Handwritten digits through three fully connected layers.

hwgen build examples/digits_mlp.py --cluster vc709*2 -o build/mlp
hwgen sim build/mlp --batches 3
"""

from hwgen import Model, nn
from hwgen.data import digits

model = Model(
    input=(8, 8, 1),
    layers=[
        nn.Flatten(),
        nn.Linear(64, 24, array=(8, 2)),
        nn.ReLU(),
        nn.Linear(24, 16, array=(4, 1)),
        nn.ReLU(),
        nn.Linear(16, 10, array=(2, 1)),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.1, batch=8),
)

data = digits()
