"""AlexNet whole: the convolutions of alexnet.py and the three fully connected layers, 1,000 classes.

hwgen plan examples/alexnet_fc.py --cluster vc709*40

Without dropout and local response normalisation; data as told in alexnet.py.
"""

from alexnet import convolutions

from hwgen import Model, nn

model = Model(
    input=(227, 227, 3),
    layers=[
        *convolutions,
        nn.Flatten(),
        nn.Linear(6 * 6 * 256, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    ],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.01, batch=32),
    name="alexnet_fc",
)
